//! The layout that lines are read by, which Python passes once for many blocks.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub enum Type {
    /// Nothing but nulls, as far as is known.
    Null,
    /// Integers that every double holds.
    Small,
    Integer,
    Number,
    Boolean,
    Text,
    Json(Option<Box<[u8]>>),
    Mixed,
    Binary,
    Timestamp,
    Date,
    Decimal(u8, u8),
    List(Box<ColumnSpec>),
    Object(Vec<ColumnSpec>),
}

/// A column, the items of a list, or a member of an object.
pub struct ColumnSpec {
    pub name: Box<[u8]>,
    pub key: Box<[u8]>,
    pub kind: Type,
}

/// What to do with undeclared fields.
#[derive(Clone, Copy, PartialEq)]
pub enum Unknown {
    /// Stop at a record that has one.
    Refuse,
    /// Skip them.
    Drop,
    /// Report those of records; stop at those of inner objects.
    Tell,
}

/// The layout of lines; `_kernel.pyi` describes the arguments from Python.
pub struct Layout {
    pub columns: Vec<ColumnSpec>,
    /// Columns without which a record is bad.
    pub required: Vec<usize>,
    pub envelope: bool,
    /// Keys of messages whose values go into a column in place of the record's own.
    pub message_keys: Vec<(Box<[u8]>, usize)>,
    pub unknown: Unknown,
    /// Whether a field without a name can be reported.
    pub nameless: bool,
    /// Whether values count as written: no text or number stands for another type.
    pub plain: bool,
}

impl<'py> FromPyObject<'_, 'py> for ColumnSpec {
    type Error = PyErr;

    /// `(name, kind, detail)`.
    fn extract(spec: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (name, kind, detail): (String, String, Bound<'py, PyAny>) = spec.extract()?;
        let kind = match kind.as_str() {
            "null" => Type::Null,
            "small" => Type::Small,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            "string" => Type::Text,
            "json" => {
                let opening: String = detail.extract()?;
                Type::Json((!opening.is_empty()).then(|| opening.into_bytes().into()))
            }
            "mixed" => Type::Mixed,
            "binary" => Type::Binary,
            "timestamp" => Type::Timestamp,
            "date" => Type::Date,
            "decimal" => match detail.extract()? {
                (precision @ 1..=38, scale) if scale <= precision => {
                    Type::Decimal(precision, scale)
                }
                _ => return Err(PyValueError::new_err("a decimal of other than 1 to 38 digits")),
            },
            "list" => Type::List(Box::new(detail.extract()?)),
            "struct" => Type::Object(detail.extract()?),
            other => return Err(PyValueError::new_err(format!("no kind of column: {other}"))),
        };
        Ok(ColumnSpec { key: key(&name), name: name.into_bytes().into(), kind })
    }
}

/// Return a name as the key of an object in compact JSON, with its colon.
fn key(name: &str) -> Box<[u8]> {
    let mut key = vec![b'"'];
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => key.extend_from_slice(&[b'\\', byte]),
            0..0x20 => key.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => key.push(byte),
        }
    }
    key.extend_from_slice(b"\":");
    key.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_json() {
        assert_eq!(&*key("a"), b"\"a\":");
        assert_eq!(&*key("q\"\\\té"), "\"q\\\"\\\\\\u0009é\":".as_bytes());
    }
}
