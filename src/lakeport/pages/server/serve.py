"""The server itself: uvicorn, which says nothing by itself and leaves at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from lakeport.pages.server.answers import ALWAYS, plain, words
from lakeport.pages.server.gate import HEAD_BYTES

_HEAD_SECONDS: Final = 10.0
"""The longest that a connection may be open without a whole request's head."""
_CONNECTIONS: Final = 64
"""The most connections: a browser opens six, and each takes a file of the process's."""


def server(app: ASGIApp) -> Server:
    """The server of an application: `server(app).run(sockets=[listener])`.

    It runs until the process is asked to end; then it raises what that raises everywhere.
    """
    return _Server(
        Config(
            app,
            interface="asgi3",
            http=_Protocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            workers=1,
            log_config=None,
            log_level="critical",  # what it logs below may hold the token
            access_log=False,
            proxy_headers=False,  # nobody is believed to ask for another
            server_header=False,
            headers=list(ALWAYS),
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_graceful_shutdown=0,
            backlog=_CONNECTIONS,  # so many are taken at once, before any of them is looked at
        )
    )


class _Server(Server):
    """A server that leaves no coroutine behind where the process is asked to end as it starts."""

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the process is asked to end."""
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.get_loop()  # what takes time is done before there is a coroutine
            runner.run(self.serve(sockets=sockets))


class _Protocol(H11Protocol):
    """One connection: whoever comes without a request, with the token or not, is soon sent away."""

    _since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; beyond the most, end the one that has waited longest."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._limit()
        held = [each for each in self.connections if isinstance(each, _Protocol)]
        held = [each for each in held if not each.transport.is_closing()]
        if len(held) > _CONNECTIONS:
            idle = [each for each in held if each._waits]  # this one does
            min(idle, key=lambda each: each._since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        super().data_received(data)
        self._limit()

    @property
    def _waits(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _limit(self) -> None:
        """Limit the time until a request is there, once it is waited for."""
        if self._timer is not None and not self._waits:
            self._timer.cancel()
            self._timer = None
        elif self._timer is None and self._waits:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self._end)

    def _end(self) -> None:
        self._timer = None
        if self._waits:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, with the headers that every answer has."""
        if self.cycle is None or self.cycle.response_complete:
            answer = plain(400, "No request", words("This can't be read as a request of HTTP."))
            headers = [*self.server_state.default_headers, *answer.raw_headers]
            lines = [b"HTTP/1.1 400 Bad Request", b"connection: close"]
            lines += [name + b": " + value for name, value in headers]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()
