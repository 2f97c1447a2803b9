"""What to do about a bad record of a CSV file: the option that may read it, or the usual ways."""

from __future__ import annotations

import pyarrow as pa

from lakeport.errors import BadRecord
from lakeport.sources.csv.dialect import Dialect

_OTHERWISE = (
    "correct the source, or set `on_bad_record: quarantine` (`--on-bad-record quarantine`) to land "
    "the good records and set the bad ones aside."
)


def hint_for(bad: BadRecord, type_: pa.DataType, dialect: Dialect) -> str:
    """How the file was read, and which option reads it otherwise.

    Args:
        bad: the record.
        type_: of the column at fault; null if the whole record is.
        dialect: by which it was read.
    """
    if way := _of_column(type_) if bad.column else way_to_read(bad.reason, dialect):
        return f"{way} Or {_OTHERWISE}"
    return _OTHERWISE


def way_to_read(reason: str, dialect: Dialect) -> str:
    """What to try where a record can't be cut into fields; empty if nothing."""
    if "UTF-8" in reason:
        return (
            "the file was read as UTF-8: `--encoding` names another one, such as cp1252 (Western), "
            "cp1250 (Central European) or cp850 (MS-DOS)."
        )
    read = f"the file was read with {dialect}"
    if "quote" in reason:
        return f"{read}: `--quote` and `--escape` say otherwise, `--quote ''` that there are none."
    if "expected" in reason:
        return f"{read}: `--delimiter`, `--quote` and `--skip-rows` say otherwise."
    return ""


def _of_column(type_: pa.DataType) -> str:
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "if it is a date in another order, say so with `--date-format`, such as %d/%m/%Y."
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_) or pa.types.is_integer(type_):
        return "if it is a number of another country, set `--decimal` and `--thousands`."
    return ""
