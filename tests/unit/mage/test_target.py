"""`lakeport target`: flags, precedence, log lines, STATE and exit codes, without Spark."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import re
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakeport.cli.app import main
from lakeport.config.base import config_class
from lakeport.errors import BadRecord, BadRecords, ConfigError, SchemaConflict, Unreachable
from lakeport.loading import run as landing
from lakeport.loading.report import LandingReport
from lakeport.mage import running
from lakeport.mage.destinations import Destination
from lakeport.mage.flags import Flags, config_template
from lakeport.mage.observer import LogLines
from lakeport.model import Landed, StreamReport
from tests.unit.config.kit import load_flags_config

NOW = datetime(2024, 3, 4, tzinfo=UTC)
REPORT = LandingReport("r1", "/lake", NOW, NOW, 0.5)
S3 = {"bucket": "lake", "aws_access_key_id": "AKcanary", "aws_secret_access_key": "canary/5f3a"}
DESTINATIONS = (
    "amazon_s3",
    "delta_lake_azure",
    "delta_lake_s3",
    "google_cloud_storage",
    "local",
)
LINE = re.compile(r"^(DEBUG|INFO|WARNING|ERROR) \[(\S+)\] (\{.*\})$")
Cap = pytest.CaptureFixture[str]


class FakeLoad:
    """Stands for `land`: remembers what it was called with, and tells an observer a story."""

    def __init__(self) -> None:
        self.config: Any = None
        self.reading: dict[str, Any] = {}
        self.lines = b""
        self.report = REPORT
        self.act: Callable[[Any, Callable[[bytes], None]], None] = lambda observer, emit: None

    def land(
        self, source: Any, to: Any, *, observer: Any, on_state: Any, **reading: Any
    ) -> LandingReport:
        self.config, self.reading = to, {"source": source, **reading}
        if not isinstance(source, str):
            self.lines = source.read()

        def emit(state: bytes) -> None:
            on_state(state)
            observer.on_state(state)

        self.act(observer, emit)
        observer.on_finished(self.report)
        return self.report


QUIET = "LAKEPORT_PROGRESS"  # what goes on is told by the clock


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeLoad:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith("LAKEPORT_") and n != QUIET]:
        monkeypatch.delenv(name)
    fake = FakeLoad()
    monkeypatch.setattr(landing, "land", fake.land)
    return fake


def told(text: str) -> list[dict[str, Any]]:
    """The log lines on standard error; every line there is one."""
    lines = []
    for line in text.splitlines():
        match = LINE.match(line)
        assert match, line
        assert datetime.fromisoformat(match[2]).tzinfo is not None
        log = json.loads(match[3])
        assert match[1] == {"EXCEPTION": "ERROR"}.get(log["level"], log["level"])
        assert set(log) == {"caller", "level", "message", "tags", "timestamp", "uuid", "type"}
        assert log["type"] == "LOG" and isinstance(log["timestamp"], int)
        assert isinstance(log["tags"], dict)
        lines.append(log)
    return lines


def error_of(stderr: str) -> str:
    """What Mage's orchestrator shows of a failed process: `tags.error` of its ERROR line."""
    lines = [line for line in stderr.split("\n") if line.startswith("ERROR")]
    assert len(lines) == 1
    found = json.JSONDecoder().raw_decode(lines[0][lines[0].index("{") :])[0]
    return str(found["tags"]["error"])


def metrics(stdout: str) -> dict[str, Any]:
    """What Mage's orchestrator adds up: whole numbers are sums, of other values the last counts."""
    sums: dict[str, Any] = {}
    for line in stdout.splitlines():
        tags = json.loads(line).get("tags", {})
        for key in ("records", "records_inserted", "records_updated", "records_affected", "state"):
            if key in tags:
                value = tags[key]
                sums[key] = sums.get(key, 0) + value if isinstance(value, int) else value
    return sums


# Configs


