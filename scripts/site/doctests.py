"""What the site's generator does to docstrings: their doctests become fenced code.

Google's style has them in a section of their own; here they stand wherever they explain something.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*)*", re.M)
_FLAG = re.compile(r" *# doctest: .*$", re.M)


class Doctests(griffe.Extension):
    """Called by the generator for every name that it reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mark the doctests of a name."""
        if obj.docstring:
            obj.docstring.value = _DOCTEST.sub(fenced, obj.docstring.value)


def fenced(doctest: re.Match[str]) -> str:
    """A doctest as a block of code."""
    indent = doctest["indent"]
    return f"{indent}```pycon\n{_FLAG.sub('', doctest[0])}\n{indent}```"
