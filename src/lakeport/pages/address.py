"""The address of the pages' server: its socket, its names, and a browser that opens it."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from lakeport.errors import ConfigError
from lakeport.host.scratch import ScratchFolder

LOOPBACK: Final = "127.0.0.1"
_WAITING: Final = 128
_HTTP: Final = 80
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]+)(?::([0-9]{1,5}))?")

_REDIRECT: Final = (
    '<!doctype html>\n<meta charset="utf-8">\n<title>lakeport</title>\n'
    '<meta http-equiv="refresh" content="0; url={url}">\n<a href="{url}">Open the pages</a>\n'
)


@dataclass(frozen=True, slots=True)
class Address:
    """Host name given by `--host`, and the IP address and port that the server listens on."""

    host: str
    ip: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return ipaddress.ip_address(self.ip).is_loopback

    def url(self, token: str) -> str:
        """Return the URL that opens the pages in a browser, with the access token.

        >>> Address("127.0.0.1", "127.0.0.1", 8123).url("abc")
        'http://127.0.0.1:8123/?token=abc'
        """
        host = self.host
        if self._listens_everywhere:
            host = "[::1]" if ":" in self.ip else LOOPBACK
        return f"http://{_bracket_ipv6(host)}:{self.port}/?token={token}"

    def knows(self, host: str) -> bool:
        """Whether a request's `Host` header names this server, against DNS rebinding.

        A page in the wild may have a name of its own lead here, but then its name is in the header.
        Numbers can't be made to lead elsewhere, so where all interfaces are listened on, each does.

        >>> here = Address("127.0.0.1", "127.0.0.1", 8123)
        >>> here.knows("LOCALHOST:8123"), here.knows("evil.example:8123"), here.knows("localhost")
        (True, False, False)
        """
        found = _HOST.fullmatch(host.lower())
        if found is None or int(found[2] or _HTTP) != self.port:
            return False
        name = found[1]
        if name in (LOOPBACK, "localhost", "[::1]", _bracket_ipv6(self.host.lower())):
            return True
        if not self._listens_everywhere:
            return False
        return name == socket.gethostname().lower() or _is_ip_address(name)

    @property
    def _listens_everywhere(self) -> bool:
        """Whether the server listens on all interfaces."""
        return ipaddress.ip_address(self.ip).is_unspecified


@contextmanager
def open_listener(host: str, port: int) -> Iterator[tuple[socket.socket, Address]]:
    """Yield a listening TCP socket and its address; port 0 takes a free one. May raise ConfigError.

    Raises:
        ConfigError: there is no such interface, or the port can't be had.
    """
    family, where = _resolve_host(host, port)
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(where)
            listener.listen(_WAITING)
        except OSError as error:
            raise _bind_error(host, port, error) from error
        ip, bound = listener.getsockname()[:2]
        yield listener, Address(host, ip, bound)


def _resolve_host(host: str, port: int) -> tuple[int, Any]:
    """Return socket family and address of a host name; ConfigError if it is none."""
    try:
        # An empty name would mean every interface.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM) if host else []
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise ConfigError(
            f"`--host` is {host!r}, which is no address", f"leave it out for {LOOPBACK}."
        )
    return found[0][0], found[0][4]


def _bind_error(host: str, port: int, error: OSError) -> ConfigError:
    """Return the ConfigError for a port that can't be bound: in use, forbidden or foreign."""
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} of {host} is in use", "give another `--port`, or none for a free one."
        )
    if error.errno == errno.EACCES:
        return ConfigError(
            f"port {port} of {host} is not for this user", "give a `--port` above 1023."
        )
    return ConfigError(
        f"nothing can be served at {host}: {error.strerror}",
        f"`--host` takes an address of this machine; leave it out for {LOOPBACK}.",
    )


def _bracket_ipv6(host: str) -> str:
    """Return an IPv6 address in brackets, and other hosts as they are."""
    return f"[{host}]" if ":" in host else host


def _is_ip_address(name: str) -> bool:
    """Whether a text is an IP address; IPv6 may stand in brackets."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def has_display() -> bool:
    """Whether this machine has a display for a browser."""
    return sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


@contextmanager
def open_browser(url: str) -> Iterator[None]:
    """Open a URL in the browser by a private file, so that no command line shows its token.

    Other users can read command lines, so the browser is given a file that only this user can
    read. That none can be opened is no error: whoever runs this has the address.
    """
    folder = None
    with suppress(ConfigError, OSError):
        folder = ScratchFolder("ui")
        file = folder.path / "open.html"
        file.write_text(_REDIRECT.format(url=escape(url)), "utf-8")
        # Opening some browsers blocks until they end.
        threading.Thread(target=_open_file, args=(file,), daemon=True).start()
    try:
        yield
    finally:
        if folder is not None:
            folder.remove()


def _open_file(file: Path) -> None:
    """Open an HTML file in the default graphical browser; ignore all errors."""
    with suppress(Exception):
        browser = webbrowser.get()
        # A text browser would take over this terminal.
        if type(browser) is not webbrowser.GenericBrowser or os.environ.get("BROWSER"):
            browser.open(file.as_uri())
