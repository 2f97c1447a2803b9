"""Where contestants land: a fresh local folder, or a fresh prefix of a bucket on MinIO."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.emulators import Minio

BUCKET = "bench"


class Place(Protocol):
    """A target that is empty at first.

    Attributes:
        uri: a local path, or `s3://bucket/prefix`.
    """

    uri: str

    def sizes(self) -> list[int]:
        """How many bytes each file that lies there has."""

    def fetched(self) -> Path:
        """A local folder with all that lies there."""

    def clear(self) -> None:
        """Remove all of it."""


@dataclass(frozen=True)
class LocalPlace:
    """A folder."""

    uri: str

    def sizes(self) -> list[int]:
        """How many bytes each file has."""
        return [path.stat().st_size for path in Path(self.uri).rglob("*") if path.is_file()]

    def fetched(self) -> Path:
        """The folder itself."""
        return Path(self.uri)

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.uri, ignore_errors=True)


@dataclass(frozen=True)
class MinioPlace:
    """A prefix, and the folder that it is copied to when it is looked at."""

    client: Any
    prefix: str
    copy: Path

    @property
    def uri(self) -> str:
        """The prefix with its bucket."""
        return f"s3://{BUCKET}/{self.prefix}"

    def sizes(self) -> list[int]:
        """How many bytes each object has."""
        return [size for _, size in self._objects()]

    def fetched(self) -> Path:
        """A copy of all objects."""
        for key, _ in self._objects():
            path = self.copy / key.removeprefix(self.prefix).lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(BUCKET, key, str(path))
        return self.copy

    def put(self, file: Path, names: Iterable[str]) -> None:
        """Put a file there under each of these names."""
        for name in names:
            self.client.upload_file(str(file), BUCKET, f"{self.prefix}/{name}")

    def clear(self) -> None:
        """Remove the objects and their copy."""
        shutil.rmtree(self.copy, ignore_errors=True)
        keys = [{"Key": key} for key, _ in self._objects()]
        for start in range(0, len(keys), 1000):
            self.client.delete_objects(
                Bucket=BUCKET, Delete={"Objects": keys[start : start + 1000]}
            )

    def _objects(self) -> Iterator[tuple[str, int]]:
        pages = self.client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/"):
            for found in page.get("Contents", ()):
                yield found["Key"], found["Size"]


@dataclass
class Places:
    """Hands out places, each with a name of its own.

    Attributes:
        environment: how commands reach MinIO.
    """

    folder: Path
    minio: Minio
    environment: Mapping[str, str]
    number: int = 0

    def new(self, target: str) -> Place:
        """An empty place on `local` or `minio`."""
        self.number += 1
        if target == "local":
            return LocalPlace(str(self.folder / f"place-{self.number}"))
        name = f"place-{self.number}"
        return MinioPlace(self.minio.client(), name, self.folder / f"copy-{self.number}")


@contextmanager
def places(work: Path) -> Iterator[Places]:
    """Places in a new folder below this one, and on a MinIO that runs meanwhile."""
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as name, Minio(Path(name)) as minio:
        minio.create_bucket(BUCKET)
        endpoint = {"LAKEPORT_AWS_ENDPOINT": minio.endpoint}
        yield Places(Path(name), minio, {**minio.delta_options, **endpoint})
