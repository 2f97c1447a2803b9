"""Dagster assets of a load or a lake file, with metadata, asset checks, and secrets by a resource.

```
orders = lakeport_asset("in/*.csv", key="orders", options={"expect": [{"not_null": "id"}]})
keys = {"aws_access_key_id": EnvVar("KEY"), "aws_secret_access_key": EnvVar("SECRET")}
lake = LakeportResource(to="s3://lake", secrets=keys)
defs = Definitions(assets=[orders, lakeport_assets("lake.yaml")], resources={"lakeport": lake})
```
docs/orchestrators.md tells more.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    given = {"table": spec.key.path[-1], **(options or {})}
    checks = _specify_checks(spec.key, parse_expectations(given.get("expect", ())))
    name = spec.key.to_python_identifier()

    @multi_asset(
        name=name,
        specs=[spec],
        check_specs=list(checks.values()),
        required_resource_keys={resource_key},
        **kwargs,
    )
    def load(context: AssetExecutionContext) -> Iterator[Any]:
        keeper, target = _ReportKeeper(), getattr(context.resources, resource_key)
        try:
            observed = {**given, "observer": fan_out(keeper, given.get("observer"))}
            _make_job(context, name).land(source, target.to, target.secrets, observed)
        except LakeportError as error:
            yield from _check_results(checks, keeper.report, failed=True)
            raise _failure(error) from error
        yield from _check_results(checks, keeper.report)
        yield _materialization(spec.key, keeper.report)

    return load


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
    checks = {each: _specify_checks(keys[each], load.expect) for each, load in loads.items()}

    @multi_asset(
        name=name,
        specs=[
            AssetSpec(
                keys[each],
                deps=[keys[used] for used in load.depends],
                description=load.description or None,
                kinds={"lakeport"},
                skippable=True,
            )
            for each, load in loads.items()
        ],
        check_specs=[spec for specs in checks.values() for spec in specs.values()],
        can_subset=True,
        required_resource_keys={resource_key} if resource_key else set(),
        **kwargs,
    )
    def run(context: AssetExecutionContext) -> Iterator[Any]:
        only = [each for each, key in keys.items() if key in context.selected_asset_keys]
        secrets = getattr(context.resources, resource_key).secrets if resource_key else {}
        failure: LoadsFailed | None = None
        try:
            report = _make_job(context, name).run(lake_file, secrets, {"only": only})
        except LoadsFailed as error:
            report, failure = error.report, error
        except LakeportError as error:
            raise _failure(error) from error
        for load in report.loads:
            landed = load.outcome == "landed"
            yield from _check_results(checks[load.load], load.landing, failed=not landed)
            if landed:
                yield _materialization(keys[load.load], load.landing)
        if failure is not None:
            raise _failure(failure) from failure

    return run


class _ReportKeeper(Observer):
    """Keeps the report of a load, also of one that fails; None if it did not begin."""

    report: LandingReport | None = None

    def on_finished(self, report: LandingReport) -> None:
        """Keep the report."""
        self.report = report


def _make_job(context: AssetExecutionContext, step: str) -> Job:
    """Return a step's job, named after the first run: re-executions and retries share it."""
    return Job(context.run.root_run_id or context.run.run_id, step)


def _failure(error: LakeportError) -> Failure:
    """Return Dagster's failure for an error; it allows no retries where none can help."""
    return Failure(str(error), {"error": type(error).__name__}, allow_retries=may_retry(error))


def _specify_checks(
    key: AssetKey, expectations: Sequence[Expectation]
) -> dict[str, AssetCheckSpec]:
    """Return an expectation's title -> its asset check, whose name has `_` for punctuation."""
    found: dict[str, AssetCheckSpec] = {}
    for each in expectations:
        name = sub(r"\W+", "_", each.title).strip("_")
        taken = any(spec.name == name for spec in found.values())
        name = f"{name}_{len(found)}" if taken else name
        found[each.title] = AssetCheckSpec(name, asset=key, description=each.title)
    return found


def _check_results(
    checks: Mapping[str, AssetCheckSpec], report: LandingReport | None, *, failed: bool = False
) -> Iterator[AssetCheckResult]:
    """Yield the results of a load's asset checks; of a load that `failed`, the violations alone."""
    streams = report.streams if report is not None else ()
    for title, spec in checks.items():
        results = [one for stream in streams for one in stream.expectations if one.name == title]
        violations = [one for one in results if one.failed]
        if failed and not violations:
            continue
        fails = any(one.otherwise == "fail" for one in violations)
        yield AssetCheckResult(
            passed=not violations,
            asset_key=spec.asset_key,
            check_name=spec.name,
            severity=AssetCheckSeverity.ERROR if fails else AssetCheckSeverity.WARN,
            description="; ".join(one.in_words for one in violations or results)
            or "the load had no rows to check",
            metadata={
                "checked": sum(one.checked for one in results),
                "failed": sum(one.failed for one in results),
            },
        )


def _materialization(key: AssetKey, report: LandingReport | None) -> MaterializeResult:
    """Return an asset's materialization with its report, table and columns."""
    assert report is not None  # the load has ended well
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
