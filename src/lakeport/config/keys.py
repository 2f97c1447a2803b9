"""The keys of a config as arguments of `lakeport.land` and its kin, with types for editors.

The config classes say what the keys mean, and check the values; a test holds this list against
them. A key that is None is absent. Which keys go together depends on the target.

Each raises `ValueError` with a sentence that goes on from the key's name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import SecretStr

from lakeport.scrub import is_secret_name

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig


Target = str | PathLike[str] | Mapping[str, Any]
"""A folder, a URI, a YAML or JSON config file, or the keys of a config."""

FileType = Literal["delta", "parquet", "csv"]
Names = str | list[str] | tuple[str, ...]
"""Names in a list, or in a text with commas between them."""
Settings = Mapping[str, str | float]
"""Names and their values: texts, numbers, true or false."""

_MODES = {"append-only": "append", "upsert": "merge"}
_DURATION = re.compile(
    r"(?i)\s*(\d+(?:\.\d+)?)\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)?\s*"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_LITERAL = r"'(?:[^']|'')*'|-?[0-9]+(?:\.[0-9]+)?|true|false"
_CONDITION = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\W\d]\w*))\s*"
    rf"(?:==?\s*(?P<value>{_LITERAL})"
    rf"|IN\s*\(\s*(?P<values>(?:{_LITERAL})(?:\s*,\s*(?:{_LITERAL}))*)\s*\)"
    r"|IS\s+(?P<any>NOT\s+NULL))\s*",
    re.IGNORECASE,
)


class StoreKeys(TypedDict, total=False):
    """How a store is reached; the pages on configuration describe each key."""

    # every store
    object_key_path: str | None
    spark: Settings | None
    engine: Literal["spark", "threads"] | None
    warm: Literal["auto", "off", "require"] | None
    give_up_after: float | str | None

    # a local folder
    path: str | None

    # S3: files and Delta tables
    bucket: str | None
    aws_access_key_id: str | None
    aws_secret_access_key: str | None
    aws_session_token: str | None
    aws_profile: str | None
    aws_region: str | None
    aws_endpoint: str | None
    aws_addressing_style: Literal["auto", "path", "virtual"] | None
    role_arn: str | None
    role_session_name: str | None
    external_id: str | None
    sse: Literal["AES256", "aws:kms"] | None
    sse_kms_key_id: str | None
    object_tags: Settings | None
    object_metadata: Settings | None

    # Google Cloud Storage
    google_application_credentials: str | Mapping[str, Any] | None
    google_endpoint: str | None
    google_project: str | None
    kms_key_name: str | None

    # Azure
    account_name: str | None
    access_key: str | None
    sas_token: str | None
    tenant_id: str | None
    client_id: str | None
    client_secret: str | None
    managed_identity: bool | None
    azure_endpoint: str | None
    table_uri: str | None


class TargetKeys(StoreKeys, total=False):
    """Keys of a config, as a user writes them: how a load goes, and how its store is reached."""

    table: str | None
    file_type: FileType | None
    mode: Literal["append", "overwrite", "merge"] | None
    partition_keys: Names | None
    partition_columns: Literal["auto", "off"] | None
    columns: Settings | None
    rename: Settings | None
    drop: Names | None
    constant_columns: Settings | None
    catalog: Mapping[str, Any] | None
    merge_keys: Names | None
    hard_delete: bool | None
    delete_column: str | None
    delete_when: str | None
    schema_evolution: Literal["evolve", "strict", "loose"] | None
    type_widening: bool | None
    unknown_fields: Literal["evolve", "drop", "fail"] | None
    on_bad_record: Literal["fail", "quarantine"] | None
    max_bad_records: float | str | None
    internal_columns: bool | None
    internal_columns_prefix: str | None
    add_record_metadata: bool | None
    process_activate_version_messages: bool | None
    column_header_format: Literal["lower", "upper"] | None
    date_partition_format: str | None
    compression: Literal["snappy", "zstd", "gzip", "none"] | None
    maximum_batch_size_mb: float | None
    maximum_batch_rows: int | None
    target_file_size_mb: float | None
    min_file_size_mb: float | None
    max_columns: int | None
    max_record_mb: float | None
    max_unpack_ratio: float | None
    max_unpacked_mb: float | None
    once: bool | None
    run_id: str | None
    spool_dir: str | None
    batch_roots: Names | None
    table_roots: Names | None
    spool_uri: str | None
    manifest: bool | None
    table_properties: Settings | None
    cluster_by: Names | None
    auto_optimize: bool | None


def names(value: object) -> object:
    """A list of names from a list or comma-separated text, each once; a list's as they are.

    >>> names("a, b,a"), names('["x,y", " "]')
    (('a', 'b'), ('x,y', ' '))
    """
    if isinstance(value, str):
        value = _list(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise ValueError("has to be a list of names, or names with commas between them")
    return tuple(dict.fromkeys(name for name in value if name))


def mode_named(value: object) -> object:
    """A mode, also by the name that Meltano's SDK gives it."""
    return _MODES.get(value, value) if isinstance(value, str) else value


