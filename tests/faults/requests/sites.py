"""The destinations, each behind a proxy of its own, and the ways to see and to copy what is there.

Loads go through the proxy; all that this module does itself goes straight to the store.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from tests.contract.targets import (
    AzureFiles,
    Files,
    GcsFiles,
    LocalFiles,
    S3Files,
    TableTarget,
    Target,
)
from tests.emulators import Azurite, FakeGcs, Minio
from tests.faults.requests.files import FileCalls
from tests.faults.requests.naming import Namer, namer
from tests.faults.requests.proxy import FaultProxy

CONTAINER = "lake-of-faults"
GIVE_UP_SECONDS = 15
_ENDPOINTS = {"s3": "aws_endpoint", "azure": "azure_endpoint", "gcs": "google_endpoint"}


@dataclass(frozen=True)
class Site:
    """A destination.

    Attributes:
        name: part of a case's id.
        dialect: of its store; `local` for the disk.
        proxy: in front of it.
        target: the container's root, as an outsider reaches it.
        bases: roots that others are copied from.
    """

    name: str
    dialect: str
    proxy: FaultProxy | FileCalls
    target: Target
    bases: dict[Callable[[Place], None], Place] = field(default_factory=dict, compare=False)

    def base(self, make: Callable[[Place], None], folder: Path) -> Place:
        """A root with what a function makes there, made once."""
        if make not in self.bases:
            place = self.place(f"base-{len(self.bases)}-{self.name}", folder)
            make(place)
            self.bases[make] = place
        return self.bases[make]

    def place(self, root: str, folder: Path) -> Place:
        """A fresh root below the container, and a folder of this machine."""
        return Place(self, root, _below(self.target, root), folder)


@dataclass(frozen=True)
class Place:
    """A root that one case has for itself.

    Attributes:
        site: the destination.
        root: prefix in the container.
        target: the root, as an outsider reaches it.
        folder: of this machine, for what a stream needs.
        rivals: rows that another writer has appended.
    """

    site: Site
    root: str
    target: Target
    folder: Path
    rivals: list[tuple[int, str, str]] = field(default_factory=list)

    def config(self, **keys: Any) -> dict[str, Any]:
        """The config of loads, which go through the proxy."""
        if isinstance(self.site.proxy, FaultProxy):
            keys[_ENDPOINTS[self.site.dialect]] = self.site.proxy.endpoint
        return self.target.config(give_up_after=GIVE_UP_SECONDS, **keys)

    @property
    def namer(self) -> Namer:
        """Names the requests of loads into it."""
        return namer(self.site.dialect, CONTAINER, self.root)

    def copy_from(self, other: Place) -> None:
        """Have every object of another root here, too."""
        for key in other.target.files.keys():  # noqa: SIM118  # not a mapping
            _copy(self.target.files, f"{other.root}/{key}", f"{self.root}/{key}")

    def rival(self, row: tuple[int, str, str], path: str) -> None:
        """Have another writer land a row, past the proxy, where a request is about to.

        Args:
            row: what it lands.
            path: the request's.
        """
        columns = {name: [value] for name, value in zip(("id", "name", "day"), row, strict=True)}
        target, table = self.target, pa.table(columns)
        if target.format == "delta":
            options = target.storage_options
            write_deltalake(f"{target.uri}/t", table, mode="append", storage_options=options)
        else:
            assert isinstance(target.files, S3Files)
            body = pa.BufferOutputStream()
            pq.write_table(table, body)
            key = unquote(urlsplit(path).path).removeprefix(f"/{CONTAINER}/")
            target.files.client.put_object(
                Bucket=CONTAINER, Key=key, Body=body.getvalue().to_pybytes()
            )
        self.rivals.append(row)


def _below(target: Target, root: str) -> Target:
    """The same destination with another root."""
    keys, files = dict(target.keys), target.files
    for name in ("table_uri", "path"):
        if name in keys:
            keys[name] = f"{keys[name]}/{root}"
            break
    else:
        keys["object_key_path"] = root
    if isinstance(files, LocalFiles):
        below: Files = LocalFiles(files.root / root)
    else:
        below = replace(files, prefix=f"{root}/")  # type: ignore[type-var]
    return replace(target, keys=keys, uri=f"{target.uri}/{root}", files=below)


def _copy(files: Any, source: str, key: str) -> None:
    """Copy an object within its store, metadata included."""
    match files:
        case LocalFiles():
            to = files.root.parent / key
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(files.root.parent / source, to)
        case S3Files():
            files.client.copy({"Bucket": files.bucket, "Key": source}, files.bucket, key)
        case AzureFiles():
            container = files.client.get_container_client(files.container)
            blob = container.get_blob_client(source)
            container.get_blob_client(key).upload_blob(
                blob.download_blob().readall(), metadata=blob.get_blob_properties().metadata
            )
        case GcsFiles():
            bucket = files.client.bucket(files.bucket)
            bucket.copy_blob(bucket.blob(source), bucket, key)


@contextmanager
def sites(minio: Minio, azurite: Azurite, gcs: FakeGcs, folder: Path) -> Iterator[dict[str, Site]]:
    """Every destination.

    Args:
        minio: a running server.
        azurite: a running server.
        gcs: a running server.
        folder: of this machine, for what is local.
    """
    lake, calls = folder / "lake", FileCalls(folder)

    with ExitStack() as stack:
        servers = (("s3", minio), ("azure", azurite), ("gcs", gcs))
        proxies = {
            dialect: stack.enter_context(FaultProxy(server.endpoint, dialect))
            for dialect, server in servers
        }
        minio.create_bucket(CONTAINER)
        azurite.create_container(CONTAINER)
        gcs.create_bucket(CONTAINER)
        yield {
            site.name: site
            for site in (
                Site("delta_s3", "s3", proxies["s3"], _delta_s3(minio)),
                Site("delta_azure", "azure", proxies["azure"], _delta_azure(azurite)),
                Site("s3", "s3", proxies["s3"], _s3(minio)),
                Site("gcs", "gcs", proxies["gcs"], _gcs(gcs)),
                Site("local_delta", "local", calls, _local(lake / "delta", "delta")),
                Site("local", "local", calls, _local(lake / "files", "parquet")),
            )
        }


def _local(root: Path, file_type: str) -> Target:
    keys = {"destination": "local", "path": str(root), "file_type": file_type}
    return Target("local", keys, LocalFiles(root), str(root))


def _delta_s3(minio: Minio) -> Target:
    keys = {"destination": "delta_lake_s3", "bucket": CONTAINER, "file_type": "delta"}
    files = S3Files(minio.client(), CONTAINER)
    keys |= _aws(minio)
    return Target("delta_s3", keys, files, f"s3://{CONTAINER}", minio.delta_options)


def _s3(minio: Minio) -> Target:
    keys = {"destination": "amazon_s3", "bucket": CONTAINER, "file_type": "parquet", **_aws(minio)}
    return Target("s3", keys, S3Files(minio.client(), CONTAINER), f"s3://{CONTAINER}")


def _aws(minio: Minio) -> dict[str, Any]:
    return {"aws_access_key_id": minio.access_key, "aws_secret_access_key": minio.secret_key}


def _gcs(gcs: FakeGcs) -> Target:
    keys = {"destination": "google_cloud_storage", "bucket": CONTAINER, "file_type": "parquet"}
    return Target("gcs", keys, GcsFiles(gcs.client(), CONTAINER), f"gs://{CONTAINER}")


def _delta_azure(azurite: Azurite) -> Target:
    keys = {
        "destination": "delta_lake_azure",
        "table_uri": f"abfss://{CONTAINER}@{azurite.account}.dfs.core.windows.net",
        "access_key": azurite.account_key,
        "file_type": "delta",
    }
    options = azurite.delta_options
    files = AzureFiles(azurite.client(), CONTAINER)
    return TableTarget("delta_azure", keys, files, f"az://{CONTAINER}", options)
