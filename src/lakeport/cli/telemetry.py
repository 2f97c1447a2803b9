"""Telemetry that commands send and write: OpenTelemetry, and a file of metrics."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakeport.errors import ConfigError, LoadsFailed
from lakeport.host.process import command_name, retry_deadline
from lakeport.host.scratch import check_output_path, write_output
from lakeport.loading.report import LandingReport
from lakeport.scrub import mask_known

if TYPE_CHECKING:
    from lakeport.pipeline.report import PipelineReport

Stop = Callable[[], None]
_Sample = tuple[str, float | None, dict[str, str]]
"""Metric without its prefix, value, labels."""
_LOADS: Final = frozenset({"land", "run", "target", "quarantine"})
_FLUSH_SECONDS: Final = 3.0
_INTERRUPTED_SECONDS: Final = 1.0  # of the ten that the process has to end


class _Problems(logging.Handler):
    """Keeps what OpenTelemetry's SDK logs; `failed` says whether it has given something up."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self.failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record's text."""
        self.texts.append(record.getMessage())
        self.failed |= record.levelno >= logging.ERROR


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
    if not (loads and signals and find_spec("opentelemetry") and find_spec("opentelemetry.sdk")):
        yield
        return
    from opentelemetry import context, propagate

    log, problems, stops = logging.getLogger("opentelemetry"), _Problems(), list[Stop]()
    log.addHandler(problems)
    log.propagate = False
    outer = {name: os.environ.get(name.upper(), "") for name in ("traceparent", "tracestate")}
    token = context.attach(propagate.extract(outer))
    try:
        stops += map(_set_provider, signals)
    except Exception as error:
        log.error("%s: %s", type(error).__name__, error)
    try:
        yield
    finally:
        context.detach(token)
        seconds = _INTERRUPTED_SECONDS if retry_deadline() else _FLUSH_SECONDS
        late = "" if _stop_within(seconds, stops) else f" within {seconds:.0f} s"
        log.removeHandler(problems)
        if late or problems.failed:
            why = f": {problems.texts[-1]}" if problems.texts else ""
            warn(f"spans and metrics were not all sent{late}{why}")


def _is_asked_for(signal: str) -> bool:
    """Whether the environment names an endpoint or an exporter for traces or metrics."""
    own, env = signal.upper(), os.environ
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = env.get(f"OTEL_{own}_EXPORTER", "").strip()
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{own}_ENDPOINT")
    return exporter.lower() != "none" and bool(exporter or any(map(env.get, endpoints)))


def _set_provider(signal: str) -> Stop:
    """Set this process's provider of traces or metrics; return what flushes and stops it.

    Its exporters are those of `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER`, by default OTLP
    over HTTP. ValueError for one that is not installed.
    """
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporters = []
    for name in (os.environ.get(f"OTEL_{signal.upper()}_EXPORTER") or "otlp").split(","):
        entry = "otlp_proto_http" if name.strip() == "otlp" else name.strip()
        kinds = entry_points(group=f"opentelemetry_{signal}_exporter", name=entry)
        if not kinds:
            raise ValueError(f"no exporter {name!r} of {signal} is installed")
        exporters += [kind.load()() for kind in kinds]
    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in given
    resource = Resource.create({} if named else {"service.name": "lakeport"})
    if signal == "traces":
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in exporters:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(tracers)
        return tracers.shutdown
    readers = [PeriodicExportingMetricReader(exporter) for exporter in exporters]
    meters = MeterProvider(readers, resource, shutdown_on_exit=False)
    metrics.set_meter_provider(meters)
    return meters.shutdown


def _stop_within(seconds: float, stops: Sequence[Stop]) -> bool:
    """Call the functions in another thread, ignoring their errors; return whether all came back."""

    def call_all() -> None:
        for stop in stops:
            with suppress(Exception):
                stop()

    thread = threading.Thread(target=call_all, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


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
        found = None
        with suppress(OSError, ValueError):  # ValueError: it is no text
            found = _SUCCESS.search(path.read_text("utf-8"))
        now, success = time.time(), float(found[1]) if found else None
        samples: list[_Sample] = [
            ("last_run_timestamp_seconds", now, {}),
            ("last_success_timestamp_seconds", now if ok else success, {}),
            ("last_run_success", ok, {}),
            ("last_run_seconds", time.monotonic() - begin, {}),
            *(sample for report in reports for sample in _list_samples(report)),
        ]
        try:
            write_output(_format_samples(samples, path.stem), path)
        except ConfigError as error:
            warn(error.message)


def _list_samples(report: LandingReport | PipelineReport) -> Iterator[_Sample]:
    """Yield the samples of each load and each table of a report."""
    if isinstance(report, LandingReport):
        loads: list[tuple[str, LandingReport | None]] = [("", report)]
    else:
        begun = [one for one in report.loads if one.outcome != "left out"]
        yield from (("load_success", o.outcome == "landed", {"load": o.load}) for o in begun)
        loads = [(one.load, one.landing) for one in begun]
    for load, landing in loads:
        for stream in landing.streams if landing else ():
            labels = {"load": load, "table": stream.table, "stream": stream.stream}
            for name in ("rows", "bytes", "rejected", "seconds"):
                yield f"table_{name}", getattr(stream, name), labels


_quote = partial(json.dumps, ensure_ascii=False)  # Prometheus has JSON's escapes, but not \u


def _format_samples(samples: Iterable[_Sample], file: str) -> str:
    """Return samples as text, by metric; the label `file` tells those of several files apart."""
    lines: dict[str, list[str]] = {}
    for name, value, labels in samples:
        if value is not None:
            known = {"file": file, **labels}.items()
            pairs = ",".join(f"{key}={_quote(mask_known(text))}" for key, text in known if text)
            own = lines.setdefault(name, [f"# TYPE lakeport_{name} gauge"])
            own.append(f"lakeport_{name}{{{pairs}}} {float(value)}")
    return "".join(f"{line}\n" for own in sorted(lines) for line in lines[own])
