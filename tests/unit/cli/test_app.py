from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lakeport.cli.app import main
from lakeport.cli.options import refuse_secrets
from lakeport.config.destinations.local import LocalConfig
from lakeport.engine.spark.jvm import java
from lakeport.engine.spark.jvm.java import find_java
from lakeport.errors import (
    BadRecord,
    BadRecords,
    ConfigError,
    InputError,
    LakeportError,
    MissingDependency,
    RunMismatch,
    SchemaConflict,
)
from lakeport.loading import plan as planning
from lakeport.loading import run as landing
from lakeport.loading.plan import LandingPlan
from lakeport.loading.report import LandingReport
from lakeport.model import Landed
from lakeport.native import parser
from lakeport.sources.csv.dialect import CsvOptions

NOW = datetime(2024, 3, 4, tzinfo=UTC)
REPORT = LandingReport("r1", "/lake", NOW, NOW, 0.5)
PLAN = LandingPlan("/lake", "delta", "append", ())


class FakeLoad:
    """Stands for `land` and `plan`: remembers what it was called with."""

    def __init__(self) -> None:
        self.source: Any = None
        self.config: Any = None
        self.reading: dict[str, Any] = {}
        self.act: Callable[[Any], None] = lambda observer: None

    def land(self, source: Any, to: Any, *, observer: Any, **reading: Any) -> LandingReport:
        self.source, self.config, self.reading = source, to, reading
        self.act(observer)
        observer.on_finished(REPORT)
        return REPORT

    def plan(self, source: Any, to: Any, **reading: Any) -> LandingPlan:
        self.source, self.config, self.reading = source, to, reading
        return PLAN


KEPT = ("LAKEPORT_PROGRESS", "LAKEPORT_VERBOSE")  # of the tests themselves


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeLoad:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith("LAKEPORT_") and n not in KEPT]:
        monkeypatch.delenv(name)
    fake = FakeLoad()
    monkeypatch.setattr(landing, "land", fake.land)
    monkeypatch.setattr(planning, "plan", fake.plan)
    return fake


Cap = pytest.CaptureFixture[str]


def run(command: str) -> int:
    """The exit code of a command line, taken apart as a shell does."""
    return main(shlex.split(command))


def test_options_become_keys(fake: FakeLoad, tmp_path: Path) -> None:
    code = run(
        "land a.csv b.csv --to lake --table t --format delta --mode overwrite --partition-by x,y"
        " --run-id r --on-bad-record quarantine --max-bad-records 1% --unknown-fields drop"
        " --schema-evolution strict --set compression=zstd --set target_file_size_mb=8"
        " --spark spark.a=1=2 --spark spark.b="
    )
    assert code == 0
    assert fake.source == ["a.csv", "b.csv"]
    assert fake.config == LocalConfig(
        path=tmp_path / "lake",
        table="t",
        file_type="delta",
        mode="overwrite",
        partition_keys=("x", "y"),
        run_id="r",
        on_bad_record="quarantine",
        max_bad_records=0.01,
        unknown_fields="drop",
        schema_evolution="strict",
        compression="zstd",
        target_file_size_mb="8",
        spark={"spark.a": "1=2", "spark.b": ""},
    )
    assert fake.reading == {}


def test_merges_have_an_option_for_their_keys(fake: FakeLoad, tmp_path: Path) -> None:
    assert run("land a.csv --to lake --mode merge --merge-keys x,y") == 0
    assert fake.config == LocalConfig(path=tmp_path / "lake", mode="merge", merge_keys=("x", "y"))


def test_options_say_how_to_read(fake: FakeLoad, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"type": "object"}')
    code = run(
        'land a --to lake --source-format csv --schema s.json --quote "\'" --escape !'
        " --delimiter '\\t' --encoding latin-1 --null-value '' --null-value NULL"
        " --no-header --no-infer"
    )
    assert code == 0
    assert fake.source == "a"
    assert fake.reading == {
        "source_format": "csv",
        "schema": {"type": "object"},
        "csv": CsvOptions(False, "\t", "'", "!", "latin-1", ("", "NULL"), infer_types=False),
    }


