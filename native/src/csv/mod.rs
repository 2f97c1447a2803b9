//! CSV: fields and records, typed columns, and what the texts of columns can be.
//!
//! Whatever is not surely what the slow path would give stops it; the slow path decides then.

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

/// Reads blocks of records of one layout.
#[pyclass(frozen)]
pub struct CsvParser {
    dialect: Dialect,
    /// For each field what it is read as, and whether it has to have a value; None: it is left out.
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

    /// Read whole records, while other threads have the interpreter; None if any is not surely fine.
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

    /// What the texts of each field can be, of what is asked for; None if that is not sure.
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

/// Where the last record of some bytes ends, whether they end inside quotes, whether text stands
/// behind a closing quote, and how many lines end up to there.
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

fn checked<'a>(data: &'a Bound<'_, PyBytes>) -> PyResult<&'a [u8]> {
    let data = data.as_bytes();
    if data.len() > i32::MAX as usize { Err(PyValueError::new_err(LONG)) } else { Ok(data) }
}
