"""Pages as answers: each made in a thread, so that a slow store keeps nobody else waiting."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from anyio import CapacityLimiter, to_thread
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from lakeport.errors import (
    ConfigError,
    DestinationError,
    InputError,
    LakeportError,
    MissingDependency,
    Unreachable,
)
from lakeport.loading.report import Failure
from lakeport.pages.page import Page, Pages
from lakeport.pages.server.address import Address
from lakeport.pages.server.answers import UNKEPT, plain, words
from lakeport.pages.server.gate import TOKEN, Gate

OnError = Callable[[BaseException], None]
"""Is told of an error that ended a page, in the page's thread."""

_AT_ONCE: Final = 4
_LONGEST_NAME: Final = 255  # bytes, of folders on a disk
_STATUS: Final = (
    (Unreachable, HTTPStatus.SERVICE_UNAVAILABLE),
    (DestinationError, HTTPStatus.BAD_GATEWAY),
    (MissingDependency, HTTPStatus.NOT_IMPLEMENTED),
    (ConfigError, HTTPStatus.BAD_REQUEST),
    (InputError, HTTPStatus.NOT_FOUND),
)


def site(
    pages: Pages,
    address: Address,
    token: str,
    secrets: Iterable[str] = (),
    on_error: OnError = lambda error: None,
) -> Starlette:
    """The application that serves pages to whoever has the token.

    Args:
        pages: what is served; asked from several threads at once.
        address: where.
        token: who shows it gets in.
        secrets: what is masked in errors.
        on_error: is told of each error.
    """
    served = _Site(pages, tuple(secrets), on_error)
    return Starlette(
        routes=[Route("/assets/{name}", served.asset), Route("/{path:path}", served.page)],
        middleware=[Middleware(Gate, address=address, token=token)],
    )


class _Site:
    def __init__(self, pages: Pages, secrets: tuple[str, ...], on_error: OnError) -> None:
        self._pages = pages
        self._secrets = secrets
        self._on_error = on_error
        self._few = CapacityLimiter(_AT_ONCE)

    async def asset(self, request: Request) -> Response:
        """A file that documents link to; a browser asks each time whether it has changed."""
        found = await to_thread.run_sync(self._pages.asset, request.path_params["name"])
        if found is None:
            return await self.page(request)
        media, contents = found
        tag = f'"{hashlib.sha256(contents).hexdigest()[:32]}"'
        headers = {"Cache-Control": "no-cache", "ETag": tag}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(contents, headers=headers, media_type=media)

    async def page(self, request: Request) -> Response:
        """A page, or why there is none."""
        path = request.scope["path"]
        query = dict(parse_qsl(request.scope["query_string"].decode(), keep_blank_values=True))
        query.pop(TOKEN, None)
        # A reader who ends the server does not wait for a store.
        return await to_thread.run_sync(
            self._answer, path, query, abandon_on_cancel=True, limiter=self._few
        )

    def _answer(self, path: str, query: dict[str, str]) -> Response:
        try:
            page = self._pages.page(path, query) if _names_something(path) else None
            if page is None:
                return self._apology(path, 404, "Not here", f"There is no page at {path}")
            return self._document(page, 200)
        except LakeportError as error:
            self._on_error(error)
            return self._failed(path, error)
        except Exception as error:
            self._on_error(error)
            return plain(
                500,
                "This page failed",
                words(
                    "Something in lakeport went wrong.",
                    "Hint: `lakeport ui --debug` shows on its terminal where it comes from; what "
                    "it shows may hold values of the data.",
                ),
            )

    def _failed(self, path: str, error: LakeportError) -> Response:
        """The error in the command line's words."""
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        failure = Failure.of(error).scrubbed(self._secrets)
        said = [failure.message]
        if failure.hint:
            said.append(f"Hint: {failure.hint}")
        said.append(f"More: `lakeport explain {failure.type}`")
        return self._apology(path, status, "This can't be told", *said)

    def _apology(self, path: str, status: int, title: str, *sentences: str) -> Response:
        heading = Markup('<header class="title"><h1>{}</h1></header>\n').format(title)
        return self._document(Page(path, title, heading + words(*sentences)), status)

    def _document(self, page: Page, status: int) -> Response:
        return HTMLResponse(self._pages.document(page), status, UNKEPT)


def _names_something(path: str) -> bool:
    """Whether a path can be a page's: it leads down, by names that a folder can have.

    >>> [_names_something(path) for path in ("/", "/table/a b", "/table/../x", "/a//b", "/a/")]
    [True, True, False, False, False]
    """
    names = path[1:].split("/")
    known = all(len(name.encode()) <= _LONGEST_NAME for name in names)
    return path == "/" or (known and {"", ".", ".."}.isdisjoint(names))
