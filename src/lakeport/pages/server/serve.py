"""The server itself: uvicorn, which says nothing by itself and leaves at once."""

from __future__ import annotations

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from lakeport.pages.server.answers import ALWAYS, plain, words
from lakeport.pages.server.gate import HEAD_BYTES

__all__ = ["server"]


def server(app: ASGIApp) -> Server:
    """The server of an application: `server(app).run(sockets=[listener])`.

    It runs until the process is asked to end; then it raises what that raises everywhere.
    """
    return Server(
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
        )
    )


class _Protocol(H11Protocol):
    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, with the headers that every answer has."""
        if self.cycle is None or self.cycle.response_complete:
            answer = plain(400, "No request", words("This can't be read as a request of HTTP."))
            headers = [*self.server_state.default_headers, *answer.raw_headers]
            lines = [b"HTTP/1.1 400 Bad Request", b"connection: close"]
            lines += [name + b": " + value for name, value in headers]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()
