//! Scan the tokens of JSON: blanks, texts, numbers and skipped values, all checked strictly.

use std::borrow::Cow;
use std::collections::HashSet;

pub type Read<T> = Result<T, &'static str>;

pub const NOT_JSON: &str = "not JSON";
pub const TWICE: &str = "duplicate key in an object";
const DEPTH: usize = 250; // levels; the slow path takes more, and this one's stack must hold them
const FEW: usize = 16; // keys that are compared one by one

/// The kind of a value, as a bit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub enum Kind {
    Null = 1,
    Boolean = 2,
    Integer = 4,
    /// Too long for 64 bits.
    LongInteger = 8,
    /// With a point or an exponent.
    Number = 16,
    Text = 32,
    Json = 64,
}

/// Return the name of the kind that holds all kinds of one field (see `lakeport.schema.kinds`).
pub fn merged(kinds: u8) -> &'static str {
    const NULL: u8 = Kind::Null as u8;
    const BOOLEAN: u8 = Kind::Boolean as u8;
    const INTEGER: u8 = Kind::Integer as u8;
    const NUMBER: u8 = Kind::Number as u8;
    const BOTH: u8 = INTEGER | NUMBER;
    match kinds & !NULL {
        0 => "null",
        BOOLEAN => "boolean",
        INTEGER => "integer",
        NUMBER | BOTH => "number",
        kinds if kinds & Kind::Json as u8 != 0 => "json",
        _ => "string",
    }
}

/// A cursor in lines of JSON.
pub struct Scanner<'a> {
    pub data: &'a [u8],
    pub at: usize,
    depth: usize,
    keys: Vec<Cow<'a, [u8]>>,
}

