"""OpenLineage events of a run: which datasets and columns each load read and wrote.

sqlglot traces the columns of a load's `sql`. A query that it can't resolve has no column lineage.

```
source's columns ─▶ sql ─▶ drop, rename, columns, column_header_format ─▶ the table's columns
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import column_lineage_dataset as facets
from openlineage.client.facet_v2 import (
    error_message_run,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
)
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import (
    ApiKeyTokenProvider,
    HttpConfig,
    HttpTransport,
    TokenProvider,
)
from openlineage.client.uuid import generate_new_uuid
from sqlglot import exp, parse_one
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope

from lakeport.config.sources import DatabaseSource, FilesSource, TablesSource, TapSource
from lakeport.errors import LakeportError
from lakeport.lake.table import Table
from lakeport.loading.batches import Policies
from lakeport.loading.transform.transform import SOURCE
from lakeport.pipeline.report import PipelineObserver
from lakeport.shape import apply_header_case, list_internal_columns
from lakeport.sources.database.database_source import deletion_mark

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.lake import LakeFile, Lineage, Load
    from lakeport.config.sources import ConfigPart
    from lakeport.model import StreamReport
    from lakeport.pipeline.report import LoadReport


_GLOB: Final = re.compile(r"[*?\[]")
_DEFAULT_PORTS: Final = {"postgres": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521}
_SCHEMES: Final = {"postgresql": "postgres", "sqlserver": "mssql", "mariadb": "mysql"}
_DEFAULT_SCHEMAS: Final = {"postgres": "public", "mssql": "dbo"}

_TRANSFORMATIONS: Final = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
"""OpenLineage's subtypes of a direct transformation, from the weakest to the strongest."""

_GENERATED_NAME: Final = re.compile(r"_col_\d+")

Origins = Mapping[tuple[str, str], str]
"""Table and column of an input -> how it becomes a value, one of `_TRANSFORMATIONS`."""

_SEND_SECONDS: Final = 5.0
_EVENT_TYPES: Final = {"landed": "COMPLETE", "failed": "FAIL", "interrupted": "ABORT"}
_PRODUCER: Final = "https://github.com/lakeport/lakeport"


class DatasetName(NamedTuple):
    """OpenLineage's unique name of a dataset, in two parts."""

    namespace: str
    name: str


def name_inputs(source: ConfigPart) -> list[DatasetName]:
    """Return OpenLineage's names of the datasets that a source reads, without any secret."""
    if isinstance(source, FilesSource):
        names = [source.files] if isinstance(source.files, str) else source.files
        return [name_dataset(_strip_glob(name)) for name in names]
    if isinstance(source, TablesSource):
        return [name_dataset(place) for place in source.tables.values()]
    if isinstance(source, DatabaseSource):
        return [_name_database_table(source.database.get_secret_value(), source.table or "query")]
    return [DatasetName("singer", source.tap[0])] if isinstance(source, TapSource) else []


def name_dataset(place: str) -> DatasetName:
    """Return OpenLineage's name of the dataset at a path or URI, without a password.

    >>> name_dataset("s3://lake/bronze/flights"), name_dataset("/data/lake/flights")
    (DatasetName(namespace='s3://lake', name='bronze/flights'), \
DatasetName(namespace='file', name='/data/lake/flights'))
    """
    if "://" not in place or place.startswith("file://"):
        return DatasetName("file", str(Path(place.removeprefix("file://")).expanduser().absolute()))
    parts = urlsplit(place)
    host = parts.netloc.rpartition("@")[2] if parts.password else parts.netloc
    scheme = {"s3a": "s3", "abfs": "abfss", "az": "abfss"}.get(parts.scheme, parts.scheme)
    return DatasetName(f"{scheme}://{host}", unquote(parts.path).strip("/") or "/")


