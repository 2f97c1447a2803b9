//! Read lines of JSON and records of CSV into Arrow columns, and find runs of lines, for lakeport;
//! `_kernel.pyi` describes the Python face.

mod arrays;
mod base64;
mod bits;
mod columns;
mod csv;
mod layout;
mod numbers;
mod records;
mod runs;
mod scanner;
mod texts;
mod times;
mod values;

use arrays::Parts;
use layout::{ColumnSpec, Layout, Unknown};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const SHORT: usize = 1 << 16; // bytes that take some microseconds

type Told = (String, &'static str, usize);
type Parsed = (usize, usize, Vec<Parts>, Option<(usize, &'static str)>, Vec<Told>);

/// Parser of blocks of JSON lines of one layout.
#[pyclass(frozen)]
struct Parser(Layout);

#[pymethods]
impl Parser {
    #[new]
    #[pyo3(signature = (columns, required=vec![], envelope=false, message_keys=vec![], unknown="refuse", nameless=false, plain=false))]
    #[allow(clippy::too_many_arguments)] // Python names them
    fn new(
        columns: Vec<ColumnSpec>,
        required: Vec<usize>,
        envelope: bool,
        message_keys: Vec<(String, usize)>,
        unknown: &str,
        nameless: bool,
        plain: bool,
    ) -> PyResult<Self> {
        let places = message_keys.iter().map(|(_, column)| column);
        if required.iter().chain(places).any(|column| *column >= columns.len()) {
            return Err(PyValueError::new_err("no such column"));
        }
        let unknown = match unknown {
            "refuse" => Unknown::Refuse,
            "drop" => Unknown::Drop,
            "tell" => Unknown::Tell,
            other => {
                return Err(PyValueError::new_err(format!("no way with the unknown: {other}")));
            }
        };
        let message_keys =
            message_keys.into_iter().map(|(key, at)| (key.into_bytes().into(), at)).collect();
        Ok(Parser(Layout { columns, required, envelope, message_keys, unknown, nameless, plain }))
    }

    /// Read lines from `start` on up to the first that is not as declared; release the interpreter.
    fn parse(&self, py: Python<'_>, data: &Bound<'_, PyBytes>, start: usize) -> PyResult<Parsed> {
        let data = data.as_bytes();
        if data.len() > i32::MAX as usize {
            return Err(PyValueError::new_err("over 2 GiB"));
        }
        let (found, parts) = py.detach(|| {
            let mut found = records::read(data, start, &self.0);
            let columns = std::mem::take(&mut found.columns.columns);
            (found, columns.into_iter().map(arrays::parts).collect())
        });
        let told =
            |(name, kinds, count)| Ok((String::from_utf8(name)?, scanner::merged(kinds), count));
        let unknown: Result<_, std::string::FromUtf8Error> =
            found.unknown.into_iter().map(told).collect();
        Ok((found.rows, found.lines, parts, found.stop, unknown?))
    }
}

/// Find the end of the run of lines from `start` on that begin with `head`, and count its lines.
///
/// For a long run, it releases the interpreter.
#[pyfunction]
fn run(
    py: Python<'_>,
    data: PyBuffer<u8>,
    start: usize,
    end: usize,
    head: &[u8],
) -> PyResult<(usize, usize)> {
    if !data.is_c_contiguous() || start > end || end > data.len_bytes() {
        return Err(PyValueError::new_err("not a part of the buffer"));
    }
    // SAFETY: the memory is one piece of at least `end` bytes, and the view keeps it from being
    // moved or freed. That nobody writes to it meanwhile is the caller's to see to.
    let lines = unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<u8>(), end) };
    // Whoever gives the interpreter away waits to get it back: not for a few lines.
    let (at, few) = runs::run(lines, start, head, SHORT);
    if at - start < SHORT {
        return Ok((at, few));
    }
    let (at, more) = py.detach(|| runs::run(lines, at, head, usize::MAX));
    Ok((at, few + more))
}

#[pymodule]
mod _kernel {
    #[pymodule_export]
    use super::csv::{CsvParser, csv_end};
    #[pymodule_export]
    use super::{Parser, run};

    /// SHA-256 of the sources that this was built from.
    #[pymodule_export]
    const SOURCES: &str = match option_env!("LAKEPORT_SOURCES") {
        Some(digest) => digest,
        None => "",
    };
}
