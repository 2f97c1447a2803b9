"""The keys that every destination understands, with their values and defaults.

A key can be given in a config file, as an option (`--set key=value`), as an argument of
`lakeport.land`, or in the environment as `LAKEPORT_` and the key in capitals. A key set to null is
absent. Sizes are in MiB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

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

from lakeport.config.explain import explain, unknown_name_error
from lakeport.config.keys import (
    DeleteCondition,
    FileType,
    check_columns,
    limit,
    mode_named,
    names,
    printable,
    public,
    seconds,
    texts_by_name,
)
from lakeport.config.mage.io_config import catalog_warnings, fold_streams, parse_catalog
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
"""Mage's and Meltano's names of keys -> lakeport's own, of those that it has."""

_PLACES = frozenset({"bucket", "table_uri", "path"})

Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
Settings = Annotated[Mapping[str, str], BeforeValidator(texts_by_name)]

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


def _smallest(values: dict[str, Any]) -> float:
    return min(32.0, float(values.get("target_file_size_mb", 32.0)))


def _condition(text: str) -> str:
    DeleteCondition.parse(text)
    return text


def _switched(value: object) -> object:
    return "off" if value is False else value  # as YAML reads a bare `off`


class DestinationConfig(BaseModel):
    """Base of every destination's config: immutable, complete, and without surprises.

    Raises:
        ConfigError: naming every key that is wrong, what is wrong with it, and the nearest valid
            key or value.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, coerce_numbers_to_str=True
    )
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    extra: ClassVar[str] = ""
    """The pip extra that brings the store's SDK; empty for none."""
    delta_jars: ClassVar[frozenset[str]] = frozenset()
    """Names in `spark.jvm.jars` of what Spark needs for a Delta table there; empty for none."""

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
    mode: Annotated[Mode, BeforeValidator(mode_named)] = Field(
        default=Mode.APPEND, description="What happens to rows already there."
    )
    partition_keys: Annotated[tuple[str, ...], BeforeValidator(names)] = Field(
        default=(), description="Columns to partition by."
    )
    partition_columns: Annotated[Literal["auto", "off"], BeforeValidator(_switched)] = Field(
        default="auto",
        description="Whether folders `name=value` of a source's files are columns.",
    )
    columns: Settings = Field(
        default_factory=dict,
        description="Types of columns by name, such as `decimal(10,2)`; the others are inferred.",
    )
    rename: Settings = Field(
        default_factory=dict,
        description="Other names for columns, by which keys and partitions call them.",
    )
    drop: Annotated[tuple[str, ...], BeforeValidator(names)] = Field(
        default=(), description="Columns of the source to leave out."
    )
    constant_columns: Settings = Field(
        default_factory=dict,
        description="Columns of text that have one value in every row, in place of what the "
        "records say.",
    )
    catalog: Annotated[Mapping[str, Any], BeforeValidator(parse_catalog)] = Field(
        default_factory=dict,
        description='Streams whose Singer schema is this one, not the tap\'s: {"streams": […]}.',
    )
    merge_keys: Annotated[tuple[str, ...], BeforeValidator(names)] = Field(
        default=(),
        description="Columns that identify a row in `mode: merge`; default: the stream's keys.",
    )
    hard_delete: bool = Field(
        default=False,
        description="Remove rows that are marked as deleted, instead of keeping them marked.",
    )
    delete_column: Text | None = Field(
        default=None,
        description="Column that marks a record as deleted; default: `_sdc_deleted_at`. Needs "
        "`hard_delete: true`.",
    )
    delete_when: Annotated[Text, AfterValidator(_condition)] | None = Field(
        default=None,
        description="Condition on a column that says which records are deletes: `Op = 'D'`, "
        "`Op IN ('D', 'X')` or `Op IS NOT NULL`. Needs `hard_delete: true`.",
    )
    schema_evolution: Literal["evolve", "strict", "loose"] = Field(
        default="evolve",
        description="Whether a table may gain columns; `loose`: a load's Parquet files may have "
        "other types than those before, too.",
    )
    type_widening: bool = Field(
        default=False,
        description="Let Delta columns get wider types; delta-rs and Athena, among others, can't "
        "read such tables yet.",
    )
    unknown_fields: UnknownPolicy = Field(
        default=UnknownPolicy.EVOLVE,
        description="What to do with fields that the schema does not declare.",
    )
    on_bad_record: Literal["fail", "quarantine"] = Field(
        default="fail", description="What to do with records that break the schema."
    )
    max_bad_records: Annotated[int | float | None, BeforeValidator(limit)] = Field(
        default=None,
        description="More bad records than this fail the run: a count (10) or a share (0.01, 1%).",
    )
    internal_columns: bool = Field(default=True, description="Add the two internal columns.")
    internal_columns_prefix: Text = Field(
        default="_mage_", description="Start of the internal columns' names."
    )
    add_record_metadata: bool = Field(
        default=False, description="Add the columns `_sdc_*` to the records of Singer streams."
    )
    process_activate_version_messages: bool = Field(
        default=True,
        description="Retire the rows of a stream's earlier versions when a message says so.",
    )
    column_header_format: Literal["lower", "upper"] | None = Field(
        default=None, description="Change the case of column names."
    )
    date_partition_format: Text | None = Field(
        default=None, description="strftime pattern of folders between table and file (UTC)."
    )
    compression: Literal["snappy", "zstd", "gzip", "none"] = Field(
        default="snappy", description="Compression of the data files."
    )
    maximum_batch_size_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=MAXIMUM_BATCH_SIZE_MB,
        description="Input size at which all streams are landed together; 0: every record.",
    )
    maximum_batch_rows: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Rows at which all streams are landed together; null: no limit."
    )
    target_file_size_mb: Size = Field(default=256.0, description="A data file's largest size.")
    min_file_size_mb: Size = Field(
        default_factory=_smallest,
        description="Size below which a batch is not split; default 32, at most the target's.",
    )
    max_columns: Annotated[int, Field(ge=1)] = Field(
        default=5000,
        description="Most columns of a table, members of objects counted: keys that are data "
        "would each become one.",
    )
    max_record_mb: Size = Field(default=100.0, description="A record's largest size.")
    max_unpack_ratio: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=500.0,
        description="Bytes that one compressed byte of a source may become, where the whole is "
        "larger than 1 GiB; 0: any number.",
    )
    max_unpacked_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=1048576.0,
        description="What one compressed file of a source may unpack to; 0: any size.",
    )
    once: bool = Field(
        default=False,
        description="Leave out files whose content was appended to the Delta table before.",
    )
    run_id: Annotated[Text, Field(max_length=200), AfterValidator(printable)] | None = Field(
        default=None, description="Name of the run: the same run repeated adds nothing twice."
    )
    give_up_after: Annotated[float, BeforeValidator(seconds), Field(ge=1, allow_inf_nan=False)] = (
        Field(
            default=GIVE_UP_SECONDS,
            description="How long to ask a store that fails or is silent, in seconds or as a text "
            "such as `2m`; a load that gets nowhere for so long ends.",
        )
    )
    spool_dir: Text | None = Field(
        default=None, description="Local folder for the spool; default: the system's for temps."
    )
    batch_roots: Annotated[tuple[str, ...], BeforeValidator(names)] = Field(
        default=(),
        description="Folders in which the files of Singer's BATCH messages may lie; default: the "
        "system's for temps and, unless it is `/`, the current one.",
    )
    table_roots: Annotated[tuple[str, ...], BeforeValidator(names)] = Field(
        default=(),
        description="Prefixes in which files of Delta tables may lie beside the tables' own "
        "folders, such as those of shallow clones; `s3://lake/base/`.",
    )
    spool_uri: Text | None = Field(
        default=None,
        description="Where a cluster's tasks find the spool: a store's prefix or a shared folder.",
    )
    manifest: bool = Field(
        default=True,
        description="Write a manifest for each load of files, and a report for each run.",
    )
    spark: Settings = Field(default_factory=dict, description="Settings of Spark.")
    engine: Literal["spark", "threads"] = Field(
        default="spark",
        description="What runs the tasks: Spark, or threads of this process, without Java and "
        "without what only Spark can do.",
    )
    warm: Annotated[Literal["auto", "off", "require"], BeforeValidator(_switched)] = Field(
        default="auto",
        description="Whether to use the Spark of a warm session (`lakeport warm`) where one runs.",
    )
    table_properties: Annotated[Settings, AfterValidator(public)] = Field(
        default_factory=dict,
        description="Properties of the Delta table, a new one or one that is there.",
    )
    cluster_by: Annotated[tuple[str, ...], BeforeValidator(names), Field(max_length=4)] = Field(
        default=(),
        description="Columns, 4 at most, by which a new Delta table is clustered (liquid "
        "clustering), instead of partitions.",
    )
    auto_optimize: bool = Field(
        default=False,
        description="After a run, merge small files of a Delta table's partitions that it wrote "
        "to, where 20 or more have piled up.",
    )

    def __init__(self, **values: Any) -> None:
        known = canonical(values)
        try:
            super().__init__(**known)
        except ValidationError as error:
            problem = explain(error, type(self))
        else:
            self._warnings = catalog_warnings(self.catalog)
            return
        raise problem  # outside the handler: the foreign error holds the values as they came

    @model_validator(mode="after")
    def _fits_together(self) -> DestinationConfig:
        check_columns(self)
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

    @classmethod
    def uri_keys(cls, uri: str) -> dict[str, str]:
        """The keys that a target given as one text stands for, such as a folder's path."""
        raise NotImplementedError

    @classmethod
    def for_source_folder(cls, uri: str, target: DestinationConfig) -> DestinationConfig | None:
        """The config by which a source's folder is reached without asking the environment.

        Args:
            uri: the folder, in a store of this destination's kind.
            target: what the load lands in; its credentials are taken in a store of the same kind.

        Returns:
            None where the environment's keys are to be asked.
        """
        if target.extra != cls.extra:
            return None
        there = cls.model_validate(cls.uri_keys(uri))
        place = {key: getattr(there, key) for key in there.model_fields_set}
        return target.model_copy(update=place)

    def storage(self) -> Storage:
        """The place that the target names: everything of it lies below that storage's root."""
        raise NotImplementedError

    @property
    def jars(self) -> frozenset[str]:
        """Names in `spark.jvm.jars` of what Spark needs for the tables; none for files."""
        return self.delta_jars if self.file_type == "delta" else frozenset()

    @classmethod
    def connector_jars(cls) -> frozenset[str]:
        """Those of the jars by which Spark reaches the store; none for a folder."""
        return cls.delta_jars - {"delta"}

    @property
    def table_pattern(self) -> str | None:
        """What names the tables' folders; None for the streams' names."""
        return self.table

    def table_folder_name(self, table: str) -> str:
        """The folder of a table of that name."""
        return table

    @classmethod
    def secret_keys(cls) -> frozenset[str]:
        """Keys whose values are secrets."""
        return frozenset(
            name
            for name, field in cls.model_fields.items()
            if SecretStr in (field.annotation, *get_args(field.annotation))
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the user about how the config was given."""
        return self._warnings

    def with_warnings(self, *sentences: str) -> DestinationConfig:
        """The same config with these warnings behind its own."""
        copy = self.model_copy()
        copy._warnings = tuple(dict.fromkeys((*self._warnings, *sentences)))
        return copy

    def secrets(self) -> tuple[str, ...]:
        """Every secret of the config, to remove from text that others wrote (see `scrub`)."""
        fields = (getattr(self, name) for name in sorted(self.secret_keys()))
        found = [value.get_secret_value() for value in fields if isinstance(value, SecretStr)]
        found += [value for name, value in self.spark.items() if is_secret_name(name)]
        return tuple(dict.fromkeys(value for value in found if value))

    def __repr_args__(self) -> Any:
        """What repr and str show: the keys that were set, secrets masked."""
        for name in sorted(self.model_fields_set):
            value = getattr(self, name)
            if name == "spark":
                value = {k: MASK if is_secret_name(k) else v for k, v in value.items()}
            yield name, value


def store_keys(kind: type[BaseModel]) -> frozenset[str]:
    """Return the keys of a config that say how its store is reached, not where its tables are."""
    return frozenset(kind.model_fields.keys() - DestinationConfig.model_fields.keys() - _PLACES)


def canonical(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys under their own names, without nulls and without Mage's keys that have no use here.

    Raises:
        ConfigError: a key is given under two names, or `_streams` holds what it can't.

    Example:
        >>> canonical({"format": "csv", "mode": None, "clean_up_input_file": True})
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


def destinations() -> tuple[str, ...]:
    """Names of the destinations that a config can be for."""
    return tuple(_DESTINATIONS)


def destination_for_scheme(scheme: str) -> str:
    """The destination that a target of that scheme is for; empty if there is none."""
    return _SCHEMES.get(scheme, "")


def list_schemes() -> str:
    """The schemes that some destination takes, for a hint."""
    return ", ".join(sorted(f"{name}://" for name in _SCHEMES))


def user_facing_uri(uri: str) -> str:
    """A URI that may be Spark's name of a place, as users name it.

    >>> user_facing_uri("s3a://lake/silver")
    's3://lake/silver'
    """
    return f"s3://{uri[6:]}" if uri[:6].lower() == "s3a://" else uri


def delta_destination(destination: str) -> str:
    """The destination whose Delta tables lie in the same store; itself if there is no other.

    >>> delta_destination("amazon_s3"), delta_destination("local")
    ('delta_lake_s3', 'local')
    """
    return _TABLES.get(destination, destination)


def config_class(destination: str) -> type[DestinationConfig]:
    """The config class of a destination.

    Raises:
        ConfigError: there is no destination of that name; the error lists those that exist.
    """
    if destination not in _DESTINATIONS:
        raise unknown_name_error("destination", destination, _DESTINATIONS)
    module, _, name = _DESTINATIONS[destination].partition(":")
    found: type[DestinationConfig] = getattr(import_module(module), name)
    return found


def all_keys() -> frozenset[str]:
    """The keys of all destinations."""
    return frozenset(key for name in _DESTINATIONS for key in config_class(name).model_fields)


def parse_target_uri(text: str, *, may_be_uri: bool = True) -> dict[str, Any]:
    """The keys that a folder's path or a URI stands for, `destination` among them.

    Raises:
        ConfigError: no destination takes such a URI.
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
    """The hint for a target that names no destination."""
    names = ", ".join(sorted(_DESTINATIONS))
    return f"give a folder, a URI, a config file, or keys with `destination:` ({names})."
