"""The command line: parses options, calls the public API, prints for people or as JSON."""

from __future__ import annotations
