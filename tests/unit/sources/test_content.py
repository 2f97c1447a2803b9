from __future__ import annotations

import io
import threading
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakeport.model import Split
from lakeport.sources.splits import (
    ContentDigest,
    digest_reads,
    hash_reads,
    is_digesting,
    open_split,
)


def _digest(data: bytes, sizes: list[int]) -> str:
    with digest_reads() as content:
        file = hash_reads(io.BytesIO(data))
        while any(file.read(size) for size in sizes):
            pass
        file.read()
    return content.digest()


@given(st.binary(min_size=1), st.lists(st.integers(1, 50), min_size=1))
def test_bytes_have_one_name_however_they_are_read(data: bytes, sizes: list[int]) -> None:
    assert _digest(data, sizes) == _digest(data, [len(data)])
    assert _digest(data + b"x", sizes) != _digest(data, sizes)


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.binary(min_size=1)), min_size=1))
def test_parts_may_come_in_any_order(parts: list[tuple[int, bytes]]) -> None:
    def name(ordered: list[tuple[int, bytes]]) -> str:
        content = ContentDigest()
        for at, data in ordered:
            content.add_part(at, data)
        return content.digest()

    assert name(parts) == name(parts[::-1])
    moved = [(parts[0][0] + 1, parts[0][1]), *parts[1:]]
    assert name(moved) != name(parts)


def test_a_part_that_comes_twice_is_not_none() -> None:
    twice, none = ContentDigest(), ContentDigest()
    for _ in range(2):
        twice.add_part(0, b"a")
    assert twice.digest() and not none.digest()


def test_only_those_who_ask_are_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    split = Split(str(tmp_path / "a"), first_line=1)
    with open_split(split) as file:
        assert file.read() == b"abc" and not is_digesting()
    told: list[bool] = []
    with digest_reads() as content:
        thread = threading.Thread(target=lambda: told.append(is_digesting()))
        thread.start()
        thread.join()
        assert is_digesting() and told == [False]
        with open_split(split) as file:
            file.seek(1)
            assert file.read() == b"bc" and file.tell() == 3
    assert content.digest() == _digest(b"bc", [2])
