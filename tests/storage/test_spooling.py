"""The spool of a cluster's run in each kind of store: moved there, read by ranges, and removed."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakeport.config.load import load_target
from lakeport.errors import ConfigError
from lakeport.model import Batch, Flush, Split
from lakeport.sources.files.source_file import SourceFile
from lakeport.sources.input.decompression import DEFAULT_LIMITS
from lakeport.sources.input.plain_files import is_packed, spool_plain
from lakeport.sources.splits import open_split
from lakeport.sources.spool import SpoolUploader, open_spool, read_sidecar
from tests.emulators import Azurite, FakeGcs, Minio

CLUSTER: Any = SimpleNamespace(is_local=False)


def s3(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    minio: Minio = request.getfixturevalue("minio")
    minio.create_bucket("spooled")
    keys = {"aws_access_key_id": minio.access_key, "aws_secret_access_key": minio.secret_key}
    target = {"destination": "amazon_s3", "bucket": "other", "aws_endpoint": minio.endpoint}
    return {**target, **keys}, "s3://spooled/spool"


def gcs(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    server: FakeGcs = request.getfixturevalue("fake_gcs")
    server.create_bucket("spooled")
    target = {"destination": "google_cloud_storage", "bucket": "other"}
    return {**target, **server.config}, "gs://spooled/spool/"


def azure(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    azurite: Azurite = request.getfixturevalue("azurite")
    azurite.create_container("spooled")
    account = f"{azurite.account}.dfs.core.windows.net"
    target = {"destination": "delta_lake_azure", "table_uri": f"abfss://other@{account}/t"}
    keys = azurite.config
    return {**target, **keys}, f"abfss://spooled@{account}/spool"


@pytest.mark.parametrize("cloud", [s3, gcs, azure])
def test_a_spool_in_a_store(cloud: Any, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    keys, uri = cloud(request)
    config = load_target({**keys, "spool_uri": uri, "spool_dir": str(tmp_path)})
    with open_spool(config, CLUSTER) as spool:
        storage = spool.storage
        assert storage is not None
        assert storage.uri().startswith(uri.rstrip("/").replace("abfss:", "abfs:") + "/lakeport-")
        (spool.folder / "0.jsonl").write_bytes(b'{"a": 1}\n{"a": 2}\n')
        (spool.folder / "0.lines").write_bytes(b"l" * 16)
        (spool.folder / "0.times").write_bytes(b"t" * 16)
        path = spool.folder / "0.jsonl"
        lines, times = (str(path.with_suffix(suffix)) for suffix in (".lines", ".times"))
        split = Split(str(path), 0, 18, 1, lines, times)
        uploader = SpoolUploader(spool)
        uploader.begin_upload(split)
        (flush,) = uploader.upload_flushes([Flush((Batch("s", 0, splits=(split,)),))])
        (moved,) = flush.batches[0].splits
        assert [p.name for p in spool.folder.iterdir()] == [".owner"]
        with open_split(moved) as file:
            file.seek(9)
            assert file.read() == b'{"a": 2}\n'
        assert read_sidecar(moved, moved.lines) == [struct.unpack("<QQ", b"l" * 16)]
        assert read_sidecar(moved, moved.times) == [struct.unpack("<QQ", b"t" * 16)]
        uploader.discard(flush)
        assert list(storage.list("")) == []
        # What tasks write themselves: a file as it is stored, and unpacked from a store.
        (tmp_path / "x.csv").write_bytes(b"a\n1\n")
        file = SourceFile(str(tmp_path / "x.csv"), "x.csv", "csv", 4)
        there = spool_plain(file, spool, 0, "utf-8", DEFAULT_LIMITS)
        assert (there.bytes, there.storage, is_packed(there)) == (4, storage, False)
        assert spool.is_readable_by_tasks(there.uri, there.storage)
        assert not spool.is_readable_by_tasks(file.uri, None)
        again = spool_plain(there, spool, 1, "utf-8", DEFAULT_LIMITS)
        with again.open() as text:
            assert text.read() == b"a\n1\n"
        with pytest.raises(ZeroDivisionError), spool.create_file("half") as half:
            half.write(b"x")
            1 / 0  # noqa: B018
        assert len(list(storage.list(""))) == 2
    assert list(storage.list("")) == []
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_a_mounted_spool_is_read_in_place(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    config = load_target({"destination": "local", "path": "x", "spool_uri": mount.as_uri()})
    with pytest.raises(ConfigError, match="there is no such folder"), open_spool(config, CLUSTER):
        pass
    mount.mkdir()
    with open_spool(config, CLUSTER) as spool:
        assert spool.folder.parent == mount
        assert spool.is_readable_by_tasks(str(mount / "data" / "x.csv"), None)
        assert not spool.is_readable_by_tasks(str(tmp_path / "x.csv"), None)
    assert list(mount.iterdir()) == []
    wrong = load_target({"destination": "local", "path": "x", "spool_uri": "ftp://there/x"})
    with pytest.raises(ConfigError, match="no destination takes the target ftp"):
        open_spool(wrong, CLUSTER).__enter__()
