//! CSV: split records and fields, fill typed columns, find the kinds that texts fit.
//!
//! Where the result might differ from that of the Python path, parsing stops, and Python decides.

mod ends;
mod fields;
mod kinds;
mod rows;

use crate::arrays::{self, Parts};
use crate::layout::ColumnSpec;
use fields::Dialect;
use memchr::memchr_iter;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const LONG: &str = "over 2 GiB";

/// Parser of blocks of CSV records of one layout.
#[pyclass(frozen)]
pub struct CsvParser {
    dialect: Dialect,
    /// For each field its column, and whether a value is required; None: the field is left out.
    fields: Vec<Option<(ColumnSpec, bool)>>,
}

#[pymethods]
impl CsvParser {
    #[new]
    fn new(
        delimiter: u8,
        quote: Option<u8>,
        nulls: Vec<String>,
        fields: Vec<Option<(ColumnSpec, bool)>>,
    ) -> PyResult<Self> {
        if fields.is_empty() {
            return Err(PyValueError::new_err("no fields"));
        }
        Ok(CsvParser { dialect: Dialect::new(delimiter, quote, nulls), fields })
    }

    /// Read whole records into columns; None if any might be bad. Releases the interpreter.
    fn parse(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyBytes>,
    ) -> PyResult<Option<(usize, Vec<Parts>)>> {
        let data = checked(data)?;
        Ok(py.detach(|| {
            let (rows, columns) = rows::read(data, &self.dialect, &self.fields)?;
            Some((rows, columns.into_iter().map(arrays::parts).collect()))
        }))
    }

    /// Return those of `kinds` that all texts of each field fit; None if that is not sure.
    fn kinds(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyBytes>,
        kinds: Vec<u8>,
    ) -> PyResult<Option<Vec<u8>>> {
        let data = checked(data)?;
        if kinds.len() != self.fields.len() {
            return Err(PyValueError::new_err("kinds of another number of fields"));
        }
        Ok(py.detach(|| kinds::kinds(data, &self.dialect, kinds)))
    }
}

/// Find the end of the last whole record, and count the lines before it.
///
/// Returns its offset (0 if no record ends), whether the bytes end inside quotes, whether text
/// stands behind a closing quote, and the number of lines.
#[pyfunction]
pub fn csv_end(
    py: Python<'_>,
    data: &Bound<'_, PyBytes>,
    delimiter: u8,
    quote: Option<u8>,
) -> (usize, bool, bool, usize) {
    let data = data.as_bytes();
    py.detach(|| {
        let (end, torn, stray) = ends::end(data, delimiter, quote);
        (end, torn, stray, memchr_iter(b'\n', &data[..end]).count())
    })
}

/// Return the bytes, or an error if they are over 2 GiB.
fn checked<'a>(data: &'a Bound<'_, PyBytes>) -> PyResult<&'a [u8]> {
    let data = data.as_bytes();
    if data.len() > i32::MAX as usize { Err(PyValueError::new_err(LONG)) } else { Ok(data) }
}
