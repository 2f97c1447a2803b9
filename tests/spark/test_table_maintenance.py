"""`Table` on a local folder, on S3 and on Azure: a table's life, read by delta-rs beside it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable

import lakeport
from lakeport.cli.app import main
from lakeport.errors import (
    CommitConflict,
    ConfigError,
    LakeportError,
    SourceError,
    Unreachable,
)
from lakeport.storage.local import LocalStorage
from tests.emulators import Azurite, Minio

_numbers = count()


@dataclass(frozen=True)
class Lake:
    """One destination: its config, how a table there is named, how delta-rs opens it."""

    keys: dict[str, Any]
    uri: str
    elsewhere: str
    options: dict[str, str] = field(default_factory=dict)
    plain: str = ""

    def config(self, table: str) -> dict[str, Any]:
        if "table_uri" in self.keys:
            return {**self.keys, "table_uri": f"{self.uri}/{table}"}
        return self.keys

    def land(self, source: Any, table: str = "t", **keys: Any) -> lakeport.LandingReport:
        return lakeport.land(source, self.config(table), table=table, **keys)

    def open(self, table: str = "t") -> lakeport.Table:
        return lakeport.Table(f"{self.uri}/{table}", self.config(table))

    def delta(self, table: str = "t") -> DeltaTable:
        return DeltaTable(f"{self.plain or self.uri}/{table}", storage_options=self.options or None)

    def ids(self, table: str = "t") -> list[int]:
        return sorted(self.delta(table).to_pyarrow_table().column("id").to_pylist())


def _local(_: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    root = str(tmp_path / "la ke")
    return Lake({"destination": "local", "path": root}, root, "s3://bucket/t")


def _s3(request: pytest.FixtureRequest, _: Path) -> Lake:
    minio: Minio = request.getfixturevalue("minio")
    bucket = f"tables-{next(_numbers)}"
    minio.create_bucket(bucket)
    keys = {
        "destination": "delta_lake_s3",
        "bucket": bucket,
        "object_key_path": "silver",
        **minio.config,
    }
    options = minio.delta_options
    return Lake(keys, f"s3://{bucket}/silver", "gs://bucket/t", options)


def _azure(request: pytest.FixtureRequest, _: Path) -> Lake:
    azurite: Azurite = request.getfixturevalue("azurite")
    container = f"tables-{next(_numbers)}"
    azurite.create_container(container)
    uri = azurite.uri(container, "silver")
    keys = {
        "destination": "delta_lake_azure",
        "table_uri": f"{uri}/{{stream}}",
        **azurite.config,
    }
    options = azurite.delta_options
    return Lake(keys, uri, "s3://bucket/t", options, f"az://{container}/silver")


PLACES: dict[str, Callable[[pytest.FixtureRequest, Path], Lake]] = {
    "local": _local,
    "s3": _s3,
    "azure": _azure,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Everywhere with `--soak`, else on S3; `test_tables.py` has one on the disk at any time."""
    if "lake" in metafunc.fixturenames:
        places = PLACES if metafunc.config.getoption("soak") else ("s3",)
        metafunc.parametrize("lake", places, indirect=True)


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path, driver: Any) -> Lake:
    return PLACES[request.param](request, tmp_path)


def rows(*ids: int, **more: Any) -> pa.Table:
    columns = {name: [value] * len(ids) for name, value in more.items()}
    return pa.table({"id": list(ids), "p": [f"it's {n % 2}" for n in ids], **columns})


@pytest.mark.parametrize("told", [Unreachable, CommitConflict])
def test_what_keeps_a_table_in_order_is_found_when_its_answer_is_lost(
    tmp_path: Path, driver: Any, monkeypatch: pytest.MonkeyPatch, told: type[LakeportError]
) -> None:
    from lakeport.engine.spark.delta.session import DeltaSession

    for number in (1, 2):
        lakeport.land(rows(number), tmp_path, table="t", run_id=f"r{number}")
    table = lakeport.Table(tmp_path / "t")

    def losing(call: Callable[..., Any]) -> Callable[..., Any]:
        def lost(*arguments: Any, **named: Any) -> Any:
            call(*arguments, **named)
            raise told("no answer")

        return lost

    with monkeypatch.context() as patch:
        patch.setattr(DeltaSession, "optimize", losing(DeltaSession.optimize))
        done = table.optimize()
    assert (done.files_removed, done.files_added, done.version) == (2, 1, 2)
    assert 0 < done.bytes_added < done.bytes_removed
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put", losing(LocalStorage.put))
        undone = table.undo("r2")
        assert (undone.version, undone.restored, undone.undone) == (3, 0, (1,))
        assert table.restore(2).version == 4
    assert DeltaTable(str(tmp_path / "t")).version() == 4
    assert sorted(DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["id"].to_pylist()) == [1, 2]


def test_content_whose_run_is_undone_may_come_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"id\n{ord(name)}\n")
    to = str(tmp_path / "lake")
    lakeport.land(str(tmp_path / "a.csv"), to, table="t")
    lakeport.land(str(tmp_path / "b.csv"), to, table="t", run_id="r2")
    table = lakeport.Table(f"{to}/t")
    table.undo("r2")
    assert lakeport.land(str(tmp_path / "a.csv"), to, table="t", once=True).rows == 0
    assert lakeport.land(str(tmp_path / "b.csv"), to, table="t", once=True).rows == 1
    table.restore(0)
    assert lakeport.land(str(tmp_path / "b.csv"), to, table="t", once=True).rows == 1
    assert DeltaTable(f"{to}/t").to_pyarrow_table()["id"].sort().to_pylist() == [97, 98]


