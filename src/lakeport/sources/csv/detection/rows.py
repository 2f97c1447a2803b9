"""The records of a small text as Python's csv module reads them: quick to begin, and forgiving."""

from __future__ import annotations

import csv
import io

from lakeport.sources.csv.dialect import Dialect

__all__ = ["rows_of"]


def rows_of(text: str, dialect: Dialect) -> list[list[str]]:
    r"""The records, with null values as empty fields; blank lines have none.

    >>> rows_of("a;b\n\nNA;1", Dialect(delimiter=";"))
    [['a', 'b'], [], ['', '1']]
    """
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape or None,
    )
    return [["" if cell in dialect.null_values else cell for cell in row] for row in reader]
