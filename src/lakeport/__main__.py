"""`python -m lakeport`."""

from __future__ import annotations

from typing import NoReturn

from lakeport.cli import app
from lakeport.cli.signals import leave


def main() -> NoReturn:
    """Run the program `lakeport`, and end the process."""
    leave(app.main())


if __name__ == "__main__":
    main()
