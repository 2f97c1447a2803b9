//! Fill typed columns with CSV records.

use super::fields::{Dialect, Field, Fields};
use crate::columns::{Column, Values};
use crate::layout::ColumnSpec;
use crate::{numbers, times};

/// Read all records; None if any might be bad.
pub fn read(
    data: &[u8],
    dialect: &Dialect,
    specs: &[Option<(ColumnSpec, bool)>],
) -> Option<(usize, Vec<Column>)> {
    simdutf8::basic::from_utf8(data).ok()?;
    let mut columns: Vec<_> =
        specs.iter().map(|spec| spec.as_ref().map(|(spec, _)| Column::new(spec))).collect();
    let mut fields = Fields::new(data, dialect);
    let (last, mut rows) = (columns.len() - 1, 0);
    while fields.more(last == 0) {
        for (place, column) in columns.iter_mut().enumerate() {
            let field = fields.field()?;
            if field.last != (place == last) {
                return None;
            }
            if let Some(column) = column {
                push(column, data, &field, dialect)?;
            }
        }
        rows += 1;
    }
    let missing = |(column, spec): (&Option<Column>, &Option<(ColumnSpec, bool)>)| matches!((column, spec), (Some(column), Some((_, true))) if column.valid.any_null());
    if columns.iter().zip(specs).any(missing) {
        return None;
    }
    Some((rows, columns.into_iter().flatten().collect()))
}

#[inline(always)]
fn push(column: &mut Column, data: &[u8], field: &Field<'_>, dialect: &Dialect) -> Option<()> {
    let text = field.raw;
    if field.null(dialect) {
        column.push_null();
        return Some(());
    }
    if let Values::Text(texts) = &mut column.values {
        if field.quoted {
            texts.data.extend_from_slice(&dialect.text(text));
            texts.end();
        } else {
            texts.push(data, field.start, field.start + text.len());
        }
        column.valid.push(true);
        return Some(());
    }
    if text.is_empty() {
        column.push_null();
        return Some(());
    }
    match &mut column.values {
        Values::Integer(values) => values.push(integer(trimmed(text))?),
        Values::Number(values) => values.push(numbers::plain_double(trimmed(text)).ok()?),
        Values::Boolean(values) => values.push(boolean(trimmed(text))?),
        Values::Date(values) => values.push(date(trimmed(text))?),
        Values::Timestamp(values) => values.push(timestamp(trimmed(text))?),
        Values::Decimal { values, precision, scale } => {
            values.push(decimal(trimmed(text), *precision, *scale)?);
        }
        _ => return None,
    }
    column.valid.push(true);
    Some(())
}

/// Strip the blanks that may stand around a value.
#[inline(always)]
fn trimmed(text: &[u8]) -> &[u8] {
    let blank = |byte: Option<&u8>| byte.is_some_and(|byte| *byte <= b' ');
    if blank(text.first()) || blank(text.last()) { text.trim_ascii() } else { text }
}

/// Parse an integer, which may have a sign, and zeros behind a point; None for another text.
#[inline(always)]
fn integer(text: &[u8]) -> Option<i64> {
    const SURE: usize = 18; // digits that 64 bits hold in any case
    let negative = text.first() == Some(&b'-');
    let digits = if matches!(text.first(), Some(b'-' | b'+')) { &text[1..] } else { text };
    let whole = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(whole);
    let point = rest.is_empty() || (rest[0] == b'.' && rest[1..].iter().all(|byte| *byte == b'0'));
    if whole == 0 || !point {
        return None;
    }
    if whole > SURE {
        let sign = if negative { "-" } else { "" };
        return format!("{sign}{}", std::str::from_utf8(digits).ok()?).parse().ok();
    }
    let size = digits.iter().fold(0, |size, byte| size * 10 + i64::from(byte - b'0'));
    Some(if negative { -size } else { size })
}

fn boolean(text: &[u8]) -> Option<bool> {
    let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
    if is(b"true") || is(b"1") {
        Some(true)
    } else if is(b"false") || is(b"0") {
        Some(false)
    } else {
        None
    }
}

fn date(text: &[u8]) -> Option<i32> {
    if text.len() == 10 { times::days(text).ok() } else { None }
}

/// Parse a date, or a date with at least hours and minutes; None for another text.
pub fn timestamp(text: &[u8]) -> Option<i64> {
    if text.len() != 10 && text.get(13) != Some(&b':') {
        return None;
    }
    times::microseconds(text).ok()
}

/// Parse a decimal without an exponent, and with a digit behind its point; None for another text.
fn decimal(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    if !text.last().is_some_and(u8::is_ascii_digit) || text.iter().any(|b| matches!(b, b'e' | b'E'))
    {
        return None;
    }
    numbers::decimal(text, precision, scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, wanted) in [
            ("7", Some(7)),
            ("-007", Some(-7)),
            ("+5.00", Some(5)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            (".0", None),
            ("5.1", None),
            ("1e3", None),
            ("--1", None),
            ("0x1", None),
        ] {
            assert_eq!(integer(text.as_bytes()), wanted, "{text}");
        }
    }

    #[test]
    fn other_values() {
        assert_eq!(boolean(b"tRue"), Some(true));
        assert_eq!(boolean(b"0"), Some(false));
        assert_eq!(boolean(b"yes"), None);
        assert_eq!(date(b"1970-01-02"), Some(1));
        assert_eq!(date(b"1970-01-02T00:00"), None);
        assert_eq!(timestamp(b"1970-01-01T00:01Z"), Some(60_000_000));
        assert_eq!(timestamp(b"1970-01-01T00"), None);
        assert_eq!(decimal(b"1.50", 9, 1), Some(15));
        assert_eq!(decimal(b"1.", 9, 1), None);
        assert_eq!(decimal(b"1e1", 9, 1), None);
        assert_eq!(trimmed(b"\t 1 "), b"1");
    }
}
