"""Read columns from folders named `name=value` in the paths of files: one value per file.

Hive, Spark and others write partitioned tables this way, and leave the columns out of the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import SourceError, UnknownFields
from lakeport.model import Reader, Scan, Split, UnknownPolicy
from lakeport.schema.types import (
    TEXT_KINDS,
    Field,
    FieldType,
    Kind,
    check_column_names,
    to_arrow_type,
)
from lakeport.sources.csv.conversion import convert_texts, match_kinds, narrowest_type
from lakeport.sources.files.source_file import SourceFile

_NULL = "__HIVE_DEFAULT_PARTITION__"
_NOT_TEXT = {Kind.LIST, Kind.STRUCT, Kind.BINARY}

_WIDE: tuple[tuple[pa.DataType, Any], ...] = (
    (pa.int64(), pa.types.is_integer),
    (pa.float64(), pa.types.is_floating),
)


def folder_values(uri: str) -> tuple[tuple[str, str | None], ...]:
    """Return columns and texts of the folders `name=value` in a path; None for Hive's null.

    Names and values are percent-decoded, as Hive and Spark encode them.

    Raises:
        SourceError: two folders give the same column, or a name is no UTF-8 text.

    >>> folder_values("s3://lake/sales/year=2024/city=Den%20Haag/a=__HIVE_DEFAULT_PARTITION__/1.csv")
    (('year', '2024'), ('city', 'Den Haag'), ('a', None))
    """
    found: dict[str, str | None] = {}
    for folder in uri.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if not (name and equals):
            continue
        try:
            name, value = (unquote(text, errors="strict") for text in (name, value))
        except UnicodeDecodeError:
            raise SourceError(
                f"folder {folder!r} of file {uri!r} is not UTF-8 text", "rename the folder."
            ) from None
        if name in found:
            raise SourceError(
                f"two folders of file {uri!r} give the column {name!r}",
                "rename one, or set `partition_columns: off`.",
            )
        found[name] = None if value == _NULL else value
    return tuple(found.items())


def add_folder_values(files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """Return files with their folders' values; raise SourceError as `folder_values` does."""
    return tuple(replace(file, folders=folder_values(file.path)) for file in files)


def make_folder_fields(
    stream: str,
    files: Sequence[SourceFile],
    declared: Sequence[Field],
    *,
    infer_types: bool,
    unknown_policy: UnknownPolicy | None,
) -> tuple[Field, ...]:
    """Return the columns that folders `name=value` give: as declared, else with inferred types.

    Args:
        infer_types: whether undeclared columns get the type of all their values, or are text.
        unknown_policy: for undeclared columns; None if no JSON schema declares all columns.

    Raises:
        SourceError: a column is declared with a type or as required, and folders can't give that.
        UnknownFields: a column is not declared, and the policy is to fail.
    """
    known = {field.name: field for field in declared}
    names = dict.fromkeys(name for file in files for name, _ in file.folders)
    extra = [name for name in names if name not in known]
    if extra and unknown_policy is UnknownPolicy.FAIL:
        raise UnknownFields(
            f"stream {stream!r} has folders that its schema does not declare as columns: "
            + ", ".join(repr(name) for name in extra),
            "declare them, or set `partition_columns: off`, or `unknown_fields` to `evolve`.",
        )
    fields = []
    for name in names:
        values = {dict(file.folders).get(name) for file in files}
        if name in known:
            fields.append(_check_declared(known[name], values))
        elif unknown_policy is not UnknownPolicy.DROP:
            texts = pa.array(sorted(v for v in values if v is not None), pa.string())
            type_ = narrowest_type(match_kinds(texts)) if infer_types else pa.string()
            fields.append(Field(name, FieldType(TEXT_KINDS[type_])))
    return tuple(fields)


def _check_declared(field: Field, values: set[str | None]) -> Field:
    """Return `field` unchanged; SourceError if folders can't give its type or required values."""
    if field.type.kind in _NOT_TEXT:
        raise SourceError(
            f"column {field.name!r} is declared as {field.type.kind}, which a folder can't give",
            "declare it as `string`.",
        )
    if field.required and None in values:
        raise SourceError(
            f"column {field.name!r} is required, but not every file has a folder that gives it",
            "name other files, or don't require it.",
        )
    return field


@lru_cache(maxsize=1024)
def _parse_value(name: str, text: str | None, type_: pa.DataType) -> pa.Scalar:
    """Parse a folder's text as a scalar of a type, None as null; SourceError if it does not fit."""
    if text is None:
        return pa.scalar(None, type_)
    wide = next((t for t, of in _WIDE if of(type_)), type_)
    value = None
    if wide in TEXT_KINDS or pa.types.is_decimal(wide):
        values, wrong = convert_texts(pa.array([text]), wide)
        with suppress(pa.ArrowInvalid):
            value = values.cast(type_)[0] if wrong is None else None
    if value is None:
        raise SourceError(
            f"folder '{name}={text}' is not a value of the column {name!r}, of type {type_}",
            "declare the column's type, rename the folder, or set `partition_columns: off`.",
        )
    return value


@dataclass(frozen=True, slots=True)
class FolderReader:
    """Adds the columns of folders `name=value` to the rows of another reader.

    A file's own column of the same name has to hold the folder's value or null in all rows.
    """

    inner: Reader
    fields: tuple[Field, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the inner reader, followed by columns that only folders have."""
        inner = self.inner.schema
        own = [f for f in self.fields if inner.get_field_index(f.name) < 0]
        return pa.schema([*inner, *((field.name, to_arrow_type(field.type)) for field in own)])

    def check(self, stream: str, splits: Sequence[Split]) -> None:
        """Raise InputError if column names clash, or a folder's value does not fit its column."""
        schema = self.schema
        check_column_names(stream, schema.names)
        for split in splits:
            for name, text in split.folders:
                if (place := schema.get_field_index(name)) >= 0:
                    _parse_value(name, text, schema.field(place).type)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield a split's rows with its folders' columns; SourceError if a file's values differ."""
        schema = self.schema
        values = {
            name: _parse_value(name, text, schema.field(name).type)
            for name, text in split.folders
            if name in schema.names
        }
        for batch in self.inner.read(split):
            arrays = [
                _make_folder_column(batch, field, values, split)
                if field.name in values
                else batch.column(field.name)
                if field.name in batch.schema.names
                else pa.nulls(len(batch), field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def scan(self, split: Split) -> Scan:
        """Scan the file's records; see `lakeport.model.Reader.scan`."""
        return self.inner.scan(split)

    def skip_bad_records(self) -> FolderReader:
        """See `lakeport.model.Reader.skip_bad_records`."""
        return replace(self, inner=self.inner.skip_bad_records())

    def add_columns(self, unknown: Mapping[str, pa.DataType]) -> FolderReader:
        """See `lakeport.model.Reader.add_columns`."""
        return replace(self, inner=self.inner.add_columns(unknown))


def _make_folder_column(
    batch: pa.RecordBatch, field: pa.Field, values: Mapping[str, pa.Scalar], split: Split
) -> pa.Array:
    """Repeat a folder's value for all rows; SourceError if the file's own column differs."""
    value = values[field.name]
    if field.name in batch.schema.names:
        own = batch.column(field.name).drop_null()
        same = value.is_valid and pc.all(pc.equal(own, value)).as_py()
        if len(own) and not same:
            raise SourceError(
                f"column {field.name!r} of file {split.uri!r} has another value than the folder "
                "of that name that the file lies in",
                "correct the file or the folder, or set `partition_columns: off` to read the "
                "file's own column.",
            )
    return pa.repeat(value, len(batch))
