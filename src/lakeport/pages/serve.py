"""Serve pages to the one user who started the server: uvicorn, a gate, and the pages behind it.

```
request ─▶ gate: is it for this address, from here, with the token? ─▶ site: the page, in a thread
```
What is refused says nothing of the lake. Why it is kept so:
docs/adr/0029-pages-are-served-to-one-user.md.

A reader's browser is also the browser of every page that the reader visits. Such a page can have it
send requests here, so all that comes is checked before anything is read: which name it came by
(a name can be made to lead here), what it wants to do, which page sent it, and the token.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode

from anyio import CapacityLimiter, to_thread
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from lakeport.errors import (
    ConfigError,
    DestinationError,
    InputError,
    LakeportError,
    MissingDependency,
    Unreachable,
)
from lakeport.html.document import Page
from lakeport.loading.report import Failure
from lakeport.pages.address import Address

if TYPE_CHECKING:
    from lakeport.pages.lake import LakePages

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
ALWAYS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
"""Headers of every answer, also of those that uvicorn gives by itself."""
UNKEPT: Final = {"Cache-Control": "no-store"}

_FRAME: Final = Markup(
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta name="color-scheme" content="light dark">\n{more}<title>{title}</title>\n'
    "</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n"
)

TOKEN: Final = "token"  # noqa: S105  # a name
"""The query's key for the token, and the scheme of the `Authorization` header."""
HEAD_BYTES: Final = 16 << 10
"""Most bytes in the headers of a request."""
_LONGEST: Final = 4096  # bytes of a path with its query: an object's key has 1,024, escaped 3,072
_CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
_READING: Final = ("GET", "HEAD")

_OWN: Final = ("same-origin", "none")
"""Values of `Sec-Fetch-Site` in requests of our own pages, and of addresses that a reader types."""

_HEAD_SECONDS: Final = 10.0
"""Longest time for a connection to send the head of a request."""
_CONNECTIONS: Final = 64
"""Most connections at once: a browser opens six, and each takes a file descriptor."""

OnError = Callable[[BaseException], None]
"""Called with an error that ended a page, in the page's thread."""

_AT_ONCE: Final = 4
_STATUS: Final = (
    (Unreachable, HTTPStatus.SERVICE_UNAVAILABLE),
    (DestinationError, HTTPStatus.BAD_GATEWAY),
    (MissingDependency, HTTPStatus.NOT_IMPLEMENTED),
    (ConfigError, HTTPStatus.BAD_REQUEST),
    (InputError, HTTPStatus.NOT_FOUND),
)


def _build_plain_page(status: int, title: str, body: Markup, head: str = "") -> HTMLResponse:
    """Build a short page without links, as anybody may read it; `head` has further elements."""
    return HTMLResponse(_FRAME.format(title=title, body=body, more=head), status, UNKEPT)


def _refuse(status: int, title: str, *sentences: str) -> HTMLResponse:
    """Build the page that refuses a request, with a paragraph for each sentence."""
    return _build_plain_page(status, title, render_paragraphs(*sentences))


def render_paragraphs(*sentences: str) -> Markup:
    """Render each sentence as an HTML paragraph; text in backticks becomes `<code>`.

    >>> render_paragraphs("`a < b` holds")
    Markup('<p><code>a &lt; b</code> holds</p>')
    """
    return Markup("\n").join(Markup("<p>{}</p>").format(_render_code(text)) for text in sentences)


def _render_code(text: str) -> Markup:
    """Escape a text for HTML, with its backticked parts in `<code>`."""
    pieces = enumerate(text.split("`"))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(piece) if place % 2 else piece for place, piece in pieces)