def test_a_name_of_a_column_may_have_an_equals_sign(fake: FakeLoad) -> None:
    assert run("land a --to lake --column 'a=b=decimal(9,2)' --rename a=b=c --rename x=y") == 0
    assert fake.config.columns == {"a=b": "decimal(9,2)"}
    assert fake.config.rename == {"a=b": "c", "x": "y"}


def test_a_name_of_a_column_keeps_its_spaces(fake: FakeLoad) -> None:
    assert run("land a --to lake --column ' b =date'") == 0
    assert fake.config.columns == {" b ": "date"}
    assert run("land a --to lake --column ' =date'") == 2


def test_a_config_file_is_a_target(fake: FakeLoad, tmp_path: Path) -> None:
    (tmp_path / "lake.yaml").write_text("destination: local\npath: /lake\ntable: f\nmode: append\n")
    assert run("land a --to lake.yaml --table o") == 0
    assert fake.config == LocalConfig(path="/lake", table="o", mode="append")


def test_the_report_is_printed(fake: FakeLoad, capsys: Cap) -> None:
    assert run("land a --to lake") == 0
    out, err = capsys.readouterr()
    assert out == "0 rows landed in /lake, 0.5 s, run r1\n" and err == ""


def test_json_prints_one_document(fake: FakeLoad, capsys: Cap) -> None:
    assert run("land a --to lake --json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == REPORT.to_dict() and err == ""


@pytest.mark.parametrize("command", ["plan a --to lake", "land a --to lake --plan"])
def test_a_plan_lands_nothing(fake: FakeLoad, capsys: Cap, command: str) -> None:
    assert main([*command.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(PLAN.to_json())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("lnd", ["'lnd'", "land"]),
        ("land", ["no target is named", "`--to`", "LAKEPORT_TO"]),
        ("land --to lake", ["no source is named", "--from-database"]),
        ("land a", ["--to"]),
        ("land a --to lake --tabel t", ["--tabel", "--table"]),
        ("land a --to lake --mode appnd", ["'appnd'", "did you mean `append`"]),
        ("land a --to lake --set tabel=t", ["`tabel`", "did you mean `table`"]),
        ("land a --to lake --set table", ["'table' has no value", "key=value"]),
        ("land a --to lake --set =1", ["names no key"]),
        ("land a --to lake --column n", ["'n' has no value"]),
        ("land a --to lake --column n=x --column n=y", ["twice"]),
        ("land a --to lake --set table=a --set table=b", ["twice"]),
        ("land a --to lake --table a --set table=b", ["`--set table`"]),
        ("land a --to lake --format csv --set format=csv", ["`--set format`"]),
        ("land a --to lake --delimiter ab", ["delimiter", "'ab'"]),
        ("land a --to lake --schema nope.json", ["nope.json"]),
        ("land a --to lake --spark spark.x.secret.key=canary", ["command line", "spark.x.secret"]),
        ("land a --to nope.yaml", ["nope.yaml"]),
        ("land a --to nope://x", ["nope"]),
        ("table show t --version x", ["--version"]),
        ("jars --for delta,nope", ["nope"]),
    ],
)
def test_a_wrong_command_line_exits_with_2(
    fake: FakeLoad, capsys: Cap, command: str, words: list[str]
) -> None:
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("Error: ") and "Traceback" not in err
    assert "canary" not in err
    for word in words:
        assert word in err
    assert fake.source is None


def raises(error: BaseException) -> Callable[[Any], None]:
    def act(observer: Any) -> None:
        observer.on_landed(Landed("a", "/lake/a", 0, 1))
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LakeportError("m"), 1),
        (ConfigError("m"), 2),
        (InputError("m"), 3),
        (SchemaConflict("m"), 4),
        (RunMismatch("m"), 6),
        (ValueError("m"), 1),
    ],
)
def test_the_exit_code_tells_the_error(fake: FakeLoad, error: Exception, code: int) -> None:
    fake.act = raises(error)
    assert run("land a --to lake") == code


