"""The config keys that every destination has, with their types, defaults and descriptions.

A key can stand in a config file, in an option (`--set key=value`), in an argument of
`lakeport.land`, or in the environment as `LAKEPORT_` and the key in capitals. A key set to null is
absent. Sizes are in MiB.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)

from lakeport.config.explain import config_error, unknown_name_error
from lakeport.config.mage.io_config import fold_streams, parse_catalog, unused_key_warnings
from lakeport.config.values import (
    DeleteCondition,
    check_printable,
    check_table_properties,
    parse_count_or_share,
    parse_mode,
    parse_names,
    parse_seconds,
    parse_settings,
)
from lakeport.errors import ConfigError
from lakeport.model import Mode, UnknownPolicy
from lakeport.scrub import MASK, is_secret_name
from lakeport.storage.retry import GIVE_UP_SECONDS

if TYPE_CHECKING:
    from lakeport.model import Storage


MAXIMUM_BATCH_SIZE_MB = 1024.0
"""Default input size of one batch, summed over the streams."""

_ALIASES = {
    "batch_size_rows": "maximum_batch_rows",
    "format": "file_type",
    "load_method": "mode",
    "partition_by": "partition_keys",
}
_UNUSED = ("clean_up_input_file",)
_MAY_BE_EMPTY = ("column_header_format", "date_partition_format")  # as in Mage: none

OTHER_NAMES: Mapping[str, str] = {**_ALIASES, **{name: name for name in _UNUSED}}
"""A key's name in Mage or Meltano -> its name in lakeport; the same where it has no effect."""

_PLACES = frozenset({"bucket", "table_uri", "path"})

Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
FileType = Literal["delta", "parquet", "csv"]
Names = Annotated[tuple[str, ...], BeforeValidator(parse_names)]
Settings = Annotated[Mapping[str, str], BeforeValidator(parse_settings)]

_DESTINATIONS = {
    "local": "lakeport.config.destinations.local:LocalConfig",
    "amazon_s3": "lakeport.config.destinations.s3:AmazonS3Config",
    "delta_lake_azure": "lakeport.config.destinations.azure:DeltaLakeAzureConfig",
    "delta_lake_s3": "lakeport.config.destinations.s3:DeltaLakeS3Config",
    "google_cloud_storage": ("lakeport.config.destinations.gcs:GoogleCloudStorageConfig"),
}
_SCHEMES = {
    "abfs": "delta_lake_azure",
    "abfss": "delta_lake_azure",
    "file": "local",
    "gs": "google_cloud_storage",
    "s3": "amazon_s3",
}
_TABLES = {"amazon_s3": "delta_lake_s3"}  # files -> tables in the same store
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


def _check_condition(text: str) -> str:
    """Return a delete condition unchanged; raise ValueError if it can't be parsed."""
    DeleteCondition.parse(text)
    return text


def _off_as_text(value: object) -> object:
    """Return "off" for False, which YAML makes of a bare `off`; other values unchanged."""
    return "off" if value is False else value


def _snake_by_other_name(value: object) -> object:
    """Return "snake" for dlt's name of that convention; other values unchanged."""
    return "snake" if value == "snake_case" else value


