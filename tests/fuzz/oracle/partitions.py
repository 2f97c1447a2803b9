"""Partition values: the log, the folder and the way back, told with Python's types and delta-rs."""

from __future__ import annotations

import tempfile
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from lakeport.delta_log.actions import (
    format_partition_value,
    parse_partition_value,
    partition_folder,
    quote_path,
)
from tests.fuzz.case import Case, Changed
from tests.fuzz.oracle.model import EPOCH

_WIDE = Context(prec=60)
_INT = pa.int32()


def check(case: Case) -> None:
    given = case.options
    one, other, name = case.data.decode("utf-8", "surrogatepass"), given["other"], given["name"]
    scale = given["scale"]
    values = {
        "text": (one, pa.string()),
        "int": (given["int"], pa.int32()),
        "long": (given["long"], pa.int64()),
        "flag": (given["flag"], pa.bool_()),
        "at": (EPOCH + timedelta(microseconds=given["micros"]), pa.timestamp("us", "UTC")),
        "day": (date(1970, 1, 1) + timedelta(days=given["day"]), pa.date32()),
        "amount": (_WIDE.scaleb(Decimal(given["unscaled"]), -scale), pa.decimal128(38, scale)),
    }
    for value, type_ in values.values():
        _check_value(value, type_)
    _check_folder(name, one, other)
    if given["table"] and given["unscaled"] >= 0:  # delta-rs writes negative ones as `0.-1`
        _check_table({name: value for name, (value, _) in values.items()}, values)


def _check_value(value: Any, type_: pa.DataType) -> None:
    text = format_partition_value(value)
    wanted = None if value == "" else value
    found = parse_partition_value(text, type_)
    if found != wanted or type(found) is not type(wanted):
        raise Changed("a partition value does not come back from the log", value, text, found)
    if text is not None and type_ == pa.decimal128(38, 2) and "E" in text:
        raise Changed("a decimal has an exponent in the log", text)
    folder = partition_folder({"p": text})
    if folder.count("/") or "\0" in folder or len(folder.encode()) > 200:
        raise Changed("a partition's folder is no plain name", folder)
    if unquote(quote_path(folder)) != folder:
        raise Changed("a partition's folder does not come back from its path", folder)
    if text is not None and "~" not in folder and unquote(folder) != f"p={text}":
        raise Changed("a partition's folder tells another value", folder, text)


def _check_folder(name: str, one: str, other: str) -> None:
    texts = format_partition_value(one), format_partition_value(other)
    first, second = (partition_folder({name: text, "q": one}) for text in texts)
    if (first == second) != (texts[0] == texts[1]) and None not in texts:
        raise Changed("two partitions have one folder", one, other, first)
    if first.count("/") != 1 or first.startswith("/"):
        raise Changed("a partition is no two folders", first)


def _check_table(row: dict[str, Any], types: dict[str, tuple[Any, Any]]) -> None:
    """A table of that row, partitioned by all of its columns, as delta-rs reads it."""
    from tests.property import test_delta_partitions as tables

    schema = pa.schema([(name, type_) for name, (_, type_) in types.items()])
    if "\0" in row["text"] or any(0xD800 <= ord(c) < 0xE000 for c in row["text"]):
        return
    schema = schema.append(pa.field("value", pa.int64()))
    rows = [{**row, "value": 1}, {**dict.fromkeys(types), "value": 2}]
    with tempfile.TemporaryDirectory() as root:
        found = (
            tables.staged_table(root, rows, list(types), schema=schema)
            .to_pyarrow_table()
            .to_pylist()
        )
    wanted = [{k: None if v == "" else v for k, v in r.items()} for r in rows]
    if sorted(found, key=lambda r: r["value"]) != wanted:
        raise Changed("delta-rs reads other partition values", found, wanted)