def _strip_glob(name: str) -> str:
    """Return the folder above the first wildcard of a glob; a plain path unchanged.

    >>> _strip_glob("s3://inbox/flights/*.csv"), _strip_glob("in/a.csv")
    ('s3://inbox/flights', 'in/a.csv')
    """
    found = _GLOB.search(name)
    return name if found is None else name[: found.start()].rpartition("/")[0] or "."


def _name_database_table(uri: str, table: str) -> DatasetName:
    """Return OpenLineage's name of a database table, without user and password.

    >>> _name_database_table("postgresql://me:secret@db/shop", "orders")
    DatasetName(namespace='postgres://db:5432', name='shop.public.orders')
    >>> _name_database_table("sqlite:///data/shop.db", "orders")
    DatasetName(namespace='file', name='/data/shop.db/orders')
    """
    parts = urlsplit(uri.removeprefix("jdbc:"))
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    if not parts.hostname:
        return DatasetName("file", f"/{parts.path.strip('/')}/{table}")
    port = parts.port or _DEFAULT_PORTS.get(scheme)
    place = f"{scheme}://{parts.hostname}" + (f":{port}" if port else "")
    schema = _DEFAULT_SCHEMAS.get(scheme, "")
    full = table if "." in table or not schema else f"{schema}.{table}"
    database = unquote(parts.path).strip("/")
    return DatasetName(place, f"{database}.{full}" if database else full)


def trace_columns(sql: str, tables: Mapping[str, Iterable[str]]) -> dict[str, Origins] | None:
    """Trace a query's result columns to input columns by sqlglot; None if sqlglot can't.

    Returns column of the result, in lower case -> its origins; columns that only Spark names are
    left out. `tables` are the tables that the query may name -> their columns.

    >>> found = trace_columns("SELECT a + b AS c FROM source", {"source": ["a", "b"]})
    >>> sorted(found["c"].items())
    [(('source', 'a'), 'TRANSFORMATION'), (('source', 'b'), 'TRANSFORMATION')]
    """
    spelt = {(t.lower(), c.lower()): (t, c) for t, columns in tables.items() for c in columns}
    schema: dict[str, Any] = {}
    for table, column in spelt:
        schema.setdefault(table, {})[column] = "unknown"
    try:
        query = qualify(parse_one(sql, read="spark"), schema=schema, dialect="spark")
        if query.find(exp.Pivot):  # its aggregates are left out of the graph
            return None
        traced = lineage(None, query, schema, dialect="spark", scope=build_scope(query))
        return {
            name: _find_origins(node, spelt)
            for name, node in traced.items()
            if not _GENERATED_NAME.fullmatch(name)
        }
    except Exception:  # sqlglot's, of many types: events go on without this facet
        return None


def _find_origins(node: Node, spelt: Mapping[tuple[str, str], tuple[str, str]]) -> Origins:
    """Return the input columns below a node of sqlglot's lineage graph; may raise KeyError."""
    if isinstance(node.expression, exp.Table):
        column = parse_one(node.name, into=exp.Column)
        return {spelt[node.expression.name.lower(), column.name.lower()]: "IDENTITY"}
    made = node.expression.unalias()
    kind = "IDENTITY"
    if not isinstance(node.source, exp.SetOperation) and not isinstance(made, exp.Column):
        kind = "AGGREGATION" if made.find(exp.AggFunc) else "TRANSFORMATION"
    found: dict[tuple[str, str], str] = {}
    for part in node.downstream:
        for origin, earlier in sorted(_find_origins(part, spelt).items()):
            found[origin] = max(kind, earlier, found.get(origin, kind), key=_TRANSFORMATIONS.index)
    return found


@dataclass(frozen=True)
class ReadDataset:
    """A dataset that a load reads: its OpenLineage name, and its columns' types."""

    name: DatasetName
    columns: Mapping[str, str]


