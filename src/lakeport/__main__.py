"""`python -m lakeport`."""

from __future__ import annotations

import sys

from lakeport.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
