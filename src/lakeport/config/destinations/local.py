"""Config of the destination `local`: a folder on a disk of this machine, mounted ones included."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field

from lakeport.config.base import DestinationConfig, FileType
from lakeport.storage.base import clean_prefix
from lakeport.storage.local import LocalStorage


def _parse_folder(value: object) -> object:
    """Return the absolute path of a path or `file://` URI; raise ValueError for a file."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError("has to be the path of a folder")
    if value.startswith("file:"):
        parts = urlsplit(value)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            raise ValueError("has to be file:// and an absolute path, such as file:///data/lake")
        value = unquote(parts.path)
    if "\0" in value:
        raise ValueError("can't hold a NUL character")
    path = Path(value).expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ValueError("is not a folder")
    return str(path)


class LocalConfig(DestinationConfig):
    """Config of tables in a local folder, at `<path>/<object_key_path>/<table>`.

    Example:
        >>> LocalConfig(path="/data/lake", format="parquet").file_type
        'parquet'
    """

    delta_jars = frozenset({"delta"})

    destination: Literal["local"] = Field(default="local", description="`local`.")
    path: Annotated[str, BeforeValidator(_parse_folder)] = Field(
        description="The folder, as a path or a file:// URI; created if it does not exist."
    )
    file_type: FileType = Field(
        default="delta", description="Format of the tables: delta, parquet or csv."
    )

    if TYPE_CHECKING:  # arguments may have any type that can be parsed to the key's

        def __init__(self, **values: Any) -> None: ...

    @classmethod
    def uri_keys(cls, uri: str) -> dict[str, str]:
        """Return the key for a path or a `file://` URI."""
        return {"path": uri}

    def storage(self) -> LocalStorage:
        """Return the storage whose root is `object_key_path` in the folder."""
        return LocalStorage(str(Path(self.path, clean_prefix(self.object_key_path))))