def test_one_config_counts_whole(tmp_path: Path) -> None:
    """`--config_json` wins over `--config`, which wins over `--settings`; an empty one is none."""
    config = tmp_path / "config"
    config.write_text('{"path": "/config", "mode": "overwrite"}')
    settings = tmp_path / "block.yaml"
    settings.write_text("destination: local\nconfig:\n  path: /settings\n  table: t\n")
    absent = str(tmp_path / "absent.yaml")

    def path(**flags: str) -> tuple[str, str, str | None]:
        made: Any = load_flags_config("local", Flags(**flags), {}, environ={})
        return made.path, str(made.mode), made.table

    assert path(config_json='{"path": "/json"}', config=absent, settings=absent) == (
        "/json",
        "append",
        None,
    )
    assert path(config_json="{}", config=str(config), settings=absent)[:2] == (
        "/config",
        "overwrite",
    )
    assert path(settings=str(settings)) == ("/settings", "append", "t")
    for nothing in ("", "\n", "{}", "{\n}\n"):
        config.write_text(nothing)
        assert path(config=str(config), settings=str(settings))[0] == "/settings"
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        path(config=absent, settings=str(settings))


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "/lake", "table": "t"}',
        '{"config": {"path": "/lake", "table": "t"}}',
        '{"destination": "local", "config": {"path": "/lake", "table": "t"}}',
        "path: /lake\ntable: t\n",
        "config:\n  path: /lake\n  table: t\n",
        "destination: local\nconfig:\n  path: /lake\n  table: t\n",
    ],
)
@pytest.mark.parametrize("flag", ["config", "settings", "config_json"])
def test_every_form_of_a_config(tmp_path: Path, text: str, flag: str) -> None:
    given = text
    if flag != "config_json":
        file = tmp_path / "config"
        file.write_text(text)
        given = str(file)
    elif not text.startswith("{"):
        with pytest.raises(ConfigError, match="is no valid JSON at character 1"):
            load_flags_config("local", Flags(config_json=text), {}, environ={})
        return
    made: Any = load_flags_config("local", Flags(**{flag: given}), {"run_id": "r"}, environ={})
    assert (made.path, made.table, made.run_id) == ("/lake", "t", "r")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"config_json": '{"bucket": "canary'}, "no valid JSON at character"),
        ({"config_json": '["canary"]'}, "no JSON object"),
        ({"config_json": '{"bukcet": "b"}'}, "did you mean `bucket`"),
        ({"config_json": '{"destination": "delta_lake_s3"}'}, "'delta_lake_s3', not for"),
        ({"config_json": '{"bucket": "b", "file_type": "parqet"}'}, "did you mean `parquet`"),
        ({"config_json": '{"bucket": "a", "bucket": "b"}'}, "'bucket' is given twice"),
        ({"catalog_json": '{"streams": "canary"}'}, "`--catalog_json` has no list `streams`"),
        ({"catalog_json": "canary"}, "`--catalog_json` is no valid JSON"),
        (
            {
                "catalog_json": '{"streams": [{"stream": "a", "schema": {"properties": {}}, '
                '"key_properties": 5}]}'
            },
            "no list of names as `key_properties` of the stream 'a'",
        ),
        ({}, "`bucket` is missing"),
    ],
)
def test_wrong_configs_are_named(flags: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_flags_config("amazon_s3", Flags(**flags), {}, environ={})
    assert words in str(caught.value) and "canary" not in str(caught.value)


def test_secrets_in_config_json_are_taken_with_a_warning() -> None:
    """Mage's orchestrator gives the whole config on the command line: it has to work."""
    made = load_flags_config("amazon_s3", Flags(config_json=json.dumps(S3)), {}, environ={})
    assert made.secrets() == ("AKcanary", "canary/5f3a")
    assert "every user of this machine" in made.warnings[0] and "canary" not in made.warnings[0]
    assert not load_flags_config(
        "amazon_s3", Flags(config_json='{"bucket": "lake"}'), {}, environ={}
    ).warnings


def test_flags_by_argparse() -> None:
    """Classes that are given an `argument_parser` take the same flags."""
    parse = Flags.parse
    assert parse(argparse.ArgumentParser(), []) == Flags()
    given = ["--config", "c", "--state", "s", "--debug", "--log_to_stdout", "1"]
    assert parse(argparse.ArgumentParser(), [*given, "--catalog", "{}"]) == Flags(
        config="c", state="s", debug=True, log_to_stdout=True, catalog_json="{}"
    )
    assert not parse(argparse.ArgumentParser(), ["--log_to_stdout", "False"]).log_to_stdout
    with pytest.raises(SystemExit) as stop:
        parse(argparse.ArgumentParser(), ["--log_to_stdout", "maybe"])
    assert stop.value.code == 2


@pytest.mark.parametrize("destination", DESTINATIONS)
def test_templates_hold_valid_keys(fake: FakeLoad, capsys: Cap, destination: str) -> None:
    assert main(["target", destination, "--show_templates"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and not out.endswith("\n") and json.loads(out) == config_template(destination)
    keys = json.loads(out)["config"]
    fill = {
        "bucket": "lake",
        "path": "/lake",
        "account_name": "account",
        "access_key": "a2V5",
        "table_uri": "abfss://lake@account.dfs.core.windows.net/t",
    }
    given = {key: fill.get(key, value) if value is None else value for key, value in keys.items()}
    assert config_class(destination)(**given).destination == destination


# What is logged


def story(observer: Any, emit: Callable[[bytes], None]) -> None:
    observer.on_progress("users", 3, 100)
    observer.on_warning("careful")
    observer.on_landed(Landed("users", "/lake/users", 0, 3, ("a",), 99, version=7))
    observer.on_landed(Landed("users", "/lake/users", 1, 0, skipped=True))
    observer.on_landed(Landed("users", "/lake/users", 2, 2, ("b", "c"), 98))
    emit(b'{"bookmarks": {"users": {"id":  2}}}')


def test_logs_on_stderr_and_state_on_stdout(
    fake: FakeLoad, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    fake.act = story
    assert main(["target", "local", "--config_json", '{"path": "/lake"}']) == 0
    out, err = capfdbinary.readouterr()
    assert out == b'{"bookmarks": {"users": {"id":  2}}}\n'
    lines = told(err.decode())
    assert {line["caller"] for line in lines} == {"Local"}
    assert [(line["level"], line["message"]) for line in lines] == [
        ("INFO", "Local process started."),
        ("WARNING", "careful"),
        ("INFO", "Export data completed."),
        ("INFO", "Export data skipped: this run had landed it before."),
        ("INFO", "Export data completed."),
        ("INFO", "State for bookmark properties update completed."),
        ("INFO", "Local process completed."),
    ]
    assert lines[2]["tags"] == {
        "stream": "users",
        "table_name": "users",
        "table": "/lake/users",
        "batch": 0,
        "records": 3,
        "records_inserted": 3,
        "files": 1,
        "bytes": 99,
        "version": 7,
    }
    assert fake.reading == {"source": "-", "source_format": "singer", "stray_lines": "skip"}


def test_logs_on_stdout_and_state_in_a_file(fake: FakeLoad, tmp_path: Path, capsys: Cap) -> None:
    """As Mage's orchestrator starts it: bare JSON, numbers told once, STATE in the file alone."""
    fake.act = story
    (tmp_path / "in.jsonl").write_bytes(b"{}\n")
    (tmp_path / "state").write_text("")
    command = ["target", "local", "--config_json", '{"path": "/lake"}', "--log_to_stdout", "1"]
    command += ["--settings", "absent.yaml", "--state", "state", "--input_file_path", "in.jsonl"]
    assert main([*command, "--debug"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and fake.lines == b"{}\n"
    logs = [json.loads(line) for line in out.splitlines()]
    assert {log["type"] for log in logs} == {"LOG"}
    assert not {"ERROR", "EXCEPTION"} & {log["level"] for log in logs}
    assert logs[1]["message"] == "Reading input from file path in.jsonl."
    assert {"stream": "users", "read": 3, "bytes": 100} in [log["tags"] for log in logs]
    assert metrics(out) == {
        "records": 5,
        "records_inserted": 5,
        "state": {"bookmarks": {"users": {"id": 2}}},
    }
    assert json.loads((tmp_path / "state").read_text()) == {"bookmarks": {"users": {"id": 2}}}


def test_states_are_merged_into_the_file(fake: FakeLoad, tmp_path: Path) -> None:
    """Bookmarks of other streams stay, other keys come through, and the file is replaced whole."""
    file = tmp_path / "state"
    file.write_text('{"bookmarks": {"a": 1}}\n{"bookmarks": {"a": {"id": 3, "at": 1}, "b": 2}}\n')
    seen: list[bytes] = []

    def act(observer: Any, emit: Callable[[bytes], None]) -> None:
        for state in (b'{"bookmarks": {"a": {"id": 4}}, "x": 1}', b'{"bookmarks": {"c": 5}}'):
            before = file.stat().st_ino
            emit(state)
            seen.append(file.read_bytes())
            assert file.stat().st_ino != before

    fake.act = act
    (tmp_path / "c.yaml").write_text("path: /lake\n")
    assert main(["target", "local", "--config", "c.yaml", "--state", "state"]) == 0
    assert [json.loads(text) for text in seen] == [
        {"bookmarks": {"a": {"id": 4}, "b": 2}, "x": 1},
        {"bookmarks": {"a": {"id": 4}, "b": 2, "c": 5}},
    ]
    assert seen[-1].count(b"\n") == 1  # the orchestrator reads the last line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml", "state"]
    file.write_text("no state at all")
    assert main(["target", "local", "--config", "c.yaml", "--state", "state"]) == 2


def test_what_a_report_adds(fake: FakeLoad, capsys: Cap) -> None:
    stream = StreamReport("users", rejected=2, dropped={"x": 3}, warnings=("odd",), notes=("new",))
    fake.report = LandingReport(
        "r1", "/lake", NOW, NOW, 1.0, (stream,), stray_lines=4, quarantine=("/lake/_q",)
    )
    assert main(["target", "local", "--config_json", '{"path": "/lake"}']) == 0
    lines = told(capsys.readouterr().err)
    assert ("INFO", "new") in [(line["level"], line["message"]) for line in lines]
    warnings = [line for line in lines if line["level"] == "WARNING"]
    assert [(line["message"], line["tags"]) for line in warnings] == [
        ("Bad records that were set aside: 2.", {"stream": "users", "rejected": 2}),
        (
            "Records from which the undeclared field 'x' was dropped: 3.",
            {"stream": "users", "dropped": 3},
        ),
        ("odd", {"stream": "users"}),
        ("Lines that belong to no stream: 4.", {"stray_lines": 4}),
        ("Bad records are in /lake/_q.", {"quarantine": "/lake/_q"}),
    ]


def test_the_librarys_words_are_lines(fake: FakeLoad, capsys: Cap) -> None:
    """A tap's ERROR is no failure of this run: its line is a WARNING."""
    log = logging.getLogger("lakeport.sources.singer.singer_source")

    def act(observer: Any, emit: Any) -> None:
        log.info("Unable to parse: %s", "hello")
        log.error("the tap is unhappy")
        log.debug("unseen")

    fake.act = act
    before = logging.getLogger("lakeport").handlers[:]
    assert main(["target", "local", "--config_json", '{"path": "/lake"}']) == 0
    lines = told(capsys.readouterr().err)
    assert ("INFO", "Unable to parse: hello") in [(x["level"], x["message"]) for x in lines]
    assert ("WARNING", "the tap is unhappy") in [(x["level"], x["message"]) for x in lines]
    assert "unseen" not in str(lines)
    assert logging.getLogger("lakeport").handlers == before


def test_lines_of_many_threads_stay_whole() -> None:
    out = io.BytesIO()
    lines = LogLines("Local", out)

    def talk() -> None:
        for number in range(200):
            lines.log("INFO", "x" * 500, {"number": number})

    threads = [threading.Thread(target=talk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told(out.getvalue().decode())) == 800


@pytest.mark.parametrize("name", ["", "block", "lakeport", "lakeport.block"])
def test_lines_go_to_a_logger_once_and_so_they_do_where_stderr_takes_no_bytes(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Lines of a logger below the library's came back as its records, without end."""

    class Local(Destination):
        destination = "local"

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    caplog.set_level("INFO", name or "lakeport.mage")
    logger = logging.getLogger(name) if name else None
    made = Local(config={"path": str(tmp_path), "engine": "threads"}, logger=logger)
    schema = (
        b'{"type": "SCHEMA", "stream": "a", "schema": {"properties": {"id": {"type": "integer"}}}}'
    )
    report = made.process(
        io.BytesIO(schema + b'\n{"type": "RECORD", "stream": "a", "record": {"id": 1}}\nhello\n')
    )
    assert report is not None and report.rows == 1
    said = [each.getMessage() for each in caplog.records if each.name == (name or "lakeport.mage")]
    lines = [json.loads(text)["message"] for text in said if text.startswith("{")]
    assert lines[0] == "Local process started." and lines.count("Local process completed.") == 1


# Errors


def raising(error: BaseException) -> Callable[[Any, Any], None]:
    def act(observer: Any, emit: Any) -> None:
        observer.on_landed(Landed("a", "/lake/a", 0, 1))
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("m"), 2),
        (BadRecords((BadRecord("s", 3, "c", "not a number"),)), 1),
        (SchemaConflict("m"), 1),
        (Unreachable("m"), 1),
        (ValueError("m"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(fake: FakeLoad, error: BaseException, code: int) -> None:
    fake.act = raising(error)
    assert main(["target", "local", "--config_json", '{"path": "/lake"}']) == code


@pytest.mark.parametrize(
    "command",
    ["target", "target local --nope", "target local --log_to_stdout maybe", "target local --state"],
)
def test_a_wrong_command_line(fake: FakeLoad, capsys: Cap, command: str) -> None:
    assert main(command.split()) == 2
    assert "--help` lists what it takes" in capsys.readouterr().err
    assert fake.config is None


@pytest.mark.parametrize("name", ["amazon_s4", "amazon_s3"])
def test_config_errors_come_before_anything_is_read(fake: FakeLoad, capsys: Cap, name: str) -> None:
    assert main(["target", name]) == 2
    shown = error_of(capsys.readouterr().err)
    assert ("`amazon_s3`" if name == "amazon_s4" else "`bucket` is missing") in shown
    assert fake.config is None


def test_an_error_is_one_line_with_its_hint(fake: FakeLoad, capsys: Cap) -> None:
    fake.act = raising(SchemaConflict("column 'a' does not fit.", "do this."))
    assert main(["target", "local", "--config_json", '{"path": "/lake"}']) == 1
    line = told(capsys.readouterr().err)[-1]
    assert line["level"] == "EXCEPTION"
    assert line["message"] == "Local process failed with error column 'a' does not fit."
    assert line["tags"] == {
        "error": "column 'a' does not fit.\n\nHint: do this.",
        "error_type": "SchemaConflict",
        "message": "column 'a' does not fit.",
        "hint": "do this.",
    }
    assert main(["target", "local", "--config_json", '{"path": "/lake"}', "--debug"]) == 1
    trace = told(capsys.readouterr().err)[-1]["tags"]["errors"]
    assert trace[0].startswith("Traceback") and "SchemaConflict" in trace[-1] + trace[-3]


def test_a_termination_is_told(fake: FakeLoad, capsys: Cap) -> None:
    fake.act = lambda observer, emit: os.kill(os.getpid(), signal.SIGTERM)
    assert main(["target", "local", "--config_json", '{"path": "/lake"}']) == 143
    assert "terminated; nothing was landed" in error_of(capsys.readouterr().err)


def test_no_line_holds_a_secret(fake: FakeLoad, capsys: Cap) -> None:
    """Neither plain nor encoded, in messages, tags, STATE and tracebacks."""

    def act(observer: Any, emit: Callable[[bytes], None]) -> None:
        observer.on_warning("see https://x/?key=canary%2F5f3a")
        observer.on_landed(Landed("a", "s3://canary/5f3a/a", 0, 1))
        observer.on_state(b'{"url": "canary/5f3a", "canary/5f3a": ["canary/5f3a"]}')
        raise SchemaConflict("canary/5f3a", "authorization: Bearer canary")

    fake.act = act
    command = ["target", "amazon_s3", "--config_json", json.dumps(S3), "--debug"]
    assert main(command) == 1
    err = capsys.readouterr().err
    assert len(told(err)) >= 5 and "canary" not in err and "**********" in err
    assert main(["target", "amazon_s3", "--set", "aws_secret_access_key=canary"]) == 2
    assert "canary" not in capsys.readouterr().err


# The connection test


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server.getsockname()[1]


def test_a_connection_test_ends_before_mage_gives_up(
    fake: FakeLoad, capsys: Cap, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SECONDS", 1.5)
    config = {**S3, "aws_endpoint": f"http://127.0.0.1:{silent_port}"}
    command = ["target", "amazon_s3", "--config_json", json.dumps(config), "--test_connection"]
    assert main([*command, "--show_templates"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and fake.config is None
    shown = error_of(err)
    # A machine under load spends the seconds on imports; then the request's own limit comes first.
    assert re.search("no answer within|can't be reached", shown)
    assert "Hint: " in shown and "canary" not in err


def test_a_connection_test_that_passes(
    fake: FakeLoad, tmp_path: Path, capsys: Cap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SECONDS", 120.0)
    config = json.dumps({"path": str(tmp_path / "lake")})
    assert main(["target", "local", "--config_json", config, "--test_connection"]) == 0
    out, err = capsys.readouterr()
    assert out == "" and told(err)[-1]["message"].endswith("lake can be landed in.")
    (tmp_path / "file").write_text("")
    config = json.dumps({"path": str(tmp_path / "file" / "lake")})
    assert main(["target", "local", "--config_json", config, "--test_connection"]) == 1
    assert "Hint: " in error_of(capsys.readouterr().err)
    assert stat.S_ISREG((tmp_path / "file").stat().st_mode)


def test_nothing_heavy_is_imported_for_templates() -> None:
    import subprocess

    program = (
        "import sys\n"
        "from lakeport.cli.app import main\n"
        "main(['target', 'amazon_s3', '--show_templates'])\n"
        "heavy = {'rich', 'pyarrow', 'pyspark', 'boto3', 'asyncio'}\n"
        "sys.exit(', '.join(sorted(heavy & sys.modules.keys())) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
