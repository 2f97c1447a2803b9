"""Dagster assets of a load or a lake file, with metadata, asset checks, and secrets by a resource.

```
orders = lakeport_asset("in/*.csv", key="orders", options={"expect": [{"not_null": "id"}]})
keys = {"aws_access_key_id": EnvVar("KEY"), "aws_secret_access_key": EnvVar("SECRET")}
lake = LakeportResource(to="s3://lake", secrets=keys)
defs = Definitions(assets=[orders, lakeport_assets("lake.yaml")], resources={"lakeport": lake})
```
docs/orchestrators.md tells more.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from re import sub
from typing import Any

from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    ConfigurableResource,
    Failure,
    MaterializeResult,
    TableColumn,
    TableSchema,
    multi_asset,
)

from lakeport.config.expectations import Expectation, parse_expectations
from lakeport.config.lake import read_lake
from lakeport.errors import LakeportError, LoadsFailed
from lakeport.integrations.job import Job, may_retry, shorten
from lakeport.loading.report import LandingReport, Observer, fan_out
from lakeport.pipeline.report import LoadReport

_Loaded = tuple[Sequence[LoadReport], LakeportError | None]
"""Reports of the loads of a step, and the error that it ends with."""


class LakeportResource(ConfigurableResource):
    """The target of loads, and the keys of its store, with secrets by `EnvVar`.

    Attributes:
        to: a folder, a URI or a config file; empty if the secrets have it, and for lake files.
        secrets: keys of lakeport's config, such as `aws_secret_access_key`.
    """

    to: str = ""
    secrets: dict[str, str] = {}  # noqa: RUF012  # pydantic copies the default


def lakeport_asset(
    source: Any,
    *,
    key: str | Sequence[str],
    options: Mapping[str, Any] | None = None,
    resource_key: str = "lakeport",
    deps: Sequence[Any] = (),
    **kwargs: Any,
) -> AssetsDefinition:
    """Return an asset that lands a source by `lakeport.land`, with a check for each expectation.

    Args:
        source: as `lakeport.land` takes it.
        key: the asset's key; its last part is the table's name, unless the options have one.
        options: further arguments of `lakeport.land`, such as `mode` or `expect`.
        resource_key: the `LakeportResource` that has the target.
        deps: assets that come before.
        kwargs: further arguments of `dagster.multi_asset`, such as `group_name`, `retry_policy`.
    """
    spec = AssetSpec(key, deps=deps, kinds={"lakeport"})
    name = spec.key.to_python_identifier()
    given = {"table": spec.key.path[-1], **(options or {})}
    expectations = parse_expectations(given.get("expect", ()))

    def load(job: Job, target: LakeportResource, only: Sequence[str]) -> _Loaded:
        keeper = _ReportKeeper()
        observed = {**given, "observer": fan_out(keeper, given.get("observer"))}
        try:
            job.land(source, target.to, target.secrets, observed)
        except LakeportError as error:
            return [LoadReport(name, "failed", landing=keeper.report)], error
        return [LoadReport(name, "landed", landing=keeper.report)], None

    return _define(name, {name: spec}, {name: expectations}, load, resource_key, kwargs)


def lakeport_assets(
    lake_file: str,
    *,
    name: str = "lakeport",
    key_prefix: Sequence[str] = (),
    resource_key: str = "",
    **kwargs: Any,
) -> AssetsDefinition:
    """Return an asset for each load of a lake file, with dependencies and checks.

    They are one step of Dagster, which runs the selected loads as `lakeport.run` does. Loads that
    landed are materialized, though others fail.

    Args:
        lake_file: path of the lake file.
        name: the step's name.
        key_prefix: parts of the assets' keys before the loads' names.
        resource_key: a `LakeportResource` with keys for the loads' targets; empty for none.
        kwargs: further arguments of `dagster.multi_asset`, such as `group_name`, `retry_policy`.

    Raises:
        ConfigError: the lake file is wrong.
    """
    loads = read_lake(lake_file).loads
    keys = {each: AssetKey([*key_prefix, each]) for each in loads}
    specs = {
        each: AssetSpec(
            keys[each],
            deps=[keys[used] for used in load.depends],
            description=load.description or None,
            kinds={"lakeport"},
            skippable=True,
        )
        for each, load in loads.items()
    }
    expectations = {each: load.expect for each, load in loads.items()}

    def run(job: Job, target: LakeportResource, only: Sequence[str]) -> _Loaded:
        try:
            return job.run(lake_file, target.secrets, {"only": only}).loads, None
        except LoadsFailed as error:
            return error.report.loads, error
        except LakeportError as error:
            return (), error

    return _define(name, specs, expectations, run, resource_key, kwargs)


class _ReportKeeper(Observer):
    """Keeps the report of a load, also of one that fails; None if it did not begin."""

    report: LandingReport | None = None

    def on_finished(self, report: LandingReport) -> None:
        """Keep the report."""
        self.report = report


def _define(
    name: str,
    specs: Mapping[str, AssetSpec],
    expectations: Mapping[str, Sequence[Expectation]],
    perform: Callable[[Job, LakeportResource, Sequence[str]], _Loaded],
    resource_key: str,
    kwargs: Mapping[str, Any],
) -> AssetsDefinition:
    """Return the assets of a step; `perform` does the loads of those that are selected."""
    checks = {each: _specify_checks(spec.key, expectations[each]) for each, spec in specs.items()}

    @multi_asset(
        name=name,
        specs=list(specs.values()),
        check_specs=[check for each in checks.values() for check in each.values()],
        can_subset=True,  # an asset check has no result where no row was checked
        required_resource_keys={resource_key} if resource_key else set(),
        **kwargs,
    )
    def step(context: AssetExecutionContext) -> Iterator[Any]:
        selected = context.selected_asset_keys
        only = [each for each, spec in specs.items() if spec.key in selected]
        if not only:  # checks alone: they are results of a load
            return
        # Re-executions and retries share the name of the first run.
        job = Job(context.run.root_run_id or context.run.run_id, name)
        target = getattr(context.resources, resource_key) if resource_key else LakeportResource()
        loads, error = perform(job, target, only)
        for load in loads:
            yield from _check_results(checks[load.load], load)
            if load.outcome == "landed" and load.landing is not None:
                yield _materialization(specs[load.load].key, load.landing)
        if error is not None:
            about = {"error": type(error).__name__}
            raise Failure(str(error), about, allow_retries=may_retry(error)) from error

    return step


def _specify_checks(
    key: AssetKey, expectations: Sequence[Expectation]
) -> dict[str, AssetCheckSpec]:
    """Return an expectation's title -> its asset check, whose name has `_` for all but ASCII."""
    found: dict[str, AssetCheckSpec] = {}
    for each in expectations:
        name = sub(r"[^A-Za-z0-9]+", "_", each.title).strip("_") or "check"
        taken = any(spec.name == name for spec in found.values())
        name = f"{name}_{len(found)}" if taken else name
        found[each.title] = AssetCheckSpec(name, asset=key, description=each.title)
    return found