def test_a_table_is_looked_at_undone_and_kept_in_order(
    lake: Lake, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    lake.land(rows(1, 2), partition_keys=["p"], run_id="a")
    nameless = lake.land(rows(3), partition_keys=["p"])
    lake.land(rows(4, more=1.5), run_id="b")
    table = lake.open()

    facts = table.describe()
    assert (facts.version, facts.oldest_version, facts.rows, facts.files) == (
        2,
        0,
        4,
        4,
    )
    assert (facts.partitions, facts.last_run) == (2, "b")
    assert facts.not_readable_by == {}
    assert [e.run_id for e in table.history()] == ["b", nameless.run_id, "a"]
    assert table.preview(2, version=0).num_rows == 2
    assert table.query("select max(id) m from t", version=1).to_pylist() == [{"m": 3}]

    with pytest.raises(CommitConflict, match=r"run 'a' can't.* version 2 \(WRITE by run b\)"):
        table.undo("a")
    with pytest.raises(SourceError, match="no commit of a run 'c'") as absent:
        table.undo("c")
    assert f"b, {nameless.run_id}, a" in absent.value.hint
    undone = table.undo("b")
    assert (undone.version, undone.restored, undone.undone) == (3, 1, (2,))
    assert lake.ids() == [1, 2, 3]
    assert "more" not in lake.delta().to_pyarrow_table().column_names
    with pytest.raises(SourceError, match="undone already, by version 3"):
        table.undo("b")
    assert table.undo(nameless.run_id).restored == 0
    assert lake.ids() == [1, 2]
    assert lake.land(rows(4, more=1.5), run_id="b").rows == 1  # not taken for the one undone
    assert lake.land(rows(4, more=1.5), run_id="b").rows == 0
    assert lake.ids() == [1, 2, 4]
    with pytest.raises(CommitConflict):
        table.undo("a")
    table.undo("b")
    with pytest.raises(SourceError, match="no version before it"):
        table.undo("a")

    lake.land(rows(5, 7, 9), run_id="d")
    lake.land(rows(11), run_id="e")
    report = table.compact_report()
    assert (report.would_remove, report.would_add) == (3, 1)
    assert report.partitions[0].partition == "p=it's 1"
    assert table.optimize(where=r"p = 'it\'s 0'").files_removed == 0
    done = table.optimize(where=r"p = 'it\'s 1'")
    assert (done.files_removed, done.files_added, done.partitions) == (3, 1, 1)
    assert done.version == table.describe().version
    with pytest.raises(ConfigError, match="no condition on partition columns"):
        table.optimize(where="id > 3")
    with pytest.raises(ConfigError, match="no condition"):
        table.optimize(where="true; DROP TABLE x")
    with pytest.raises(ConfigError, match="did you mean 'id'"):
        table.optimize(zorder=["idd"])
    assert table.undo("e").undone == (8,)  # what `optimize` did does not matter
    assert lake.ids() == [1, 2, 5, 7, 9]

    assert table.vacuum(dry_run=True).files == ()
    with pytest.raises(ConfigError, match="24 hours only, less than 168"):
        table.vacuum(retain_hours=24)
    listed = table.vacuum(retain_hours=0, force=True, dry_run=True).files
    gone = table.vacuum(retain_hours=0, force=True)
    assert gone.deleted == len(listed) > 0
    assert gone.bytes > 0
    assert lake.ids() == [1, 2, 5, 7, 9]
    with pytest.raises(SourceError, match="lacks data files"):
        table.preview(5, version=2)
    with pytest.raises(SourceError, match="lacks data files"):
        table.query("select * from t", version=2)
    with pytest.raises(SourceError, match="lacks data files"):
        table.restore(2)
    with pytest.raises(SourceError, match="no version 99"):
        table.restore(99)
    assert table.restore(table.describe().version - 1).version == table.describe().version

    file = tmp_path / "lake.yaml"
    file.write_text(yaml.safe_dump(lake.keys))
    file.chmod(0o600)
    assert main(["table", "show", "t", "--to", str(file), "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["rows"] == 5
    assert main(["table", "vacuum", "t", "--config", str(file), "--retain", "1h"]) == 2
    assert b"--force" in capsysbinary.readouterr().err


def test_state_is_that_of_the_rows(lake: Lake, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    def load(number: int) -> None:
        lines = [
            {"type": "SCHEMA", "stream": "s", "schema": SCHEMA, "key_properties": []},
            {"type": "RECORD", "stream": "s", "record": {"id": number}},
            {"type": "STATE", "value": {"seen": number}},
        ]
        text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        lake.land(io.BytesIO(text), "s", run_id=f"r{number}")

    load(1)
    load(2)
    table = lake.open("s")
    assert json.loads(table.state().state) == {"seen": 2}
    table.undo("r2")
    found = table.state()
    assert (json.loads(found.state), found.version, found.run_id) == ({"seen": 1}, 0, "r1")
    lake.land(rows(1), "none")
    assert lake.open("none").state() is None


SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


def test_what_is_no_table_is_named(lake: Lake) -> None:
    for call in ("history", "optimize", "vacuum", "state"):
        with pytest.raises(SourceError, match=r"there is no table in .*nothing"):
            getattr(lake.open("nothing"), call)()
    with pytest.raises(ConfigError, match="not in a store of the kind"):
        lakeport.Table(lake.elsewhere, lake.config("t"))
