"""The manifest of a load: one small JSON object beside the lake that tells what was landed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakeport.model import Staged, Storage
from lakeport.writers.naming import HOME, safe_segment

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["write_manifest"]


def write_manifest(
    storage: Storage,
    table: str,
    stream: str,
    clock: datetime,
    files: Sequence[tuple[str, Staged]],
    schema: pa.Schema,
    singer_state: bytes | None = None,
    home: str = HOME,
) -> str:
    """Write `_lakeport/manifests/<table>/<YYYYMMDD-HHMMSS>-<id>.json` and return its key.

    Args:
        storage: where the lake is.
        table: the table's folder below the root.
        stream: the stream's name.
        clock: the batch's one clock reading.
        files: key and description of every object.
        schema: the files' columns.
        singer_state: the STATE that the load allows, as the raw JSON that came.
        home: folder of everything that is not data.

    Raises:
        DestinationError: the store refuses.
    """
    moment = clock.astimezone(UTC) if clock.tzinfo else clock.replace(tzinfo=UTC)
    content = {
        "stream": stream,
        "table": storage.uri(table),
        "at": moment.isoformat(timespec="microseconds"),
        "rows": sum(staged.rows for _, staged in files),
        "bytes": sum(staged.bytes for _, staged in files),
        "files": [
            {
                "uri": storage.uri(key),
                "rows": staged.rows,
                "bytes": staged.bytes,
                "checksum": staged.checksum,
            }
            for key, staged in files
        ],
        "schema": [{"name": column.name, "type": str(column.type)} for column in schema],
        "state": None if singer_state is None else singer_state.decode("utf-8", "replace"),
    }
    name = f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(8)}.json"
    key = f"{home}/manifests/{safe_segment(table)}/{name}"
    data = json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
    storage.put(key, data, create_only=True)
    return key
