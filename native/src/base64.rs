//! Decode base64 with padding, at least as strictly as Python's `b64decode(validate=True)`.

const NONE: u8 = 0xff;

const VALUES: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [NONE; 256];
    let mut at = 0;
    while at < alphabet.len() {
        values[alphabet[at] as usize] = at as u8;
        at += 1;
    }
    values
};

/// Append the bytes that a base64 text encodes to `to`.
pub fn decode(text: &[u8], to: &mut Vec<u8>) -> Result<(), &'static str> {
    const NOT: &str = "not base64";
    if !text.len().is_multiple_of(4) {
        return Err(NOT);
    }
    let padding = text.iter().rev().take(2).take_while(|b| **b == b'=').count();
    let digits = &text[..text.len() - padding];
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for byte in group {
            let value = VALUES[usize::from(*byte)];
            if value == NONE {
                return Err(NOT);
            }
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * (4 - group.len());
        to.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length() {
        for (text, wanted) in [
            ("", &b""[..]),
            ("aGk=", b"hi"),
            ("aGkh", b"hi!"),
            ("aA==", b"h"),
            ("/+8AaA==", b"\xff\xef\x00h"),
        ] {
            let mut found = vec![];
            assert_eq!(decode(text.as_bytes(), &mut found), Ok(()), "{text}");
            assert_eq!(found, wanted);
        }
        for text in ["aGk", "a===", "====", "aG=k", "aGk\n", "-_-_", "aGk=aGk=", "=aGk"] {
            assert!(decode(text.as_bytes(), &mut vec![]).is_err(), "{text}");
        }
    }
}
