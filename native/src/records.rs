//! Read lines of records into columns in one pass; stop at a line that is not as declared.

use crate::columns::{Column, Object};
use crate::layout::{Layout, Unknown};
use crate::numbers;
use crate::scanner::{Kind, Read, Scanner, TWICE};
use memchr::memchr;
use std::borrow::Cow;
use std::collections::HashMap;

const WINDOW: usize = 1 << 16; // bytes that are checked to be UTF-8 at once

/// The result of reading some lines.
pub struct Outcome {
    pub columns: Object,
    pub rows: usize,
    /// Lines that were read, blank ones among them.
    pub lines: usize,
    /// Where the first line begins that was not read, and why it was not.
    pub stop: Option<(usize, &'static str)>,
    /// Undeclared fields: name, kinds of the values (bits of `Kind`), records that have it.
    pub unknown: Vec<(Vec<u8>, u8, usize)>,
}

/// Read lines from `start` on up to the first that is not as declared.
pub fn read(data: &[u8], start: usize, layout: &Layout) -> Outcome {
    let mut reader = Reader::new(data, layout);
    let mut columns = Object::new(&layout.columns);
    let (mut rows, mut lines, mut stop, mut start) = (0, 0, None, start);
    let (mut good, mut checked) = (start, start); // up to where it is UTF-8, and was looked at
    while start < data.len() {
        reader.scanner.begin(start);
        let found = reader.line(&mut columns);
        let end = reader.scanner.at;
        if end > checked && good == checked {
            (good, checked) = unicode(data, start, end);
        }
        match found {
            Ok(record) if end <= good => {
                rows += usize::from(record);
                reader.note_unknown();
            }
            Ok(_) => stop = Some((start, "not UTF-8")),
            Err(why) => stop = Some((start, why)),
        }
        if stop.is_some() {
            columns.truncate(rows);
            break;
        }
        start = end + 1;
        lines += 1;
    }
    let unknown = reader.unknown.into_iter().filter(|(_, _, count)| *count > 0).collect();
    Outcome { columns, rows, lines, stop, unknown }
}

/// Check that whole lines from `start` on, at least to `end`, are UTF-8.
///
/// Returns up to where they are, and how far it looked.
fn unicode(data: &[u8], start: usize, end: usize) -> (usize, usize) {
    let least = end.max(start + WINDOW).min(data.len());
    let last = memchr(b'\n', &data[least..]).map_or(data.len(), |more| least + more);
    match simdutf8::compat::from_utf8(&data[start..last]) {
        Ok(_) => (last, last),
        Err(error) => (start + error.valid_up_to(), last),
    }
}

pub struct Reader<'a> {
    pub scanner: Scanner<'a>,
    pub layout: &'a Layout,
    /// How the last message began, up to its record, and the keys in that.
    head: &'a [u8],
    head_keys: Vec<Cow<'a, [u8]>>,
    unknown: Vec<(Vec<u8>, u8, usize)>,
    places: HashMap<Vec<u8>, usize>,
    /// Of the present line: places in `unknown`, and kinds.
    pending: Vec<(usize, Kind)>,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8], layout: &'a Layout) -> Self {
        Reader {
            scanner: Scanner::new(data),
            layout,
            head: b"",
            head_keys: vec![],
            unknown: vec![],
            places: HashMap::new(),
            pending: vec![],
        }
    }

    /// Read one line, to its newline or the end; return whether it has a record.
    #[inline(always)]
    fn line(&mut self, root: &mut Object) -> Read<bool> {
        self.pending.clear();
        self.scanner.blanks();
        if self.scanner.peek() == b'\n' {
            return Ok(false);
        }
        if self.scanner.peek() != b'{' {
            return Err("not an object");
        }
        if self.layout.envelope {
            self.message(root)?
        } else {
            self.object(root, true)?
        }
        self.scanner.blanks();
        if self.scanner.peek() != b'\n' {
            return Err("more than one value in a line");
        }
        for at in &self.layout.required {
            if !root.columns[*at].valid.last() {
                return Err("missing required field");
            }
        }
        Ok(true)
    }

    /// Read a Singer message; if it begins as the last one did, only compare that part.
    fn message(&mut self, root: &mut Object) -> Read<()> {
        let (start, base) = (self.scanner.at, self.scanner.keys());
        let mut values: Vec<(usize, usize)> = vec![]; // columns, and where their values begin
        let mut records = 0;
        let mut more = if !self.head.is_empty() && self.scanner.data[start..].starts_with(self.head)
        {
            self.scanner.pass_into(self.head.len());
            self.record(root)?;
            records = 1;
            let more = self.scanner.goes_on(b'}')?;
            for key in self.head_keys.iter().filter(|_| more) {
                self.scanner.note_key(key.clone(), base)?;
            }
            more
        } else {
            self.scanner.open(b'}')?
        };
        while more {
            let key = self.scanner.key()?;
            let column = self.layout.message_keys.iter().find(|(name, _)| **name == *key);
            let record = *key == *b"record";
            self.scanner.note_key(key, base)?;
            if record {
                if values.is_empty() {
                    self.head = &self.scanner.data[start..self.scanner.at];
                    self.head_keys = self.scanner.keys_from(base).to_vec();
                }
                self.record(root)?;
                records = 1;
            } else {
                values.extend(column.map(|(_, column)| (*column, self.scanner.at)));
                self.scanner.skip()?;
            }
            more = self.scanner.goes_on(b'}')?;
        }
        self.scanner.leave(base)?;
        if records == 0 {
            return Err("message without a record");
        }
        values.into_iter().try_for_each(|(column, at)| self.replace(&mut root.columns[column], at))
    }

    fn record(&mut self, root: &mut Object) -> Read<()> {
        if self.scanner.peek() != b'{' {
            return Err("not an object");
        }
        self.object(root, true)
    }

    /// Replace a column's last value by the value at `at`, unless that is null.
    fn replace(&mut self, column: &mut Column, at: usize) -> Read<()> {
        let back = std::mem::replace(&mut self.scanner.at, at);
        if self.scanner.peek() != b'n' {
            column.truncate(column.valid.len - 1);
            self.value(column)?;
        }
        self.scanner.at = back;
        Ok(())
    }

    /// Read an object whose members are columns, from its bracket on.
    pub fn object(&mut self, object: &mut Object, top: bool) -> Read<()> {
        object.round += 1;
        let round = object.round;
        let (mut next, mut found) = (0, 0);
        let base = self.scanner.keys();
        let mut more = self.scanner.open(b'}')?;
        while more {
            let at = match object.columns.get(next) {
                Some(column) if self.scanner.data[self.scanner.at..].starts_with(&column.key) => {
                    self.scanner.at += column.key.len();
                    self.scanner.blanks();
                    Some(next)
                }
                _ => self.other_member(object, next, base, top)?,
            };
            if let Some(at) = at {
                let column = &mut object.columns[at];
                if column.seen == round {
                    return Err(TWICE);
                }
                column.seen = round;
                (next, found) = (at + 1, found + 1);
                self.value(column)?;
            }
            more = self.scanner.goes_on(b'}')?;
        }
        self.scanner.leave(base)?;
        if found != object.columns.len() {
            object.fill();
        }
        Ok(())
    }

    /// Find the column of a key that is not the next column's; skip the value if there is none.
    #[inline(never)]
    fn other_member(
        &mut self,
        object: &Object,
        next: usize,
        base: usize,
        top: bool,
    ) -> Read<Option<usize>> {
        let key = self.scanner.key()?;
        if object.columns.get(next).is_some_and(|column| *column.name == *key) {
            return Ok(Some(next));
        }
        if let Some(at) = object.find(&key) {
            return Ok(Some(at));
        }
        self.scanner.note_key(key.clone(), base)?;
        match self.layout.unknown {
            Unknown::Refuse => return Err("undeclared field"),
            Unknown::Tell if !top => return Err("undeclared field inside an object column"),
            Unknown::Tell if key.is_empty() && !self.layout.nameless => {
                return Err("field with an empty name");
            }
            Unknown::Tell => {
                let start = self.scanner.at;
                let kind = self.scanner.skip()?;
                if kind == Kind::Number {
                    numbers::double(&self.scanner.data[start..self.scanner.at])?;
                }
                let place = self.place(&key);
                self.pending.push((place, kind));
            }
            Unknown::Drop => {
                self.scanner.skip()?;
            }
        }
        Ok(None)
    }

    fn place(&mut self, name: &[u8]) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.unknown.push((name.to_vec(), 0, 0));
        self.places.insert(name.to_vec(), self.unknown.len() - 1);
        self.unknown.len() - 1
    }

    /// Count the undeclared fields of the current line, which is good.
    #[inline(always)]
    fn note_unknown(&mut self) {
        for (place, kind) in self.pending.drain(..) {
            let (_, kinds, count) = &mut self.unknown[place];
            *kinds |= kind as u8;
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays;
    use crate::layout::{ColumnSpec, Type};

    const LINES: &[u8] = br#"{"type":"RECORD","record":{"i":1,"n":0.5,"s":"a\n","o":{"d":"2024-02-29"}}}
{"type":"RECORD","record":{"i":2,"l":[1.50,null,"2e-2"],"b":true,"y":"aGk="},"version":7}
  {"record": {"o": "{\"d\": null}", "j": [1, {"k": "v"}], "x": [], "i": 30e-1}, "version": null}

{"type":"RECORD","record":{"t":"1970-01-01T00:00:01Z","s":"a text of more than sixteen bytes","i":4}}
"#;

    fn column(name: &str, kind: Type) -> ColumnSpec {
        let key = format!("\"{name}\":");
        ColumnSpec { name: name.as_bytes().into(), key: key.into_bytes().into(), kind }
    }

    fn layout(unknown: Unknown) -> Layout {
        let columns = vec![
            column("i", Type::Integer),
            column("n", Type::Number),
            column("s", Type::Text),
            column("o", Type::Object(vec![column("d", Type::Date)])),
            column("l", Type::List(Box::new(column("item", Type::Decimal(5, 2))))),
            column("b", Type::Boolean),
            column("y", Type::Binary),
            column("j", Type::Json(Some(b"[{".as_slice().into()))),
            column("t", Type::Timestamp),
            column("m", Type::Mixed),
        ];
        let message_keys = vec![(b"version".as_slice().into(), 0)];
        Layout {
            columns,
            required: vec![0],
            envelope: true,
            message_keys,
            unknown,
            nameless: false,
            plain: false,
        }
    }

    /// How many rows there are, if that is what every column has.
    fn rows(found: Outcome) -> usize {
        for column in found.columns.columns {
            assert_eq!(column.valid.len, found.rows);
            drop(arrays::parts(column));
        }
        found.rows
    }

    #[test]
    fn records_and_what_is_undeclared_in_them() {
        let told = read(LINES, 0, &layout(Unknown::Tell));
        assert_eq!((told.lines, told.stop), (5, None));
        assert_eq!(told.unknown, [(b"x".to_vec(), Kind::Json as u8, 1)]);
        assert_eq!(rows(told), 4);
        let refused = read(LINES, 0, &layout(Unknown::Refuse));
        assert_eq!(
            (refused.lines, refused.stop.map(|(_, why)| why)),
            (2, Some("undeclared field"))
        );
        assert_eq!(rows(refused), 2);
    }

    #[test]
    fn a_line_that_stops_leaves_no_trace() {
        for bad in [
            r#"{"record":{"i":1,"o":{"d":"2024-02-30"}}}"#,
            r#"{"record":{"i":1,"l":[1,2.345]}}"#,
            r#"{"record":{"i":1,"x":1,"x":2}}"#,
            r#"{"record":{"n":1}}"#,
            r#"{"record":{"i":1},"record":{"i":2}}"#,
            r#"{"record":{"i":1}} {}"#,
            r#"{"version":1}"#,
            "{\"record\":{\"i\":1,\"s\":\"\u{e9}",
        ] {
            let data = [LINES, bad.as_bytes(), b"\n", LINES].concat();
            let found = read(&data, 0, &layout(Unknown::Tell));
            assert_eq!(found.stop.map(|(at, _)| at), Some(LINES.len()), "{bad}");
            assert_eq!(found.unknown, [(b"x".to_vec(), Kind::Json as u8, 1)]);
            assert_eq!(rows(found), 4);
        }
        let broken = [LINES, b"{\"record\":{\"i\":1,\"s\":\"\xff\"}}\n"].concat();
        assert_eq!(read(&broken, 0, &layout(Unknown::Drop)).stop, Some((LINES.len(), "not UTF-8")));
    }

    #[test]
    fn any_bytes_are_read_or_stop_it() {
        let pieces: [&[u8]; 12] =
            [b"\"", b"\\", b"{", b"}", b"[", b",", b"\n", b"\xff", b"9", b"null", b"\\u12", b":"];
        let mut random = 7u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % below
        };
        let layouts = [Unknown::Refuse, Unknown::Drop, Unknown::Tell].map(layout);
        for round in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let mut data = LINES.to_vec();
            for _ in 0..=next(3) {
                let at = next(data.len());
                let end = at + next(3).min(data.len() - at);
                data.splice(at..end, pieces[next(pieces.len())].iter().copied());
            }
            data.truncate(data.len() - next(2) * next(data.len()));
            let mut start = 0;
            while start < data.len() {
                let found = read(&data, start, &layouts[round % 3]);
                let stop = found.stop;
                rows(found);
                let Some((at, _)) = stop else { break };
                start = memchr(b'\n', &data[at..]).map_or(data.len(), |length| at + length + 1);
            }
        }
    }
}
