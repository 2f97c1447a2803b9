"""The records of a small text as Python's csv module reads them: quick to begin, and forgiving."""

from __future__ import annotations

import csv
import io

from lakeport.sources.csv.dialect import Dialect


def rows_of(text: str, dialect: Dialect) -> list[list[str]]:
    r"""The records, with null values as empty fields; blank lines have none.

    >>> rows_of("a;b\n\nNA;1", Dialect(delimiter=";"))
    [['a', 'b'], [], ['', '1']]
    """
    return [row for _, row in numbered_rows(text, dialect)]


def numbered_rows(text: str, dialect: Dialect) -> list[tuple[int, list[str]]]:
    """The same records, each with the line that it begins in, from 0."""
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape or None,
    )
    found, line = [], 0
    for row in reader:
        found.append((line, ["" if cell in dialect.null_values else cell for cell in row]))
        line = reader.line_num
    return found
