//! Parse numbers exactly, or fail.

type Read<T> = Result<T, &'static str>;

/// Those that a double holds.
pub const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53: from here on not every integer is a double
const MOST: i64 = 38; // digits of a column
const FAR: i64 = 1 << 40; // an exponent beyond any text's digits
const NOT: &str = "not a number";

const TENS: [u128; MOST as usize + 1] = {
    let mut all = [1; MOST as usize + 1];
    let mut at = 1;
    while at < all.len() {
        all[at] = all[at - 1] * 10;
        at += 1;
    }
    all
};

/// The parts of a number as written: `value * 10^power`, the value without zeros at either end.
struct Written {
    negative: bool,
    value: u128,
    /// Digits of the value; zero has none.
    count: i64,
    power: i64,
    /// The power of ten of the last digit that was written.
    last: i64,
}

/// Split a number into its parts: `[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?`.
fn written(text: &[u8]) -> Read<Written> {
    let negative = text.first() == Some(&b'-');
    let mut rest = if matches!(text.first(), Some(b'-' | b'+')) { &text[1..] } else { text };
    let (mut value, mut count, mut zeros) = (0u128, 0i64, 0i64);
    let (mut digits, mut point, mut fraction) = (0, false, 0);
    while let Some((byte, behind)) = rest.split_first() {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                fraction += i64::from(point);
                if *byte == b'0' {
                    zeros += i64::from(count > 0);
                } else if count + zeros >= MOST {
                    return Err("more digits than a column holds");
                } else {
                    value = value * TENS[zeros as usize + 1] + u128::from(byte - b'0');
                    (count, zeros) = (count + zeros + 1, 0);
                }
            }
            b'.' if !point => point = true,
            _ => break,
        }
        rest = behind;
    }
    if digits == 0 {
        return Err(NOT);
    }
    let last = exponent(rest)? - fraction;
    Ok(Written { negative, value, count, power: last + zeros, last })
}

fn exponent(text: &[u8]) -> Read<i64> {
    let Some((b'e' | b'E', text)) = text.split_first() else {
        return if text.is_empty() { Ok(0) } else { Err(NOT) };
    };
    let digits = if matches!(text.first(), Some(b'-' | b'+')) { &text[1..] } else { text };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NOT);
    }
    let size = digits.iter().fold(0, |size, b| FAR.min(size * 10 + i64::from(b - b'0')));
    Ok(if text[0] == b'-' { -size } else { size })
}

/// Parse an integer, which may have a point or an exponent (`3.0`, `1e3`).
#[cold]
pub fn integer(literal: &[u8]) -> Read<i64> {
    let found = written(literal)?;
    if found.count == 0 {
        return Ok(0);
    }
    if found.power < 0 {
        return Err("wrong type: expected integer, found a number with a fraction");
    }
    if found.count + found.power > 19 {
        return Err("integer over 64 bit");
    }
    let size = (found.value * TENS[found.power as usize]) as i128;
    i64::try_from(if found.negative { -size } else { size }).map_err(|_| "integer over 64 bit")
}

/// Parse a decimal of at most so many digits, from a JSON number or a text.
pub fn decimal(text: &[u8], precision: u8, scale: u8) -> Read<i128> {
    let found = written(text)?;
    if found.count == 0 {
        return Ok(0);
    }
    let scale = i64::from(scale);
    if -found.power > scale {
        return Err("more digits after the point than declared");
    }
    if found.count + found.power > i64::from(precision) - scale {
        return Err("more digits before the point than declared");
    }
    let size = (found.value * TENS[(found.power + scale) as usize]) as i128;
    Ok(if found.negative { -size } else { size })
}