def _check_results(
    checks: Mapping[str, AssetCheckSpec], load: LoadReport
) -> Iterator[AssetCheckResult]:
    """Yield the results of a load's asset checks; of one that failed, the violations alone."""
    streams = load.landing.streams if load.landing is not None else ()
    for title, spec in checks.items():
        results = [one for stream in streams for one in stream.expectations if one.name == title]
        violations = [one for one in results if one.failed]
        if not results or (load.outcome != "landed" and not violations):
            continue
        fails = any(one.otherwise == "fail" for one in violations)
        yield AssetCheckResult(
            passed=not violations,
            asset_key=spec.asset_key,
            check_name=spec.name,
            severity=AssetCheckSeverity.ERROR if fails else AssetCheckSeverity.WARN,
            description="; ".join(one.in_words for one in violations or results),
            metadata={
                "checked": sum(one.checked for one in results),
                "failed": sum(one.failed for one in results),
            },
        )


def _materialization(key: AssetKey, report: LandingReport) -> MaterializeResult:
    """Return an asset's materialization with its report, table and columns."""
    names = ("rows", "rejected", "files", "bytes", "seconds", "run_id")
    metadata: dict[str, Any] = {name: getattr(report, name) for name in names}
    metadata["report"] = shorten(report)
    if len(report.streams) == 1:
        stream = report.streams[0]
        metadata["dagster/uri"] = stream.table
        if stream.columns:  # none of a load that has landed before
            columns = [TableColumn(name, type_) for name, type_ in stream.columns.items()]
            metadata["dagster/column_schema"] = TableSchema(columns)
    return MaterializeResult(asset_key=key, metadata=metadata)
