"""A standalone Spark cluster of separate processes, each with a work folder and a home of its own.

The workers' Python finds lakeport's dependencies, but not lakeport: that has to be shipped.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from lakeport.engine.spark.jvm import gateway
from lakeport.engine.spark.jvm.java import find_java
from lakeport.engine.spark.jvm.versions import installed_build
from tests.emulators import free_port

START_SECONDS = 180
_PDEATHSIG = 1
SHORT_LIVED = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # To verify Spark's classes takes a twelfth of the processor time of its start.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Options of a JVM that lives for a minute."""
PROJECT = Path(__file__).parents[2]


def bare_python(folder: Path) -> Path:
    """An environment with every dependency and without lakeport; returns its interpreter."""
    base = Path(sys.executable).resolve()
    site = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    # Only the entries of sys.path: the .pth file that brings lakeport itself is not followed.
    dependencies = [entry for entry in sys.path if entry.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(dependencies) + "\n")
    return folder / "bin" / "python"


def packed_environment(folder: Path) -> Path:
    """An environment with lakeport, and what docs/clusters.md packs beside it, as an archive."""
    python = bare_python(folder / "packed")
    site = next((python.parents[1] / "lib").glob("*/site-packages"))
    (site / "dependencies.pth").unlink()
    for path in packed_files():
        (site / path.name).symlink_to(path)
    shutil.copytree(
        PROJECT / "src" / "lakeport",
        site / "lakeport",
        ignore=shutil.ignore_patterns("__pycache__", "*.jar"),
    )
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(python.parents[1], ".")
    return archive


def packed_files() -> set[Path]:
    """Files and folders of the distributions that docs/clusters.md packs, and of what they take."""
    page = (PROJECT / "docs" / "clusters.md").read_text()
    waiting = re.search(r"pip install (.+) venv-pack", page)[1].split()  # type: ignore[index]
    found: dict[str, set[Path]] = {}
    while waiting:
        name = waiting.pop()
        with suppress(metadata.PackageNotFoundError):  # it may be for another Python
            if name not in found:
                each = metadata.distribution(name)
                files = [file for file in each.files or () if ".." not in file.parts]
                tops = {file.parts[0] for file in files} - {"__pycache__"}
                found[name] = {Path(str(each.locate_file(top))) for top in tops}
                needed = [text for text in each.requires or () if "extra ==" not in text]
                waiting += [re.split(r"[^\w.-]", text)[0] for text in needed]
    return set().union(*found.values())


def zipped_package(folder: Path) -> Path:
    """Lakeport alone, for `--py-files`."""
    shutil.copytree(
        PROJECT / "src" / "lakeport",
        folder / "zipped" / "lakeport",
        ignore=shutil.ignore_patterns("__pycache__", "*.jar"),
    )
    return Path(shutil.make_archive(str(folder / "lakeport"), "zip", folder / "zipped"))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; Spark may delete some of them meanwhile."""
    found = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file():
                    found[str(path)] = path.read_bytes()
    return found


def full_java() -> Path:
    """A Java with the module that Spark's workers start executors with; cut-down ones lack it."""
    java = find_java().path
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True)
    if "jdk.incubator.vector" not in listed.stdout:
        raise RuntimeError(
            f"a cluster's tests need a full Java 17, 21 or 25, and {java} is a cut-down one: "
            "`apt-get install openjdk-17-jre-headless`, or set JAVA_HOME to one that is there"
        )
    return java