def find_inputs(load: Load, streams: Sequence[StreamReport]) -> dict[str, ReadDataset]:
    """Return the datasets that a load has read, by their names in `sql`; skip unknown columns.

    A source with several streams, such as a tap, is left out: its columns have no known stream.
    """
    source, found = load.source, dict[str, ReadDataset]()
    own = source.tables if isinstance(source, TablesSource) else {}
    for name, place in {**load.tables, **own}.items():
        with suppress(LakeportError):
            table = Table(place, load.target).describe()
            columns = {column.name: column.type for column in table.columns}
            found[name] = ReadDataset(name_dataset(place), columns)
    first = found.get(next(iter(own))) if own else _find_single_input(load, streams)
    return found if first is None else {**found, SOURCE: first}


def _find_single_input(load: Load, streams: Sequence[StreamReport]) -> ReadDataset | None:
    """Return the dataset of a load's only stream; None for several, or unknown columns.

    None, too, where columns are unknown, or `add_record_metadata` adds some.
    """
    names = set(name_inputs(load.source))
    if len(names) > 1 or len(streams) != 1 or load.target.add_record_metadata:
        return None
    columns = dict(streams[0].source_columns)
    if isinstance(load.source, DatabaseSource) and load.source.deletes == "compare":
        columns.pop(deletion_mark(load.target), None)  # which lakeport may have added
    return ReadDataset(names.pop(), columns) if names and columns else None


def build_column_lineage(
    load: Load, stream: StreamReport, datasets: Mapping[str, ReadDataset]
) -> facets.ColumnLineageDatasetFacet | None:
    """Return OpenLineage's column lineage of a stream's table; None if no origin is certain.

    A Python function can't be traced. `datasets` are the inputs of `find_inputs`.
    """
    columns: Mapping[str, Origins] | None = None
    if load.sql and not load.python:
        columns = trace_columns(load.sql, {name: each.columns for name, each in datasets.items()})
    elif SOURCE in datasets and not load.python:
        columns = {c.lower(): {(SOURCE, c): "IDENTITY"} for c in datasets[SOURCE].columns}
    landed = _map_to_table(load.target, columns or {}, stream.columns)
    fields = {
        name: facets.Fields(
            [
                facets.InputField(
                    *datasets[table].name, column, [facets.Transformation("DIRECT", kind)]
                )
                for (table, column), kind in sorted(origins.items())
            ]
        )
        for name, origins in (landed or {}).items()
    }
    return facets.ColumnLineageDatasetFacet(fields) if fields else None


def _map_to_table(
    config: DestinationConfig, made_of: Mapping[str, Origins], landed: Mapping[str, str]
) -> dict[str, Origins] | None:
    """Map the table's columns to their origins; None if a traced column has not landed."""
    case = config.column_header_format
    internal = list_internal_columns(Policies(config).internal_prefix)
    own = {apply_header_case(name, case).lower() for name in (*internal, *config.constant_columns)}
    rename = {old.lower(): new for old, new in config.rename.items()}
    typed = {name.lower() for name in config.columns}
    dropped = {name.lower() for name in config.drop}
    spelt = {name.lower(): name for name in landed}
    found: dict[str, Origins] = {}
    for name, origins in made_of.items():
        if name in dropped:
            continue
        target = apply_header_case(rename.get(name, name), case).lower()
        if target not in spelt or spelt[target] in found:
            return None
        if origins and target not in own:
            least = "TRANSFORMATION" if name in typed else "IDENTITY"
            found[spelt[target]] = {
                origin: max(kind, least, key=_TRANSFORMATIONS.index)
                for origin, kind in origins.items()
            }
    return found


def build_schema(columns: Mapping[str, str]) -> schema_dataset.SchemaDatasetFacet:
    """Return the facet of a dataset's columns."""
    fields = [schema_dataset.SchemaDatasetFacetFields(*column) for column in columns.items()]
    return schema_dataset.SchemaDatasetFacet(fields)


