"""BATCH messages: which files may be read, and how their records land."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import BadRecords, InputError, SourceError
from lakeport.sources.singer import batch_files
from lakeport.sources.singer.batch_files import default_batch_roots, resolve_batch_file
from tests.singer_kit import described, lines_of, note_kernels, record, schema, source, state


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    note_kernels(monkeypatch, tmp_path)


def batch(*files: Path | str, compression: str | None = "none", form: str = "jsonl") -> bytes:
    manifest = [file if isinstance(file, str) else file.as_uri() for file in files]
    encoding: dict[str, Any] = {"format": form, "compression": compression}
    message = {"type": "BATCH", "stream": "users", "encoding": encoding, "manifest": manifest}
    return json.dumps(message).encode() + b"\n"


def records(path: Path, *numbers: int, compress: bool = False) -> Path:
    lines = b"".join(b'{"id": %d}\n' % number for number in numbers)
    path.write_bytes(gzip.compress(lines) if compress else lines)
    return path


@pytest.mark.parametrize("compression", ["gzip", "none", None])
def test_files_land_in_order_with_the_stream(tmp_path: Path, compression: str | None) -> None:
    files = [
        records(tmp_path / name, *numbers, compress=compression == "gzip")
        for name, numbers in {"a b": (2, 3), "ü": (4,)}.items()
    ]
    lines = schema() + record(1) + batch(*files, compression=compression) + record(5) + state(5)
    (flush,) = source(lines)
    assert described(flush) == [("users", 0, [1]), ("users", 1, [2, 3, 4]), ("users", 2, [5])]
    assert [b.reader.envelope for b in flush.batches] == [True, False, True]  # type: ignore
    assert [number for number, _ in lines_of(flush.batches[1])] == [1, 2, 1]
    assert flush.state == b"5"
    for file in files:
        file.unlink()
    assert described(flush)[1] == ("users", 1, [2, 3, 4])


def test_blank_lines_and_missing_newlines(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'\n{"id": 1}\r\n\r\n \n{"id":\r2}\n\n{"id": 3}')
    (flush,) = source(schema() + batch(path))
    assert described(flush) == [("users", 0, [1, 2, 3])]
    assert [number for number, _ in lines_of(flush.batches[0])] == [2, 5, 7]
    path.write_bytes(b'\xef\xbb\xbf{"id": 1}\n\xef\xbb\xbf{"id": 2}\n')
    (flush,) = source(schema() + batch(path))
    assert described(flush) == [("users", 0, [1, 2])]
    path.write_bytes(b"")
    (flush,) = source(schema() + batch(path, path))
    assert [batch.schema_only for batch in flush.batches] == [True]


def test_files_count_toward_the_limits(tmp_path: Path) -> None:
    path = records(tmp_path / "a", 2, 3, compress=True)
    lines = schema() + record(1) + batch(path, compression="gzip") + record(4)
    first, last = source(lines, flush_rows=3)
    assert described(first) == [("users", 0, [1]), ("users", 1, [2, 3])]
    assert described(last) == [("users", 2, [4])]


def test_a_long_line_in_a_file_is_a_bad_record(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'{"id": 1}\n"' + b"x" * (1 << 20) + b'"\n{"id": 3}\n')
    lines = schema() + batch(path)
    with pytest.raises(BadRecords, match="line 2 is longer than 1 MB"):
        list(source(lines, max_record_mb=1))
    (flush,) = source(lines, max_record_mb=1, on_bad_record="quarantine")
    assert [(n, line) for n, line in lines_of(flush.batches[0])] == [
        (1, b'{"id": 1}'),
        (3, b'{"id": 3}'),
    ]
    assert len(flush.bad) == 1


@pytest.mark.parametrize(
    "content", [gzip.compress(mtime=0, data=b'{"id": 1}\n' * 999)[:-4], b"\x1f\x8bgarbage"]
)
def test_a_short_or_corrupt_file_fails_the_run(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="corrupt or cut off"):
        list(source(schema() + batch(path, compression="gzip"), on_bad_record="quarantine"))


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_a_file_compressed_otherwise_than_said_is_refused(tmp_path: Path, compression: str) -> None:
    path = records(tmp_path / "a", 1, compress=compression == "none")
    with pytest.raises(SourceError, match=f"BATCH message says {compression}"):
        list(source(schema() + batch(path, compression=compression)))


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_other_formats_are_refused_by_name(tmp_path: Path, form: str) -> None:
    with pytest.raises(InputError, match=f"line 2: BATCH of stream 'users': .*'{form}'"):
        list(source(schema() + batch(tmp_path / "a", form=form)))
    with pytest.raises(InputError, match="'zstd'"):
        list(source(schema() + batch(tmp_path / "a", compression="zstd")))


@pytest.mark.parametrize("line", [b'{"type": "BATCH", "stream": "users"}', batch("/a")])
def test_a_batch_without_files_or_schema_is_refused(line: bytes) -> None:
    with pytest.raises(InputError, match="line 1: BATCH"):
        list(source(line))


def test_only_files_below_the_roots_are_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    secret = records(outside / "secret", 1)
    good = records(inside / "good", 1)
    (inside / "link").symlink_to(secret)
    (inside / "folder").symlink_to(outside)
    (inside / "fine").symlink_to(good)
    (tmp_path / "inner").symlink_to(inside)
    assert resolve_batch_file(good.as_uri(), [inside]) == good
    assert resolve_batch_file(str(good), [tmp_path / "inner"]) == good
    assert resolve_batch_file((inside / "fine").as_uri(), [inside]) == good
    refused = {
        secret.as_uri(): "outside",
        (inside / "link").as_uri(): "outside",
        (inside / "folder" / "secret").as_uri(): "outside",
        f"file://{inside}/../out/secret": "'..'",
        f"file://{inside}/%2e%2e/out/secret": "'..'",
        f"file://{inside}2/secret": "outside",
        f"file://host{good}": "not a local file",
        "https://example.com/a": "not a local file",
        "good": "not a local file",
        "": "not a local file",
        f"file://{good}%00": "not a local file",
        "file://[::1/a": "not a local file",
        f"{inside}/\ud800": "not a local file",
        f"file:{good}": "not a local file",
        f"file://user@localhost{good}": "not a local file",
        f"file://{inside}/%FF": "No such file",
        f"file://{inside}/gone": "No such file",
        inside.as_uri(): "not a plain file",
    }
    for uri, reason in refused.items():
        with pytest.raises(SourceError, match=reason):
            resolve_batch_file(uri, [inside])
    with pytest.raises(SourceError, match="outside"):
        list(source(schema() + batch(secret), batch_roots=[str(inside)]))


def test_a_file_name_that_is_no_utf8_is_read(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    records(path, 1)
    (flush,) = source(schema() + batch(f"file://{tmp_path}/%FF"))
    assert described(flush) == [("users", 0, [1])]


def _link(there: Path, secret: Path) -> None:
    there.unlink()
    there.symlink_to(secret)


def _link_folder(there: Path, secret: Path) -> None:
    there.parent.rename(there.parent.with_name("moved"))
    there.parent.symlink_to(secret.parent)


def _pipe(there: Path, secret: Path) -> None:
    there.unlink()
    os.mkfifo(there)


def _nothing(there: Path, secret: Path) -> None:
    there.unlink()


@pytest.mark.parametrize(
    ("swap", "reason"),
    [
        (_link, "a link was put into its path"),
        (_link_folder, "a link was put into its path"),
        (_pipe, "not a plain file"),
        (_nothing, "No such file"),
    ],
)
def test_what_takes_a_checked_file_s_place_is_not_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[Path, Path], None],
    reason: str,
) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    there, secret = records(tmp_path / "in" / "a", 1), records(tmp_path / "out" / "a", 2)

    def checked(uri: str, roots: Any) -> Path:
        path = resolve_batch_file(uri, roots)
        swap(there, secret)
        return path

    monkeypatch.setattr(batch_files, "resolve_batch_file", checked)
    with pytest.raises(SourceError, match=reason):
        list(source(schema() + batch(there), batch_roots=[str(tmp_path / "in")]))


@pytest.mark.parametrize("place", ["/dev/zero", "pipe"])
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="not a plain file"):
        list(
            source(
                schema() + batch(str(tmp_path / place)),
                batch_roots=[str(tmp_path), str(Path("/dev"))],
            )
        )


def test_a_file_in_a_folder_that_may_only_be_passed_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    path = records(folder / "a", 1)
    folder.chmod(0o111)
    (flush,) = source(schema() + batch(path))
    assert described(flush) == [("users", 0, [1])]
    folder.chmod(0o700)


def test_the_root_of_all_files_is_no_folder_for_batch_files_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.anchor)
    assert default_batch_roots() == (tmp_path,)


def test_a_refusal_shows_no_signature_and_no_control_character() -> None:
    with pytest.raises(SourceError) as caught:
        list(source(schema() + batch("https://host/a?sig=c0ffee%2B\n\x1b[2J")))
    assert "c0ffee" not in str(caught.value)
    assert "\x1b" not in caught.value.message
