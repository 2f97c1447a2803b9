"""Parquet files: columns of every type, written in every way; and the same with damage."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.case import Case
from tests.fuzz.generate.nasty import JUNK, TEXTS, damaged

_WIDTHS = (8, 16, 32, 64)
_CONTEXT = Context(prec=60)


def case(rng: random.Random) -> Case:
    data = b""
    while not data:
        data = _file(rng)
    broken = rng.random() < 0.6
    return Case(_broken(rng, data) if broken else data, {"broken": broken})


def _file(rng: random.Random) -> bytes:
    """A file; nothing where these columns can't be written in that way."""
    rows = rng.choice([0, 1, 2, 5, 40])
    names = rng.sample(["a", "b", "é", "c d", "x.y", "A", "list", ""], rng.choice([1, 1, 2, 3]))
    table = pa.table({name: _column(rng, rows) for name in names})
    target = io.BytesIO()
    try:
        pq.write_table(table, target, **_way(rng))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return b""
    return target.getvalue()


def _way(rng: random.Random) -> dict[str, Any]:
    return {
        "compression": rng.choice(["none", "none", "snappy", "gzip", "zstd", "brotli", "lz4"]),
        "use_dictionary": rng.random() < 0.5,
        "version": rng.choice(["1.0", "2.4", "2.6"]),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "row_group_size": rng.choice([1, 3, 1000]),
        "data_page_size": rng.choice([16, 1 << 20]),
        "write_statistics": rng.random() < 0.8,
        "write_page_index": rng.random() < 0.3,
        "write_page_checksum": rng.random() < 0.3,
        "store_schema": rng.random() < 0.7,
        "allow_truncated_timestamps": True,
        **({"use_deprecated_int96_timestamps": True} if rng.random() < 0.15 else {}),
    }


def _broken(rng: random.Random, data: bytes) -> bytes:
    """Damage, mostly in the footer, with its length put right again now and then."""
    size = int.from_bytes(data[-8:-4], "little")
    at = len(data) - 8 - size
    body, footer = data[:at], data[at:-8]
    match rng.randrange(6):
        case 0:
            return damaged(rng, data)
        case 1:
            body = damaged(rng, body)
        case 2:
            return body + footer + rng.choice(JUNK)[:4].ljust(4, b"\0") + b"PAR1"
        case _:
            footer = damaged(rng, footer)
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _column(rng: random.Random, rows: int, depth: int = 1) -> pa.Array:
    pick = rng.random()
    if depth and pick < 0.08:
        texts = [[rng.choice(TEXTS[:40]) for _ in range(rng.randint(0, 3))] for _ in range(rows)]
        return pa.array(
            [None if rng.random() < 0.2 else some for some in texts], pa.list_(pa.string())
        )
    if depth and pick < 0.16:
        members = {n: _column(rng, rows, 0) for n in ("x", "y")}
        return pa.StructArray.from_arrays(list(members.values()), names=list(members))
    if depth and pick < 0.2:
        return pa.array(
            [[("k", rng.randint(0, 9)), ("l", None)][: rng.randint(0, 2)] for _ in range(rows)],
            pa.map_(pa.string(), pa.int64()),
        )
    if depth and pick < 0.28:
        return pa.array(
            [rng.choice(TEXTS[:40]) for _ in range(rows)], pa.string()
        ).dictionary_encode()
    type_, value = rng.choice(_types(rng))
    return pa.array([None if rng.random() < 0.2 else value() for _ in range(rows)], type_)


def _types(rng: random.Random) -> list[tuple[pa.DataType, Callable[[], Any]]]:
    def integer(low: int, high: int) -> Callable[[], int]:
        return lambda: rng.choice([low, high, 0, rng.randint(low, high)])

    found: list[tuple[pa.DataType, Callable[[], Any]]] = []
    for bits in _WIDTHS:
        found.append(
            (getattr(pa, f"int{bits}")(), integer(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        )
        found.append((getattr(pa, f"uint{bits}")(), integer(0, 2**bits - 1)))
    for unit, scale in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        low, high = -62135596800 * scale, 253402300800 * scale - 1
        if unit == "ns":
            low, high = -(2**63) + 1, 2**63 - 1
        for zone in (None, "UTC", "Europe/Berlin"):
            found.append((pa.timestamp(unit, zone), integer(low, high)))
        found.append((pa.timestamp(unit), lambda s=scale: rng.randint(-(10**9), 10**9) * s))  # type: ignore[misc]
    precision = rng.choice([1, 9, 18, 19, 38])
    most = 10**precision - 1
    return [
        *found,
        (pa.float32(), lambda: rng.choice([0.0, -0.0, 1.5, float("inf"), float("nan"), 1e-45])),
        (
            pa.float64(),
            lambda: rng.choice([0.0, -0.0, 0.1, 1e308, 5e-324, float("-inf"), float("nan")]),
        ),
        (pa.float16(), lambda: np.float16(rng.choice([0.0, 1.5, -2.0]))),
        (pa.bool_(), lambda: rng.random() < 0.5),
        (pa.string(), lambda: rng.choice(TEXTS)),
        (pa.large_string(), lambda: rng.choice(TEXTS)),
        (pa.binary(), lambda: rng.choice(JUNK)),
        (pa.binary(3), lambda: rng.randbytes(3)),
        (pa.date32(), integer(-719162, 2932896)),
        (pa.date64(), lambda: rng.randint(-719162, 2932896) * 86_400_000),
        (pa.time32("ms"), integer(0, 86_399_999)),
        (pa.time64("us"), integer(0, 86_399_999_999)),
        (pa.time64("ns"), integer(0, 86_399_999_999_999)),
        (pa.decimal128(precision, 0), lambda: Decimal(rng.randint(-most, most))),
        (
            pa.decimal128(38, 38),
            lambda: Decimal(rng.randint(-(10**37), 10**37)).scaleb(-38, _CONTEXT),
        ),
        (pa.decimal256(40, 2), lambda: Decimal("1.25")),
        (pa.null(), lambda: None),
        (pa.duration("us"), integer(0, 10**9)),
    ]
