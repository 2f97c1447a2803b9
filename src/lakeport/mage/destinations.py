"""Mage's destination classes: the same arguments and methods, and `export` for frames.

```
from lakeport.mage import AmazonS3

AmazonS3(config={...}, batch_processing=True).process(sys.stdin.buffer)
AmazonS3(config={...}).export(frame, table="users")
```
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

from lakeport.config.load import for_destination, load_target
from lakeport.config.mage.io_config import ConfigLoader, destination_keys
from lakeport.errors import ConfigError, LakeportError
from lakeport.loading import run
from lakeport.loading.report import Failure, LandingReport
from lakeport.mage import running
from lakeport.mage.flags import Flags, config_template, load_flags_config
from lakeport.mage.observer import LogLines, MageObserver
from lakeport.mage.records import to_arrow_table, to_singer_lines, unwrap_records
from lakeport.mage.running import StreamSchemas, land
from lakeport.model import Mode
from lakeport.writers.naming import table_name

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig


class Destination:
    """Base class of Mage's destination classes; a subclass sets `destination`.

    Args:
        argument_parser: parses the process's command line; its flags win over the arguments.
        batch_processing: without effect: batches are cut by size, never at every record.
        catalog: Singer catalog whose schemas replace the tap's, as `--catalog_json`.
        config: the destination's keys.
        config_file_path: YAML or JSON file with the keys, if `config` is not given.
        debug: log more.
        input_file_path: file of Singer messages for `process`, instead of its argument.
        log_to_stdout: log bare JSON lines on standard output.
        logger: receives the log lines instead.
        settings: a block's content, if neither of the two configs is given.
        settings_file_path: a block's file.
        show_templates: `process` prints the config's keys and lands nothing.
        state_file_path: file to keep the committed STATE in; default: standard output.
        test_connection: `process` tests the connection and lands nothing.
    """

    destination: ClassVar[str]

    def __init__(
        self,
        argument_parser: argparse.ArgumentParser | None = None,
        batch_processing: bool = False,
        catalog: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        config_file_path: str | os.PathLike[str] | None = None,
        debug: bool = False,
        input_file_path: str | os.PathLike[str] | None = None,
        log_to_stdout: bool = False,
        logger: logging.Logger | None = None,
        settings: Mapping[str, Any] | None = None,
        settings_file_path: str | os.PathLike[str] | None = None,
        show_templates: bool = False,
        state_file_path: str | os.PathLike[str] | None = None,
        test_connection: bool = False,
    ) -> None:
        flags = Flags() if argument_parser is None else Flags.parse(argument_parser)
        self._values = None
        if not (flags.config_json or flags.config or flags.settings):
            self._values = config or (None if config_file_path else settings)
        self._catalog = catalog
        self._flags = replace(
            flags,
            config=flags.config or _path(config_file_path),
            settings=flags.settings or _path(settings_file_path),
            state=flags.state or _path(state_file_path),
            input_file_path=flags.input_file_path or _path(input_file_path),
            log_to_stdout=flags.log_to_stdout or log_to_stdout,
            show_templates=flags.show_templates or show_templates,
            test_connection=flags.test_connection or test_connection,
            debug=flags.debug or debug,
        )
        self.batch_processing = batch_processing
        self.logger = logger
        self._schemas = StreamSchemas()
        self._overwritten: set[str] = set()

    @classmethod
    def with_config(cls, loader: ConfigLoader, **config: Any) -> Self:
        """Create a destination with credentials from a profile of `io_config.yaml`.

        Args:
            loader: a `ConfigFileLoader`, lakeport's or Mage's.
            config: other keys, which win over the profile's.
        """
        return cls(config={**destination_keys(loader, cls.destination), **config})

    @cached_property
    def config(self) -> DestinationConfig:
        """The validated config; `schema_evolution` is loose by default unless for Delta.

        Raises:
            ConfigError: it names what is wrong, or that there is no config.
        """
        more = {} if self._catalog is None else {"catalog": self._catalog}
        if self._values is not None:
            found = load_target(for_destination(self.destination, self._values), more)
        else:
            found = load_flags_config(self.destination, self._flags, more)
        if found.file_type == "delta" or "schema_evolution" in found.model_fields_set:
            return found
        # Existing pipelines with files of several types go on, with a warning.
        return found.model_copy(update={"schema_evolution": "loose"})

    @cached_property
    def _observer(self) -> MageObserver:
        """Observer that writes Mage's log lines to the logger, or to stdout or stderr."""
        bare, debug = self._flags.log_to_stdout, self._flags.debug
        binary = getattr(
            sys.stdout if bare else sys.stderr, "buffer", None
        )  # a notebook's has none
        out = self.logger or binary or logging.getLogger("lakeport.mage")
        return MageObserver(LogLines(type(self).__name__, out, bare=bare, debug=debug))

    def test_connection(self) -> bool:
        """Test the connection; return True, or raise an error that says what fails.

        Returns:
            True.

        Raises:
            DestinationError: it names everything that would make a load fail, and what to change.
            ConfigError: the config is wrong.
        """
        self._observer.lines.protect(self.config.secrets())
        running.test_connection(self.config, self._observer.lines)
        return True

    def process(self, input_buffer: BinaryIO | Any) -> LandingReport | None:
        """Land the Singer messages of a binary stream; return the report, None for a test.

        Args:
            input_buffer: the stream, such as `sys.stdin.buffer`.

        Returns:
            The load's report; None with `test_connection` or `show_templates`.

        Raises:
            LakeportError: the load failed; the error was logged for Mage's orchestrator.
        """
        observer = self._observer
        try:
            if self._flags.test_connection:
                self.test_connection()
                return None
            if self._flags.show_templates:
                json.dump(config_template(self.destination), sys.stdout)
                return None
            observer.lines.protect(self.config.secrets())
            source = self._schemas.record_from(_binary_stream(input_buffer))
            with observer.lines.redirect_library_log():
                return land(self.config, self._flags, observer, source)
        except LakeportError as error:
            self._log_failure(error)
            raise

    def process_schema(
        self,
        stream: str,
        schema: Mapping[str, Any],
        row: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        """Set a stream's JSON schema for later calls of `export_batch_data`.

        Args:
            stream: the stream's name.
            schema: its JSON schema.
            row: the SCHEMA message, for `key_properties` and `partition_keys`.
            tags: without effect.
        """
        self._schemas.declare(stream, schema, row or {})

    def export_batch_data(
        self,
        record_data: Sequence[Mapping[str, Any]],
        stream: str,
        tags: Mapping[str, Any] | None = None,
    ) -> LandingReport | None:
        """Land records of one stream; return the report, or None if there are no records.

        With a schema, from the catalog, `process`, `process_schema` or a record, they are checked
        as Singer records. Without one, types are inferred from all values: whole numbers become
        INT64, numbers DOUBLE, `Decimal` DECIMAL, lists and mappings LIST and STRUCT; dates and
        times keep their type; values without a common type become JSON text.

        Args:
            record_data: `{"record": {...}}` as Mage passes them, or the records themselves.
            stream: the stream's name.
            tags: tags of the log line.

        Raises:
            LakeportError: the load failed; the records were not landed.
        """
        records = unwrap_records(record_data, stream, self._schemas)
        if not records:
            return None
        schema = self._schemas.get(stream)
        declared = schema is not None or stream in self.config.catalog
        lines = to_singer_lines(records, stream, schema) if declared else None
        return self._land(
            to_arrow_table(records) if lines is None else io.BytesIO(lines),
            stream,
            tags or {},
            source_format="" if lines is None else "singer",
        )

    def export(self, df: Any, table: str | None = None, **keys: Any) -> LandingReport:
        """Land a data frame in a table; return the load's report.

        Args:
            df: a pandas, Spark, Polars or Arrow frame, or another source of `lakeport.land`.
            table: the table's name; default: the config's.
            keys: config keys for this export, such as `mode` or `partition_keys`.

        Raises:
            LakeportError: the load failed.
        """
        self._observer.lines.protect(self.config.secrets())
        try:
            if table is not None:
                keys["table"] = table
            return run.land(df, self.config, observer=self._observer, **keys)
        except LakeportError as error:
            self._log_failure(error)
            raise

    def _land(
        self, source: Any, stream: str, tags: Mapping[str, Any], *, source_format: str
    ) -> LandingReport:
        """Land one stream's records, and log it; with mode overwrite, later batches append."""
        keys: dict[str, Any] = {} if source_format or self.config.table else {"table": stream}
        table = table_name(self.config.table_pattern, stream)
        if self.config.mode is Mode.OVERWRITE and table in self._overwritten:
            keys["mode"] = self._next_mode(stream)
        self._observer.lines.protect(self.config.secrets())
        self._observer.lines.log("INFO", "Export data started.", {**tags, "stream": stream})
        report = self.export(source, source_format=source_format, **keys)
        self._overwritten.add(table)
        return report

    def _next_mode(self, stream: str) -> str:
        """Return "append", or raise ConfigError if the overwritten table has partitions."""
        schema = self.config.catalog.get(stream) or self._schemas.get(stream)
        if self.config.partition_keys or (schema is not None and schema.partition_keys):
            raise ConfigError(
                f"records of {stream!r} come a second time, and `mode: overwrite` replaces the "
                "partitions that they are in once a run",
                "hand all records over in one call, or use `process`.",
            )
        return "append"

    def _log_failure(self, error: LakeportError) -> None:
        """Log an error, with its traceback in debug mode."""
        trace = traceback.format_exc() if self._flags.debug else ""
        self._observer.failure(Failure.of(error), trace)


class AmazonS3(Destination):
    """Destination for Parquet or CSV files in an S3 bucket."""

    destination = "amazon_s3"


class GoogleCloudStorage(Destination):
    """Destination for Parquet or CSV files in a bucket of Google Cloud Storage."""

    destination = "google_cloud_storage"


class DeltaLakeS3(Destination):
    """Destination for Delta tables in an S3 bucket."""

    destination = "delta_lake_s3"


class DeltaLakeAzure(Destination):
    """Destination for a Delta table in an Azure container."""

    destination = "delta_lake_azure"


def _path(path: str | os.PathLike[str] | None) -> str | None:
    """Return a path as text; None for None."""
    return None if path is None else os.fspath(path)


def _binary_stream(stream: Any) -> BinaryIO:
    """Return the binary stream below a text stream; return a binary stream unchanged."""
    if isinstance(stream, io.StringIO):
        return io.BytesIO(stream.getvalue().encode())
    binary: BinaryIO = getattr(stream, "buffer", stream)
    return binary
