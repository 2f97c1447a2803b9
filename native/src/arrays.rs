//! Hand filled columns to Python as buffers of Arrow arrays, without a copy.

use crate::columns::{Column, Texts, Values};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};
use std::ptr;

enum Memory {
    Bytes(Vec<u8>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Doubles(Vec<f64>),
    Decimals(Vec<i128>),
}

/// Immutable memory with Python's buffer protocol.
#[pyclass(frozen)]
pub struct Buffer(Memory);

impl Buffer {
    fn place(&self) -> (*const u8, usize) {
        fn of<T>(values: &[T]) -> (*const u8, usize) {
            (values.as_ptr().cast(), size_of_val(values))
        }
        match &self.0 {
            Memory::Bytes(values) => of(values),
            Memory::Ints(values) => of(values),
            Memory::Longs(values) => of(values),
            Memory::Doubles(values) => of(values),
            Memory::Decimals(values) => of(values),
        }
    }
}

#[pymethods]
impl Buffer {
    /// # Safety
    /// Python calls this with a view of its own to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let (start, length) = slf.get().place();
        let object = slf.as_ptr();
        const READ_ONLY: c_int = 1;
        // SAFETY: `view` is Python's, and not null. The memory is this object's, which the view
        // holds a reference to; it is neither changed nor moved, since the class is frozen. The
        // call refuses a view that wants to write.
        let done = unsafe {
            let start = start.cast_mut().cast::<c_void>();
            (*view).internal = ptr::null_mut();
            ffi::PyBuffer_FillInfo(view, object, start, length as ffi::Py_ssize_t, READ_ONLY, flags)
        };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// A column as `pyarrow.Array.from_buffers` takes it: rows, nulls, buffers, and the same of its
/// items or members.
#[derive(IntoPyObject)]
pub struct Parts(usize, usize, Vec<Option<Buffer>>, Vec<Parts>);

/// Split a column into the parts of an Arrow array.
pub fn parts(column: Column) -> Parts {
    let rows = column.valid.len;
    let (nulls, bits) = column.valid.finish();
    let mut buffers = vec![bits.map(Memory::Bytes)];
    let mut children = vec![];
    let mut texts = |texts: Texts| {
        buffers.push(Some(Memory::Ints(texts.offsets)));
        Memory::Bytes(texts.data)
    };
    let values = match column.values {
        Values::Null | Values::Small => None,
        Values::Integer(values) | Values::Timestamp(values) => Some(Memory::Longs(values)),
        Values::Number(values) => Some(Memory::Doubles(values)),
        Values::Boolean(values) => Some(Memory::Bytes(values.into_bytes())),
        Values::Text(t) | Values::Json(t, _) | Values::Mixed(t) | Values::Binary(t) => {
            Some(texts(t))
        }
        Values::Date(values) => Some(Memory::Ints(values)),
        Values::Decimal { values, .. } => Some(Memory::Decimals(values)),
        Values::List { offsets, item } => {
            children.push(parts(*item));
            Some(Memory::Ints(offsets))
        }
        Values::Object(object) => {
            children.extend(object.columns.into_iter().map(parts));
            None
        }
    };
    buffers.extend(values.map(Some));
    let buffers = buffers.into_iter().map(|memory| memory.map(Buffer)).collect();
    Parts(rows, nulls, buffers, children)
}
