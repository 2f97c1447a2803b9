//! Read JSON's texts: find their end and decode their escapes.

use crate::scanner::{NOT_JSON, Read, Scanner};
use std::borrow::Cow;

impl<'a> Scanner<'a> {
    /// Return the offset of the next quote, backslash or control character in a text.
    #[inline(always)]
    pub fn text_end(&self, mut at: usize) -> usize {
        const EACH: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x80 * EACH;
        while let Some(word) = self.data.get(at..at + 8) {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            let (quote, slash) = (word ^ (b'"' as u64 * EACH), word ^ (b'\\' as u64 * EACH));
            // A byte that is 0 (or below 0x20) borrows; the lowest one marked is surely one.
            let found = (quote.wrapping_sub(EACH) & !quote)
                | (slash.wrapping_sub(EACH) & !slash)
                | (word.wrapping_sub(0x20 * EACH) & !word);
            if found & HIGH != 0 {
                return at + ((found & HIGH).trailing_zeros() / 8) as usize;
            }
            at += 8;
        }
        while self.data.get(at).is_some_and(|b| *b >= 0x20 && *b != b'"' && *b != b'\\') {
            at += 1;
        }
        at
    }

    /// Read a text, unescaped.
    #[inline(always)]
    pub fn text(&mut self) -> Read<Cow<'a, [u8]>> {
        self.expect(b'"')?;
        let (start, end) = (self.at, self.text_end(self.at));
        if self.data.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&self.data[start..end]));
        }
        let mut text = vec![];
        self.unescape(&mut text)?;
        Ok(Cow::Owned(text))
    }

    /// Append the unescaped rest of a text to `to`, and skip its closing quote.
    #[inline(never)]
    pub fn unescape(&mut self, to: &mut Vec<u8>) -> Read<()> {
        loop {
            let end = self.text_end(self.at);
            to.extend_from_slice(&self.data[self.at..end]);
            self.at = end + 1;
            match self.data.get(end) {
                Some(b'"') => return Ok(()),
                Some(b'\\') => {}
                _ => return Err("a text that is cut off or has a control character"),
            }
            let code = self.peek();
            self.at += 1;
            to.push(match code {
                b'"' | b'\\' | b'/' => code,
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 8,
                b'f' => 12,
                b'u' => {
                    let char = self.escaped()?;
                    to.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                    continue;
                }
                _ => return Err(NOT_JSON),
            });
        }
    }

    fn escaped(&mut self) -> Read<char> {
        const HALF: &str = "half of a surrogate pair";
        let first = self.hex()?;
        if let Some(char) = char::from_u32(first) {
            return Ok(char);
        }
        if first >= 0xdc00 || !self.data[self.at..].starts_with(b"\\u") {
            return Err(HALF);
        }
        self.at += 2;
        match self.hex()? {
            low @ 0xdc00..=0xdfff => {
                char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00)).ok_or(HALF)
            }
            _ => Err(HALF),
        }
    }

    fn hex(&mut self) -> Read<u32> {
        let mut code = 0;
        for byte in self.data.get(self.at..self.at + 4).ok_or(NOT_JSON)? {
            code = code << 4 | char::from(*byte).to_digit(16).ok_or(NOT_JSON)?;
        }
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_where_it_does_at_any_place() {
        for end in [b'"', b'\\', 0x1f, 0] {
            for length in 0..40 {
                let mut text = vec![0xc3u8; length];
                text.push(end);
                text.extend_from_slice(b"                ");
                assert_eq!(Scanner::new(&text).text_end(0), length);
            }
        }
    }
}
