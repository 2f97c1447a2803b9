//! Find where CSV records end, by quotes and newlines alone.

use memchr::{memchr, memrchr};

/// Find the last newline that ends a record in bytes that begin with a record.
///
/// Returns the offset behind it (0 if there is none), whether the bytes end inside quotes, and
/// whether text stands between a closing quote and the end of its field.
pub fn end(data: &[u8], delimiter: u8, quote: Option<u8>) -> (usize, bool, bool) {
    let (mut at, mut end, mut stray) = (0, 0, false);
    let mut unquoted = |from: usize, to: usize| {
        if let Some(newline) = memrchr(b'\n', &data[from..to]) {
            end = from + newline + 1;
        }
    };
    let ends_field = |byte: u8| byte == delimiter || matches!(byte, b'\n' | b'\r');
    if let Some(quote) = quote {
        let mut from = at;
        while let Some(found) = memchr(quote, &data[from..]) {
            let open = from + found;
            from = open + 1;
            // Elsewhere in a field a quote is a character like any other.
            if open > 0 && !ends_field(data[open - 1]) {
                continue;
            }
            unquoted(at, open);
            let Some(close) = closing(data, from, quote) else { return (end, true, stray) };
            at = close + 1;
            from = at;
            stray |= data.get(at).is_some_and(|byte| !ends_field(*byte));
        }
    }
    unquoted(at, data.len());
    (end, false, stray)
}

/// Return the offset of the quote that closes a field; a doubled quote is text.
///
/// `at` is the offset behind the opening quote.
pub fn closing(data: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    loop {
        let close = at + memchr(quote, &data[at..])?;
        if data.get(close + 1) != Some(&quote) {
            return Some(close);
        }
        at = close + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::end;

    #[test]
    fn records_end_outside_of_quotes() {
        for (data, wanted) in [
            ("", (0, false, false)),
            ("a,b", (0, false, false)),
            ("a\nb\nc", (4, false, false)),
            ("a,\"x\ny\"\nb,\"z\n", (8, true, false)),
            ("\"a\"\"\n\"\n", (7, false, false)),
            ("5\" pipe\nb\n", (10, false, false)),
            ("5\" pipe\n\"x\n", (8, true, false)),
            ("\"a\" ,b\n", (7, false, true)),
            ("\"a\"\r\n\"b\"", (5, false, false)),
            ("\"a\"\"", (0, true, false)),
        ] {
            assert_eq!(end(data.as_bytes(), b',', Some(b'"')), wanted, "{data:?}");
        }
        assert_eq!(end(b"\"a\nb", b',', None), (3, false, false));
    }
}
