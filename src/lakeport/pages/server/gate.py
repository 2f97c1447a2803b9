"""Who gets in: whoever has the token, unless a page of another origin sent the request.

A reader's browser is also the browser of every page that the reader visits. Such a page can have it
send requests here, so all that comes is checked before anything is read: which name it came by
(a name can be made to lead here), what it wants to do, which page sent it, and the token.
"""

from __future__ import annotations

import re
import secrets
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lakeport.pages.server.address import Address
from lakeport.pages.server.answers import UNKEPT, plain, words

TOKEN: Final = "token"  # noqa: S105  # a name
"""The query's key for the token, and the scheme of the `Authorization` header."""
HEAD_BYTES: Final = 16 << 10
"""The most that the headers of a request may have."""
_LONGEST: Final = 4096  # bytes of a path with its query: an object's key has 1,024, escaped 3,072
_CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
_READING: Final = ("GET", "HEAD")


class Gate:
    """Hands on the requests of the reader, and refuses all others, in the same words each.

    Args:
        app: what is behind it.
        address: where it is reached.
        token: what the reader has.
    """

    def __init__(self, app: ASGIApp, address: Address, token: str) -> None:
        self._app = app
        self._address = address
        self._token = token
        self._cookie = f"lakeport-{address.port}"  # ports share a host's cookies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the app answer it."""
        request = Request(scope)
        answer = self._wrong(request) or self._outside(request)
        await (answer or self._app)(scope, receive, send)

    def _wrong(self, request: Request) -> Response | None:
        """The answer to what no reader asks for."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._address.knows(hosts[0]):
            here = "These pages don't go by that name. Open the address that `lakeport ui` printed."
            return plain(421, "Another name", words(here))
        if request.method not in _READING:
            only = words("Nothing here writes: there is only GET and HEAD.")
            return plain(405, "Only reading", only, {"Allow": ", ".join(_READING)})
        target = request.scope["raw_path"] + b"?" + request.scope["query_string"]
        if len(target) > _LONGEST:
            return plain(414, "Too long", words("No page has an address of that length."))
        if sum(len(name) + len(value) for name, value in request.scope["headers"]) > HEAD_BYTES:
            return plain(431, "Too long", words("No browser sends headers of that length."))
        if not target.startswith(b"/") or _CONTROL.search(request.scope["path"]):
            return plain(400, "No path", words("Ask for a path, such as `/`."))
        if _foreign(request):
            return self._refusal()
        return None

    def _outside(self, request: Request) -> Response | None:
        """The answer to who has no cookie yet; None for who has."""
        query = request.scope["query_string"].decode("ascii")
        given = parse_qsl(query, keep_blank_values=True)
        if any(key == TOKEN and self._fits(value) for key, value in given):
            rest = urlencode([(key, value) for key, value in given if key != TOKEN])
            path = "/" + quote(request.scope["path"].lstrip("/"))
            return self._entry(request, f"{path}?{rest}" if rest else path)
        return None if self._known(request) else self._refusal()

    def _known(self, request: Request) -> bool:
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == TOKEN and self._fits(shown.strip()):
            return True
        # Another server of this host may have set one of that name as well.
        cookies = ";".join(request.headers.getlist("cookie")).split(";")
        pairs = (cookie.strip().partition("=") for cookie in cookies)
        return any(name == self._cookie and self._fits(value) for name, _, value in pairs)

    def _fits(self, shown: str) -> bool:
        return secrets.compare_digest(shown.encode(), self._token.encode())

    def _entry(self, request: Request, path: str) -> Response:
        """The cookie, and the way to the page by an address without the token."""
        if request.headers.get("sec-fetch-site", "none") in _OWN:
            answer: Response = RedirectResponse(path, 303, UNKEPT)
        else:
            # A browser sends the cookie nowhere while it follows another site's link or a file's,
            # redirects included; the way on from a page of ours is none of those.
            more = Markup('<meta http-equiv="refresh" content="0; url={}">\n').format(path)
            link = Markup('<p><a href="{}">Open the pages</a></p>').format(path)
            answer = plain(200, "lakeport", link, more=more)
        answer.set_cookie(self._cookie, self._token, path="/", httponly=True, samesite="strict")
        return answer

    def _refusal(self) -> Response:
        return plain(
            403,
            "Not without the token",
            words(
                "These pages are for who started `lakeport ui`. Open the address that it printed, "
                f"which ends with `?{TOKEN}=` and the token; a browser that has done so once may "
                "come back without it, by typing the address or from a bookmark.",
            ),
        )


_OWN: Final = ("same-origin", "none")
"""What `Sec-Fetch-Site` says of requests of our pages, and of what a reader types."""


def _foreign(request: Request) -> bool:
    """Whether a page of another origin sent it, other than by a link that the reader follows."""
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
