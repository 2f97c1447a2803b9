"""The target tests of Meltano's SDK, run through its public classes against `target-lakeport`.

Each scenario is a file of the SDK's; what landed is compared with what the file says, read by
delta-rs or pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from singer_sdk.exceptions import MissingKeyPropertiesError, RecordsWithoutSchemaException
from singer_sdk.testing import get_target_test_class
from singer_sdk.testing.suites import SingerTestSuite, target_tests
from singer_sdk.testing.templates import TargetFileTestTemplate

from lakeport.cli.app import run
from lakeport.cli.singer import NAME, app

_TYPES = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}


class TargetLakeport:
    """What the SDK's runner needs of a target: hands everything to the real command."""

    def __init__(self, *, config: dict[str, Any], **_: Any) -> None:
        self._folder = Path(config["path"]).with_name("input")
        self._folder.mkdir(exist_ok=True)
        self._config = self._folder / "config.json"
        self._config.write_text(json.dumps(config))
        self._lines = self._folder / "lines.singer"
        self._errors = self._folder / "errors.txt"

    def process_lines(self, lines: Any) -> None:
        with lines:  # the SDK's runner leaves it open
            self._lines.write_text(lines.read(), encoding="utf-8")

    def process_endofpipe(self) -> None:
        import sys

        errors, sys.stderr = sys.stderr, self._errors.open("w+")
        try:
            code = run(app, NAME, ["--config", str(self._config), "--input", str(self._lines)])
        finally:
            said, sys.stderr = sys.stderr, errors
            said.close()
        if code:
            raise self._error(self._errors.read_text())

    def print_version(self) -> None:
        assert run(app, NAME, ["--version"]) == 0

    def print_about(self, output_format: str = "text") -> None:
        assert run(app, NAME, ["--about", "--format", output_format]) == 0

    @staticmethod
    def _error(text: str) -> Exception:
        """The error under the name that the SDK's tests know it by."""
        assert "\nHint: " in text
        if "a record before its stream's SCHEMA" in text:
            return RecordsWithoutSchemaException(text)
        if "'id': missing required field" in text:
            return MissingKeyPropertiesError(text)
        return RuntimeError(text)


def messages(path: Any, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [message for message in found if message["type"] == kind]


def landed(lake: Path, file_type: str) -> list[pa.Table]:
    """Every table of the lake, in the order of their names, without the internal columns."""
    tables = []
    for folder in sorted(lake.iterdir() if lake.exists() else ()):
        if folder.name == "_lakeport":
            continue
        if file_type == "delta":
            table = pa.table(DeltaTable(str(folder)).to_pyarrow_table())
        else:
            parts = [pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))]
            table = pa.concat_tables(parts, promote_options="default")
        tables.append(table.drop_columns(["_mage_created_at", "_mage_updated_at"]))
    return tables


def bare(value: Any) -> Any:
    """A value without nulls, which stand for what a record left out."""
    if isinstance(value, dict):
        return {name: bare(item) for name, item in value.items() if item is not None}
    return [bare(item) for item in value] if isinstance(value, list) else value


def check_rows(template: Any, expected: list[dict[str, Any]]) -> None:
    """Compare the lake with RECORD messages: every stream, row, value and simple type."""
    schemas: dict[str, dict[str, Any]] = {}
    for message in messages(template.singer_filepath, "SCHEMA"):
        schemas.setdefault(message["stream"], {}).update(message["schema"].get("properties", {}))
    file_type = template.runner.config["file_type"]
    declared_alone = schemas if file_type == "delta" else {}  # a SCHEMA alone makes an empty table
    streams = sorted({*declared_alone, *(message["stream"] for message in expected)})
    tables = landed(template.resource, file_type)
    assert len(tables) == len(streams)
    for stream, table in zip(streams, tables, strict=True):
        properties = schemas[stream]
        assert set(table.column_names) == set(properties)
        for name, declared in properties.items():
            simple = _TYPES.get(str(declared.get("type")))
            assert simple in (None, table.schema.field(name).type)
        texts = [
            n for n, p in properties.items() if p.get("type") == "object" and "properties" not in p
        ]
        rows = [
            {n: json.loads(v) if n in texts else v for n, v in row.items() if v is not None}
            for row in table.to_pylist()
        ]
        sent = [message["record"] for message in expected if message["stream"] == stream]
        assert sorted(map(repr, map(_sorted, rows))) == sorted(map(repr, map(_sorted, sent)))


