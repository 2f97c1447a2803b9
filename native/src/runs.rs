//! Find runs of lines that begin alike.

use memchr::memchr;

/// Find the end of the run of lines from `start` on that begin with `head`, and count its lines.
/// It stops early once the run has `enough` bytes.
///
/// The bytes are whole lines, the last one with its newline.
pub fn run(data: &[u8], start: usize, head: &[u8], enough: usize) -> (usize, usize) {
    let (mut at, mut lines) = (start, 0);
    while at - start < enough && data[at..].starts_with(head) {
        let Some(length) = memchr(b'\n', &data[at + head.len()..]) else { break };
        at += head.len() + length + 1;
        lines += 1;
    }
    (at, lines)
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn a_run_ends_where_a_line_begins_otherwise() {
        let data = b"x\naa1\naa22\nab\naa\n";
        assert_eq!(run(data, 2, b"aa", usize::MAX), (11, 2));
        assert_eq!(run(data, 11, b"aa", usize::MAX), (11, 0));
        assert_eq!(run(data, 14, b"aa", usize::MAX), (17, 1));
        assert_eq!(run(b"aa\naa", 0, b"aa", usize::MAX), (3, 1));
        assert_eq!(run(data, 2, b"aa", 1), (6, 1));
        assert_eq!(run(data, 2, b"aa", 5), (11, 2));
    }
}