class Gate:
    """ASGI middleware that lets a request pass only with the access token."""

    def __init__(self, app: ASGIApp, address: Address, token: str) -> None:
        self._app = app
        self._address = address
        self._token = token
        self._cookie = f"lakeport-{address.port}"  # ports share a host's cookies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or have the app answer it."""
        request = Request(scope)
        answer = self._check_request(request) or self._check_token(request)
        await (answer or self._app)(scope, receive, send)

    def _check_request(self, request: Request) -> Response | None:
        """Return an error response for a bad host, method, length, path or origin; else None."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._address.knows(hosts[0]):
            here = "These pages don't go by that name. Open the address that `lakeport ui` printed."
            return _refuse(421, "Another name", here)
        if request.method not in _READING:
            only = "Nothing here writes: there is only GET and HEAD."
            answer = _refuse(405, "Only reading", only)
            answer.headers["Allow"] = ", ".join(_READING)
            return answer
        target = request.scope["raw_path"] + b"?" + request.scope["query_string"]
        if len(target) > _LONGEST:
            return _refuse(414, "Too long", "No page has an address of that length.")
        if sum(len(name) + len(value) for name, value in request.scope["headers"]) > HEAD_BYTES:
            return _refuse(431, "Too long", "No browser sends headers of that length.")
        if not target.startswith(b"/") or _CONTROL.search(request.scope["path"]):
            return _refuse(400, "No path", "Ask for a path, such as `/`.")
        if _is_cross_site(request):
            return self._refuse_without_token()
        return None

    def _check_token(self, request: Request) -> Response | None:
        """Return None with a valid token cookie or header, a redirect for a URL token, else 403."""
        query = request.scope["query_string"].decode("ascii")
        given = parse_qsl(query, keep_blank_values=True)
        if any(key == TOKEN and self._is_token(value) for key, value in given):
            rest = urlencode([(key, value) for key, value in given if key != TOKEN])
            path = "/" + quote(request.scope["path"].lstrip("/"))
            return self._set_cookie(request, f"{path}?{rest}" if rest else path)
        return None if self._has_token(request) else self._refuse_without_token()

    def _has_token(self, request: Request) -> bool:
        """Whether the Authorization header or the session cookie has the access token."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == TOKEN and self._is_token(shown.strip()):
            return True
        # Another server of this host may have set one of that name as well.
        cookies = ";".join(request.headers.getlist("cookie")).split(";")
        pairs = (cookie.strip().partition("=") for cookie in cookies)
        return any(name == self._cookie and self._is_token(value) for name, _, value in pairs)

    def _is_token(self, shown: str) -> bool:
        """Whether a text is the token, compared in constant time."""
        return secrets.compare_digest(shown.encode(), self._token.encode())

    def _set_cookie(self, request: Request, path: str) -> Response:
        """Return a redirect to `path` that sets the session cookie; `path` has no token."""
        if request.headers.get("sec-fetch-site", "none") in _OWN:
            answer: Response = RedirectResponse(path, 303, UNKEPT)
        else:
            # A browser sends no SameSite cookie while it follows a link from another site or a
            # file, redirects included. It does after a refresh by a page of ours.
            more = Markup('<meta http-equiv="refresh" content="0; url={}">\n').format(path)
            link = Markup('<p><a href="{}">Open the pages</a></p>').format(path)
            answer = _build_plain_page(200, "lakeport", link, more)
        answer.set_cookie(self._cookie, self._token, path="/", httponly=True, samesite="strict")
        return answer

    def _refuse_without_token(self) -> Response:
        """Return the 403 page, which says how to open the pages."""
        return _refuse(
            403,
            "Not without the token",
            "These pages are for who started `lakeport ui`. Open the address that it printed, "
            f"which ends with `?{TOKEN}=` and the token; a browser that has done so once may come "
            "back without it, by typing the address or from a bookmark.",
        )


def _is_cross_site(request: Request) -> bool:
    """Whether a request comes from another website, other than by a followed link."""
    headers = request.headers
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"http://{headers['host'].lower()}":
        return True
    if headers.get("sec-fetch-site", "none") in _OWN:
        return False
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) != (
        "navigate",
        "document",
    )


def build_server(app: ASGIApp) -> Server:
    """Return a uvicorn server for an app; `build_server(app).run(sockets=[listener])` serves.

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
            proxy_headers=False,  # no proxy is trusted to name another client
            server_header=False,
            headers=list(ALWAYS),
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_graceful_shutdown=0,
            backlog=_CONNECTIONS,  # the kernel accepts no more before we look at one
        )
    )


class _Server(Server):
    """uvicorn server that Ctrl-C can interrupt while it starts.

    A signal raises in this thread, between any two steps: so another thread makes the loop.
    """

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve requests until a signal ends the process."""
        make = self.config.get_loop_factory() or asyncio.new_event_loop
        with ThreadPoolExecutor(1) as maker:
            loop = maker.submit(make).result()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.get_loop()  # slow steps come before there is a coroutine
            runner.run(self.serve(sockets=sockets))


