//! Typed columns that readers fill.

use crate::bits::{Bits, Validity};
use crate::layout::{ColumnSpec, Type};

/// Values of different lengths, as Arrow stores texts and binaries.
pub struct Texts {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
}

impl Texts {
    fn new() -> Self {
        Texts { offsets: vec![0], data: vec![] }
    }

    /// End the value whose bytes were appended to `data`.
    #[inline(always)]
    pub fn end(&mut self) {
        // The lines hold less than 2 GiB, and no value is longer than it is written.
        self.offsets.push(self.data.len() as i32);
    }

    /// Add `whole[start..end]` as a value.
    #[inline(always)]
    pub fn push(&mut self, whole: &[u8], start: usize, end: usize) {
        const SHORT: usize = 16;
        let length = end - start;
        // A copy of a known length is a few instructions, one of any length a call.
        match whole.get(start..start + SHORT).and_then(<[u8]>::first_chunk::<SHORT>) {
            Some(some) if length <= SHORT => {
                let kept = self.data.len() + length;
                self.data.extend_from_slice(some);
                self.data.truncate(kept);
            }
            _ => self.data.extend_from_slice(&whole[start..end]),
        }
        self.end();
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.data.truncate(self.offsets[rows] as usize);
    }
}

pub enum Values {
    /// Not kept: nulls, and integers that every double holds.
    Null,
    Small,
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Boolean(Bits),
    Text(Texts),
    /// JSON as it stands; the brackets with which a text may begin that is taken as the JSON in it,
    /// while any other text is refused. None: texts are JSON like any value.
    Json(Texts, Option<Box<[u8]>>),
    /// Texts as they are, anything else as JSON.
    Mixed(Texts),
    Binary(Texts),
    Timestamp(Vec<i64>),
    Date(Vec<i32>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: u8,
    },
    List {
        offsets: Vec<i32>,
        item: Box<Column>,
    },
    Object(Object),
}

pub struct Column {
    pub name: Box<[u8]>,
    /// `"name":`, as it stands in compact JSON.
    pub key: Box<[u8]>,
    pub values: Values,
    pub valid: Validity,
    /// The last object of its parent that had it, by the parent's `round`.
    pub seen: u64,
}

/// The columns of objects: the record's, or an object column's.
pub struct Object {
    pub columns: Vec<Column>,
    pub round: u64,
}

impl Object {
    pub fn new(specs: &[ColumnSpec]) -> Self {
        Object { columns: specs.iter().map(Column::new).collect(), round: 0 }
    }

    pub fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
    }

    /// Append a null to each column that this object did not have.
    #[cold]
    pub fn fill(&mut self) {
        let round = self.round;
        self.columns.iter_mut().filter(|c| c.seen != round).for_each(Column::push_null);
    }

    pub fn find(&self, key: &[u8]) -> Option<usize> {
        self.columns.iter().position(|column| *column.name == *key)
    }
}

impl Column {
    pub fn new(spec: &ColumnSpec) -> Self {
        let values = match &spec.kind {
            Type::Null => Values::Null,
            Type::Small => Values::Small,
            Type::Integer => Values::Integer(vec![]),
            Type::Number => Values::Number(vec![]),
            Type::Boolean => Values::Boolean(Bits::default()),
            Type::Text => Values::Text(Texts::new()),
            Type::Json(opening) => Values::Json(Texts::new(), opening.clone()),
            Type::Mixed => Values::Mixed(Texts::new()),
            Type::Binary => Values::Binary(Texts::new()),
            Type::Timestamp => Values::Timestamp(vec![]),
            Type::Date => Values::Date(vec![]),
            Type::Decimal(precision, scale) => {
                Values::Decimal { values: vec![], precision: *precision, scale: *scale }
            }
            Type::List(item) => {
                Values::List { offsets: vec![0], item: Box::new(Column::new(item)) }
            }
            Type::Object(members) => Values::Object(Object::new(members)),
        };
        Column {
            name: spec.name.clone(),
            key: spec.key.clone(),
            values,
            valid: Validity::default(),
            seen: 0,
        }
    }

    pub fn push_null(&mut self) {
        self.valid.push(false);
        match &mut self.values {
            Values::Null | Values::Small => {}
            Values::Integer(v) | Values::Timestamp(v) => v.push(0),
            Values::Number(v) => v.push(0.0),
            Values::Boolean(v) => v.push(false),
            Values::Text(t) | Values::Json(t, _) | Values::Mixed(t) | Values::Binary(t) => t.end(),
            Values::Date(v) => v.push(0),
            Values::Decimal { values, .. } => values.push(0),
            Values::List { offsets, item } => offsets.push(item.valid.len as i32),
            Values::Object(o) => o.columns.iter_mut().for_each(Column::push_null),
        }
    }

    pub fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        match &mut self.values {
            Values::Null | Values::Small => {}
            Values::Integer(v) | Values::Timestamp(v) => v.truncate(rows),
            Values::Number(v) => v.truncate(rows),
            Values::Boolean(v) => v.truncate(rows),
            Values::Text(t) | Values::Json(t, _) | Values::Mixed(t) | Values::Binary(t) => {
                t.truncate(rows)
            }
            Values::Date(v) => v.truncate(rows),
            Values::Decimal { values, .. } => values.truncate(rows),
            Values::List { offsets, item } => {
                offsets.truncate(rows + 1);
                item.truncate(offsets[rows] as usize);
            }
            Values::Object(o) => o.truncate(rows),
        }
    }
}