class DestinationConfig(BaseModel):
    """Base class of all destination configs, such as S3's: immutable, validated on creation.

    Raises:
        ConfigError: it names every wrong key, what is wrong, and the closest valid key or value.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, coerce_numbers_to_str=True
    )
    _warnings: tuple[str, ...] = PrivateAttr(default=())
    _from_session: bool = PrivateAttr(default=False)
    _session_values: dict[str, Any] | None = PrivateAttr(default=None)

    extra: ClassVar[str] = ""
    """The pip extra with the store's SDK; empty if the store needs none."""
    delta_jars: ClassVar[frozenset[str]] = frozenset()
    """Names in `spark.jvm.jars` of the jars for Delta tables in this store; empty for files."""

    destination: str = Field(description="Name of the destination.")
    object_key_path: Annotated[str, AfterValidator(lambda text: text.strip("/"))] = Field(
        default="", description="Folder or prefix in front of the tables."
    )
    table: Text | None = Field(
        default=None,
        description="Name of the table; default: the stream's name. Several streams need "
        "`{stream}` in it.",
    )
    file_type: FileType = Field(default="parquet", description="Format of the table.")
    mode: Annotated[Mode, BeforeValidator(parse_mode)] = Field(
        default=Mode.APPEND,
        description="Append to the table's rows, overwrite them, or merge into them.",
    )
    partition_keys: Names = Field(default=(), description="Columns to partition by.")
    partition_columns: Annotated[Literal["auto", "off"], BeforeValidator(_off_as_text)] = Field(
        default="auto",
        description="Whether folders `name=value` of a source's files become columns.",
    )
    columns: Settings = Field(
        default_factory=dict,
        description="Column -> its type, such as `decimal(10,2)`; other types are inferred.",
    )
    rename: Settings = Field(
        default_factory=dict,
        description="Column -> its new name, which keys and partitions have to use.",
    )
    drop: Names = Field(default=(), description="Columns of the source to leave out.")
    constant_columns: Settings = Field(
        default_factory=dict,
        description="Column of text -> its value in every row, whatever the records hold.",
    )
    catalog: Annotated[Mapping[str, Any], BeforeValidator(parse_catalog)] = Field(
        default_factory=dict,
        description="Singer catalog whose schemas replace the tap's: "
        '`{"streams": [{"stream": …, "schema": …}]}`.',
    )
    merge_keys: Names = Field(
        default=(),
        description="Columns that identify a row in `mode: merge`; default: the stream's keys.",
    )
    hard_delete: bool = Field(
        default=False,
        description="Delete the rows of records that are marked as deleted, instead of keeping "
        "them with their mark.",
    )
    delete_column: Text | None = Field(
        default=None,
        description="Column that marks a record as deleted; default: `_sdc_deleted_at`. Needs "
        "`hard_delete: true`.",
    )
    delete_when: Annotated[Text, AfterValidator(_check_condition)] | None = Field(
        default=None,
        description="Condition on a column; records that meet it are deletes: `Op = 'D'`, "
        "`Op IN ('D', 'X')` or `Op IS NOT NULL`. Needs `hard_delete: true`.",
    )
    schema_evolution: Literal["evolve", "strict", "loose"] = Field(
        default="evolve",
        description="Whether a load may add columns to a table; with `loose`, its Parquet files "
        "may also have other types than earlier ones.",
    )
    type_widening: bool = Field(
        default=False,
        description="Let Delta columns get wider types; some readers, delta-rs and Athena among "
        "them, can't read such tables yet.",
    )
    unknown_fields: UnknownPolicy = Field(
        default=UnknownPolicy.EVOLVE,
        description="Add columns for fields that the schema does not declare, drop the fields, or "
        "fail.",
    )
    on_bad_record: Literal["fail", "quarantine"] = Field(
        default="fail",
        description="Fail at records that do not fit the schema, or write them to a quarantine.",
    )
    max_bad_records: Annotated[int | float | None, BeforeValidator(parse_count_or_share)] = Field(
        default=None,
        description="More bad records than this fail the run: a count (10) or a share (0.01, 1%).",
    )
    internal_columns: bool = Field(
        default=True, description="Add two columns with the times when a row was added and changed."
    )
    internal_columns_prefix: Text = Field(
        default="_mage_", description="Prefix of the internal columns' names."
    )
    add_record_metadata: bool = Field(
        default=False, description="Add the columns `_sdc_*` to the records of Singer streams."
    )
    process_activate_version_messages: bool = Field(
        default=True,
        description="Delete the rows of a stream's earlier versions on an ACTIVATE_VERSION "
        "message.",
    )
    column_header_format: Annotated[
        Literal["lower", "upper", "snake"] | None, BeforeValidator(_snake_by_other_name)
    ] = Field(
        default=None,
        description="Convert column names to lower or upper case, or to plain names in snake case: "
        "`Unit Price (€)` to `unit_price`.",
    )
    date_partition_format: Text | None = Field(
        default=None, description="strftime pattern of date folders between table and file (UTC)."
    )
    compression: Literal["snappy", "zstd", "gzip", "none"] = Field(
        default="snappy", description="Compression of the data files."
    )
    maximum_batch_size_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=MAXIMUM_BATCH_SIZE_MB,
        description="Input size in MiB of one batch, over all streams; 0: every record is a batch.",
    )
    maximum_batch_rows: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Rows of one batch, over all streams; null: no limit."
    )
    target_file_size_mb: Size = Field(
        default=256.0, description="Largest size of a data file, in MiB."
    )
    min_file_size_mb: Size = Field(
        default_factory=lambda: 32.0,
        description="Size in MiB below which a batch is not split into files; default: 32, at most "
        "`target_file_size_mb`.",
    )
    max_columns: Annotated[int, Field(ge=1)] = Field(
        default=5000,
        description="Largest number of a table's columns, counting members of objects. Keys that "
        "are data would each become a column.",
    )
    max_record_mb: Size = Field(default=100.0, description="Largest size of a record, in MiB.")
    max_unpack_ratio: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=500.0,
        description="Largest expansion of a compressed source that unpacks to more than 1 GiB, as "
        "bytes for one byte; 0: no limit.",
    )
    max_unpacked_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=1048576.0,
        description="Largest size of one compressed source file when unpacked, in MiB; 0: no "
        "limit.",
    )
    once: bool = Field(
        default=False,
        description="Skip files whose content was appended to the Delta table before.",
    )
    run_id: Annotated[Text, Field(max_length=200), AfterValidator(check_printable)] | None = Field(
        default=None, description="Name of the run: repeating a run with its name adds nothing."
    )
    give_up_after: Annotated[
        float, BeforeValidator(parse_seconds), Field(ge=1, allow_inf_nan=False)
    ] = Field(
        default=GIVE_UP_SECONDS,
        description="Time to retry a store that fails or does not answer, in seconds or as text "
        "such as `2m`; a load fails after this time without progress.",
    )
    spool_dir: Text | None = Field(
        default=None,
        description="Local folder for spooled input; default: the system's temporary folder.",
    )
    batch_roots: Names = Field(
        default=(),
        description="Folders that may hold the files of Singer's BATCH messages; default: the "
        "system's temporary folder and the current one, unless that is `/`.",
    )
    table_roots: Names = Field(
        default=(),
        description="Prefixes that may hold files of Delta tables outside the tables' own "
        "folders, such as those of shallow clones; `s3://lake/base/`.",
    )
    spool_uri: Text | None = Field(
        default=None,
        description="Spooled input for a cluster's tasks: a store's prefix or a shared folder.",
    )
    manifest: bool = Field(
        default=True,
        description="Write a manifest for each load of files, and a report for each run.",
    )
    spark: Settings = Field(default_factory=dict, description="Settings of Spark.")
    engine: Literal["spark", "threads"] = Field(
        default="spark",
        description="Engine that runs the tasks: Spark, or threads of this process, which need no "
        "Java but lack some of Spark's features.",
    )
    warm: Annotated[Literal["auto", "off", "require"], BeforeValidator(_off_as_text)] = Field(
        default="auto",
        description="Whether to use a warm session's Spark (`lakeport warm`): `auto` does if one "
        "runs.",
    )
    table_properties: Annotated[Settings, AfterValidator(check_table_properties)] = Field(
        default_factory=dict,
        description="Properties to set on the Delta table, new or existing.",
    )
    cluster_by: Annotated[Names, Field(max_length=4)] = Field(
        default=(),
        description="Columns, 4 at most, to cluster a new Delta table by (liquid clustering), "
        "instead of partitions.",
    )
    auto_optimize: bool = Field(
        default=False,
        description="After a run, merge small files in those partitions of a Delta table that it "
        "wrote to and that have 20 small files or more.",
    )

    def __init__(self, **values: Any) -> None:
        known = canonical_keys(values)
        try:
            super().__init__(**known)
        except ValidationError as error:
            problem = config_error(error, type(self).model_fields, self.secret_keys())
        else:
            self._warnings = unused_key_warnings(self.catalog)
            return
        raise problem  # outside the handler: the foreign error holds the values as they came

    @model_validator(mode="after")
    def _check_key_combinations(self) -> DestinationConfig:
        """Return the config; raise ValueError for keys that contradict or need another key."""
        self._check_columns()
        if "min_file_size_mb" not in self.model_fields_set:
            self.__dict__["min_file_size_mb"] = min(32.0, self.target_file_size_mb)
        if self.min_file_size_mb > self.target_file_size_mb:
            raise ValueError("`min_file_size_mb` is larger than `target_file_size_mb`")
        if self.mode is not Mode.APPEND and self.file_type != "delta":
            raise ValueError(
                f"`mode: {self.mode.value}` needs `file_type: delta`: files are only ever added "
                "(Delta tables are for the destinations local, delta_lake_s3, delta_lake_azure)"
            )
        if self.cluster_by and self.partition_keys:
            raise ValueError("`cluster_by` and `partition_keys` exclude each other: give one")
        if self.file_type != "delta" and (self.cluster_by or self.auto_optimize):
            key = "cluster_by" if self.cluster_by else "auto_optimize"
            raise ValueError(f"`{key}` needs `file_type: delta`")
        if self.once and (self.file_type != "delta" or self.mode is not Mode.APPEND):
            raise ValueError("`once` is for appends to Delta tables, which keep what they have had")
        for key in ("delete_column", "delete_when"):
            if getattr(self, key) is not None and not self.hard_delete:
                raise ValueError(f"`{key}` needs `hard_delete: true`: else no row is removed")
        return self

    def _check_columns(self) -> None:
        """Raise ValueError if `drop` or `rename` contradicts keys that name columns."""
        for key, names in (("columns", self.columns), ("rename", self.rename)):
            both = sorted(set(self.drop) & names.keys())
            if both:
                raise ValueError(f"`drop` leaves out {both[0]!r}, which `{key}` names")
        empty = [old for old, new in self.rename.items() if not new.strip()]
        if empty:
            raise ValueError(f"`rename` gives {empty[0]!r} an empty name")
        taken = Counter(new.lower() for new in self.rename.values())
        twice = [old for old, new in self.rename.items() if taken[new.lower()] > 1]
        if twice:
            raise ValueError(f"`rename` gives {twice[0]!r} and {twice[1]!r} the same name")
        removed = (set(self.drop) | self.rename.keys()) - {*self.rename.values()}
        condition = self.delete_when and DeleteCondition.parse(self.delete_when)
        keys = {key: getattr(self, key) for key in ("merge_keys", "partition_keys", "cluster_by")}
        keys["delete_column"] = [self.delete_column] if self.delete_column else []
        keys["delete_when"] = [condition.column] if condition else []
        for key, names in keys.items():
            for name in names:
                if name in removed:
                    new = self.rename.get(name)
                    raise ValueError(
                        f"`{key}` names {name!r}, which `drop` leaves out"
                        if new is None
                        else f"`{key}` names {name!r}, which `rename` calls {new!r}: name that"
                    )

    @classmethod
    def uri_keys(cls, uri: str) -> dict[str, str]:
        """Return the keys that a path or URI of this destination stands for."""
        raise NotImplementedError

    @classmethod
    def for_source_folder(cls, uri: str, target: DestinationConfig) -> DestinationConfig | None:
        """Return a config to read `uri` with the target's credentials; None for another store.

        The environment has another store's credentials.
        """
        if target.extra != cls.extra:
            return None
        there = cls.model_validate(cls.uri_keys(uri))
        place = {key: getattr(there, key) for key in there.model_fields_set}
        return target.model_copy(update=place)

    def storage(self) -> Storage:
        """Return the storage whose root holds all tables of this target.

        A config without credentials gets those of the user's Spark session.
        """
        raise NotImplementedError

    def with_session_keys(self) -> Self:
        """Return a copy with the store's keys of the user's Spark session, if it is adopted.

        Unchanged if the config names credentials, or another endpoint. The copy is for one use:
        nothing keeps the secrets of a session.
        """
        found = self.for_one_load()._session_values or {}
        copy = self.model_copy(update=found)
        copy._from_session = not self.secret_keys().isdisjoint(found)
        return copy

    def for_one_load(self) -> Self:
        """Return a copy that has read the keys of the user's Spark session, and reads them once."""
        copy = self.model_copy()
        if copy._session_values is None:
            copy._session_values = self._session_keys() if self.engine == "spark" else {}
        return copy

    def _session_keys(self) -> dict[str, Any]:
        """Return the keys of the config for what the user's Spark session says of the store."""
        return {}

    @property
    def jars(self) -> frozenset[str]:
        """Names in `spark.jvm.jars` of the jars that Spark needs; empty if tables are files."""
        return self.delta_jars if self.file_type == "delta" else frozenset()

    @property
    def has_other_writers(self) -> bool:
        """Whether others may commit to a table meanwhile: false with `single_writer`."""
        return not getattr(self, "single_writer", False)

    @classmethod
    def connector_jars(cls) -> frozenset[str]:
        """Return the names of the jars that connect Spark to the store; empty for a folder."""
        return cls.delta_jars - {"delta"}

    @classmethod
    def session_jars(cls) -> frozenset[str]:
        """Return the names of the jars of a session that reads and writes lakes in the store."""
        return cls.delta_jars | {"delta"}

    @property
    def table_pattern(self) -> str | None:
        """Pattern of the tables' folder names, `{stream}` included; None: the stream's name."""
        return self.table

    def table_folder_name(self, table: str) -> str:
        """Return the name of a table's folder, by the table's name."""
        return table

    @classmethod
    def secret_keys(cls) -> frozenset[str]:
        """Return the keys whose values are secrets."""
        return frozenset(
            name
            for name, field in cls.model_fields.items()
            if SecretStr in (field.annotation, *get_args(field.annotation))
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the config, as sentences for the user."""
        return self._warnings

    def with_warnings(self, *sentences: str) -> DestinationConfig:
        """Return a copy of the config with `sentences` added to its warnings, each once."""
        copy = self.model_copy()
        copy._warnings = tuple(dict.fromkeys((*self._warnings, *sentences)))
        return copy

    def secrets(self) -> tuple[str, ...]:
        """Return all secret values of config and session, for masking them in logs and errors."""
        config = self.with_session_keys()
        fields = (getattr(config, name) for name in sorted(self.secret_keys()))
        found = [value.get_secret_value() for value in fields if isinstance(value, SecretStr)]
        found += [value for name, value in self.spark.items() if is_secret_name(name)]
        return tuple(dict.fromkeys(value for value in found if value))

    def __repr_args__(self) -> Any:
        """Yield what repr and str show: the keys that were set, secrets masked."""
        for name in sorted(self.model_fields_set):
            value = getattr(self, name)
            if name == "spark":
                value = {k: MASK if is_secret_name(k) else v for k, v in value.items()}
            yield name, value


def store_keys(model: type[BaseModel]) -> frozenset[str]:
    """Return a config class's keys for connecting to its store: credentials, region, endpoint."""
    return frozenset(model.model_fields.keys() - DestinationConfig.model_fields.keys() - _PLACES)


def canonical_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys under lakeport's names, without nulls and Mage's keys that have no effect.

    Raises:
        ConfigError: a key is given under two names, or `_streams` holds something it can't.

    Example:
        >>> canonical_keys({"format": "csv", "mode": None, "clean_up_input_file": True})
        {'file_type': 'csv'}
    """
    known: dict[str, Any] = {}
    for name, value in fold_streams(values).items():
        if value is None or name in _UNUSED or (value == "" and name in _MAY_BE_EMPTY):
            continue
        key = _ALIASES.get(name, name)
        if key in known:
            other = next(name for name, own in _ALIASES.items() if own == key)
            raise ConfigError(f"`{other}` and `{key}` are the same key", "give one of them.")
        known[key] = value
    return known


def destination_names() -> tuple[str, ...]:
    """Return the names of all destinations."""
    return tuple(_DESTINATIONS)


def destination_for_scheme(scheme: str) -> str:
    """Return the destination of URIs with a scheme, such as `s3`; empty if there is none."""
    return _SCHEMES.get(scheme, "")


def list_schemes() -> str:
    """Return the schemes of all destinations as text for a hint: `abfs://, abfss://, ...`."""
    return ", ".join(sorted(f"{name}://" for name in _SCHEMES))


def user_facing_uri(uri: str) -> str:
    """Return a URI with `s3://` in place of Hadoop's `s3a://`.

    >>> user_facing_uri("s3a://lake/silver")
    's3://lake/silver'
    """
    return f"s3://{uri[6:]}" if uri[:6].lower() == "s3a://" else uri


def delta_destination(destination: str) -> str:
    """Return the destination that writes Delta tables to the same store as `destination`.

    >>> delta_destination("amazon_s3"), delta_destination("local")
    ('delta_lake_s3', 'local')
    """
    return _TABLES.get(destination, destination)


def config_class(destination: str) -> type[DestinationConfig]:
    """Return a destination's config class by the destination's name.

    Raises:
        ConfigError: there is no destination of that name; the error lists those that exist.
    """
    if destination not in _DESTINATIONS:
        raise unknown_name_error("destination", destination, _DESTINATIONS)
    module, _, name = _DESTINATIONS[destination].partition(":")
    found: type[DestinationConfig] = getattr(import_module(module), name)
    return found


def all_keys() -> frozenset[str]:
    """Return the keys of all destinations."""
    return frozenset(key for name in _DESTINATIONS for key in config_class(name).model_fields)


def parse_target_uri(text: str, *, may_be_uri: bool = True) -> dict[str, Any]:
    """Parse a target's path or URI to config keys; without `may_be_uri`, the text is a path.

    Raises:
        ConfigError: no destination has URIs of this scheme.
    """
    match = _SCHEME.match(text) if may_be_uri else None
    scheme = match[1].lower() if match else "file"
    if not destination_for_scheme(scheme):
        raise ConfigError(
            f"no destination takes the target {scheme}:…",
            f"give a folder, or a URI of: {list_schemes()}.",
        )
    name = destination_for_scheme(scheme)
    return {"destination": name, **config_class(name).uri_keys(text)}


def target_hint() -> str:
    """Return the hint for a target that names no destination."""
    names = ", ".join(sorted(_DESTINATIONS))
    return f"give a folder, a URI, a config file, or keys with `destination:` ({names})."
