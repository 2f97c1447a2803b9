"""The Airflow operator that lands a source or runs a lake file, and the hook for its secrets.

```
LakeportOperator(
    task_id="orders",
    source="s3://inbox/{{ ds }}/*.csv",
    to="s3://lake",
    conn_id="aws_default",
    options={"table": "orders"},
)
LakeportOperator(task_id="lake", lake_file="/srv/lake/lake.yaml", options={"tag": "nightly"})
```
docs/orchestrators.md tells more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lakeport.config.sources import DatabaseSource
from lakeport.errors import LakeportError
from lakeport.integrations.job import Job, may_retry, shorten
from lakeport.loading.cancellation import EndRequested

try:
    from airflow.sdk import BaseHook, BaseOperator
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # Airflow 2
    from airflow.exceptions import AirflowException, AirflowFailException
    from airflow.hooks.base import BaseHook
    from airflow.models import BaseOperator

if TYPE_CHECKING:
    from lakeport.loading.report import LandingReport
    from lakeport.pipeline.report import PipelineReport

_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "aws": {
        "login": "aws_access_key_id",
        "password": "aws_secret_access_key",
        "aws_session_token": "aws_session_token",
        "profile_name": "aws_profile",
        "region_name": "aws_region",
        "endpoint_url": "aws_endpoint",
        "role_arn": "role_arn",
    },
    "google_cloud_platform": {
        "key_path": "google_application_credentials",
        "keyfile_dict": "google_application_credentials",
    },
    "wasb": {"login": "account_name", "password": "access_key", "sas_token": "sas_token"},
}
"""Type of an Airflow connection -> field or extra -> lakeport's key for it."""


class LakeportHook(BaseHook):
    """Reads the keys of a store from an Airflow connection.

    Args:
        conn_id: a connection of the type `aws`, `google_cloud_platform` or `wasb`; or of another
            type, such as `generic`, whose extra holds keys of lakeport's config.
    """

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = conn_id

    def get_conn(self) -> dict[str, Any]:
        """Return the keys of lakeport's config that the connection holds."""
        found = self.get_connection(self.conn_id)
        extra: dict[str, Any] = found.extra_dejson
        if found.conn_type not in _KEYS:
            return extra
        fields = {**extra, "login": found.login, "password": found.password}
        names = _KEYS[found.conn_type]
        return {key: fields[name] for name, key in names.items() if fields.get(name)}


class LakeportOperator(BaseOperator):
    """Lands a source by `lakeport.land`, or runs a lake file by `lakeport.run`.

    The XCom is the report without spans. All tries of a task's run share one run id, so that a
    retry adds nothing twice. Errors that no retry mends raise `AirflowFailException`, others
    `AirflowException`.

    Args:
        source: files, as `lakeport.land` takes them; or, with `source_conn_id`, the options of a
            `lakeport.DatabaseSource` without its URI, such as `{"table": "orders"}`.
        to: the target: a folder, a URI or a config file; empty if the connection has it.
        lake_file: path of a lake file, in place of `source` and `to`.
        conn_id: connection with the target's keys, see `LakeportHook`; empty for none.
        source_conn_id: connection of the database to read.
        options: further arguments of `lakeport.land`, such as `table`, `mode` or `expect`; or of
            `lakeport.run`, such as `only` or `tag`.
        kwargs: arguments of Airflow's `BaseOperator`.
    """

    template_fields: ClassVar[Sequence[str]] = ("source", "to", "lake_file", "options")

    def __init__(
        self,
        *,
        source: Any = None,
        to: Any = "",
        lake_file: str = "",
        conn_id: str = "",
        source_conn_id: str = "",
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.to = to
        self.lake_file = lake_file
        self.conn_id = conn_id
        self.source_conn_id = source_conn_id
        self.options = dict(options or {})
        self._job: Job | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Load, and return the report without spans."""
        ti = context["ti"]
        mapped = [ti.map_index] if ti.map_index >= 0 else []
        job = self._job = Job(ti.dag_id, ti.task_id, ti.run_id, *mapped)
        secrets = LakeportHook(self.conn_id).get_conn() if self.conn_id else {}
        report: LandingReport | PipelineReport
        try:
            if self.lake_file:
                report = job.run(self.lake_file, secrets, self.options)
            else:
                report = job.land(self._open_source(), self.to, secrets, self.options)
        except LakeportError as error:
            kind = AirflowException if may_retry(error) else AirflowFailException
            raise kind(str(error)) from error
        except EndRequested as end:
            told = "; ".join(["the task was ended while it loaded", *getattr(end, "__notes__", ())])
            raise AirflowException(told) from end
        for text in report.warnings:
            self.log.warning("%s", text)
        self.log.info("%r", report)
        return shorten(report)

    def on_kill(self) -> None:
        """End the load: no commit begins any more, the batch in progress has a few seconds."""
        if self._job is not None:
            self._job.end()

    def _open_source(self) -> Any:
        """Return the source; the database of `source_conn_id`, if there is one."""
        if not self.source_conn_id:
            return self.source
        uri = LakeportHook.get_connection(self.source_conn_id).get_uri()
        return DatabaseSource(**{**self.source, "database": uri})
