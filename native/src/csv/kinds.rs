//! Find the kinds that the texts of columns fit: bits of `lakeport.sources.csv.conversion`.

use super::fields::{Dialect, Fields};
use super::rows::timestamp;
use crate::{numbers, times};
use std::borrow::Cow;

const BOOLEAN: u8 = 1;
const INTEGER: u8 = 2;
const NUMBER: u8 = 4;
const DATE: u8 = 8;
const TIMESTAMP: u8 = 16;
const ZONED: u8 = 32;
const SHORT: usize = 15; // digits of an integer that any double keeps
const DIGITS: usize = 17; // what a double printed in full has

/// Return those of `kinds` that all texts of each field fit; None if that is not sure.
pub fn kinds(data: &[u8], dialect: &Dialect, mut kinds: Vec<u8>) -> Option<Vec<u8>> {
    simdutf8::basic::from_utf8(data).ok()?;
    let mut fields = Fields::new(data, dialect);
    let last = kinds.len() - 1;
    while fields.more(last == 0) {
        for (place, kinds) in kinds.iter_mut().enumerate() {
            let field = fields.field()?;
            if field.last != (place == last) {
                return None;
            }
            if *kinds != 0 && !field.raw.is_empty() && !field.null(dialect) {
                let text =
                    if field.quoted { dialect.text(field.raw) } else { Cow::Borrowed(field.raw) };
                *kinds &= fits(&text)?;
            }
        }
    }
    Some(kinds)
}

/// Return the kinds that a text fits without losing anything; None if that is not sure.
#[inline(always)]
fn fits(text: &[u8]) -> Option<u8> {
    match text[0] {
        b'0'..=b'9' | b'-' | b'.' => figures(text),
        b't' | b'T' if text.eq_ignore_ascii_case(b"true") => Some(BOOLEAN),
        b'f' | b'F' if text.eq_ignore_ascii_case(b"false") => Some(BOOLEAN),
        byte if byte.is_ascii_whitespace() || byte == 0x0b => blanks(text),
        _ if text.last().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == 0x0b) => {
            blanks(text)
        }
        _ => Some(0),
    }
}

/// Return no kind for a text with blanks around it, if none fits without them; else None: not sure.
#[cold]
fn blanks(text: &[u8]) -> Option<u8> {
    let inner = text.trim_ascii();
    let sure = !inner.is_empty() && inner != text && fits(inner)? == 0;
    sure.then_some(0)
}

#[inline(always)]
fn figures(text: &[u8]) -> Option<u8> {
    let unsigned = if text[0] == b'-' { &text[1..] } else { text };
    let whole = unsigned.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(unsigned.len());
    // Such zeros no program writes before a number; what begins with them may still be a date.
    let padded = whole > 1 && unsigned[0] == b'0';
    if whole == unsigned.len() {
        return Some(match whole {
            0 => 0,
            _ if padded => 0,
            1 if unsigned[0] == b'0' && text.len() == 2 => NUMBER, // -0
            1..=SHORT => INTEGER | NUMBER,
            _ => integer_alone(text),
        });
    }
    if whole == 4 && text.len() == unsigned.len() && text[4] == b'-' {
        return dates(text);
    }
    if text.last().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == 0x0b) {
        return blanks(text);
    }
    if padded { Some(0) } else { number(unsigned) }
}

fn integer_alone(text: &[u8]) -> u8 {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    if number.is_some() { INTEGER } else { 0 }
}

fn dates(text: &[u8]) -> Option<u8> {
    if text.len() == 10 {
        return Some(if times::days(text).is_ok() { DATE | TIMESTAMP | ZONED } else { 0 });
    }
    timestamp(text)?;
    let zoned = text[10..].iter().any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'));
    Some(if zoned { ZONED } else { TIMESTAMP })
}

/// Return the kind of a number with a point or an exponent, or no kind; None if that is not sure.
fn number(unsigned: &[u8]) -> Option<u8> {
    let (mut digits, mut at, mut point, mut any) = (0, 0, false, false);
    while let Some(byte) = unsigned.get(at) {
        match byte {
            b'0'..=b'9' => {
                any = true;
                digits += usize::from(digits > 0 || *byte != b'0');
            }
            b'.' if !point => point = true,
            _ => break,
        }
        at += 1;
    }
    if !any || !exponent(&unsigned[at..], point) || digits > DIGITS {
        return Some(0);
    }
    numbers::plain_double(unsigned).ok().map(|_| NUMBER)
}

/// Whether `text` is empty, or an exponent behind digits with or without a `point`.
///
/// Without a point and a sign, as in `12E12`, it is more likely a code.
fn exponent(text: &[u8], point: bool) -> bool {
    let Some((e, rest)) = text.split_first() else { return true };
    let signed = matches!(rest.first(), Some(b'-' | b'+'));
    let digits = if signed { &rest[1..] } else { rest };
    matches!(e, b'e' | b'E')
        && (point || signed)
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
}
