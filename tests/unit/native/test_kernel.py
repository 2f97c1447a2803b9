"""The compiled kernel: what it was built from, and that nothing needs it."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from lakeport.native import kernel, parser

ROOT = Path(__file__).parents[3]
BUILT_HERE = (platform.system(), platform.machine()) == ("Linux", "x86_64")
GIVEN = [("id", "integer", None)]


def test_the_kernel_is_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    import build_native

    assert build_native.fingerprint().encode() in build_native.TARGET.read_bytes(), "make native"
    if BUILT_HERE:
        found = kernel()
        assert found is not None and found.sources == build_native.fingerprint()


def test_nothing_needs_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parser() == "native" or not BUILT_HERE
    with monkeypatch.context() as patch:
        patch.setenv("LAKEPORT_NATIVE", "off")
        assert kernel() is None and parser() == "python"
    monkeypatch.setitem(sys.modules, "lakeport.native._kernel", None)
    monkeypatch.delattr("lakeport.native._kernel", raising=False)
    assert kernel() is None and parser() == "python"


@pytest.mark.skipif(not BUILT_HERE, reason="the kernel in the repository is for Linux on x86-64")
class TestCompiled:
    def test_it_tells_where_and_why_it_stops(self) -> None:
        found = kernel()
        assert found is not None
        strict = found.parser(GIVEN)
        lines = b'{"id":1}\n\n{"id":"x"}\n{"id":2}'
        rows, read, columns, stop, unknown = strict.parse(lines, 0)
        assert (rows, read, len(columns), unknown) == (1, 2, 1, [])
        assert stop == (10, "wrong type: expected number")
        assert strict.parse(lines, 21)[:2] == (1, 1)
        assert strict.parse(lines, len(lines))[:2] == (0, 0)

    def test_buffers_can_be_read_only(self) -> None:
        found = kernel()
        assert found is not None
        columns = found.parser(GIVEN).parse(b'{"id":1}\n{}', 0)[2]
        ((rows, nulls, (valid, values), children),) = columns
        assert (rows, nulls, children) == (2, 1, [])
        assert valid is not None and values is not None
        assert bytes(valid) == b"\x01" and memoryview(values).readonly
        del columns
        assert bytes(values) == (1).to_bytes(8, sys.byteorder) + bytes(8)

    @pytest.mark.parametrize(
        "arguments",
        [
            ([("a", "nonsense", None)], [], False, [], "refuse", False),
            ([("a", "decimal", (39, 0))], [], False, [], "refuse", False),
            ([("a", "decimal", (3, 4))], [], False, [], "refuse", False),
            (GIVEN, [1], False, [], "refuse", False),
            (GIVEN, [], True, [("version", 1)], "refuse", False),
            (GIVEN, [], False, [], "ignore", False),
        ],
    )
    def test_what_it_does_not_know_is_refused(self, arguments: tuple[object, ...]) -> None:
        found = kernel()
        assert found is not None
        with pytest.raises(ValueError):
            found.parser(*arguments)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("start", "end"), [(2, 1), (0, 5)])
    def test_runs_stay_within_the_buffer(self, start: int, end: int) -> None:
        found = kernel()
        assert found is not None
        assert found.run(bytearray(b"a\na\nb\n"), 0, 6, b"a") == (4, 2)
        with pytest.raises(ValueError):
            found.run(b"a\na\n", start, end, b"a")

    def test_csv_of_nothing_it_knows_is_refused(self) -> None:
        found = kernel()
        assert found is not None
        with pytest.raises(ValueError, match="no fields"):
            found.csv_parser(44, 34, [], [])
        parser = found.csv_parser(44, 34, ["NA"], [(GIVEN[0], True), None])
        with pytest.raises(ValueError, match="another number of fields"):
            parser.kinds(b"1,2\n", [31])
        for data in (b"1\n", b"1,2,3\n", b"x,2\n", b"NA,2\n", b'1,"2\n', b'1,"2" \n', b"1,\xff\n"):
            assert parser.parse(data) is None
        parsed = parser.parse(b"1,2\r\n\n3,")
        assert parsed is not None and parsed[0] == 2 and len(parsed[1]) == 1
