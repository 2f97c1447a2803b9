"""What two processes have to have in common to share a warm session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeport.host import warm as identity
from lakeport.host.warm import WarmSessionUnavailable


def key() -> str:
    return identity.session_key(identity.process_facts())


def test_the_same_process_is_the_same() -> None:
    assert key() == key()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TZ", "Asia/Tokyo"),
        ("HOME", "/nowhere"),
        ("JAVA_HOME", "/opt/java"),
        ("AWS_PROFILE", "other"),
        ("https_proxy", "http://proxy:3128"),
        ("PYTHONPATH", "/opt/more"),
        ("LC_ALL", "de_DE.UTF-8"),
        ("KRB5CCNAME", "/tmp/ticket"),
    ],
)
def test_what_java_and_python_read_counts(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key()
    monkeypatch.setenv(name, value)
    assert key() != before


@pytest.mark.parametrize(
    "name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "LAKEPORT_BUCKET", "PWD", "COLUMNS"]
)
def test_what_goes_with_the_run_does_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    monkeypatch.setenv(name, "other")
    assert key() == before
    assert name not in identity.session_environment()


def test_a_password_of_a_proxy_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://ada:secret@proxy:3128")
    for asked in (identity.process_facts, identity.session_environment):
        with pytest.raises(WarmSessionUnavailable, match="HTTPS_PROXY") as refused:
            asked()
        assert "secret" not in str(refused.value)


def test_other_code_or_jars_are_another_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path))
    none = key()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "one.jar").write_bytes(b"1")
    one = key()
    (tmp_path / "jars" / "one.jar").write_bytes(b"12")
    assert len({none, one, key()}) == 3


def test_limits_and_umask_count() -> None:
    program = "from lakeport.host import warm as i; print(i.session_key(i.process_facts()))"
    found = {
        subprocess.run(
            ["sh", "-c", f'{before}; exec "$0" -c "$1"', sys.executable, program],
            check=True,
            capture_output=True,
            env={**os.environ},
        ).stdout
        for before in (":", "umask 077", "ulimit -S -n 300")
    }
    assert len(found) == 3
