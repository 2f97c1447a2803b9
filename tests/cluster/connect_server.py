"""A Spark Connect server as a process of its own, and programs that are its clients.

A process with a session of Spark Connect can have no classic one, so each client has its own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pyspark

from lakeport.engine.spark.jvm import gateway
from tests.cluster.standalone import SHORT_LIVED, START_SECONDS, die_with_parent, full_java
from tests.emulators import free_port

_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PRELUDE = """
import io, json, os, sys, time
from pathlib import Path
import lakeport
from pyspark.sql import SparkSession, functions as f
answers = {}
def attempt(name, call):
    try:
        found = call()
        answers[name] = {"rows": found.rows, "engine": found.engine.name, "jobs": found.engine.jobs}
    except lakeport.LakeportError as error:
        answers[name] = {"error": type(error).__name__, "text": error.message, "hint": error.hint}
spark = SparkSession.builder.remote(os.environ["SERVER"]).getOrCreate()
land = lakeport.land
lake = os.environ["LAKE"]
"""


class ConnectServer:
    """A server on this machine, of the Spark that is installed here; a context manager.

    Its workers run this process' Python, which has lakeport.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        home = self._make_home()
        variables = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_HOME": str(full_java().parents[1]),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": "",  # lakeport is in the environment
        }
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": " ".join(
                (*SHORT_LIVED, f"-Djava.io.tmpdir={self.folder}")
            ),
            "spark.local.dir": str(self.folder),
            "spark.sql.warehouse.dir": (self.folder / "warehouse").as_uri(),
        }
        confs = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        command = [str(home / "bin" / "spark-submit"), "--class", _MAIN, "--master", "local[2]"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *confs, "spark-internal"],
                env=variables,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self
            time.sleep(0.2)
        raise TimeoutError((self.folder / "log").read_text(errors="replace")[-2000:])

    def _make_home(self) -> Path:
        """Spark's folder, with PySpark unpacked in place of its archive.

        Each Python process would compile that anew, and one for a stream has ten seconds to start.
        """
        found, home = gateway.find_spark_home(), self.folder / "spark"
        unpacked = home / "python" / "lib" / "pyspark.zip"
        unpacked.mkdir(parents=True)
        (unpacked / "pyspark").symlink_to(Path(pyspark.__file__).parent)
        archives = (found / "python" / "lib").glob("py4j*.zip")
        for each in [*archives, *(path for path in found.iterdir() if path.name != "python")]:
            (home / each.relative_to(found)).symlink_to(each)
        return home

    def kill_landing(self) -> None:
        """Kill the Python process in which the server lands a stream; no other server's."""
        assert self._process is not None
        ours = ["-P", str(self._process.pid), "-f", "foreach_batch_worker"]
        subprocess.run(["pkill", "-KILL", *ours], check=True)

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def start(self, program: str, lake: Path | str, **variables: str) -> subprocess.Popen[str]:
        """Start a client: it has `spark`, `lake`, `land` and `attempt`, and prints `answers`."""
        return subprocess.Popen(
            [sys.executable, "-c", f"{_PRELUDE}{program}\nprint(json.dumps(answers))"],
            env={**os.environ, "SERVER": self.url, "LAKE": str(lake), **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )

    def run(self, program: str, lake: Path | str, **variables: str) -> dict[str, Any]:
        """Run a client to its end; return its answers."""
        client = self.start(program, lake, **variables)
        out, problems = client.communicate(timeout=400)
        assert client.returncode == 0, problems[-3000:]
        answers: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answers
