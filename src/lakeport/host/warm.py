"""Warm sessions, processes of a user that keep Spark for later runs: how to find and start one.

Sessions listen at sockets in a folder that only this user can open. A run through a session has its
own environment, working folder and streams. What a running JVM can't take over from a run has to be
the same from the start (`process_facts`): limits, umask, namespaces, the variables that the JVM and
its Python workers read, lakeport's code, Java and the jars. A hash of it names the socket.

The process that starts a session opens its socket, so that clients can connect at once and wait for
an answer. Only the standard library is imported here, as a run through a session begins here.
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
from lakeport.host.packages import find_bundled_java
from lakeport.host.scratch import cache_folder

IDLE_SECONDS: Final = 15 * 60.0
MEMORY: Final = "2g"
LISTENER: Final = 3
"""Descriptor of the session's socket in the session's process."""
PROGRAM: Final = "lakeport.warm.session"
_LOCK: Final = "lock"
_LOG: Final = ".log"
_MAX_MESSAGE_BYTES: Final = 1 << 18
_MAX_FILES: Final = 16  # with one message
_BACKLOG: Final = 128  # connections that wait to be accepted

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
_NAME_STARTS: Final = ("AWS_EC2_METADATA_", "JAVA_TOOL_", "JDK_JAVA_", "KRB5", "LD_", "MALLOC_")
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_PYTHON: Final = ("PYTHON", "PYSPARK_")
_CLIENT_ONLY: Final = {"PYTHONUNBUFFERED", "PYTHONWARNINGS"}
_NAMESPACES: Final = ("ipc", "mnt", "net", "pid", "user")
_FURTHER_NAMES: Final = ("PATH", "TMPDIR", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE")
_CODE_FOLDER: Final = Path(__file__).parents[1]
_CODE_FILES: Final = (".py", ".jar", ".lock", ".so")


class WarmSessionUnavailable(Exception):
    """This process can't use a warm session; the message says why."""


def session_environment() -> dict[str, str]:
    """Return environment variables for a new session, without secrets; may raise."""
    return _shared_variables() | {
        name: os.environ[name] for name in _FURTHER_NAMES if name in os.environ
    }


def process_facts() -> dict[str, str]:
    """Return facts, such as versions and limits, in which a command and its session must agree.

    Raises:
        WarmSessionUnavailable: the system is not Linux, or the environment has a proxy whose
            address holds a password.
    """
    home = os.environ.get("JAVA_HOME")
    javas = (home and f"{home}/bin/java", shutil.which("java"), find_bundled_java())
    found = {f"variable {name}": value for name, value in _shared_variables().items()}
    found |= {f"limit {name}": value for name, value in _resource_limits()}
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
        "Java": " ".join(map(_program_stamp, javas)),
        "lakeport": f"{_CODE_FOLDER} {_fingerprint(_CODE_FOLDER)}",
        "jars": _fingerprint(cache_folder() / "jars"),
    }


def session_key(facts: Mapping[str, str]) -> str:
    """Return a short hash of the facts, the name of the session's socket."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _shared_variables() -> dict[str, str]:
    """Return environment variables in which a command and its session must agree; may raise."""
    if sys.platform != "linux":
        raise WarmSessionUnavailable("warm sessions are for Linux")
    found = {}
    for name, value in os.environ.items():
        proxy = name.lower() in _PROXIES
        if proxy and "@" in value:
            raise WarmSessionUnavailable(
                f"the proxy in {name} has a password, which no session is to hold"
            )
        python = name.startswith(_PYTHON) and name not in _CLIENT_ONLY
        if proxy or python or name in _NAMES or name.startswith(_NAME_STARTS):
            found[name] = value
    return found


def _resource_limits() -> Iterator[tuple[str, str]]:
    """Yield name and "soft hard" text of each resource limit, except core dumps."""
    for name in dir(resource):
        # lakeport forbids core dumps to all its processes.
        if name.startswith("RLIMIT_") and name != "RLIMIT_CORE":
            with suppress(OSError, ValueError):
                yield name, "{} {}".format(*resource.getrlimit(getattr(resource, name)))


def _umask() -> str:
    """Return the line with this process's umask in /proc; empty without one."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next((line for line in lines if line.startswith("Umask:")), "")


def _locale() -> str:
    """Return the locale by the environment; `C` by default."""
    return os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "C"


def _program_stamp(name: str | Path | None) -> str:
    """Return a program's real path and modification time as text; `none` if it does not exist."""
    with suppress(OSError):
        if name:
            real = Path(name).resolve(strict=True)
            return f"{real} {real.stat().st_mtime_ns}"
    return "none"


def _fingerprint(folder: Path) -> str:
    """Hash paths, sizes and modification times of all code files below a folder: 16 hex digits."""
    found = sorted(
        f"{entry.path} {(status := entry.stat()).st_size} {status.st_mtime_ns}"
        for entry in _walk_files(str(folder))
        if entry.name.endswith(_CODE_FILES)
    )
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _walk_files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield all files below a folder, without hidden ones; nothing if it does not exist."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue  # such as a jar that is being fetched
            if entry.is_dir(follow_symlinks=False):
                yield from _walk_files(entry.path)
            else:
                yield entry


