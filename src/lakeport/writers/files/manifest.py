"""The manifest of a load: one small JSON object beside the lake that tells what was landed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING

from lakeport.model import Batch, Storage
from lakeport.writers.naming import HOME, safe_segment

if TYPE_CHECKING:
    from lakeport.writers.base import TablePlan
    from lakeport.writers.files.journal import Planned


def write_manifest(
    storage: Storage,
    table: str,
    batch: Batch,
    plan: TablePlan,
    objects: Sequence[Planned],
    singer_state: bytes | None = None,
) -> None:
    """Write `_lakeport/manifests/<table>/<YYYYMMDD-HHMMSS>-<id>.json`.

    Args:
        storage: where the lake is.
        table: the table's folder below the root.
        batch: what was landed.
        plan: how; it has the batch's columns and its one clock reading.
        objects: every object with its key.
        singer_state: the STATE that the load allows, as the raw JSON that came.

    Raises:
        DestinationError: the store refuses.
    """
    clock = plan.detail.names.clock
    moment = clock.astimezone(UTC) if clock.tzinfo else clock.replace(tzinfo=UTC)
    untyped = [name for name in plan.schema.names if name in plan.untyped]
    content = {
        "stream": batch.stream,
        "table": storage.uri(table),
        "at": moment.isoformat(timespec="microseconds"),
        "rows": sum(planned.staged.rows for planned in objects),
        "bytes": sum(planned.staged.bytes for planned in objects),
        "files": [
            {
                "uri": storage.uri(planned.key),
                "rows": planned.staged.rows,
                "bytes": planned.staged.bytes,
                "checksum": planned.staged.checksum,
            }
            for planned in objects
        ],
        "schema": [{"name": column.name, "type": str(column.type)} for column in plan.schema],
        **({"untyped": untyped} if untyped else {}),
        "state": None if singer_state is None else singer_state.decode("utf-8", "replace"),
    }
    name = f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(8)}.json"
    key = f"{HOME}/manifests/{safe_segment(table)}/{name}"
    data = json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
    storage.put(key, data, create_only=True)
