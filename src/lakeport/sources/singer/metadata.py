"""Add Singer's record metadata: the columns `_sdc_*`, as Meltano's SDK defines them.

| column | type | value |
|---|---|---|
| `_sdc_extracted_at` | date-time | the message's `time_extracted` |
| `_sdc_received_at` | date-time | when the target read the record |
| `_sdc_batched_at` | date-time | when the record's batch was begun |
| `_sdc_deleted_at` | date-time | the record's own `_sdc_deleted_at` (log-based taps) |
| `_sdc_sequence` | integer | `_sdc_received_at` in milliseconds since 1970 |
| `_sdc_table_version` | integer | the message's `version` |
| `_sdc_sync_started_at` | integer | when the run began, in milliseconds since 1970 |

They are declared beside the stream's own columns, so a record that has some of them is read like
any other. Then the values that the message and the target know replace the record's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeport.model import Split
from lakeport.schema.types import TIMESTAMP, Field, FieldType, Kind
from lakeport.shape import DELETED_AT, SEQUENCE, TABLE_VERSION
from lakeport.sources.spool import read_sidecar

_EXTRACTED_AT = "_sdc_extracted_at"
_RECEIVED_AT = "_sdc_received_at"
_BATCHED_AT = "_sdc_batched_at"
_SYNC_STARTED_AT = "_sdc_sync_started_at"

MESSAGE_KEYS = {_EXTRACTED_AT: "time_extracted", TABLE_VERSION: "version"}
"""Column -> the key of a RECORD message with its value; without it the record's value stays."""

_KINDS = {
    _EXTRACTED_AT: Kind.TIMESTAMP,
    _RECEIVED_AT: Kind.TIMESTAMP,
    _BATCHED_AT: Kind.TIMESTAMP,
    DELETED_AT: Kind.TIMESTAMP,
    SEQUENCE: Kind.INTEGER,
    TABLE_VERSION: Kind.INTEGER,
    _SYNC_STARTED_AT: Kind.INTEGER,
}


def add_metadata_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Append the `_sdc_*` metadata columns, in place of the stream's own columns of these names.

    >>> [f.name for f in add_metadata_fields([Field("id", FieldType(Kind.INTEGER))])][:2]
    ['id', '_sdc_extracted_at']
    """
    own = (field for field in fields if field.name not in _KINDS)
    return (*own, *(Field(name, FieldType(kind)) for name, kind in _KINDS.items()))


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Start times of a run and a batch, in microseconds since 1970; writes `_sdc_*` columns."""

    sync_started_micros: int
    batched_micros: int

    def fill(self, batch: pa.RecordBatch, received_micros: np.ndarray) -> pa.RecordBatch:
        """Return the batch with its received, batched, sequence and sync columns filled in.

        Args:
            batch: records, with the columns of `add_metadata_fields`.
            received_micros: when each record was read, in microseconds since 1970.
        """
        known = {
            _RECEIVED_AT: pa.array(received_micros).view(TIMESTAMP),
            _BATCHED_AT: pa.repeat(pa.scalar(self.batched_micros, TIMESTAMP), len(batch)),
            SEQUENCE: pa.array(received_micros // 1000),
            _SYNC_STARTED_AT: pa.repeat(pa.scalar(self.sync_started_micros // 1000), len(batch)),
        }
        arrays = [
            known.get(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


class ReceiveTimes:
    """When each record of a split was read, from a file beside its data; else `default_micros`.

    Raises:
        SourceError: the sidecar can't be read.
    """

    def __init__(self, split: Split, default_micros: int) -> None:
        pairs = read_sidecar(split, split.times) if split.times else [(0, default_micros)]
        self._ordinals, self._times = np.array(pairs, np.int64).T

    def look_up(self, ordinals: Sequence[int]) -> np.ndarray:
        """Return when records were received, in microseconds, by their indexes in the split."""
        at = np.searchsorted(self._ordinals, np.asarray(ordinals), side="right") - 1
        times: np.ndarray = self._times[at]
        return times