class WarmStartFailed(ConfigError):
    """Error: a warm session can't be started, for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a warm session can't be started: {reason}",
            "without `--warm` the command starts its own Spark.",
        )


class Channel:
    """Connection between a command and a warm session, for JSON messages and file descriptors.

    Args:
        connection: a SOCK_SEQPACKET socket, which `close` closes.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def fileno(self) -> int:
        """Return the socket's descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, object], files: Sequence[int] = ()) -> None:
        """Send a JSON message, with open file descriptors if any.

        Raises:
            OSError: the other end is closed.
        """
        socket.send_fds(self._socket, [json.dumps(message).encode()], files)

    def receive(self, timeout: float | None = None) -> tuple[dict[str, Any], list[int]]:
        """Return the next JSON message and its file descriptors; {} if the other end is closed.

        The caller closes the descriptors. Without a timeout in seconds this waits for ever.

        Raises:
            TimeoutError: no message came in time.
        """
        self._socket.settimeout(timeout)
        try:
            text, files, _, _ = socket.recv_fds(self._socket, _MAX_MESSAGE_BYTES, _MAX_FILES)
            return (json.loads(text) if text else {}), files
        except ConnectionError:
            return {}, []
        finally:
            self._socket.settimeout(None)

    def close(self) -> None:
        """Close this end in this process; forked ones may keep theirs."""
        self._socket.close()


def find_session() -> Channel | None:
    """Connect to a running warm session whose facts equal this process's; None without one."""
    with suppress(OSError, WarmSessionUnavailable):
        if any(_sockets()):  # the facts take longer
            return _connect(_sessions_folder() / session_key(process_facts()))
    return None


def start_session(idle_seconds: float = IDLE_SECONDS, memory: str = MEMORY) -> Channel:
    """Connect to the warm session for this process; start it if it does not run.

    A new one ends after `idle_seconds` without a run; `memory` is the largest heap of its JVM.

    Raises:
        WarmStartFailed: no session can run here.
    """
    try:
        facts = process_facts()
        place = _sessions_folder() / session_key(facts)
        place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        _check_private()
        with lock_sessions():
            with suppress(OSError):
                return _connect(place)
            place.unlink(missing_ok=True)
            parameters = {"place": str(place), "idle": idle_seconds, "memory": memory}
            with _listen(place) as listener:
                _launch_session(listener, place.with_suffix(_LOG), {**parameters, "facts": facts})
        return _connect(place)
    except WarmSessionUnavailable as error:
        raise WarmStartFailed(str(error)) from None
    except OSError as error:
        raise WarmStartFailed(f"{_sessions_folder()}: {error.strerror or error}") from None


def start_failure() -> WarmStartFailed:
    """Return the error for a session that ended at its start, with the last line of its log."""
    words = ""
    with suppress(OSError):
        log = (_sessions_folder() / session_key(process_facts())).with_suffix(_LOG)
        words = log.read_text(errors="replace").strip().rpartition("\n")[2]
    return WarmStartFailed(words or "it ended")


def connect_sessions() -> list[Channel]:
    """Return connections to all warm sessions of this user; delete sockets of killed ones."""
    found = []
    with suppress(OSError):
        for place in sorted(_sockets()):
            with lock_sessions():
                try:
                    found.append(_connect(place))
                except ConnectionRefusedError:
                    remove_session(place)
    return found


def remove_session(place: Path) -> None:
    """Delete a session's socket, and its log if empty. The caller holds `lock_sessions`."""
    place.unlink(missing_ok=True)
    log = place.with_suffix(_LOG)
    if log.exists() and not log.stat().st_size:
        log.unlink()


@contextmanager
def lock_sessions() -> Iterator[None]:
    """Context manager with a file lock against starts and ends of sessions elsewhere."""
    lock = os.open(_sessions_folder() / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _launch_session(listener: socket.socket, log: Path, parameters: Mapping[str, object]) -> None:
    """Start the detached process of a warm session; it reads `parameters` as JSON on stdin."""
    given = os.memfd_create("lakeport-warm")
    os.write(given, json.dumps(parameters).encode())
    os.lseek(given, 0, os.SEEK_SET)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    streams = ((given, 0), (output, 1), (output, 2), (listener.fileno(), LISTENER))
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", PROGRAM],
            session_environment(),
            file_actions=[(os.POSIX_SPAWN_DUP2, *each) for each in streams],
            setsid=True,
        )
    finally:
        os.close(given)
        os.close(output)


def _sessions_folder() -> Path:
    """Return the folder of the sessions' sockets and logs, which need not exist."""
    return cache_folder() / "warm"


def _sockets() -> Iterator[Path]:
    """Return the paths of the sessions' sockets; raise OSError unless the folder is private."""
    _check_private()
    return (file for file in _sessions_folder().iterdir() if not file.suffix and file.name != _LOCK)


def _check_private() -> None:
    """Raise OSError unless the sessions' folder exists and only this user has access."""
    found = _sessions_folder().lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{_sessions_folder()} is not this user's alone")


def _connect(place: Path) -> Channel:
    """Connect to the session that listens on the socket at `place`; OSError if none does."""
    connection = _socket()
    try:
        with _short_path(place) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return Channel(connection)


def _listen(place: Path) -> socket.socket:
    """Create a Unix socket at `place` and listen on it."""
    listener = _socket()
    with _short_path(place) as short:
        listener.bind(short)
    listener.listen(_BACKLOG)
    return listener


def _socket() -> socket.socket:
    """Return a new Unix socket that keeps messages apart."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


@contextmanager
def _short_path(place: Path) -> Iterator[str]:
    """Yield a path of `place` by way of /proc, short enough for a Unix socket's address."""
    folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)
