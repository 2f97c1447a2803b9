"""The local disk as Spark's JVM sees it, without processes of its own (`io.lakeport.local`)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeport.engine.spark.jvm.calls import java_class

if TYPE_CHECKING:
    from lakeport.engine.spark.session import DriverSession

HADOOP = "org.apache.hadoop.fs"
NAMES = ("plain", "a b", "50%", "größe", "x=1")


@pytest.fixture
def hadoop(driver: DriverSession) -> Callable[..., Any]:
    """A class of Hadoop's file systems, by its name."""
    jvm = driver.context._jvm
    return lambda name: java_class(jvm, f"{HADOOP}.{name}")


@pytest.fixture
def disk(driver: DriverSession, hadoop: Callable[..., Any]) -> Any:
    conf = driver.context._jsc.hadoopConfiguration()
    return hadoop("FileSystem").getLocal(conf)


@pytest.fixture
def context(driver: DriverSession, hadoop: Callable[..., Any]) -> Any:
    conf = driver.context._jsc.hadoopConfiguration()
    return hadoop("FileContext").getLocalFSFileContext(conf)


def test_a_session_of_ours_uses_them(disk: Any, context: Any) -> None:
    assert disk.getClass().getName() == "io.lakeport.local.LocalFiles"
    found = context.getDefaultFileSystem().getClass().getName()
    assert found == "io.lakeport.local.LocalContext"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o400, 0o1777])
def test_permissions_are_those_that_were_asked_for(
    tmp_path: Path, disk: Any, context: Any, hadoop: Callable[..., Any], mode: int
) -> None:
    file = tmp_path / "a b"
    file.touch()
    path = hadoop("Path")(f"file:{file}")
    for files in (disk, context):
        file.chmod(0o644)
        files.setPermission(path, hadoop("permission.FsPermission")(f"{mode:04o}"))
        assert file.stat().st_mode & 0o7777 == mode
    folder = hadoop("Path")(f"file:{tmp_path / 'made'}")
    assert disk.mkdirs(folder, hadoop("permission.FsPermission")("0750"))
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o750


def test_permissions_of_what_is_not_there_are_refused(
    tmp_path: Path, disk: Any, hadoop: Callable[..., Any]
) -> None:
    path = hadoop("Path")(f"file:{tmp_path / 'none'}")
    with pytest.raises(Exception, match="NoSuchFile"):
        disk.setPermission(path, hadoop("permission.FsPermission")("0600"))


@pytest.mark.parametrize("name", NAMES)
def test_a_rename_keeps_what_is_there(
    tmp_path: Path, context: Any, hadoop: Callable[..., Any], driver: DriverSession, name: str
) -> None:
    """As a commit makes a version: from a temporary file, and only where there is none yet."""
    new, old = tmp_path / f"{name}.new", tmp_path / name
    new.write_text("second")
    option = java_class(driver.context._jvm, f"{HADOOP}.Options$Rename")
    none = driver.context._gateway.new_array(option, 1)
    none[0] = option.NONE
    first, second = (hadoop("Path")(f"file:{path}") for path in (new, old))
    context.rename(first, second, none)
    assert (old.read_text(), new.exists()) == ("second", False)
    new.write_text("third")
    with pytest.raises(Exception, match="FileAlreadyExists"):
        context.rename(first, second, none)
    assert (old.read_text(), new.read_text()) == ("second", "third")


def test_of_many_renames_to_one_name_one_is_made(
    tmp_path: Path, context: Any, hadoop: Callable[..., Any], driver: DriverSession
) -> None:
    option = java_class(driver.context._jvm, f"{HADOOP}.Options$Rename")
    none = driver.context._gateway.new_array(option, 0)

    def rename(number: int, name: str) -> bool:
        new = tmp_path / f"{name}.{number}"
        new.write_text(str(number))
        paths = (hadoop("Path")(f"file:{path}") for path in (new, tmp_path / name))
        try:
            context.rename(*paths, none)
        except Exception as error:
            assert "FileAlreadyExists" in str(error)
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for name in map(str, range(25)):
            made = list(pool.map(rename, range(8), [name] * 8))
            assert sum(made) == 1
            assert (tmp_path / name).read_text() == str(made.index(True))


def test_links_are_what_they_were(tmp_path: Path, context: Any, hadoop: Callable[..., Any]) -> None:
    (tmp_path / "file").write_text("12345")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "gone").symlink_to("nowhere")
    link = context.getFileLinkStatus(hadoop("Path")(f"file:{tmp_path / 'link'}"))
    assert link.getLen() == 5
    with pytest.raises(Exception, match="FileNotFound"):
        context.getFileLinkStatus(hadoop("Path")(f"file:{tmp_path / 'gone'}"))
    assert (tmp_path / "link").readlink() == Path("file")
