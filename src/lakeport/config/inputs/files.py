"""Files, and which of them are landed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from lakeport.config.inputs.base import Input


class FilesSource(Input):
    """Files, folders and globs, on a disk or in a store; only new ones if so wanted."""

    files: str | tuple[str, ...] = Field(
        description="Files, folders or globs, one or a list: paths or URIs."
    )
    new_only: bool = Field(
        default=False, description="Land only files that the table has not had yet."
    )
    again: Literal["fail", "land", "ignore"] = Field(
        default="fail",
        description="What to do, with `new_only`, with files that changed since they were landed.",
    )
    ordered: bool = Field(
        default=False,
        description="With `new_only`: names grow with time, as 2026/11/24/a.json do, so that the "
        "listing begins behind the last one that was seen; what comes later with a smaller name is "
        "not found.",
    )
    source_format: str = Field(
        default="", description="csv, tsv, json, jsonl, parquet, arrow, orc, avro, xlsx or singer."
    )
    csv: Mapping[str, Any] = Field(
        default_factory=dict, description="How CSV files are written, such as `{delimiter: ';'}`."
    )
    columns_schema: str | Mapping[str, Any] | None = Field(
        default=None,
        alias="schema",
        description="JSON schema of the records, or column: type; or the file that holds one.",
    )
    records_path: str = Field(
        default="", description="Of JSON: where the records are, such as result.items."
    )
    sheet: str = Field(default="", description="Of Excel: which sheet; the first that shows.")

    @field_validator("files")
    @classmethod
    def _some(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not value or not all(value):
            raise ValueError("names no file, folder or glob")
        return value

    @model_validator(mode="after")
    def _only_with_new_only(self) -> FilesSource:
        for key in ("again", "ordered"):
            if key in self.model_fields_set and not self.new_only:
                raise ValueError(f"`{key}` is about files that were landed before: set `new_only`")
        return self

    @property
    def names(self) -> list[str]:
        """What `files` names, as a list."""
        return [self.files] if isinstance(self.files, str) else list(self.files)
