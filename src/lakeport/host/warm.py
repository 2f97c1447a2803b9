"""Warm sessions of a user, each one Spark that stays for a while: who shares one, and how.

Sessions listen at sockets in a folder that only this user can open. A socket has the name of what
two processes must have in common to be the same to Spark (`facts`, `key`). A run through a session
has its own environment, working folder and streams. What a running JVM can't take over from it has
to be the same from the start: limits, umask, namespaces, the variables that the JVM and its Python
workers read, lakeport's code, Java and the jars.

The process that starts a session listens for it, so that whoever comes can connect at once, and
waits for an answer. Only Python's own library is imported here: such a run begins here.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import resource
import shutil
import socket
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from lakeport.errors import ConfigError
from lakeport.host.packages import bundled_java
from lakeport.host.scratch import cache_folder

IDLE_SECONDS: Final = 15 * 60.0
MEMORY: Final = "2g"
LISTENER: Final = 3
"""The descriptor of a session's socket, in the process that is to be the session."""
PROGRAM: Final = "lakeport.warm.session"
_LOCK: Final = "lock"
_LOG: Final = ".log"
_LONGEST: Final = 1 << 18  # bytes of a message
_FILES: Final = 16  # descriptors that come with a message at most
_WAITING: Final = 128  # connections that nobody has taken up yet

_NAMES: Final = {
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "HADOOP_CONF_DIR",
    "HOME",
    "JAVA_HOME",
    "LAKEPORT_CACHE",
    "LAKEPORT_CDS",
    "LAKEPORT_MAVEN_URL",
    "REQUESTS_CA_BUNDLE",
    "SPARK_CONF_DIR",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TZ",
    "XDG_CACHE_HOME",
    "YARN_CONF_DIR",
}
_STARTS: Final = ("AWS_EC2_METADATA_", "JAVA_TOOL_", "JDK_JAVA_", "KRB5", "LD_", "MALLOC_")
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_PYTHON: Final = ("PYTHON", "PYSPARK_")
_HARMLESS: Final = {"PYTHONUNBUFFERED", "PYTHONWARNINGS"}  # they concern the client alone
_NAMESPACES: Final = ("ipc", "mnt", "net", "pid", "user")
_BESIDE: Final = ("PATH", "TMPDIR", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE")
_CODE: Final = Path(__file__).parents[1]
_CODE_FILES: Final = (".py", ".jar", ".lock", ".so")


class Unfit(Exception):
    """This process can't use a warm session; says why."""


def environment() -> dict[str, str]:
    """The variables that a warm session is started with: no others, and so no secrets.

    Raises:
        Unfit: as for `facts`.
    """
    return _shared() | {name: os.environ[name] for name in _BESIDE if name in os.environ}


def facts() -> dict[str, str]:
    """What a process is to Spark, by names that can be shown.

    Raises:
        Unfit: the system lacks what a warm session is built on, or the environment has a proxy
            whose address holds a password.
    """
    home = os.environ.get("JAVA_HOME")
    javas = (home and f"{home}/bin/java", shutil.which("java"), bundled_java())
    found = {f"variable {name}": value for name, value in _shared().items()}
    found |= {f"limit {name}": value for name, value in _limits()}
    for name in _NAMESPACES:
        with suppress(OSError):
            found[f"namespace {name}"] = str(Path(f"/proc/self/ns/{name}").readlink())
    return found | {
        "umask": _umask(),
        "groups": f"{os.getgid()} {' '.join(map(str, sorted(os.getgroups())))}",
        "cores": " ".join(map(str, sorted(os.sched_getaffinity(0)))),
        "encoding": f"{sys.getfilesystemencoding()} {_locale()}",
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        "Python": f"{sys.executable} {sys.version}",
        "Java": " ".join(map(_stamp, javas)),
        "lakeport": f"{_CODE} {_fingerprint(_CODE)}",
        "jars": _fingerprint(cache_folder() / "jars"),
    }


def key(found: Mapping[str, str]) -> str:
    """A short name of these facts."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def _shared() -> dict[str, str]:
    if sys.platform != "linux":
        raise Unfit("warm sessions are for Linux")
    found = {}
    for name, value in os.environ.items():
        proxy = name.lower() in _PROXIES
        if proxy and "@" in value:
            raise Unfit(f"the proxy in {name} has a password, which no session is to hold")
        python = name.startswith(_PYTHON) and name not in _HARMLESS
        if proxy or python or name in _NAMES or name.startswith(_STARTS):
            found[name] = value
    return found


def _limits() -> Iterator[tuple[str, str]]:
    for name in dir(resource):
        # Core dumps are forbidden to every process of ours.
        if name.startswith("RLIMIT_") and name != "RLIMIT_CORE":
            with suppress(OSError, ValueError):
                yield name, "{} {}".format(*resource.getrlimit(getattr(resource, name)))


def _umask() -> str:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next((line for line in lines if line.startswith("Umask:")), "")


def _locale() -> str:
    return os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "C"


def _stamp(name: str | Path | None) -> str:
    """Which program a name stands for, and since when."""
    with suppress(OSError):
        if name:
            real = Path(name).resolve(strict=True)
            return f"{real} {real.stat().st_mtime_ns}"
    return "none"


def _fingerprint(folder: Path) -> str:
    """Which code a folder holds, by its files' sizes and times."""
    found = sorted(
        f"{entry.path} {(told := entry.stat()).st_size} {told.st_mtime_ns}"
        for entry in _files(str(folder))
        if entry.name.endswith(_CODE_FILES)
    )
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue  # such as a jar that is being fetched
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry


class NotStarted(ConfigError):
    """A session can't be started."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a warm session can't be started: {reason}",
            "without `--warm` the command starts its own Spark.",
        )


class Channel:
    """One connection. Messages are objects that JSON can hold.

    Args:
        connection: a socket that keeps messages apart; closed by `close`.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, object], files: Sequence[int] = ()) -> None:
        """Send a message, and open files with it.

        Raises:
            OSError: the other end has gone.
        """
        socket.send_fds(self._socket, [json.dumps(message).encode()], files)

    def receive(self, timeout: float | None = None) -> tuple[dict[str, Any], list[int]]:
        """Return the next message and the files that came with it, which are the caller's to close.

        Args:
            timeout: seconds.

        Returns:
            An empty message where the other end has gone.

        Raises:
            TimeoutError: no message came in time.
        """
        self._socket.settimeout(timeout)
        try:
            text, files, _, _ = socket.recv_fds(self._socket, _LONGEST, _FILES)
            return (json.loads(text) if text else {}), files
        except ConnectionError:
            return {}, []
        finally:
            self._socket.settimeout(None)

    def close(self) -> None:
        """Close this end in this process; others that were forked may have it, too."""
        self._socket.close()


