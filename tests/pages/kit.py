"""A server of pages in this process, and requests as browsers, curl and others send them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import cast

from markupsafe import Markup

from lakeport.html.document import Page
from lakeport.pages.address import Address, open_listener
from lakeport.pages.lake import LakePages
from lakeport.pages.serve import build_server, build_site

TOKEN = "a-token-that-nobody-guesses"
LAKE = "silver-flights-7f3a"
"""Stands on each page and in each file: whoever reads it has read of the lake."""
FILES = {
    "theme.css": ("text/css", b"/* silver-flights-7f3a */"),
    "page.js": ("text/javascript", b"var lake = 'silver-flights-7f3a'"),
}

Body = Callable[[], str]


@dataclass
class Book:
    """Pages by their paths; those that are asked for are noted."""

    bodies: dict[str, Body] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def find_page(self, path: str) -> Page | None:
        self.asked.append(path)
        body = self.bodies.get(path)
        return None if body is None else Page(path, path, Markup("<p>{}</p>").format(body()))

    def build_document(self, page: Page) -> str:
        frame = Markup("<!doctype html><title>{}</title><nav>{}</nav><main>{}</main>")
        return str(frame.format(page.title, LAKE, page.body))

    def find_asset(self, name: str) -> tuple[str, bytes] | None:
        return FILES.get(name)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str

    @classmethod
    def of(cls, response: HTTPResponse) -> Answer:
        text = response.read().decode()
        pairs = response.getheaders()
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), "a header came twice"
        return cls(response.status, headers, text)


@dataclass
class Served:
    """Pages that are served."""

    address: Address
    book: Book
    errors: list[BaseException]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.address.port}"

    @property
    def cookie(self) -> str:
        return f"lakeport-{self.address.port}={TOKEN}"

    def ask(self, target: str, method: str = "GET", **headers: str) -> Answer:
        """A request with headers (`_` for `-`, empty ones left out), by default the reader's."""
        given = {"host": self.host, "cookie": self.cookie, **headers}
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
        return self.send("\r\n".join([*lines, "", ""]).encode(), method)

    def send(self, request: bytes, method: str = "GET") -> Answer:
        """The first answer to some bytes."""
        with socket.create_connection((self.address.ip, self.address.port), 30) as connection:
            with suppress(OSError):  # who has read enough answers before the end
                connection.sendall(request)
            response = HTTPResponse(connection, method=method)
            response.begin()
            return Answer.of(response)

    def connection(self) -> HTTPConnection:
        return HTTPConnection(self.address.ip, self.address.port, timeout=30)


@contextmanager
def served(book: Book, host: str = "127.0.0.1", secrets: tuple[str, ...] = ()) -> Iterator[Served]:
    """Pages on a free port, for as long as the body runs."""
    with open_listener(host, 0) as (listener, address):
        errors: list[BaseException] = []
        run = build_server(
            build_site(cast(LakePages, book), address, TOKEN, secrets, errors.append)
        )
        thread = threading.Thread(target=run.run, args=([listener],))
        thread.start()
        try:
            yield Served(address, book, errors)
        finally:
            run.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


class Command:
    """`lakeport ui`, running."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lakeport", "ui", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
        )
        assert self._process.stdout
        self.told = self._process.stdout.readline()

    def ask(self, path: str, token: str, port: int) -> Answer:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path, headers={"Authorization": f"token {token}"})
        answer = Answer.of(connection.getresponse())
        connection.close()
        return answer

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """The exit code, and what else came on standard output and standard error."""
        if number is not None:
            self._process.send_signal(number)
        out, err = self._process.communicate(timeout=60)
        return self._process.returncode, out, err


@contextmanager
def command(*arguments: str, **variables: str) -> Iterator[Command]:
    """`lakeport ui` with arguments, from its first line on; killed if the body leaves it."""
    running = Command(*arguments, **variables)
    try:
        yield running
    finally:
        running._process.kill()
        running._process.communicate()
