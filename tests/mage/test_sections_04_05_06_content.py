"""Sections 4 to 6: names of objects, internal columns and types, the same in every destination."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import InputError
from tests.contract.targets import read_csv
from tests.mage.conftest import Make, Place, record, schema

PROPERTIES: dict[str, Any] = {
    "text": {"type": ["null", "string"]},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "at_any": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
    "day": {"type": ["null", "string"], "format": "date"},
    "whole": {"type": ["null", "integer"]},
    "plain": {"type": "integer"},
    "number": {"type": ["null", "number"]},
    "flag": {"type": ["null", "boolean"]},
    "list": {"type": ["null", "array"], "items": {"type": ["null", "string"]}},
    "struct": {"type": ["null", "object"], "properties": {"a": {"type": ["null", "integer"]}}},
    "free": {"type": ["null", "object"]},
    "mixed": {"type": ["null", "array"]},
    "absent": {"type": ["null", "integer"]},
}
RECORDS: list[dict[str, Any]] = [
    {
        "text": "",
        "at": "2024-03-04T15:30:45.123456+02:00",
        "at_any": "2024-03-04T15:30:45Z",
        "day": "2024-03-04",
        "whole": 2**53 + 1,
        "plain": 1,
        "number": 2,
        "flag": False,
        "list": ["a", None],
        "struct": {"a": 1},
        "free": {},
        "mixed": [1, "a", {"b": None}],
        "_mage_created_at": "2020-01-01T00:00:00+00:00",
    },
    {"plain": 2, "at": "9999-12-31T23:59:59Z"},
]
TYPES = {
    "text": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "at_any": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "whole": pa.int64(),
    "plain": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "list": pa.list_(pa.string()),
    "struct": pa.struct([("a", pa.int64())]),
    "free": pa.string(),
    "mixed": pa.list_(pa.string()),
    "absent": pa.int64(),
    "_mage_created_at": pa.timestamp("us", "UTC"),
    "_mage_updated_at": pa.timestamp("us", "UTC"),
}
NAME = r"raw/users/\d{8}-\d{6}(-\d+)?\.parquet"


def test_the_same_lines_are_the_same_table_everywhere(place: Place) -> None:
    before = datetime.now(UTC)
    place.land(schema(PROPERTIES), *[record(**row) for row in RECORDS])
    found = place.arrow()
    assert [(name, _plain(found.schema.field(name).type)) for name in TYPES] == list(TYPES.items())
    first, second = sorted(found.to_pylist(), key=lambda row: row["plain"])
    assert first["at"] == datetime(2024, 3, 4, 13, 30, 45, 123456, tzinfo=UTC)
    assert (first["day"], first["whole"], first["text"]) == (date(2024, 3, 4), 2**53 + 1, "")
    assert (first["flag"], first["list"], first["struct"]) == (False, ["a", None], {"a": 1})
    assert (first["free"], first["mixed"]) == ("{}", ["1", "a", '{"b": null}'])
    assert (second["text"], second["flag"], second["whole"]) == (None, None, None)
    assert second["at"] == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert first["_mage_created_at"] == datetime(2020, 1, 1, tzinfo=UTC)
    assert before <= second["_mage_created_at"] == second["_mage_updated_at"]
    if not place.uri:
        (key,) = place.data_keys()
        assert re.fullmatch(NAME, key)
        place.land(schema({"other": PROPERTIES["whole"]}), record(other=None))
        place.land(schema({"other": PROPERTIES["whole"]}), record(other=None))
        assert len(place.data_keys()) == 3
    else:
        keys = [key for key in place.files.keys() if "_delta_log/0" in key]  # noqa: SIM118
        assert any(key.endswith("users/_delta_log/00000000000000000000.json") for key in keys)


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type without the names that a format gives to the items of lists."""
    if pa.types.is_list(type_):
        return pa.list_(type_.value_type)
    return type_


@pytest.mark.parametrize("destination", ["amazon_s3", "google_cloud_storage"])
def test_csv_with_date_folders_and_headers(make: Make, destination: str) -> None:
    place = make(destination)
    place.land(
        schema({"Id": PROPERTIES["whole"], "Text": PROPERTIES["text"], "list": PROPERTIES["list"]}),
        record(list=["a", None], Id=5, Text='say "hi", all'),
        record(Text=""),
        file_type="csv",
        column_header_format="upper",
        date_partition_format="year=%Y/month=%m",
        object_key_path="/raw//",
    )
    (key,) = place.data_keys(".csv")
    assert re.fullmatch(r"raw/users/year=\d{4}/month=\d\d/\d{8}-\d{6}\.csv", key)
    day = re.search(r"(\d{4})/month=(\d\d)/(\d{4})(\d\d)", key)
    assert day is not None and day.groups()[:2] == day.groups()[2:]
    content = place.files.read(key)
    assert b"\r" not in content and not content.startswith(b"\xef\xbb\xbf")
    assert content.splitlines()[0] == b"ID,TEXT,LIST,_MAGE_CREATED_AT,_MAGE_UPDATED_AT"
    first, second = read_csv(content)
    assert (first["ID"], first["TEXT"], first["LIST"]) == ("5", 'say "hi", all', '["a",null]')
    assert (second["ID"], second["TEXT"], second["LIST"]) == (None, "", None)
    assert str(first["_MAGE_CREATED_AT"]).endswith("+00:00")


def test_headers_that_become_one_are_refused(s3: Place) -> None:
    both = schema({"id": PROPERTIES["whole"], "ID": PROPERTIES["whole"]})
    with pytest.raises(InputError, match="columns 'id' and 'ID' differ only in case"):
        s3.land(both, record(id=1, ID=2), column_header_format="upper")
    assert s3.data_keys() == []