def test_errors_as_json(fake: FakeLoad, capsys: Cap) -> None:
    fake.act = raises(SchemaConflict("does not fit", "do this"))
    assert run("land a --to lake --json") == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err) == {
        "error": {"type": "SchemaConflict", "message": "does not fit", "hint": "do this"}
    }
    assert run("land --json") == 2
    assert json.loads(capsys.readouterr().err)["error"]["type"] == "ConfigError"


def test_a_text_that_can_not_be_read_is_shown_to_people_alone(fake: FakeLoad, capsys: Cap) -> None:
    fake.act = raises(
        BadRecords((BadRecord("t", 2, "a", "no number", b"1,canary", texts=(("a", "canary"),)),))
    )
    for options, shown in (("", False), ("--show-values", True), ("--show-values --json", False)):
        assert run(f"land a --to lake {options}") == 3
        out, err = capsys.readouterr()
        assert ("canary" in err, "canary" in out) == (shown, False)


def test_unexpected_errors_do_not_quote_data(fake: FakeLoad, capsys: Cap) -> None:
    fake.act = raises(ValueError("row 'canary'"))
    assert run("land a --to lake") == 1
    err = capsys.readouterr().err
    assert "canary" not in err and "unexpected ValueError" in err and "--debug" in err
    assert run("land a --to lake --debug") == 1
    err = capsys.readouterr().err
    assert "Traceback" in err and "row 'canary'" in err


def test_secrets_are_masked_in_errors_and_traces(
    fake: FakeLoad, tmp_path: Path, capsys: Cap
) -> None:
    text = '{"destination": "local", "path": "/lake", "spark": {"x.secret.key": "canary/5f3a"}}'
    (tmp_path / "c.json").write_text(text)
    (tmp_path / "c.json").chmod(0o600)
    fake.act = raises(SchemaConflict("https://u:canary%2F5f3a@h", "canary/5f3a"))
    assert run("land a --to c.json --debug") == 4
    err = capsys.readouterr().err
    assert "canary" not in err and "Traceback" in err and "**********" in err


def test_an_interrupt_tells_what_is_durable(fake: FakeLoad, capsys: Cap) -> None:
    fake.act = raises(KeyboardInterrupt())
    assert run("land a --to lake") == 130
    err = capsys.readouterr().err
    assert "interrupted; 1 batch is durable" in err and "--run-id" in err


