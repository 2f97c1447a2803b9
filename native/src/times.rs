//! Parse ISO 8601 texts as microseconds or days since 1970, exactly, or fail.

const DAY: i64 = 86_400_000_000;
const FIRST: i64 = -719_162 * DAY;
const END: i64 = 2_932_897 * DAY;
const NOT: &str = "not a date or timestamp";

type Read<T> = Result<T, &'static str>;

/// Parse a date-time; one without an offset is UTC, and a date alone is its midnight.
#[inline]
pub fn microseconds(text: &[u8]) -> Read<i64> {
    let (day, time, offset) = parts(text)?;
    let instant = i64::from(day) * DAY + time - offset;
    if (FIRST..END).contains(&instant) { Ok(instant) } else { Err("date out of range") }
}

/// Parse a date; a date-time counts if it is midnight and has no offset but UTC's.
#[inline]
pub fn days(text: &[u8]) -> Read<i32> {
    match parts(text)? {
        (day, 0, 0) => Ok(day),
        _ => Err("not a date"),
    }
}

/// Parse a text to the day since 1970, microseconds of the day, and the offset in microseconds.
#[inline]
fn parts(text: &[u8]) -> Read<(i32, i64, i64)> {
    let day = text.get(..10).and_then(date).ok_or(NOT)?;
    if text.len() == 10 {
        return Ok((day, 0, 0));
    }
    if !matches!(text[10], b'T' | b't' | b' ') {
        return Err(NOT);
    }
    let (time, zone) = time(&text[11..])?;
    Ok((day, time, offset(zone).ok_or(NOT)?))
}

#[inline]
fn two(text: &[u8], at: usize) -> Option<i64> {
    let (a, b) = (text.get(at)?.wrapping_sub(b'0'), text.get(at + 1)?.wrapping_sub(b'0'));
    (a < 10 && b < 10).then_some(i64::from(a) * 10 + i64::from(b))
}

#[inline]
fn date(text: &[u8]) -> Option<i32> {
    let (year, month, day) = (two(text, 0)? * 100 + two(text, 2)?, two(text, 5)?, two(text, 8)?);
    if text[4] != b'-' || text[7] != b'-' || year == 0 || day == 0 {
        return None;
    }
    let last = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    (day <= last).then(|| days_since_1970(year as i32, month as i32, day as i32))
}

/// Parse `HH[:MM[:SS[.fraction]]]` as microseconds; also return the rest.
#[inline]
fn time(text: &[u8]) -> Read<(i64, &[u8])> {
    let hour = two(text, 0).ok_or(NOT)?;
    let (mut minute, mut second, mut micro, mut at) = (0, 0, 0, 2);
    if text.get(at) == Some(&b':') {
        minute = two(text, at + 1).ok_or(NOT)?;
        at += 3;
        if text.get(at) == Some(&b':') {
            second = two(text, at + 1).ok_or(NOT)?;
            at += 3;
            if text.get(at) == Some(&b'.') {
                let digits = text[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
                micro = fraction(&text[at + 1..at + 1 + digits])?;
                at += 1 + digits;
            }
        }
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(NOT);
    }
    Ok((((hour * 60 + minute) * 60 + second) * 1_000_000 + micro, &text[at..]))
}

fn fraction(digits: &[u8]) -> Read<i64> {
    if digits.is_empty() {
        return Err(NOT);
    }
    if digits.iter().skip(6).any(|b| *b != b'0') {
        return Err("finer than microseconds");
    }
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
    Ok(padded.take(6).fold(0, |micro, b| micro * 10 + i64::from(b - b'0')))
}

/// Parse an offset in microseconds: nothing, `Z`, `+HH`, `+HHMM` or `+HH:MM`.
#[inline]
fn offset(zone: &[u8]) -> Option<i64> {
    let sign = match zone {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let hours = two(zone, 1)?;
    let minutes = match zone.len() {
        3 => 0,
        5 => two(zone, 3)?,
        6 if zone[3] == b':' => two(zone, 4)?,
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes) * 60_000_000)
}

/// Return the day of a date of the Gregorian calendar. Years begin in March, so a leap day is last.
#[inline]
fn days_since_1970(year: i32, month: i32, day: i32) -> i32 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_follows_the_one_before() {
        let mut wanted = -719_162;
        for year in 1..=9999 {
            for month in 1..=12 {
                for day in 1..=31 {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    if let Ok(found) = days(text.as_bytes()) {
                        assert_eq!(found, wanted, "{text}");
                        wanted += 1;
                    }
                }
            }
        }
        assert_eq!(wanted, 2_932_897);
    }

    #[test]
    fn times_and_offsets() {
        for (text, wanted) in [
            ("1970-01-01", 0),
            ("1970-01-01t00", 0),
            ("1970-01-01 00:01Z", 60_000_000),
            ("1970-01-01T01:00:00.000001+01:00", 1),
            ("1970-01-01T00:00:00.1234560-0030", 1_800_123_456),
            ("0001-01-01T00:00:00Z", FIRST),
            ("9999-12-31T23:59:59.999999+00", END - 1),
        ] {
            assert_eq!(microseconds(text.as_bytes()), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "1970",
            "1970-1-1",
            "0000-01-01",
            "1970-13-01",
            "2023-02-29",
            "1970-01-00",
            "1970-01-01T",
            "1970-01-01T1",
            "1970-01-01T24",
            "1970-01-01T00:60",
            "1970-01-01T00:",
            "1970-01-01T00:00:60",
            "1970-01-01T00:00:00.",
            "1970-01-01T00:00:00.0000001",
            "1970-01-01T00:00:00+24",
            "1970-01-01T00:00:00+1",
            "1970-01-01T00:00:00+00:60",
            "1970-01-01T00:00:00ZZ",
            "1970-01-01Z",
            "1970/01/01",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            " 1970-01-01",
            "1970-01-01\u{e9}",
        ] {
            assert!(microseconds(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["1970-01-01T00:00:01", "1970-01-01T00:00:00+01:00"] {
            assert!(days(text.as_bytes()).is_err(), "{text}");
        }
    }
}
