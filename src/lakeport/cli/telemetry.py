"""Telemetry that commands send and write: OpenTelemetry, and a file of metrics."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import ConfigError, LoadsFailed
from lakeport.host.process import command_name, retry_deadline
from lakeport.host.scratch import check_output_path, write_output
from lakeport.loading.report import LandingReport

if TYPE_CHECKING:
    from lakeport.pipeline.report import PipelineReport

_LOADS: Final = frozenset({"land", "run", "target", "quarantine"})
_FLUSH_SECONDS: Final = 3.0
_INTERRUPTED_SECONDS: Final = 1.0  # of the ten that the process has to end
_CARRIERS: Final = ("traceparent", "tracestate", "baggage")


@contextmanager
def export_telemetry(
    program: str, arguments: Sequence[str], warn: Callable[[str], None]
) -> Iterator[None]:
    """Context manager that sends spans and metrics as the `OTEL_` variables say; flush at its end.

    It does nothing for commands that load nothing, where no variable asks for it, and without the
    extra `otel`. It never raises: `warn` gets one sentence if something was not sent.
    """
    loads = program != "lakeport" or command_name(arguments) in _LOADS
    signals = [signal for signal in ("traces", "metrics") if _is_asked_for(signal)]
    if not (loads and signals and _is_installed()):
        yield
        return
    log, problems = logging.getLogger("opentelemetry"), _Problems(logging.WARNING)
    before = log.propagate
    log.addHandler(problems)
    log.propagate = False
    stops: list[Callable[[], object]] = []
    with ExitStack() as stack:
        try:
            stops = [_PROVIDERS[signal](_open_exporters(signal)) for signal in signals]
            stack.enter_context(_outer_trace())
        except Exception as error:
            log.error("%s: %s", type(error).__name__, error)
        try:
            yield
        finally:
            seconds = _INTERRUPTED_SECONDS if retry_deadline() else _FLUSH_SECONDS
            late = "" if _run_within(seconds, stops) else f" within {seconds:.0f} s"
            log.removeHandler(problems)
            log.propagate = before
            if late or problems.failed:
                why = f": {problems.texts[-1]}" if problems.texts else ""
                warn(f"spans and metrics were not all sent{late}{why}")


def _is_installed() -> bool:
    """Whether the SDK of OpenTelemetry is installed."""
    return bool(find_spec("opentelemetry") and find_spec("opentelemetry.sdk"))


def _is_asked_for(signal: str) -> bool:
    """Whether the environment names an endpoint or an exporter for traces or metrics."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    own = signal.upper()
    exporter = os.environ.get(f"OTEL_{own}_EXPORTER", "").strip()
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{own}_ENDPOINT")
    return exporter.lower() != "none" and bool(exporter or any(map(os.environ.get, endpoints)))


def _open_exporters(signal: str) -> list[Any]:
    """Return the exporters that `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER` names.

    OTLP over HTTP by default; ValueError for an exporter that is not installed.
    """
    found = []
    names = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").split(",")
    for name in filter(None, map(str.strip, names if any(names) else ["otlp"])):
        entry = "otlp_proto_http" if name == "otlp" else name
        kinds = entry_points(group=f"opentelemetry_{signal}_exporter", name=entry)
        if not kinds:
            raise ValueError(f"no exporter {name!r} of {signal} is installed")
        found += [kind.load()() for kind in kinds]
    return found


def _resource() -> Any:
    """Return what the environment says of this service; it is called lakeport by default."""
    from opentelemetry.sdk.resources import Resource

    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in given
    return Resource.create({} if named else {"service.name": "lakeport"})