@pytest.mark.parametrize(
    "command", ["check --to lake", "plan a --to lake", "land a --to lake --plan"]
)
def test_a_hint_names_no_option_that_a_command_lacks(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: Cap
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for module in ("cli.land", "config.load"):
        monkeypatch.setattr(f"lakeport.{module}.load_target", interrupted)
    assert run(command) == 130
    err = capsys.readouterr().err
    assert "interrupted" in err and "Hint" not in err


def test_a_termination_is_told_too(fake: FakeLoad, capsys: Cap) -> None:
    fake.act = lambda observer: os.kill(os.getpid(), signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    assert run("land a --to lake") == 143
    assert "terminated; nothing was landed" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def states(*values: bytes) -> Callable[[Any], None]:
    def act(observer: Any) -> None:
        for value in values:
            observer.on_state(value)
        observer.on_warning("careful")
        observer.on_landed(Landed("a", "/lake/a", 0, 1))

    return act


def test_states_have_stdout_for_themselves(
    fake: FakeLoad, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    fake.act = states(b'{"a":  1.10}', b'{"a": 2}')
    assert run("land - --to lake") == 0
    out, err = capfdbinary.readouterr()
    assert out == b'{"a":  1.10}\n{"a": 2}\n'
    assert b"careful" in err and b"batch 1 landed" in err and b"0 rows landed" in err
    assert fake.source == "-"


def test_a_state_file_leaves_stdout_to_words(fake: FakeLoad, tmp_path: Path, capsys: Cap) -> None:
    fake.act = states(b'{"a": 1}', b'{"a": 2}')
    assert run("land - --to lake --state s.json") == 0
    assert json.loads((tmp_path / "s.json").read_text()) == {"a": 2}
    assert "batch 1 landed" in capsys.readouterr().out


def test_json_keeps_states_in_the_report(fake: FakeLoad, capsys: Cap) -> None:
    fake.act = states(b'{"a": 1}')
    assert run("land - --to lake --json") == 0
    assert json.loads(capsys.readouterr().out) == REPORT.to_dict()


def test_a_reader_that_went_away_is_an_error(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from lakeport.loading import run\n"
        "from lakeport.cli.app import main\n"
        "def land(source, to, *, observer, **reading):\n"
        "    sys.stdin.readline()\n"
        "    observer.on_state(b'{}')\n"
        "run.land = land\n"
        f"sys.exit(main(['land', '-', '--to', {str(tmp_path)!r}]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write("\n")
        process.stdin.close()
        err = process.stderr.read()
    assert process.returncode == 5
    assert "STATE could not be written" in err
    assert "Exception ignored" not in err


class FakeRecord(dict[str, object]):
    """Stands for a record of `lakeport.lake.records`."""

    def to_dict(self) -> dict[str, object]:
        return dict(self)


class FakeTable:
    """Stands for `lakeport.lake.table.Table`."""

    calls: list[tuple[Any, ...]] = []  # noqa: RUF012

    def __init__(self, target: str, to: str | None = None, **keys: Any) -> None:
        from lakeport.config.load import load_target

        self.calls.append(("open", target))
        self.config = load_target("lake", keys)

    def tables(self) -> list[Any]:
        return []

    def describe(self, **moment: Any) -> FakeRecord:
        self.calls.append(("describe", moment))
        return FakeRecord(rows=3)

    def history(self, limit: int) -> list[FakeRecord]:
        return [FakeRecord(version=1, rows=limit), FakeRecord(version=0, note="x")]

    def preview(self, limit: int, **moment: Any) -> Any:
        import pyarrow as pa

        self.calls.append(("preview", limit, moment))
        return pa.table({"id": [1, None], "name": ["Ada", "Bo\x1b[2J"]})

    def query(self, sql: str, *, limit: int, **moment: Any) -> Any:
        self.calls.append(("query", sql, limit, moment))
        return self.preview(limit, **moment)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    module = ModuleType("lakeport.lake.table")
    module.Table = FakeTable  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lakeport.lake.table", module)
    monkeypatch.setattr(FakeTable, "calls", [])
    return FakeTable.calls


def test_table_show(tables: list[tuple[Any, ...]], capsys: Cap) -> None:
    assert run("table show lake/t --version 2 --json") == 0
    assert json.loads(capsys.readouterr().out) == {"rows": 3}
    assert tables == [("open", "lake/t"), ("describe", {"version": 2, "timestamp": None})]


def test_table_history(tables: list[tuple[Any, ...]], capsys: Cap) -> None:
    assert run("table history lake/t --limit 7") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["version", "rows", "note"],
        ["1", "7", "null"],
        ["0", "null", "x"],
    ]


def test_table_preview_and_query(tables: list[tuple[Any, ...]], capsys: Cap) -> None:
    assert main(["table", "preview", "lake/t", "--timestamp", "2024-03-04"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert main(["table", "query", "lake/t", "SELECT * FROM t", "--limit", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"id": 1, "name": "Ada"},
        {"id": None, "name": "Bo\x1b[2J"},
    ]
    moment = {"version": None, "timestamp": None, "timeout": 600}
    assert ("query", "SELECT * FROM t", 5, moment) in tables
    assert run("table show t --version 1 --timestamp 2024") == 2


def test_version(capsys: Cap) -> None:
    assert main(["version", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["python"].count(".") == 2 and "lakeport" in facts
    assert facts["parser"] == parser()
    assert facts["java"] == f"{find_java().full_version} ({find_java().path})"


def test_version_without_java(monkeypatch: pytest.MonkeyPatch, capsys: Cap) -> None:
    monkeypatch.setattr(java, "_list_programs", lambda: iter(()))
    assert main(["version"]) == 0
    assert "needs Java 17, 21 or 25, found none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("", "Spark "),
        ("threads", "threads of this process (LAKEPORT_ENGINE)"),
        ("Threads", "none, there is no 'Threads' (LAKEPORT_ENGINE)"),
    ],
)
def test_version_names_the_engine_that_loads_have(
    monkeypatch: pytest.MonkeyPatch, capsys: Cap, tmp_path: Path, named: str, told: str
) -> None:
    monkeypatch.setenv("LAKEPORT_ENGINE", named)
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"].startswith(told)
    refused = main(["runs", str(tmp_path)]) == 2  # as loads are
    assert refused is told.startswith("none")


def test_help_exits_with_0(capsys: Cap) -> None:
    for command in (["--help"], ["land", "--help"], ["table", "preview", "--help"]):
        assert main(command) == 0
        assert "Usage: lakeport" in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from lakeport.cli.app import main\n"
        "main(['--help'])\n"
        "heavy = {'pydantic', 'rich', 'pyarrow', 'pyspark', 'yaml', 'msgspec', 'asyncio'}\n"
        "sys.exit(', '.join(sorted(heavy & sys.modules.keys())) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lakeport", "lnd"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "did you mean" in done.stderr.lower()


def test_secret_keys_are_refused_on_the_command_line() -> None:
    from pydantic import SecretStr

    from lakeport.config.base import DestinationConfig

    class Vault(DestinationConfig):
        destination: str = "vault"
        password: SecretStr

    with pytest.raises(ConfigError, match="`password` is a secret") as caught:
        refuse_secrets({"password": "canary"}, Vault)
    assert "LAKEPORT_PASSWORD" in caught.value.hint and "canary" not in str(caught.value)


def test_output_does_not_need_a_real_stdout(
    fake: FakeLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert run("land a --to lake") == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("optimize t", "whether the table has a new version of this command is unknown"),
        ("restore t --version 0", "`lakeport table history t` tells"),
        ("undo t r1", "whether the table has a new version"),
        ("vacuum t", "some of the files may be deleted already"),
        ("history t", "nothing was changed"),
    ],
)
def test_a_command_for_a_table_that_is_asked_to_end(
    command: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: Cap
) -> None:
    class Ended:
        """Stands for a table of which nothing is known yet."""

        def __init__(self, *_: object, **__: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("lakeport.lake.table.Table", Ended)
    assert run(f"table {command}") == 130
    err = capsys.readouterr().err
    assert f"interrupted; {words}" in err or words in err
    assert "landed" not in err and "--run-id" not in err


@pytest.mark.parametrize(
    ("typer_version", "click_version", "refused"),
    [
        ("0.9.0", "8.5.1", True),
        ("0.15.3", "8.2.0", True),
        ("0.15.4", "8.1.8", False),
        ("0.16.0", "8.2.0", False),
    ],
)
def test_a_typer_that_misreads_options_is_refused(
    typer_version: str,
    click_version: str,
    refused: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With such a pair every command printed the version and did nothing."""
    monkeypatch.setattr("typer.__version__", typer_version)
    monkeypatch.setattr("importlib.metadata.version", lambda _: click_version)
    assert main(["version"]) == (MissingDependency.exit_code if refused else 0)
    told = f"typer {typer_version} misreads options with click {click_version}"
    assert (told in capsys.readouterr().err) is refused
