"""Files of the user's own, replaced whole."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path


def replace_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old content or the new; a device is written to.

    Args:
        path: the file; it keeps its mode if it is there.
        content: what it is to hold.

    Raises:
        OSError: it can't be written; nothing is left beside it.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            if path.exists():
                shutil.copymode(path, temporary)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
