"""Structured streams: a streaming DataFrame, landed micro-batch by micro-batch, exactly once.

```
source ─micro-batch─▶ foreachBatch ─▶ loader (as for any frame) ─Landed─▶ report ─▶ checkpoint
```
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Unpack

from lakeport.config.load import load_target, read_sink_interval
from lakeport.destinations import check_place, open_table
from lakeport.engine.sql.frames import normalise_frame, untyped_columns, void_marked
from lakeport.engine.sql.streaming import bind, start_query
from lakeport.errors import ConfigError
from lakeport.loading.prepare import PreparedLoad, prepare
from lakeport.model import Mode
from lakeport.sources.frames import is_spark_frame
from lakeport.sources.target import fixed_table_name
from lakeport.streams.handle import LandingStream
from lakeport.streams.microbatches import MicroBatches, connector, reach

if TYPE_CHECKING:
    from lakeport.config.base import DestinationConfig
    from lakeport.config.keys import Target, TargetKeys
    from lakeport.engine.base import (
        DataFrame,
        SparkContext,
        SparkEngine,
        SparkSession,
    )
    from lakeport.loading.report import Observer


def land_stream(
    frame: DataFrame | Callable[[SparkSession], DataFrame],
    to: Target | DestinationConfig,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    trigger: str | float | None = None,
    available_now: bool = False,
    observer: Observer | None = None,
    **keys: Unpack[TargetKeys],
) -> LandingStream:
    """Start to land a stream in one table, and return while it goes on.

    Each micro-batch is one commit, or one set of files, and lands once, however often the query is
    killed and started again with the same checkpoint. One without rows leaves nothing.

    Args:
        frame: a streaming DataFrame, or a function that makes one in the session that it is
            given: the active one, or one that lakeport starts with what the target needs.
        to: as for `lakeport.land`; also the YAML of one of Mage's streaming sinks, whose
            `buffer_timeout_seconds` is the trigger unless another one is given.
        checkpoint: folder in which Spark keeps how far the query has come: one for each table, on
            storage that outlives the machine if the query has to. A store of the target's cloud
            is reached with the target's credentials, others with those of the environment; a
            session that somebody else built reaches it as it is set up to.
        trigger: seconds between the starts of two micro-batches, or Spark's text for that, such
            as `1 minute`; by default the next one follows at once.
        available_now: land what is there, in as many micro-batches as the source's options say,
            and end.
        observer: is told of each micro-batch as of a load, on another thread.
        keys: keys of the config, which win over those in `to`; `table` names the table.

    Returns:
        A handle on the query.

    Raises:
        ConfigError: the frame is no stream, a setting is wrong or can't be had for a stream, or
            the checkpoint is another table's.
        LakeportError: the target, the checkpoint or Spark refused.

    Example:
        >>> import lakeport
        >>> stream = lakeport.land_stream(  # doctest: +SKIP
        ...     lambda spark: spark.readStream.schema("id long").json("in/"),
        ...     "./lake", table="events", checkpoint="./checkpoint", available_now=True,
        ... )
        >>> stream.wait()  # doctest: +SKIP
        True
    """
    config = load_target(to, keys)
    if trigger is None and not available_now:
        trigger = read_sink_interval(to)
    timing = _timing(trigger, available_now)
    _check(config, checkpoint)
    prepared = prepare(config, keep=_context(frame), also=connector(checkpoint or ""), warm=False)
    try:
        engine = prepared.engine.require_spark("a stream")
        streaming = _frame(frame, engine)
        check_place(prepared.config, prepared.storage)
        prepared = prepared.check_workers()
        return _started(prepared, engine, streaming, checkpoint or "", timing, observer)
    except BaseException:
        prepared.engine.close()
        raise


def _started(
    prepared: PreparedLoad,
    engine: SparkEngine,
    given: DataFrame,
    checkpoint: str | os.PathLike[str],
    timing: Mapping[str, Any],
    observer: Observer | None,
) -> LandingStream:
    """Start the query that lands a streaming frame; return the handle on it."""
    config, storage, name = prepared.config, prepared.storage, prepared.config.table or ""
    found = void_marked(given)
    frame = normalise_frame(found, name)
    untyped = untyped_columns(found, frame)
    engine.begin()
    table = open_table(config, storage, engine, name)
    place = reach(checkpoint, config, engine)
    folder = bind(frame.sparkSession, place, table.uri)
    ready: Future[MicroBatches] = Future()
    mode = "update" if config.mode is Mode.MERGE else "append"

    def land(batch: DataFrame, number: int) -> None:
        ready.result().land(batch, number)

    query = start_query(frame, folder, mode, timing, land, engine.secrets)
    try:
        named = config.model_copy(update={"run_id": str(query.id)})
        batches = MicroBatches(named, storage, engine, name, untyped, observer)
        for text in prepared.warnings:
            batches.warn(text)
        stream = LandingStream(query, batches, engine, storage if config.manifest else None)
    except BaseException as error:
        ready.set_exception(error)
        query.stop()
        raise
    ready.set_result(batches)
    return stream


def _check(config: DestinationConfig, checkpoint: str | os.PathLike[str] | None) -> None:
    """Refuse what a stream can't have.

    Raises:
        ConfigError: with the reason.
    """
    if checkpoint is None or not os.fspath(checkpoint).strip():
        raise ConfigError(
            "a stream needs a checkpoint: without one, a restart lands everything again",
            "give `checkpoint`, a folder that is kept as long as the table.",
        )
    if fixed_table_name(config) is None:
        raise ConfigError("a stream has no name of its own", "give `table`.")
    if config.mode is Mode.OVERWRITE:
        what = "the partitions that it touches" if config.partition_keys else "the table"
        raise ConfigError(
            f"`mode: overwrite` can't be had for a stream: each micro-batch would replace {what}, "
            "with the rows that earlier ones had landed there",
            "use `mode: append`, or `mode: merge` to replace single rows.",
        )
    if config.mode is Mode.MERGE and not config.merge_keys:
        raise ConfigError(
            "`mode: merge` lacks the columns that identify a row",
            "give `merge_keys`: a frame does not tell them.",
        )
    if config.run_id is not None:
        raise ConfigError(
            "`run_id` can't be had for a stream: its checkpoint names the run", "leave it out."
        )


def _timing(trigger: str | float | None, available_now: bool) -> dict[str, Any]:
    """The arguments of Spark's `trigger`.

    Raises:
        ConfigError: there is no such trigger.
    """
    if available_now:
        if trigger is not None:
            raise ConfigError(
                "`trigger` and `available_now` are both given",
                "give one of them: `available_now` lands what is there and ends.",
            )
        return {"availableNow": True}
    if trigger is None:
        return {}
    if isinstance(trigger, str):
        if trigger.strip().lower() == "once":
            raise ConfigError(
                "the trigger `once` is not offered: it takes everything in one micro-batch",
                "use `available_now=True`, which keeps to the limits of the source's options.",
            )
        return {"processingTime": trigger}
    number = isinstance(trigger, (int, float)) and not isinstance(trigger, bool)
    if not number or not 0 <= trigger < math.inf:
        raise ConfigError(
            f"`trigger` is {trigger!r}", "give seconds, 0 or more, or text such as '5 minutes'."
        )
    return {"processingTime": f"{round(trigger * 1000)} milliseconds"}


def _context(given: object) -> SparkContext | None:
    """The context that a frame is bound to; None for a function, and in a Connect session.

    Raises:
        ConfigError: it is neither.
    """
    if is_spark_frame(given):
        session = given.sparkSession  # type: ignore[attr-defined]
        context: SparkContext | None = getattr(session, "sparkContext", None)
        return context
    if not callable(given):
        raise ConfigError(
            f"{type(given).__name__} is no streaming DataFrame",
            "give one, or a function that makes one in the session that it is given.",
        )
    return None


def _frame(
    given: DataFrame | Callable[[SparkSession], DataFrame], engine: SparkEngine
) -> DataFrame:
    """The streaming frame.

    Raises:
        ConfigError: it is no stream, or of another session than that of `engine`.
    """
    frame: Any = given if is_spark_frame(given) else given(engine.spark)  # type: ignore[operator]
    if not is_spark_frame(frame) or not frame.isStreaming:
        raise ConfigError(
            "the frame is no stream", "read with `spark.readStream`, or use `lakeport.land`."
        )
    if frame.sparkSession.sparkContext is not engine.context:
        raise ConfigError(
            "the frame's Spark session was stopped", "make the frame anew, in a running session."
        )
    streaming: DataFrame = frame
    return streaming
