"""Read ORC files, one stripe at a time.

Arrow's reader of ORC has limits. Programs in Java write dates before 1582-10-15 in the hybrid
calendar unless the footer says otherwise. They shift local times before their time zone had a
standard time by other offsets. Arrow reads timestamps as nanoseconds, which reach from 1677 to
2262.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import MissingDependency, SourceError
from lakeport.model import Split
from lakeport.schema.nested import iterate_leaves
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import ExpansionGuard, UnpackLimits
from lakeport.sources.splits import Footer, explain_read_errors, name_file_in_errors, open_split

_NAME = "ORC"
_MIN_PYARROW: Final = 25  # refuses timestamps that nanoseconds do not reach
_RANGE: Final = "out of range for nanosecond"
_GREGORIAN: Final = date(1582, 10, 15)
_STANDARD: Final = datetime(1953, 1, 1)
_HINT: Final = "have Spark read the file, and land that frame; or make the column text."


def read_footer(file: SourceFile, limits: UnpackLimits) -> Footer:
    """Read an ORC file's schema and row count, with one part per stripe; SourceError if no ORC."""
    with _open_file(file.split(0, -1, 0)) as opened:
        count = opened.nstripes
        return Footer(file, opened.schema, (file.bytes // max(1, count),) * count, opened.nrows)


def read_batches(split: Split, limits: UnpackLimits) -> Iterator[pa.RecordBatch]:
    """Yield the stripes `split.start` up to `split.end` of a file, each as one record batch.

    Raises:
        SourceError: the file is damaged, unpacks to too much, or holds dates or timestamps that
            Arrow may not read as they are.
    """
    with _open_file(split) as opened:
        guard = ExpansionGuard(split.uri, limits, packed=opened.file_length)
        _check_pyarrow_version(split.uri, opened.schema)
        for stripe in range(split.start, split.end):
            with explain_read_errors(split.uri, _NAME), name_file_in_errors(split.uri):
                batch = _read_stripe(opened, stripe)
                batch.validate(full=True)
            guard.add(batch.nbytes)
            if opened.writer == "ORC_JAVA":
                with name_file_in_errors(split.uri):
                    _check_ambiguous_times(batch)
            yield batch


def _read_stripe(opened: Any, stripe: int) -> pa.RecordBatch:
    """Read a stripe; SourceError names the column whose timestamps don't fit in nanoseconds."""
    try:
        return opened.read_stripe(stripe)
    except pa.ArrowInvalid as error:
        if _RANGE not in str(error):
            raise
    for name in opened.schema.names:
        try:
            opened.read_stripe(stripe, columns=[name])
        except pa.ArrowInvalid:
            break
    raise SourceError(
        f"column {name!r} holds timestamps before 1677 or after 2262, which Arrow's reader of ORC "
        "does not reach",
        _HINT,
    )


def _check_pyarrow_version(uri: str, schema: pa.Schema) -> None:
    """Raise MissingDependency for date and time columns if pyarrow is older than version 25."""
    is_dated = any(
        pa.types.is_temporal(leaf.type)
        for field in schema
        for _, leaf in iterate_leaves(pa.nulls(0, field.type), "")
    )
    if is_dated and int(pa.__version__.split(".")[0]) < _MIN_PYARROW:
        raise MissingDependency(
            f"file {uri!r} holds dates or timestamps, and pyarrow {pa.__version__} reads those of "
            "ORC before 1677 as later ones",
            f"pip install 'pyarrow>={_MIN_PYARROW}'",
        )


def _check_ambiguous_times(batch: pa.RecordBatch) -> None:
    """Raise SourceError for dates before 1582-10-15, and local timestamps before 1953."""
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        for path, leaf in iterate_leaves(array, name):
            if pa.types.is_date(leaf.type):
                first, kind = pa.scalar(_GREGORIAN, leaf.type), "dates before 1582-10-15"
            elif pa.types.is_timestamp(leaf.type) and leaf.type.tz is None:
                first, kind = pa.scalar(_STANDARD, leaf.type), "timestamps before 1953"
            else:
                continue
            if pc.any(pc.less(leaf, first)).as_py():
                raise SourceError(
                    f"column {path!r} holds {kind}, about which programs in Java and Arrow differ",
                    _HINT,
                )


@contextmanager
def _open_file(split: Split) -> Iterator[Any]:
    """Context manager that opens a split's file as ORC; raises SourceError if it is none."""
    from pyarrow import orc

    with explain_read_errors(split.uri, _NAME), open_split(split) as source:
        yield orc.ORCFile(pa.PythonFile(source, "r"))