class Standalone:
    """A master and its workers; a context manager.

    Args:
        folder: an empty folder for everything that the cluster writes.
        cores: for each worker, the CPU that it is pinned to; None to pin it to none.
        spark: folder of the PySpark whose Spark it runs; None for the installed one.
    """

    def __init__(
        self,
        folder: Path,
        cores: Sequence[int | None] = (None, None),
        spark: Path | None = None,
    ) -> None:
        self.spark = spark or gateway.find_spark_home()
        self.folder = folder
        self.cores = tuple(cores)
        self.java = full_java()
        self.python = bare_python(folder / "python")
        self.port, self.ui = free_port(), free_port()
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self._master: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def processes(self) -> list[int]:
        """Process ids of the master and the workers."""
        return [each.pid for each in (self._master, *self.workers.values()) if each is not None]

    def work(self, number: int) -> Path:
        """The folder of one worker: logs, executors, its home and its temporary files."""
        return self.folder / f"worker-{number}"

    def __enter__(self) -> Self:
        here = ["--host", "127.0.0.1"]
        self._master = self._java(
            self.folder / "master",
            "org.apache.spark.deploy.master.Master",
            [*here, "--port", str(self.port), "--webui-port", str(self.ui)],
        )
        for number in range(len(self.cores)):
            self.start_worker(number)
        self.wait(len(self.cores))
        return self

    def __exit__(self, *exc: object) -> None:
        for number in list(self.workers):
            self.kill_worker(number)
        if self._master is not None:
            self._master.kill()
            self._master.wait()

    def start_worker(self, number: int) -> None:
        folder, core = self.work(number), self.cores[number]
        size = "2" if core is None else "1"
        # Hosts of their own, as Spark never tries a task a second time on the host of the first.
        host = f"127.0.0.{number + 1}"
        options = ["--host", host, "--cores", size, "--memory", "2g"]
        options += ["--webui-port", "0", "--work-dir", str(folder / "work"), self.url]
        pinned = () if core is None else ("taskset", "-c", str(core))
        self.workers[number] = self._java(
            folder, "org.apache.spark.deploy.worker.Worker", options, pinned, host
        )

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors at once, as the loss of its machine does."""
        process = self.workers.pop(number)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pid in self.executors(number):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def executors(self, number: int) -> list[int]:
        """Process ids of what runs in a worker's folder: executors, Python daemons and workers."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                place = (entry / "cwd").readlink() if entry.name.isdigit() else Path()
                if place.is_relative_to(self.work(number) / "work"):
                    found.append(int(entry.name))
        return found

    def even_out(self, number: int) -> None:
        """Have executors on a worker that came back: end one elsewhere, which is replaced there."""
        other = next(each for each in self.workers if each != number)
        places: dict[Path, list[int]] = {}
        for pid in self.executors(other):
            with suppress(OSError):
                places.setdefault(Path(f"/proc/{pid}/cwd").readlink(), []).append(pid)
        newest = max(places, key=lambda place: int(place.name))
        for pid in places[newest]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + START_SECONDS
        while not self.executors(number) and time.monotonic() < end:
            time.sleep(0.1)

    def wait(self, workers: int) -> None:
        """Wait until so many workers are registered."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with suppress(OSError, ValueError):  # it may not answer yet, or with another page
                alive = [w for w in self.state()["workers"] if w["state"] == "ALIVE"]
                if len(alive) == workers:
                    return
            time.sleep(0.1)
        raise TimeoutError((self.folder / "master" / "log").read_text(errors="replace")[-2000:])

    def state(self) -> Any:
        """What the master tells about its workers and applications."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ui}/json/", timeout=30) as answer:
            return json.load(answer)

    def settings(self, **more: str) -> dict[str, str]:
        """The `spark:` mapping of a driver on this machine; dots are written as `__`."""
        common = {
            "spark.master": self.url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "600m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(len(self.cores)),
            "spark.pyspark.python": str(self.python),
        }
        return common | {name.replace("__", "."): value for name, value in more.items()}

    def _java(
        self,
        folder: Path,
        main: str,
        options: Sequence[str],
        prefix: Sequence[str] = (),
        host: str = "127.0.0.1",
    ) -> subprocess.Popen[bytes]:
        (folder / "home" / "tmp").mkdir(parents=True, exist_ok=True)
        home = str(folder / "home")
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TMPDIR": f"{home}/tmp",
            "SPARK_LOCAL_DIRS": f"{home}/tmp",
            "SPARK_LOCAL_IP": host,
            "SPARK_HOME": str(self.spark),
            "SPARK_SCALA_VERSION": installed_build().scala,
        }
        jars = str(self.spark / "jars" / "*")
        java = [str(self.java), "-Xmx256m", *SHORT_LIVED]
        command = [*prefix, *java, f"-Djava.io.tmpdir={home}/tmp", "-cp", jars, main, *options]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                env=variables,
                cwd=home,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )


def die_with_parent() -> None:
    """Have Linux kill this process when the one that started it ends, however that ends."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
