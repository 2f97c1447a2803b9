"""What is in every answer, and the answers that say nothing of the lake."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
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


def plain(
    status: int, title: str, body: Markup, headers: dict[str, str] | None = None, more: str = ""
) -> Response:
    """A page of a few sentences that links to nothing: whoever reads it may be anybody.

    Args:
        status: of HTTP.
        title: what is the matter.
        body: what to do about it.
        headers: further ones.
        more: what else stands in its head.
    """
    text = _FRAME.format(title=title, body=body, more=more)
    return HTMLResponse(text, status, {**UNKEPT, **(headers or {})})


def words(*sentences: str) -> Markup:
    """Paragraphs; what stands in backticks is code.

    >>> words("`a < b` holds")
    Markup('<p><code>a &lt; b</code> holds</p>')
    """
    return Markup("\n").join(Markup("<p>{}</p>").format(_coded(text)) for text in sentences)


def _coded(text: str) -> Markup:
    pieces = enumerate(text.split("`"))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(piece) if place % 2 else piece for place, piece in pieces)