def find() -> Channel | None:
    """Connect to the session that suits this process; None if none runs."""
    with suppress(OSError, Unfit):
        if any(_sockets()):  # which takes no time, as what follows does
            return _connect(_folder() / key(facts()))
    return None


def begin(idle: float = IDLE_SECONDS, memory: str = MEMORY) -> Channel:
    """Connect to the session that suits this process, and start it if none runs.

    Args:
        idle: after how many seconds without a run a new one ends.
        memory: the largest heap of a new one's JVM.

    Raises:
        NotStarted: there can be none.
    """
    try:
        told = {"idle": idle, "memory": memory, "facts": facts()}
        place = _folder() / key(facts())
        place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        _check_private()
        with locked():
            with suppress(OSError):
                return _connect(place)
            place.unlink(missing_ok=True)
            with _listen(place) as listener:
                _launch(listener, place.with_suffix(_LOG), {"place": str(place), **told})
        return _connect(place)
    except Unfit as error:
        raise NotStarted(str(error)) from None
    except OSError as error:
        raise NotStarted(f"{_folder()}: {error.strerror or error}") from None


def failure() -> NotStarted:
    """The error for a session that ended before it answered, with its last words."""
    words = ""
    with suppress(OSError):
        log = (_folder() / key(facts())).with_suffix(_LOG)
        words = log.read_text(errors="replace").strip().rpartition("\n")[2]
    return NotStarted(words or "it ended")


def sessions() -> list[Channel]:
    """Connect to all sessions of this user; what killed ones left is removed."""
    found = []
    with suppress(OSError):
        for place in sorted(_sockets()):
            with locked():
                try:
                    found.append(_connect(place))
                except ConnectionRefusedError:
                    remove(place)
    return found


def remove(place: Path) -> None:
    """Remove a session's socket, and its log unless that says why there is none any more.

    Nobody may be starting one meanwhile (`locked`).
    """
    place.unlink(missing_ok=True)
    log = place.with_suffix(_LOG)
    if log.exists() and not log.stat().st_size:
        log.unlink()


@contextmanager
def locked() -> Iterator[None]:
    """Have nobody else start or end a session while the body runs."""
    lock = os.open(_folder() / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _launch(listener: socket.socket, log: Path, told: Mapping[str, object]) -> None:
    """Start the process that is to be a session; it outlives this one."""
    given = os.memfd_create("lakeport-warm")
    os.write(given, json.dumps(told).encode())
    os.lseek(given, 0, os.SEEK_SET)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    streams = ((given, 0), (output, 1), (output, 2), (listener.fileno(), LISTENER))
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", PROGRAM],
            environment(),
            file_actions=[(os.POSIX_SPAWN_DUP2, *each) for each in streams],
            setsid=True,
        )
    finally:
        os.close(given)
        os.close(output)


def _folder() -> Path:
    return cache_folder() / "warm"


def _sockets() -> Iterator[Path]:
    """The sessions' sockets; none where the folder is not this user's alone."""
    _check_private()
    return (file for file in _folder().iterdir() if not file.suffix and file.name != _LOCK)


def _check_private() -> None:
    """Raise OSError unless the folder is there, and nobody else has a say in it."""
    found = _folder().lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{_folder()} is not this user's alone")


def _connect(place: Path) -> Channel:
    connection = _socket()
    try:
        with _short(place) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return Channel(connection)


def _listen(place: Path) -> socket.socket:
    listener = _socket()
    with _short(place) as short:
        listener.bind(short)
    listener.listen(_WAITING)
    return listener


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


@contextmanager
def _short(place: Path) -> Iterator[str]:
    """A name for a path that is short enough for a socket's address, whatever the folder's is."""
    folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)