/// Parse a number as the nearest double, if that is still the number that was written.
///
/// A fraction is rounded. An integral number has to come back in as many digits; whether it does is
/// left to the slow path where rounding decides on it.
#[cold]
pub fn double(literal: &[u8]) -> Read<f64> {
    let text = std::str::from_utf8(literal).map_err(|_| NOT)?;
    let number: f64 = text.parse().map_err(|_| NOT)?;
    let size = number.abs();
    if 0.0 < size && size < EXACT {
        return Ok(number);
    }
    if size.is_infinite() {
        return Err("number too large for a double");
    }
    let found = written(literal)?;
    if size == 0.0 {
        return if found.count == 0 { Ok(number) } else { Err("number too small for a double") };
    }
    if found.power < 0 {
        return Ok(number);
    }
    if found.count + found.power > MOST || size >= 1e38 {
        return Err("integer with more digits than are compared here");
    }
    let away = (found.value * TENS[found.power as usize]).abs_diff(size as u128);
    // Far from the middle between two numbers of as many digits, even just below a power of ten.
    let unit = if found.last > 0 { TENS[found.last as usize] } else { 1 };
    if away < unit / 20 || away == 0 {
        Ok(number)
    } else {
        Err("integer that a double may not hold")
    }
}

/// Parse a number as `double` does, with a quick way first.
///
/// Digits that a double holds, times a power of ten that it holds, are rounded once, exactly.
#[inline]
pub fn plain_double(text: &[u8]) -> Read<f64> {
    let negative = text.first() == Some(&b'-');
    let (mut number, mut count, mut shift, mut point) = (0u64, 0, 0, false);
    for byte in &text[usize::from(negative)..] {
        match byte {
            b'0'..=b'9' => {
                number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                count += 1;
                shift += usize::from(point);
            }
            b'.' if !point => point = true,
            _ => return double(text),
        }
    }
    if count == 0 || count > 19 || number >= EXACT as u64 || shift >= POWERS.len() {
        return double(text);
    }
    let value = number as f64 / POWERS[shift];
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_in_any_writing() {
        for (text, wanted) in [
            ("3.0", 3),
            ("1e3", 1000),
            ("-1.50e1", -15),
            ("0e999999999999999999999", 0),
            ("9223372036854775807.000", i64::MAX),
            ("-9.223372036854775808e18", i64::MIN),
            ("1200e-2", 12),
        ] {
            assert_eq!(integer(text.as_bytes()), Ok(wanted), "{text}");
        }
        for text in ["1.5", "1e-1", "1e19", "9223372036854775808.0", "1e99999999999999999999"] {
            assert!(integer(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn decimals_keep_every_digit() {
        for (text, wanted) in [
            ("1.5", 150),
            ("+.5", 50),
            ("7.", 700),
            ("-12345678.90", -1_234_567_890),
            ("1e2", 10_000),
            ("1200e-4", 12),
            ("-0.00e5", 0),
            ("0.10000000000000000000000000000000000000000000000", 10),
        ] {
            assert_eq!(decimal(text.as_bytes(), 10, 2), Ok(wanted), "{text}");
        }
        for text in
            ["", ".", "+", "1.005", "123456789", "1e9", "1 ", " 1", "1e", "1e+", "--1", "1.2.3"]
        {
            assert!(decimal(text.as_bytes(), 10, 2).is_err(), "{text}");
        }
        let nines = "9".repeat(38);
        assert_eq!(decimal(nines.as_bytes(), 38, 0), Ok(10i128.pow(38) - 1));
        assert!(decimal((nines + "9").as_bytes(), 38, 0).is_err());
    }

    #[test]
    fn doubles_that_are_the_number_that_was_written() {
        for text in
            ["9007199254740992", "1e23", "123e20", "9007199254740993.5", "0.1", "-0.0", "5e-324"]
        {
            assert_eq!(double(text.as_bytes()), Ok(text.parse().unwrap()), "{text}");
            assert_eq!(plain_double(text.as_bytes()), Ok(text.parse().unwrap()), "{text}");
        }
        for text in ["1", "+1.5", ".5", "5.", "-0.1250", "0.3e1", "1e-7"] {
            assert_eq!(plain_double(text.as_bytes()), Ok(text.parse().unwrap()), "{text}");
        }
        for text in ["", "-", ".", "nan", "-inf", "1_0", "0x1", "1 ", "--1", "1.2.3"] {
            assert!(plain_double(text.as_bytes()).is_err(), "{text}");
        }
        for text in [
            "9007199254740993",
            "9007199254740993.0",
            "1e400",
            "1e-400",
            "100000000000000000000000",
            "99999999999999999999999e16",
        ] {
            assert!(double(text.as_bytes()).is_err(), "{text}");
        }
    }
}
