"""The command line: options in, calls of the public API, and one output in two forms."""

from __future__ import annotations
