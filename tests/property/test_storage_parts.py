"""Keys, parts and ranges: what holds whatever comes in."""

from __future__ import annotations

import base64

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import ConfigError, DestinationError
from lakeport.storage.base import RangedReader, clean_prefix, join_key, relative_key
from lakeport.storage.parts import Chunker
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.store import part_bytes

texts = st.text(st.sampled_from("ab./\\%2eé\n \ud800"), max_size=12)


@given(texts, texts)
def test_no_key_leaves_its_prefix(given_prefix: str, key: str) -> None:
    try:
        prefix = clean_prefix(given_prefix)
        full = join_key(prefix, key)
    except (ConfigError, DestinationError):
        return
    assert not full.startswith("/")
    assert "//" not in full
    assert ".." not in full.split("/")
    assert full == prefix or full.startswith(f"{prefix}/" if prefix else "")
    full.encode()
    if key:
        assert relative_key(prefix, full) == key


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 30), min_size=1))
def test_parts_are_the_bytes_in_order(pieces: list[bytes], sizes: list[int]) -> None:
    chunker = Chunker(lambda number: sizes[(number - 1) % len(sizes)])
    parts = [part for piece in pieces for part in chunker.feed(piece)]
    assert [len(part) for part in parts] == [sizes[n % len(sizes)] for n in range(len(parts))]
    rest = chunker.flush()
    data = b"".join(pieces)
    assert b"".join(parts) + rest == data
    assert chunker.bytes == len(data)
    crc = google_crc32c.value(data).to_bytes(4, "big")
    assert chunker.checksum == base64.b64encode(crc).decode()


def test_ten_thousand_parts_hold_a_tebibyte() -> None:
    assert sum(part_bytes(number) for number in range(1, 10_001)) > 1 << 40


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 320), st.integers(0, 90))))
def test_ranges_are_slices(data: bytes, reads: list[tuple[int, int]]) -> None:
    asked = []

    def fetch(start: int, end: int) -> bytes:
        asked.append((start, end))
        return data[start:end]

    reader = RangedReader(fetch, len(data), "s3://lake/a")
    for start, size in reads:
        reader.seek(start)
        assert reader.read(size) == data[start : start + size]
    assert all(0 <= start < end <= len(data) for start, end in asked)


@given(st.integers(0, 10_000))
def test_delays_are_capped(attempt: int) -> None:
    assert 0 < RetryPolicy().backoff(attempt) <= RetryPolicy().max_delay
