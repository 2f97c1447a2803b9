"""A tap's process: its messages as a stream that fails where the tap does."""

from __future__ import annotations

import atexit
import io
import logging
import os
import select
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from lakeport.errors import ConfigError, SourceError
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from lakeport.config.inputs import TapSource

_log = logging.getLogger(__name__)
_LAST_LINES: Final = 10
_LONGEST: Final = 500
_LEAVE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5


class TapProcess(io.RawIOBase):
    """Starts a tap; reads what it writes to its standard output.

    At the end of that it waits for the tap, and raises if that failed: what came since the last
    flush is not landed then.

    Args:
        source: the tap.
        state: the STATE that it goes on from; empty for none.
        folder: a private folder, for the file that hands the STATE over.
        check: called while a silent tap is waited for; raises when the load is to end.

    Raises:
        ConfigError: there is no such program or folder.
    """

    def __init__(
        self, source: TapSource, state: bytes, folder: Path, check: Callable[[], None]
    ) -> None:
        super().__init__()
        self._source = source
        self._check = check
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        command = list(source.tap)
        if state:
            path = folder / "state.json"
            path.write_bytes(state)
            command += ["--state", str(path)]
        self._process = _started(source, command)
        atexit.register(self._kill)  # where the thread that would close it does not come to it
        self._output = _pipe(self._process.stdout).fileno()
        self._ready = select.poll()
        self._ready.register(self._output, select.POLLIN)
        self._heard = threading.Thread(target=self._listen, name="lakeport-tap", daemon=True)
        self._heard.start()

    def readable(self) -> bool:
        """It is, until it is closed."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what the tap has written.

        Raises:
            SourceError: the tap has ended, and says that it failed.
        """
        while not self._ready.poll(_LOOK_SECONDS * 1000):
            self._check()
        count = os.readv(self._output, [buffer])
        if count == 0:
            self._check_end()
        return count

    def close(self) -> None:
        """End the tap if it runs, and what it has started."""
        if self.closed:
            return
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(_LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
        atexit.unregister(self._kill)
        self._heard.join(_LEAVE_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            _pipe(pipe).close()
        super().close()

    def _check_end(self) -> None:
        code = self._process.wait()
        self._heard.join(_LEAVE_SECONDS)
        if code == 0:
            return
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        last = "".join(f"\n  {line}" for line in self._last)
        said = f"; its last lines:{last}" if last else ", without a word"
        raise SourceError(
            f"the tap {self._source.program!r} failed with {how}{said}",
            "what it sent before its last STATE has landed, if that was a flush; mend what it "
            "says, and run the load again: it goes on from there.",
        )

    def _listen(self) -> None:
        """Hand the tap's own words on, and keep the last ones."""
        secrets = self._source.secrets()
        for line in _lines(_pipe(self._process.stderr)):
            text = scrub(line, secrets)
            self._last.append(text)
            _log.info("%s: %s", self._source.program, text)

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _started(source: TapSource, command: list[str]) -> subprocess.Popen[bytes]:
    folder = source.folder or None
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **source.env},
            start_new_session=True,  # an interrupt at the terminal reaches it through us
        )
    except OSError as error:
        if folder is not None and not Path(folder).is_dir():
            raise ConfigError(
                f"there is no folder {folder!r} to run the tap in", "name one that exists."
            ) from None
        raise ConfigError(
            f"the tap {source.tap[0]!r} can't be started: {error.strerror}",
            "install it, or name the program with its path.",
        ) from None


def _lines(pipe: IO[bytes]) -> Iterable[str]:
    """What a tap says, line by line; endless lines in parts."""
    while line := pipe.readline(_LONGEST):
        text = line.decode(errors="replace").rstrip()
        if text:
            yield "".join(char if char.isprintable() else " " for char in text)


def _pipe(pipe: Any) -> Any:
    """A pipe that was asked for is there."""
    if pipe is None:
        raise TypeError("the process was started without a pipe")
    return pipe