impl<'a> Scanner<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Scanner { data, at: 0, depth: 0, keys: vec![] }
    }

    /// Go to the start of a line, and forget what was begun before.
    #[inline(always)]
    pub fn begin(&mut self, at: usize) {
        self.at = at;
        self.depth = 0;
        self.keys.clear();
    }

    /// Return the byte here; a newline at the end of the data.
    #[inline(always)]
    pub fn peek(&self) -> u8 {
        self.data.get(self.at).copied().unwrap_or(b'\n')
    }

    #[inline(always)]
    pub fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Read<()> {
        if self.peek() != byte {
            return Err(NOT_JSON);
        }
        self.at += 1;
        Ok(())
    }

    #[inline(always)]
    pub fn literal(&mut self, word: &[u8]) -> Read<()> {
        if !self.data[self.at..].starts_with(word) {
            return Err(NOT_JSON);
        }
        self.at += word.len();
        Ok(())
    }

    /// Skip an opening bracket and blanks; return false if the closing one follows, which it skips.
    #[inline(always)]
    pub fn open(&mut self, close: u8) -> Read<bool> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("nested deeply");
        }
        self.blanks();
        if self.peek() == close {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Skip the comma (true) or the closing bracket (false) behind a member or an item.
    #[inline(always)]
    pub fn goes_on(&mut self, close: u8) -> Read<bool> {
        self.blanks();
        let byte = self.peek();
        self.at += 1;
        if byte == b',' {
            self.blanks();
            return Ok(true);
        }
        self.depth -= usize::from(byte == close);
        if byte == close { Ok(false) } else { Err(NOT_JSON) }
    }

    /// Skip the beginning of an object, whose keys the caller knows.
    #[inline(always)]
    pub fn pass_into(&mut self, length: usize) {
        self.at += length;
        self.depth += 1;
    }

    /// Return the remembered keys from `base` on.
    pub fn keys_from(&self, base: usize) -> &[Cow<'a, [u8]>] {
        &self.keys[base..]
    }

    /// Return how many keys are remembered: the base of the next object's keys.
    #[inline(always)]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Read a key with its colon, and skip the blanks behind it.
    #[inline(always)]
    pub fn key(&mut self) -> Read<Cow<'a, [u8]>> {
        let key = self.text()?;
        self.blanks();
        self.expect(b':')?;
        self.blanks();
        Ok(key)
    }

    /// Remember a key of the object whose keys begin at `base`.
    pub fn note_key(&mut self, key: Cow<'a, [u8]>, base: usize) -> Read<()> {
        let before = &self.keys[base..];
        if before.len() < FEW && before.contains(&key) {
            return Err(TWICE);
        }
        self.keys.push(key);
        let count = self.keys.len() - base;
        // Those of long objects are compared each time they have doubled, and at the end.
        if count > FEW && count.is_power_of_two() { self.all_differ(base) } else { Ok(()) }
    }

    /// Forget the keys of an object at its end.
    #[inline(always)]
    pub fn leave(&mut self, base: usize) -> Read<()> {
        let count = self.keys.len() - base;
        if count > FEW {
            self.all_differ(base)?;
        }
        self.keys.truncate(base);
        Ok(())
    }

    fn all_differ(&self, base: usize) -> Read<()> {
        let all = &self.keys[base..];
        let distinct: HashSet<&[u8]> = all.iter().map(|key| &**key).collect();
        if distinct.len() == all.len() { Ok(()) } else { Err(TWICE) }
    }

    /// Read digits; return their value, modulo 2^64, and how many they are.
    #[inline(always)]
    fn digits(&mut self) -> (u64, usize) {
        let (start, mut number) = (self.at, 0u64);
        loop {
            let digit = self.peek().wrapping_sub(b'0');
            if digit > 9 {
                return (number, self.at - start);
            }
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
    }

    /// Read the sign and the digits before a point; return whether negative, the value, how many.
    #[inline(always)]
    pub fn whole(&mut self) -> Read<(bool, u64, usize)> {
        let negative = self.peek() == b'-';
        self.at += usize::from(negative);
        let start = self.at;
        match self.digits() {
            (_, 0) => Err("wrong type: expected number"),
            (_, count) if count > 1 && self.data[start] == b'0' => Err(NOT_JSON),
            (number, count) => Ok((negative, number, count)),
        }
    }

    /// Read the digits behind a point.
    #[inline(always)]
    pub fn fraction(&mut self) -> Read<(u64, usize)> {
        self.at += 1;
        let found = self.digits();
        if found.1 == 0 { Err(NOT_JSON) } else { Ok(found) }
    }

    /// Read any number, and return its kind.
    pub fn number(&mut self) -> Read<Kind> {
        let (negative, number, count) = self.whole()?;
        let long = count > 19 || number > i64::MAX as u64 + u64::from(negative);
        let mut kind = if long { Kind::LongInteger } else { Kind::Integer };
        if self.peek() == b'.' {
            self.fraction()?;
            kind = Kind::Number;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            if self.digits().1 == 0 {
                return Err(NOT_JSON);
            }
            kind = Kind::Number;
        }
        Ok(kind)
    }

    /// Skip any value, and return its kind.
    pub fn skip(&mut self) -> Read<Kind> {
        match self.peek() {
            b'"' => {
                self.at += 1;
                let end = self.text_end(self.at);
                if self.data.get(end) == Some(&b'"') {
                    self.at = end + 1;
                } else {
                    self.unescape(&mut vec![])?;
                }
                Ok(Kind::Text)
            }
            b'{' => {
                let base = self.keys();
                let mut more = self.open(b'}')?;
                while more {
                    let key = self.key()?;
                    self.note_key(key, base)?;
                    self.skip()?;
                    more = self.goes_on(b'}')?;
                }
                self.leave(base)?;
                Ok(Kind::Json)
            }
            b'[' => {
                let mut more = self.open(b']')?;
                while more {
                    self.skip()?;
                    more = self.goes_on(b']')?;
                }
                Ok(Kind::Json)
            }
            b't' => self.literal(b"true").map(|()| Kind::Boolean),
            b'f' => self.literal(b"false").map(|()| Kind::Boolean),
            b'n' => self.literal(b"null").map(|()| Kind::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(NOT_JSON),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &str) -> Option<Kind> {
        let mut scanner = Scanner::new(text.as_bytes());
        let kind = scanner.skip().ok()?;
        (scanner.at == text.len()).then_some(kind)
    }

    #[test]
    fn values_and_their_kinds() {
        for (text, kind) in [
            ("null", Kind::Null),
            ("true", Kind::Boolean),
            ("-0", Kind::Integer),
            ("-9223372036854775808", Kind::Integer),
            ("9223372036854775808", Kind::LongInteger),
            ("0.5e-3", Kind::Number),
            (r#""a \" \\ \ud83d\ude00 long enough for words""#, Kind::Text),
            (r#"{"a": [1, {"a": {}}], "b" : []}"#, Kind::Json),
        ] {
            assert_eq!(passed(text), Some(kind), "{text}");
        }
    }

    #[test]
    fn what_is_no_json() {
        for text in [
            "",
            "nul",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "NaN",
            "\"a",
            "\"\t\"",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\u12\"",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{a: 1}",
            "{\"a\": 1, \"a\": 2}",
            "{\"a\": 1, \"\\u0061\": 2}",
            "[",
            "{\"a\":",
            "'a'",
        ] {
            assert_eq!(passed(text), None, "{text}");
        }
        assert_eq!(passed(&("[".repeat(250) + &"]".repeat(250))), Some(Kind::Json));
        assert_eq!(passed(&("[".repeat(251) + &"]".repeat(251))), None);
    }

    #[test]
    fn a_key_that_comes_twice_among_many() {
        for count in [2, 16, 17, 31, 32, 33, 100] {
            let mut members: Vec<_> = (0..count).map(|n| format!("\"k{n}\":{n}")).collect();
            assert_eq!(passed(&format!("{{{}}}", members.join(","))), Some(Kind::Json));
            members.push("\"k1\":0".into());
            assert_eq!(passed(&format!("{{{}}}", members.join(","))), None, "{count}");
        }
    }
}
