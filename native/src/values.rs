//! Append JSON values to their columns.

use crate::base64;
use crate::columns::{Column, Values};
use crate::numbers::{self, POWERS};
use crate::records::Reader;
use crate::scanner::{Read, Scanner};
use crate::times;
use memchr::memchr;

const EXACT: u64 = 1 << 53;
const DATE: usize = 10; // characters of `2024-03-04`

impl Reader<'_> {
    /// Append the value that begins here to a column.
    #[inline(always)]
    pub fn value(&mut self, column: &mut Column) -> Read<()> {
        let scanner = &mut self.scanner;
        let byte = scanner.peek();
        if byte == b'n' {
            scanner.literal(b"null")?;
            column.push_null();
            return Ok(());
        }
        match &mut column.values {
            Values::Small => small(scanner)?,
            Values::Integer(values) => values.push(integer(scanner, self.layout.plain)?),
            Values::Number(values) => values.push(number(scanner, self.layout.plain)?),
            Values::Boolean(values) => values.push(match byte {
                b't' => scanner.literal(b"true").map(|()| true)?,
                b'f' => scanner.literal(b"false").map(|()| false)?,
                _ => return Err("wrong type: expected boolean"),
            }),
            Values::Text(texts) | Values::Mixed(texts) if byte == b'"' => {
                let start = scanner.at + 1;
                let end = scanner.text_end(start);
                if scanner.data.get(end) == Some(&b'"') {
                    texts.push(scanner.data, start, end);
                    scanner.at = end + 1;
                } else {
                    scanner.at = start;
                    scanner.unescape(&mut texts.data)?;
                    texts.end();
                }
            }
            Values::Json(_, Some(_)) | Values::List { .. } | Values::Object(_) if byte == b'"' => {
                return self.inside(column);
            }
            Values::Json(texts, _) | Values::Mixed(texts) => {
                let start = scanner.at;
                scanner.skip()?;
                texts.push(scanner.data, start, scanner.at);
            }
            Values::Timestamp(values) if byte == b'"' => {
                values.push(times::microseconds(&scanner.text()?)?);
            }
            Values::Date(values) if byte == b'"' => {
                let text = scanner.text()?;
                if self.layout.plain && text.len() != DATE {
                    return Err("a date that is not written as one");
                }
                values.push(times::days(&text)?);
            }
            Values::Binary(texts) if byte == b'"' => {
                base64::decode(&scanner.text()?, &mut texts.data)?;
                texts.end();
            }
            Values::Decimal { values, precision, scale } => values.push(match byte {
                b'"' => numbers::decimal(&scanner.text()?, *precision, *scale)?,
                _ => {
                    let start = scanner.at;
                    scanner.number()?;
                    numbers::decimal(&scanner.data[start..scanner.at], *precision, *scale)?
                }
            }),
            Values::List { offsets, item } if byte == b'[' => {
                let mut more = scanner.open(b']')?;
                while more {
                    self.item(item)?;
                    more = self.scanner.goes_on(b']')?;
                }
                offsets.push(item.valid.len as i32);
            }
            Values::Object(object) if byte == b'{' => self.object(object, false)?,
            _ => return Err("wrong type"),
        }
        column.valid.push(true);
        Ok(())
    }

    /// Append a value within another; not inlined into `value`, which calls it.
    #[inline(never)]
    fn item(&mut self, column: &mut Column) -> Read<()> {
        self.value(column)
    }

    /// Append a list or an object that stands as JSON in a text, as some taps send it.
    #[cold]
    fn inside(&mut self, column: &mut Column) -> Read<()> {
        const NONE: &str = "wrong type: a text that holds no JSON of the column's";
        if self.layout.plain {
            return Err(NONE);
        }
        let text = self.scanner.text()?;
        let text = text.trim_ascii();
        let opening: &[u8] = match &column.values {
            Values::List { .. } => b"[",
            Values::Object(_) => b"{",
            Values::Json(_, Some(opening)) => opening,
            _ => return Err(NONE),
        };
        // A newline would be a blank there, and is an end here: that, too, is for the slow path.
        if !text.first().is_some_and(|byte| opening.contains(byte)) || memchr(b'\n', text).is_some()
        {
            return Err(NONE);
        }
        let mut reader = Reader::new(text, self.layout);
        reader.item(column)?;
        if reader.scanner.at == text.len() { Ok(()) } else { Err(NONE) }
    }
}

fn small(scanner: &mut Scanner<'_>) -> Read<()> {
    let number = integer(scanner, true)?;
    if number.unsigned_abs() < EXACT { Ok(()) } else { Err("an integer that is not small") }
}

#[inline(always)]
fn integer(scanner: &mut Scanner<'_>, plain: bool) -> Read<i64> {
    let start = scanner.at;
    let (negative, number, count) = scanner.whole()?;
    if matches!(scanner.peek(), b'.' | b'e' | b'E') {
        if plain {
            return Err("a number that is not written as an integer");
        }
        scanner.at = start;
        scanner.number()?;
        return numbers::integer(&scanner.data[start..scanner.at]);
    }
    if count > 19 || number > i64::MAX as u64 + u64::from(negative) {
        return Err("integer over 64 bit");
    }
    Ok(if negative { (number as i64).wrapping_neg() } else { number as i64 })
}

/// Read a double: digits that a double holds, times a power of ten that it holds, round once.
#[inline(always)]
fn number(scanner: &mut Scanner<'_>, plain: bool) -> Read<f64> {
    let start = scanner.at;
    let (negative, mut number, mut count) = scanner.whole()?;
    let mut shift = 0;
    if scanner.peek() == b'.' {
        let (digits, more) = scanner.fraction()?;
        (count, shift) = (count + more, more);
        // Wraps only where there are too many digits anyway.
        let power = 10u64.checked_pow(more.min(20) as u32).unwrap_or(0);
        number = number.wrapping_mul(power).wrapping_add(digits);
    } else if plain && !matches!(scanner.peek(), b'e' | b'E') && (count > 16 || number >= EXACT) {
        return Err("an integer among numbers that not every double holds");
    }
    if matches!(scanner.peek(), b'e' | b'E') || count > 19 || number > EXACT || shift > 22 {
        scanner.at = start;
        scanner.number()?;
        return numbers::double(&scanner.data[start..scanner.at]);
    }
    let value = number as f64 / POWERS[shift];
    Ok(if negative { -value } else { value })
}