class _Protocol(H11Protocol):
    """HTTP connection that is closed if no whole request arrives in time; at most 64 are kept."""

    _since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; beyond 64, abort the one that has been idle longest."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._set_deadline()
        held = [each for each in self.connections if isinstance(each, _Protocol)]
        held = [each for each in held if not each.transport.is_closing()]
        if len(held) > _CONNECTIONS:
            idle = [each for each in held if each._is_idle]  # this one does
            min(idle, key=lambda each: each._since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection and cancel its timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; a whole request ends its deadline."""
        super().data_received(data)
        self._set_deadline()

    @property
    def _is_idle(self) -> bool:
        """Whether no request of this connection is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _set_deadline(self) -> None:
        """Start the timer for a whole request if the connection is idle; else cancel it."""
        if self._timer is not None and not self._is_idle:
            self._timer.cancel()
            self._timer = None
        elif self._timer is None and self._is_idle:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self._close)

    def _close(self) -> None:
        """Abort the connection if it is idle, once the timer has run out."""
        self._timer = None
        if self._is_idle:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Close after bytes that are no HTTP request; answer 400 unless in a response."""
        if self.cycle is None or self.cycle.response_complete:
            answer = _refuse(400, "No request", "This can't be read as a request of HTTP.")
            headers = [*self.server_state.default_headers, *answer.raw_headers]
            lines = [b"HTTP/1.1 400 Bad Request", b"connection: close"]
            lines += [name + b": " + value for name, value in headers]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()


def build_site(
    pages: LakePages,
    address: Address,
    token: str,
    secrets: Iterable[str] = (),
    on_error: OnError = lambda error: None,
) -> Starlette:
    """Build the web app that serves `pages` to readers with the access token.

    Args:
        pages: the pages, which several threads build at once.
        secrets: texts to mask in errors.
        on_error: called with each error, in the page's thread.
    """
    served = _SiteRoutes(pages, tuple(secrets), on_error)
    return Starlette(
        routes=[Route("/assets/{name}", served.asset), Route("/{path:path}", served.page)],
        middleware=[Middleware(Gate, address=address, token=token)],
    )


class _SiteRoutes:
    """Request handlers of the web app: pages, the style sheet and the script."""

    def __init__(self, pages: LakePages, secrets: tuple[str, ...], on_error: OnError) -> None:
        self._pages = pages
        self._secrets = secrets
        self._on_error = on_error
        self._limiter = CapacityLimiter(_AT_ONCE)

    async def asset(self, request: Request) -> Response:
        """Return the style sheet or script, or 304 if the browser has it; other names as pages."""
        found = await to_thread.run_sync(self._pages.find_asset, request.path_params["name"])
        if found is None:
            return await self.page(request)
        media, contents = found
        tag = f'"{hashlib.sha256(contents).hexdigest()[:32]}"'
        headers = {"Cache-Control": "no-cache", "ETag": tag}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(contents, headers=headers, media_type=media)

    async def page(self, request: Request) -> Response:
        """Return the page at the request's path, built in a thread, or an error page."""
        path = request.scope["path"]
        # Ending the server does not wait for a store.
        return await to_thread.run_sync(
            self._render, path, abandon_on_cancel=True, limiter=self._limiter
        )

    def _render(self, path: str) -> Response:
        """Return the response for the page at `path`: 200, 404, or an error page. Never raises."""
        try:
            page = self._pages.find_page(path)
            if page is None:
                return self._build_error_page(path, 404, "Not here", f"There is no page at {path}")
            return self._respond(page, 200)
        except LakeportError as error:
            self._on_error(error)
            return self._show_error(path, error)
        except Exception as error:
            self._on_error(error)
            return _refuse(
                500,
                "This page failed",
                "Something in lakeport went wrong.",
                "Hint: `lakeport ui --debug` shows on its terminal where it comes from; what it "
                "shows may hold values of the data.",
            )

    def _show_error(self, path: str, error: LakeportError) -> Response:
        """Return the page of an error: masked message, hint, and the status of its type."""
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        failure = Failure.of(error).scrubbed(self._secrets)
        said = [failure.message]
        if failure.hint:
            said.append(f"Hint: {failure.hint}")
        said.append(f"More: `lakeport explain {failure.type}`")
        return self._build_error_page(path, status, "This can't be told", *said)

    def _build_error_page(self, path: str, status: int, title: str, *sentences: str) -> Response:
        """Answer with a page of sentences under a title."""
        heading = Markup('<header class="title"><h1>{}</h1></header>\n').format(title)
        return self._respond(Page(path, title, heading + render_paragraphs(*sentences)), status)

    def _respond(self, page: Page, status: int) -> Response:
        """Answer with a page's document and a status."""
        return HTMLResponse(self._pages.build_document(page), status, UNKEPT)
