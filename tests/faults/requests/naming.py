"""Names of requests: what is done, and the kind of path, relative to the table's root where it is.

Whatever differs from run to run (ids, times, numbers) is left out, so that one run's recording
tells which request of another one is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, unquote, urlsplit

Namer = Callable[[str, str, Mapping[str, str]], str]
Query = Mapping[str, list[str]]

_CHANGING = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{8}-\d{6}"), "TIME"),
    (re.compile(r"(?<![A-Za-z])(?=[0-9a-f]*\d)[0-9a-f]{6,}(?![A-Za-z])"), "N"),
    (re.compile(r"\d+"), "N"),
)


def kind_of(path: str) -> str:
    """A path without what is another one in each run.

    >>> kind_of("t/_delta_log/00000000000000000003.json")
    't/_delta_log/N.json'
    >>> kind_of("t/day=2/part-00001-0b7e6b62-2c5f-4f4b-8d5a-9d3c9a1e1f00.snappy.parquet")
    't/day=N/part-N-ID.snappy.parquet'
    """
    for pattern, name in _CHANGING:
        path = pattern.sub(name, path)
    return path


def namer(dialect: str, container: str, root: str) -> Namer:
    """Names the requests of loads into a root.

    Args:
        dialect: `s3`, `azure` or `gcs`.
        container: the bucket or container.
        root: a prefix in it.
    """
    read = {"s3": _s3, "azure": _azure, "gcs": _gcs}[dialect]

    def name(method: str, target: str, headers: Mapping[str, str]) -> str:
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        given = {key.lower(): value for key, value in headers.items()}
        done, path = read(method, unquote(parts.path).strip("/"), query, given)
        path = path.removeprefix(container).strip("/")
        inside = path.removeprefix(root).strip("/") if f"{path}/".startswith(f"{root}/") else path
        return f"{done} {kind_of(inside) or '/'}"

    return name


def _s3(method: str, path: str, query: Query, headers: Mapping[str, str]) -> tuple[str, str]:
    if "list-type" in query:
        return "LIST", f"{path}/{query.get('prefix', [''])[0]}"
    if "uploadId" in query:
        done = {"PUT": "PART", "POST": "COMPLETE", "DELETE": "ABORT"}.get(method, "LIST parts")
        return done, path
    if "x-amz-copy-source" in headers:
        return "COPY", path
    asked = [name for name in ("uploads", "delete", "location", "versioning") if name in query]
    return " ".join([method, *asked]), path


def _azure(method: str, path: str, query: Query, headers: Mapping[str, str]) -> tuple[str, str]:
    path = path.partition("/")[2]  # without the account
    asked = [query[name][0] for name in ("restype", "comp") if name in query]
    if asked[-1:] == ["list"]:
        return "LIST", f"{path}/{query.get('prefix', [''])[0]}"
    if "x-ms-copy-source" in headers:
        return "COPY", path
    return " ".join([method, *asked]), path


def _gcs(method: str, path: str, query: Query, headers: Mapping[str, str]) -> tuple[str, str]:
    bucket, _, key = path.partition("/b/")[2].partition("/o")
    if "upload_id" in query:
        sent = headers.get("content-range", "")
        done = "ASK" if sent.startswith("bytes */") else "LAST" if "/*" not in sent else "CHUNK"
        return f"{done if method == 'PUT' else method} session", bucket
    if "uploadType" in query:
        return f"{method} {query['uploadType'][0]}", f"{bucket}/{query.get('name', [''])[0]}"
    if not key and method == "GET":
        return "LIST", f"{bucket}/{query.get('prefix', [''])[0]}"
    return f"{method}{' media' if 'alt' in query else ''}", f"{bucket}/{key.strip('/')}"