class LineageObserver(PipelineObserver):
    """Sends a run's OpenLineage events; after a failure, warns once and sends no more."""

    def __init__(self, lake: LakeFile, lineage: Lineage, warn: Callable[[str], None]) -> None:
        self._lake = lake
        self._warn = warn
        self._namespace = lineage.namespace
        self._parent = str(generate_new_uuid())
        self._ids = {name: str(generate_new_uuid()) for name in lake.loads}
        self._client: OpenLineageClient | None = _open_client(lineage)

    def on_begun(self, load: str) -> None:
        """Send the START event of a load."""
        self._send(load, "START", None)

    def on_ended(self, report: LoadReport) -> None:
        """Send the last event of a load that had begun."""
        if report.outcome in _EVENT_TYPES:
            self._send(report.load, _EVENT_TYPES[report.outcome], report)

    def _send(self, load: str, state: str, report: LoadReport | None) -> None:
        """Send an event of a load, unless sending has failed; `report` is None for START."""
        if self._client is None:
            return
        try:
            self._client.emit(self._event(load, state, report))
        except Exception as error:  # whatever the endpoint does, the load goes on
            self._client = None
            self._warn(f"lineage could not be sent, and no more is: {type(error).__name__}")

    def _event(self, load: str, state: str, report: LoadReport | None) -> RunEvent:
        """Build the OpenLineage event of a load, with its run, job and datasets."""
        file = Path(self._lake.path).stem
        facets: dict[str, Any] = {
            "parent": parent_run.ParentRunFacet(
                run=parent_run.Run(self._parent), job=parent_run.Job(self._namespace, file)
            )
        }
        if report is not None and report.error is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                report.error.message, "PYTHON"
            )
        return RunEvent(
            eventType=RunState[state],
            eventTime=datetime.now(UTC).isoformat(timespec="milliseconds"),
            run=Run(self._ids[load], facets),
            job=Job(self._namespace, f"{file}.{load}"),
            producer=_PRODUCER,
            **_name_datasets(self._lake.loads[load], report),
        )


def _name_datasets(load: Load, report: LoadReport | None) -> dict[str, list[Any]]:
    """Return the event's `inputs` and `outputs`; with columns once the load has ended."""
    streams = report.landing.streams if report is not None and report.landing else ()
    read = find_inputs(load, streams) if report is not None else {}
    known: dict[DatasetName, dict[str, Any]] = {
        each.name: {"schema": build_schema(each.columns)} for each in read.values()
    }
    names = dict.fromkeys([*name_inputs(load.source), *map(name_dataset, load.tables.values())])
    return {
        "inputs": [InputDataset(*name, facets=known.get(name, {})) for name in names],
        "outputs": [_build_output(load, stream, read) for stream in streams if stream.table],
    }


def _build_output(
    load: Load, stream: StreamReport, read: Mapping[str, ReadDataset]
) -> OutputDataset:
    """Build the output dataset of a stream: table, columns, their origins, and row counts."""
    facets: dict[str, Any] = {"schema": build_schema(stream.columns)} if stream.columns else {}
    if stream.columns and (columns := build_column_lineage(load, stream, read)):
        facets["columnLineage"] = columns
    counts = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=stream.rows, size=stream.bytes, fileCount=stream.files
    )
    return OutputDataset(
        *name_dataset(stream.table), facets=facets, outputFacets={"outputStatistics": counts}
    )


def _open_client(lineage: Lineage) -> OpenLineageClient:
    """Open OpenLineage's client for a file or URL; with neither, by OpenLineage's settings."""
    if lineage.file:
        return OpenLineageClient(transport=FileTransport(FileConfig(lineage.file, append=True)))
    if lineage.url is None:
        return OpenLineageClient()
    key = lineage.api_key
    auth = ApiKeyTokenProvider({"api_key": key.get_secret_value()}) if key else TokenProvider({})
    url = lineage.url.get_secret_value()
    config = HttpConfig(url, timeout=_SEND_SECONDS, auth=auth, retry={"total": 0})
    return OpenLineageClient(transport=HttpTransport(config))
