"""OpenLineage events of a run: START of each load, and COMPLETE, FAIL or ABORT."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.host.extras import missing
from lakeport.pipeline.lineage.datasets import Name, inputs_of, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakeport.config.lake import LakeFile, Lineage, Load
    from lakeport.loading.report import StreamReport
    from lakeport.model import Landed
    from lakeport.pipeline.lineage.columns import Dataset
    from lakeport.pipeline.report import LoadReport, PipelineReport

_SECONDS: Final = 5.0
_STATES: Final = {"landed": "COMPLETE", "failed": "FAIL", "interrupted": "ABORT"}
_PRODUCER: Final = "https://github.com/lakeport/lakeport"


class Events:
    """An observer of a run that sends its lineage; where that fails, it says so once and stops.

    Args:
        lake: the file.
        lineage: where events go.
        warn: takes a sentence for the user.

    Raises:
        MissingDependency: OpenLineage's client is not installed.
    """

    def __init__(self, lake: LakeFile, lineage: Lineage, warn: Callable[[str], None]) -> None:
        try:
            from openlineage.client.uuid import generate_new_uuid
        except ImportError:
            problem = "lineage is sent by the package `openlineage-python`, which is not installed"
            raise missing(problem, "lineage") from None
        self._lake = lake
        self._warn = warn
        self._namespace = lineage.namespace
        self._parent = str(generate_new_uuid())
        self._ids = {name: str(generate_new_uuid()) for name in lake.loads}
        self._client: Any = _client(lineage)

    def on_begun(self, load: str) -> None:
        """Send START."""
        self._send(load, "START", None)

    def on_progress(self, load: str, stream: str, records: int, size: int) -> None:
        """Do nothing."""

    def on_landed(self, load: str, landed: Landed) -> None:
        """Do nothing."""

    def on_warning(self, load: str, text: str) -> None:
        """Do nothing."""

    def on_ended(self, report: LoadReport) -> None:
        """Send how a load that had begun has ended."""
        if report.outcome in _STATES:
            self._send(report.load, _STATES[report.outcome], report)

    def on_finished(self, report: PipelineReport) -> None:
        """Do nothing: each load has told."""

    def _send(self, load: str, state: str, report: LoadReport | None) -> None:
        if self._client is None:
            return
        try:
            self._client.emit(self._event(load, state, report))
        except Exception as error:  # whatever the endpoint does, the load goes on
            self._client = None
            self._warn(f"lineage could not be sent, and no more is: {type(error).__name__}")

    def _event(self, load: str, state: str, report: LoadReport | None) -> Any:
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import error_message_run, parent_run

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
            **_datasets(self._lake.loads[load], report),
        )


def _datasets(load: Load, report: LoadReport | None) -> dict[str, list[Any]]:
    """What a load reads, and the tables that it has landed in: with their columns, once it has."""
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    from lakeport.pipeline.lineage.columns import read_by, schema_of

    streams = report.landing.streams if report is not None and report.landing else ()
    read = read_by(load, streams) if report is not None else {}
    known: dict[Name, dict[str, Any]] = {
        each.name: {"schema": schema_of(each.columns)} for each in read.values()
    }
    names = dict.fromkeys([*inputs_of(load.source), *map(name_of, load.tables.values())])
    return {
        "inputs": [InputDataset(*name, facets=known.get(name, {})) for name in names],
        "outputs": [
            OutputDataset(
                *name_of(stream.table),
                facets=_facets(load, stream, read),
                outputFacets={"outputStatistics": _statistics(stream)},
            )
            for stream in streams
            if stream.table
        ],
    }


def _facets(load: Load, stream: StreamReport, read: Mapping[str, Dataset]) -> dict[str, Any]:
    """A table's columns, and what they come from; nothing where none were landed."""
    from lakeport.pipeline.lineage.columns import column_lineage, schema_of

    if not stream.columns:
        return {}
    told = column_lineage(load, stream, read)
    return {"schema": schema_of(stream.columns), **({"columnLineage": told} if told else {})}


def _statistics(stream: StreamReport) -> Any:
    from openlineage.client.facet_v2 import output_statistics_output_dataset

    return output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=stream.rows, size=stream.bytes, fileCount=stream.files
    )


def _client(lineage: Lineage) -> Any:
    """OpenLineage's client; without file and URL, as its own variables and file say."""
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.file import FileConfig, FileTransport
    from openlineage.client.transport.http import (
        ApiKeyTokenProvider,
        HttpConfig,
        HttpTransport,
        TokenProvider,
    )

    if lineage.file:
        return OpenLineageClient(transport=FileTransport(FileConfig(lineage.file, append=True)))
    if lineage.url is None:
        return OpenLineageClient()
    key = lineage.api_key
    auth = ApiKeyTokenProvider({"api_key": key.get_secret_value()}) if key else TokenProvider({})
    url = lineage.url.get_secret_value()
    config = HttpConfig(url, timeout=_SECONDS, auth=auth, retry={"total": 0})
    return OpenLineageClient(transport=HttpTransport(config))
