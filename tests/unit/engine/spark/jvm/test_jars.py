"""Jars: fetched once, checked, safe between processes, refused in plain words."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeport.engine.spark.jvm import jars
from lakeport.engine.spark.jvm.jars import NEEDS, Jar, jars_for, pinned_jars
from lakeport.engine.spark.jvm.versions import JAVA, SparkBuild, installed_build
from lakeport.errors import ConfigError, MissingDependency
from lakeport.host.scratch import cache_folder

CONTENT = b"a jar" * 100_000


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a folder, with one pinned jar."""
    jar = Jar("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    monkeypatch.setattr(jars, "NEEDS", ("thing",))
    monkeypatch.setattr(jars, "LOCKED", {f"thing {installed_build().minor}": (jar,)})
    file = tmp_path / "maven" / jar.path
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", (tmp_path / "maven").as_uri() + "/")
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path / "cache"))
    return file


@pytest.fixture
def cut_short() -> Iterator[str]:
    """A server whose answers end too early."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[:1000])

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_further_needs_are_those_whose_jars_are_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_CACHE", str(tmp_path))
    (tmp_path / "jars").mkdir()
    assert jars.with_cached_needs({"s3a"}) == {"s3a"}
    *most, last = jars_for({"azure"})
    for jar in (*jars_for({"delta"}), *most):
        (tmp_path / "jars" / jar.name).touch()
    assert jars.with_cached_needs(()) == {"delta"}
    (tmp_path / "jars" / last.name).touch()
    assert jars.with_cached_needs({"s3a"}) == {"delta", "azure", "s3a"}
    for jar in jars_for({"gcs"}):  # loads have no use for it
        (tmp_path / "jars" / jar.name).touch()
    assert jars.with_cached_needs(()) == {"delta", "azure"}
    assert jars.with_cached_needs({"gcs"}) == {"delta", "azure", "gcs"}


def test_fetched_once(repository: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert [jar.name for jar in jars.missing_jars({"thing"})] == ["thing-1.0.jar"]
    found, own = jars.ensure_jars({"thing"})
    assert own == jars.LOG_STORE
    assert found == cache / "jars" / "thing-1.0.jar"
    assert found.read_bytes() == CONTENT
    assert jars.missing_jars({"thing"}) == []
    repository.unlink()
    assert jars.ensure_jars({"thing"}) == [found, own]


def test_another_content_is_refused(repository: Path, tmp_path: Path) -> None:
    repository.write_bytes(CONTENT + b"!")
    with pytest.raises(MissingDependency, match="is not the file that was pinned"):
        jars.ensure_jars({"thing"})
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_offline(repository: Path, tmp_path: Path) -> None:
    repository.unlink()
    with pytest.raises(MissingDependency, match=r"the jar thing-1\.0\.jar can't be") as caught:
        jars.ensure_jars({"thing"})
    assert "lakeport jars" in caught.value.hint
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_an_answer_cut_short(
    repository: Path, tmp_path: Path, cut_short: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", cut_short)
    with pytest.raises(MissingDependency, match=r"ended after 1,000 of 500,000 bytes \(from http"):
        jars.ensure_jars({"thing"})
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_a_mirror_s_password_is_not_shown(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", "http://me:canary@127.0.0.1:1/maven")
    with pytest.raises(MissingDependency, match=r"from http://127\.0\.0\.1:1/maven\)") as caught:
        jars.ensure_jars({"thing"})
    assert "canary" not in str(caught.value)
    monkeypatch.setenv("LAKEPORT_MAVEN_URL", "http://me:canary@nowhere.invalid")
    with pytest.raises(MissingDependency) as caught:
        jars.ensure_jars({"thing"})
    assert "canary" not in str(caught.value)


def test_what_came_stays_though_another_one_did_not(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Jar("org.example", "other", "1.0", "0" * 64, 9)
    present = jars.jars_for({"thing"})
    monkeypatch.setattr(jars, "NEEDS", ("both",))
    monkeypatch.setattr(jars, "LOCKED", {f"both {installed_build().minor}": (*present, absent)})
    with pytest.raises(MissingDependency, match=r"other-1\.0\.jar"):
        jars.ensure_jars({"both"})
    assert [file.name for file in (tmp_path / "cache" / "jars").iterdir()] == ["thing-1.0.jar"]


def test_a_cache_that_can_not_be_written(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(MissingDependency, match="can't be written") as caught:
        jars.ensure_jars({"thing"})
    assert "LAKEPORT_CACHE" in caught.value.hint


def test_several_at_once(repository: Path, tmp_path: Path) -> None:
    found: list[bytes] = []

    def fetch() -> None:
        found.append(jars.ensure_jars({"thing"})[0].read_bytes())

    threads = [threading.Thread(target=fetch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT] * 8
    assert len(list((tmp_path / "cache" / "jars").iterdir())) == 1


def test_pins_are_whole() -> None:
    for section in jars.LOCKED.values():
        assert len({jar.name for jar in section}) == len(section)
        assert all(len(jar.sha256) == 64 and int(jar.sha256, 16) for jar in section)
        assert not any(jar.artifact.endswith("bundle") for jar in section)
    every = jars_for(NEEDS)
    assert len({jar.name for jar in every}) == len(every)
    files = jars.ensure_jars(NEEDS)
    assert [file.stat().st_size for file in files[:-1]] == [jar.size for jar in every]
    assert jars_for({"azure", "delta"}) == jars_for(("delta", "azure"))
    with pytest.raises(ConfigError, match="'hdfs'"):
        jars_for({"hdfs"})


def test_each_spark_has_its_jars() -> None:
    for minor in JAVA:
        spark = SparkBuild(f"{minor}.1-amzn-0", "2.13")
        assert bool(pinned_jars("delta", spark)) == (minor != "4.3")
        assert pinned_jars("s3a", spark) and pinned_jars("azure", spark)
        assert [jar.classifier for jar in pinned_jars("gcs", spark)] == ["shaded"]
    older = SparkBuild("3.5.9", "2.12")
    assert next(jar.artifact for jar in pinned_jars("delta", older)) == "delta-spark_2.12"


@pytest.mark.parametrize(
    ("version", "need", "words", "hint"),
    [
        ("4.3.0", "delta", "delta-spark, and no version of it is known for Spark 4.3.0", "4.2"),
        ("4.7.1", "s3a", "S3A, and no version of it is known for Spark 4.7.1", "4.3"),
        ("4.7.1", "azure", "Azure's file system, and no version of it is known", "4.3"),
    ],
)
def test_a_spark_without_jars_is_refused_by_name(
    version: str, need: str, words: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "installed_build", lambda: SparkBuild(version, "2.13"))
    with pytest.raises(MissingDependency, match=words) as caught:
        jars_for({need})
    assert f"pip install 'pyspark=={hint}.*'" in caught.value.hint
    assert need not in jars.with_cached_needs(())


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LAKEPORT_CACHE": "/a/b", "XDG_CACHE_HOME": "/x"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/lakeport"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/lakeport"),
        ({}, "/home/me/.cache/lakeport"),
    ],
)
def test_cache_folder(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAKEPORT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)
