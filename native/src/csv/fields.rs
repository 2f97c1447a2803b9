//! Read the fields of CSV one after another, as they stand.

use super::ends::closing;
use memchr::memchr;
use std::borrow::Cow;

/// How the fields are written.
pub struct Dialect {
    delimiter: u8,
    quote: Option<u8>,
    nulls: Vec<Box<[u8]>>,
    /// Whether a byte ends an unquoted field.
    ends: [bool; 256],
}

impl Dialect {
    pub fn new(delimiter: u8, quote: Option<u8>, nulls: Vec<String>) -> Self {
        let mut ends = [false; 256];
        for byte in [delimiter, b'\n', b'\r'] {
            ends[byte as usize] = true;
        }
        let nulls = nulls.into_iter().map(|null| null.into_bytes().into()).collect();
        Dialect { delimiter, quote, nulls, ends }
    }

    /// Return the text of a quoted field: each doubled quote becomes a single one.
    pub fn text<'a>(&self, raw: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(quote) = self.quote.filter(|quote| memchr(*quote, raw).is_some()) else {
            return Cow::Borrowed(raw);
        };
        let mut text = Vec::with_capacity(raw.len());
        let mut rest = raw;
        while let Some(at) = memchr(quote, rest) {
            text.extend_from_slice(&rest[..=at]);
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        text.extend_from_slice(rest);
        Cow::Owned(text)
    }
}

/// One field.
pub struct Field<'a> {
    /// What stands there, without the quotes around it, and where that begins.
    pub raw: &'a [u8],
    pub start: usize,
    pub quoted: bool,
    /// Whether it is the last one of its record.
    pub last: bool,
}

impl Field<'_> {
    /// Whether the field means null in any column.
    #[inline(always)]
    pub fn null(&self, dialect: &Dialect) -> bool {
        !self.quoted && dialect.nulls.iter().any(|null| **null == *self.raw)
    }
}

/// A cursor in a block of records.
pub struct Fields<'a> {
    data: &'a [u8],
    at: usize,
    dialect: &'a Dialect,
}

impl<'a> Fields<'a> {
    pub fn new(data: &'a [u8], dialect: &'a Dialect) -> Self {
        Fields { data, at: 0, dialect }
    }

    /// Whether another record follows; skips lines without content unless `blank` ones are records.
    #[inline(always)]
    pub fn more(&mut self, blank: bool) -> bool {
        while !blank && matches!(self.data.get(self.at), Some(b'\n' | b'\r')) {
            self.at += 1;
        }
        self.at < self.data.len()
    }

    /// Read the field that begins here; None if it does not end, or not with its closing quote.
    #[inline(always)]
    pub fn field(&mut self) -> Option<Field<'a>> {
        let start = self.at;
        let quoted =
            self.dialect.quote.is_some() && self.data.get(start).copied() == self.dialect.quote;
        let raw = if quoted { self.quoted(start + 1)? } else { self.plain(start) };
        let last = match self.data.get(self.at) {
            None => true,
            Some(byte) if *byte == self.dialect.delimiter => {
                self.at += 1;
                false
            }
            Some(b'\n') => {
                self.at += 1;
                true
            }
            Some(b'\r') => {
                self.at += if self.data.get(self.at + 1) == Some(&b'\n') { 2 } else { 1 };
                true
            }
            Some(_) => return None,
        };
        Some(Field { raw, start: start + usize::from(quoted), quoted, last })
    }

    #[inline(always)]
    fn plain(&mut self, start: usize) -> &'a [u8] {
        let rest = &self.data[start..];
        let length = rest.iter().position(|byte| self.dialect.ends[*byte as usize]);
        let length = length.unwrap_or(rest.len());
        self.at = start + length;
        &rest[..length]
    }

    #[inline(always)]
    fn quoted(&mut self, start: usize) -> Option<&'a [u8]> {
        let close = closing(self.data, start, self.dialect.quote?)?;
        self.at = close + 1;
        Some(&self.data[start..close])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Option<Vec<Vec<String>>> {
        let dialect = Dialect::new(b',', Some(b'"'), vec![]);
        let mut fields = Fields::new(text.as_bytes(), &dialect);
        let mut records = vec![];
        while fields.more(false) {
            let mut record = vec![];
            loop {
                let field = fields.field()?;
                let text = if field.quoted { dialect.text(field.raw) } else { field.raw.into() };
                record.push(String::from_utf8(text.into()).unwrap());
                if field.last {
                    break;
                }
            }
            records.push(record);
        }
        Some(records)
    }

    #[test]
    fn records_are_cut_into_fields() {
        for (text, wanted) in [
            ("", vec![]),
            ("a,b", vec![vec!["a", "b"]]),
            ("a,\n,b\r\n", vec![vec!["a", ""], vec!["", "b"]]),
            ("\n\r\n\ra\r\rb\n", vec![vec!["a"], vec!["b"]]),
            ("\"a\"\"\nb\",\"\"\n", vec![vec!["a\"\nb", ""]]),
            ("5\" pipe,a\"\"b\n", vec![vec!["5\" pipe", "a\"\"b"]]),
            ("\"\"\"\"", vec![vec!["\""]]),
        ] {
            assert_eq!(cut(text).unwrap(), wanted, "{text:?}");
        }
        for text in ["\"a", "\"a\" ,b", "\"a\"b", "a,\"b\"\"\n"] {
            assert_eq!(cut(text), None, "{text:?}");
        }
    }
}