def _sorted(value: Any) -> Any:
    """A value whose text tells it from others, whatever the order of its keys and its zeros."""
    value = bare(value)
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return float(value) if type(value) is int else value


class Landed:
    """Adds the check that every record of the file has landed, and its last STATE went out."""

    def validate(self: Any) -> None:
        check_rows(self, messages(self.singer_filepath, "RECORD"))
        states = [message["value"] for message in messages(self.singer_filepath, "STATE")]
        assert self.runner.state_messages[-1:] == states[-1:]


class Refused:
    """Adds the check that nothing has landed and no STATE went out."""

    def validate(self: Any) -> None:
        assert landed(self.resource, self.runner.config["file_type"]) == []
        assert self.runner.state_messages == []


class Told:
    """For what only prints."""

    def validate(self: Any) -> None:
        assert not self.resource.exists()


class NoPrimaryKeysAppend(TargetFileTestTemplate):
    name = "no_primary_keys_append"


class UserLocations(TargetFileTestTemplate):
    name = "user_location_data"


class UserLocationsAgain(TargetFileTestTemplate):
    name = "user_location_upsert_data"


class MultipleStates(TargetFileTestTemplate):
    name = "multiple_state_messages"


class MissingRequired(TargetFileTestTemplate):
    name = "record_missing_required_property"

    def test(self) -> None:
        with pytest.raises(MissingKeyPropertiesError):
            super().test()


REFUSED = {"invalid_schema", "record_before_schema", "record_missing_key_property"} | {
    MissingRequired.name
}
MORE = [NoPrimaryKeysAppend, UserLocations, UserLocationsAgain, MultipleStates, MissingRequired]


class Upserted(TargetFileTestTemplate):
    """Lands a first file, then the test's own: the last record of each key counts."""

    first = ""

    def setup(self) -> None:
        self.files = [self.singer_filepath]
        if self.first:
            self.files.insert(0, self.singer_filepath.with_name(f"{self.first}.singer"))
            self.runner.target_input = self.files[0].open(encoding="utf-8")
            self.runner.sync_all()
            self.runner.target_input = self.singer_filepath.open(encoding="utf-8")

    def validate(self) -> None:
        sent = [message for file in self.files for message in messages(file, "RECORD")]
        check_rows(self, list({(m["stream"], m["record"]["id"]): m for m in sent}.values()))


class DuplicateKeys(Upserted):
    name = "duplicate_records"


class NewValues(Upserted):
    name = "user_location_upsert_data"
    first = "user_location_data"


def checked(template: Any) -> Any:
    """An SDK's test with a look at the lake behind it."""
    check = Refused if template.name in REFUSED else Landed
    if template.name == "cli_prints":
        check = Told
    return type(template.__name__, (check, template), {})


def suite(config: dict[str, Any], templates: list[Any]) -> Any:
    """A test class of the SDK's for one config."""
    tests = SingerTestSuite(kind="target", tests=templates)
    made = get_target_test_class(
        TargetLakeport, config=config, custom_suites=[tests], include_target_tests=False
    )

    def resource(self: Any, tmp_path: Path) -> Iterator[Path]:
        config["path"] = str(tmp_path / "lake")
        yield tmp_path / "lake"

    made.resource = pytest.fixture(resource)
    return made


LOCAL = {"destination": "local", "file_type": "delta"}
EVERY = [checked(template) for template in (*target_tests.tests, *MORE)]
TestDelta = suite({**LOCAL}, EVERY)
TestParquet = suite({**LOCAL, "file_type": "parquet", "batch_size_rows": 5}, EVERY)
TestUpsert = suite({**LOCAL, "load_method": "upsert"}, [DuplicateKeys, NewValues])


def test_every_scenario_of_the_sdk_is_run() -> None:
    from singer_sdk.testing import target_test_streams

    folder = Path(str(target_test_streams.__file__)).parent
    scenarios = {path.stem for path in folder.glob("*.singer")}
    run_here = {name.removeprefix("test_target_") for name in vars(TestDelta) if "target" in name}
    assert run_here == scenarios | {"cli_prints"}
