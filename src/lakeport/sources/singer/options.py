"""How one Singer input is read: what its load's config and its user's options say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lakeport.model import Mode, UnknownPolicy
from lakeport.sources.input.unpacking import DEFAULT, UnpackLimits, unpack_limits
from lakeport.sources.singer.messages import Schema

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.sources.options import ReadOptions


@dataclass(frozen=True, slots=True)
class SingerOptions:
    """How messages become flushes.

    Attributes:
        flush_bytes: size of the record lines at which a flush is cut; 0 for no limit.
        flush_rows: number of records at which a flush is cut; 0 for no limit.
        single_flush: cut once, at the end (for an overwrite), whatever the limits are.
        at_states: cut behind a STATE alone, the first one behind which a limit is reached.
        on_bad_record: `fail` raises at the first line that is no message; `quarantine` hands such
            lines on in `Flush.bad`.
        unknown: what the source kernel does with undeclared fields.
        stray_lines: `fail` treats lines that are no JSON object as bad records, `skip` logs them.
        max_record_mb: longest line, in MB (2**20 bytes).
        catalog: streams whose schema is this one, whatever the input's SCHEMA says; their records
            are cut to it.
        batch_roots: folders in which the files of BATCH messages may lie; the system's temporary
            folder and the current one if empty.
        limits: what a compressed file of a BATCH may become.
        columns: column -> type name, in place of what the SCHEMA says.
        add_record_metadata: whether batches have the columns `_sdc_*` (`sources.singer.metadata`).
    """

    flush_bytes: int = 0
    flush_rows: int = 0
    single_flush: bool = False
    at_states: bool = False
    on_bad_record: Literal["fail", "quarantine"] = "fail"
    unknown: UnknownPolicy = UnknownPolicy.EVOLVE
    stray_lines: Literal["fail", "skip"] = "fail"
    max_record_mb: int = 100
    catalog: Mapping[str, Schema] = field(default_factory=dict)
    batch_roots: tuple[Path, ...] = ()
    limits: UnpackLimits = DEFAULT
    columns: Mapping[str, str] = field(default_factory=dict)
    add_record_metadata: bool = False

    @classmethod
    def of(cls, config: DestinationConfig, options: ReadOptions) -> SingerOptions:
        """What a load's config and options say."""
        return cls(
            flush_bytes=max(1, int(config.maximum_batch_size_mb * 2**20)),
            flush_rows=config.maximum_batch_rows or 0,
            single_flush=config.mode is Mode.OVERWRITE,
            on_bad_record=config.on_bad_record,
            unknown=config.unknown_fields,
            stray_lines=options.stray_lines,
            max_record_mb=max(1, int(config.max_record_mb)),
            catalog={
                name: Schema(name, s.schema, s.key_properties, s.partition_keys, cut=True)
                for name, s in config.catalog.items()
            },
            batch_roots=tuple(Path(root) for root in config.batch_roots),
            limits=unpack_limits(config),
            columns=config.columns,
            add_record_metadata=config.add_record_metadata,
        )
