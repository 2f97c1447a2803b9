"""The keys of a config as arguments of `lakeport.land` and its kin, with types for editors.

The config classes say what the keys mean, and check the values; a test holds this list against
them. A key that is None is absent. Which keys go together depends on the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, TypedDict

Target = str | PathLike[str] | Mapping[str, Any]
"""A folder, a URI, a YAML or JSON config file, or the keys of a config."""

FileType = Literal["delta", "parquet", "csv"]
Names = str | list[str] | tuple[str, ...]
"""Names in a list, or in a text with commas between them."""
Settings = Mapping[str, str | float]
"""Names and their values: texts, numbers, true or false."""


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