def texts_by_name(value: object) -> object:
    """A mapping of texts from a mapping of scalars or its JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise ValueError("has to be a mapping of names to values")
    settings = {}
    for name, item in value.items():
        if not isinstance(name, str) or not isinstance(item, (str, int, float, SecretStr)):
            raise ValueError("has to map names to text, numbers, true or false")
        settings[name] = _setting(item)
    return settings


def public(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Refuse what would be written into the table's log for everybody to read."""
    wrong = sorted(name for name in settings if name.startswith("fs.") or is_secret_name(name))
    if wrong:
        raise ValueError(f"can't hold {', '.join(wrong)}: table properties are stored in the open")
    return settings


def limit(value: object) -> object:
    """A count (int) or a share (float, 0 to 1) from a number or text such as `1%`.

    >>> limit("10"), limit("1%")
    (10, 0.01)
    """
    wrong = ValueError("has to be a count such as 10, or a share such as 0.01 or 1%")
    if isinstance(value, str):
        text = value.strip()
        try:
            if text.endswith("%"):
                value = float(text[:-1]) / 100
            else:
                value = int(text) if text.isdecimal() else float(text)
        except ValueError:
            raise wrong from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong
    if not (value >= 0 if isinstance(value, int) else 0 <= value <= 1):
        raise wrong
    return value


def seconds(value: object) -> Any:
    """Seconds from a number or a text such as `90`, `90s`, `2 min`, `1h` or `2 days`.

    >>> seconds("2 min"), seconds(90), seconds("2 days")
    (120.0, 90, 172800.0)
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError("has to be a number of seconds, or a time such as 90s, 2m or 1h")
    return float(match[1]) * _UNITS[(match[2] or "s")[0].lower()]


def printable(value: str) -> str:
    """A text without control characters."""
    if _CONTROL.search(value):
        raise ValueError("can't hold control characters")
    return value


def _list(text: str) -> object:
    """The items of a JSON list, or those between commas."""
    try:
        if text.lstrip().startswith("["):
            return json.loads(text)
        return [name.strip() for name in text.split(",")]
    except ValueError:
        return None


def _setting(value: str | float | SecretStr) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


@dataclass(frozen=True, slots=True)
class DeleteCondition:
    """A parsed condition.

    Attributes:
        column: the column that it looks at.
        values: those that mean a delete; empty if each one does.
    """

    column: str
    values: tuple[str | int | Decimal | bool, ...] = ()

    @classmethod
    def parse(cls, text: str) -> DeleteCondition:
        """Read a condition as SQL writes it.

        Raises:
            ValueError: it is none of the three forms.

        Example:
            >>> DeleteCondition.parse("Op IN ('D', 'X')")
            DeleteCondition(column='Op', values=('D', 'X'))
        """
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise ValueError(
                "is not of the form `Op = 'D'`, `Op IN ('D', 'X')` or `Op IS NOT NULL`"
            )
        name = found["name"] or found["quoted"].replace("``", "`")
        literals = re.findall(_LITERAL, found["value"] or found["values"] or "", re.IGNORECASE)
        return cls(name, tuple(map(_value, literals)))

    def sql(self, column: str) -> str:
        """The condition in Spark's SQL, on a column as it is called there."""
        if not self.values:
            return f"{column} IS NOT NULL"
        return f"coalesce({column} IN ({_listed(self.values)}), false)"


def _value(literal: str) -> str | int | Decimal | bool:
    if literal.startswith("'"):
        return literal[1:-1].replace("''", "'")
    if literal.lower() in ("true", "false"):
        return literal.lower() == "true"
    return Decimal(literal) if "." in literal else int(literal)


def _listed(values: Sequence[str | int | Decimal | bool]) -> str:
    texts = (
        "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if isinstance(value, str)
        else str(value).lower()
        for value in values
    )
    return ", ".join(texts)


def check_columns(config: DestinationConfig) -> None:
    """See that `columns`, `rename` and `drop` go together, and with the keys of the table.

    Raises:
        ValueError: they don't; a sentence that says which column is at fault.
    """
    for key, names in (("columns", config.columns), ("rename", config.rename)):
        both = sorted(set(config.drop) & names.keys())
        if both:
            raise ValueError(f"`drop` leaves out {both[0]!r}, which `{key}` names")
    empty = [old for old, new in config.rename.items() if not new.strip()]
    if empty:
        raise ValueError(f"`rename` gives {empty[0]!r} an empty name")
    taken = Counter(new.lower() for new in config.rename.values())
    twice = [old for old, new in config.rename.items() if taken[new.lower()] > 1]
    if twice:
        raise ValueError(f"`rename` gives {twice[0]!r} and {twice[1]!r} the same name")
    gone = (set(config.drop) | config.rename.keys()) - {*config.rename.values()}
    condition = config.delete_when and DeleteCondition.parse(config.delete_when)
    keys = {key: getattr(config, key) for key in ("merge_keys", "partition_keys", "cluster_by")}
    keys["delete_column"] = [config.delete_column] if config.delete_column else []
    keys["delete_when"] = [condition.column] if condition else []
    for key, names in keys.items():
        for name in names:
            if name in gone:
                new = config.rename.get(name)
                raise ValueError(
                    f"`{key}` names {name!r}, which `drop` leaves out"
                    if new is None
                    else f"`{key}` names {name!r}, which `rename` calls {new!r}: name that"
                )