def _provide_traces(exporters: Sequence[Any]) -> Callable[[], object]:
    """Set the provider of tracers; return the function that flushes and stops it."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def _provide_metrics(exporters: Sequence[Any]) -> Callable[[], object]:
    """Set the provider of meters; return the function that flushes and stops it."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    readers = [PeriodicExportingMetricReader(exporter) for exporter in exporters]
    provider = MeterProvider(readers, resource=_resource(), shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    return provider.shutdown


_PROVIDERS: Final = {"traces": _provide_traces, "metrics": _provide_metrics}


@contextmanager
def _outer_trace() -> Iterator[None]:
    """Context manager: spans of its body are below the one that `TRACEPARENT` names, if any."""
    from opentelemetry import context, propagate

    carrier = {name: os.environ[name.upper()] for name in _CARRIERS if name.upper() in os.environ}
    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


def _run_within(seconds: float, functions: Sequence[Callable[[], object]]) -> bool:
    """Run the functions side by side; return whether all ended in time. Their errors are logged."""
    threads = [threading.Thread(target=_run_logged, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def _run_logged(function: Callable[[], object]) -> None:
    """Run a function of the SDK; log its error as the SDK's."""
    try:
        function()
    except Exception as error:
        logging.getLogger("opentelemetry").error("%s", error)


class _Problems(logging.Handler):
    """Keeps what the SDK logs; `failed` says whether it has given something up."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.texts: list[str] = []
        self.failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record's text."""
        self.texts.append(record.getMessage())
        self.failed |= record.levelno >= logging.ERROR


_ABOUT: Final = {
    "last_run_timestamp_seconds": "When the last run ended.",
    "last_success_timestamp_seconds": "When the last run without an error ended.",
    "last_run_success": "Whether the last run ended without an error.",
    "last_run_seconds": "Duration of the last run.",
    "load_success": "Whether a load of the last run ended without an error.",
    "table_rows": "Rows that the last run landed in a table.",
    "table_bytes": "Bytes of the files that the last run wrote for a table.",
    "table_rejected": "Records of a table that the last run rejected.",
    "table_seconds": "Seconds that the last run took for the batches of a table.",
}
_SUCCESS: Final = re.compile(r"^lakeport_last_success_timestamp_seconds{.*} (\S+)$", re.MULTILINE)


@contextmanager
def write_metrics(
    path: Path | None, warn: Callable[[str], None]
) -> Iterator[list[LandingReport | PipelineReport]]:
    """Context manager that writes metrics of its body in Prometheus' text format, atomically.

    Yields a list for the report of the body's load or run. The time of the last success stays as
    the file has it when the body fails. `warn` gets a sentence if the file can't be written.
    """
    reports: list[LandingReport | PipelineReport] = []
    if path is None:
        yield reports
        return
    check_output_path(path)
    begin, ok = time.monotonic(), False
    try:
        yield reports
        ok = True
    except LoadsFailed as error:
        reports.append(error.report)
        raise
    finally:
        now = time.time()
        run: dict[str, float | None] = {
            "last_run_timestamp_seconds": now,
            "last_success_timestamp_seconds": now if ok else _last_success(path),
            "last_run_success": ok,
            "last_run_seconds": time.monotonic() - begin,
        }
        samples: list[_Sample] = [(k, {}, v) for k, v in run.items() if v is not None]
        samples += [sample for report in reports for sample in _report_samples(report)]
        try:
            write_output(_format_samples(samples, path.stem), path)
        except ConfigError as error:
            warn(error.message)


def _last_success(path: Path) -> float | None:
    """Return the time of the last success that a file of metrics has; None for none."""
    try:
        found = _SUCCESS.search(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return float(found[1]) if found else None


_Sample = tuple[str, dict[str, str], float]
"""Metric, labels, value."""


def _report_samples(report: LandingReport | PipelineReport) -> Iterator[_Sample]:
    """Yield the samples of each load and each table of a report."""
    loads = [("", report)] if isinstance(report, LandingReport) else []
    if not isinstance(report, LandingReport):
        begun = [one for one in report.loads if one.outcome != "left out"]
        loads = [(one.load, one.landing) for one in begun if one.landing]
        yield from (("load_success", {"load": o.load}, o.outcome == "landed") for o in begun)
    for load, landing in loads:
        for stream in landing.streams:
            labels = {"load": load, "table": stream.table, "stream": stream.stream}
            for name in ("rows", "bytes", "rejected", "seconds"):
                yield f"table_{name}", labels, getattr(stream, name)


def _format_samples(samples: Collection[_Sample], file: str) -> str:
    """Return samples as text, by metric; the label `file` tells those of several files apart."""
    lines = []
    for name, about in _ABOUT.items():
        own = [(labels, value) for metric, labels, value in samples if metric == name]
        if own:
            lines += [f"# HELP lakeport_{name} {about}", f"# TYPE lakeport_{name} gauge"]
        for labels, value in own:
            known = {"file": file, **labels}
            pairs = ",".join(f"{key}={_quote(text)}" for key, text in known.items() if text)
            lines.append(f"lakeport_{name}{{{pairs}}} {float(value)}")
    return "".join(f"{line}\n" for line in lines)


def _quote(text: str) -> str:
    """Return a label's value in quotes, as Prometheus escapes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
