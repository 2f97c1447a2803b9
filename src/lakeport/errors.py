"""Every error that lakeport raises, grouped by what the caller can do about it.

```
LakeportError                 exit 1   anything below; `except LakeportError` is enough
├── ConfigError               exit 2   a key, a flag or a value is wrong; nothing was touched
│   └── MissingDependency     exit 2   an extra, Java or a jar is absent; the hint installs it
├── InputError                exit 3   the source can't be landed as it is
│   ├── BadRecords            exit 3   records that break the declared schema, with line and reason
│   ├── UnknownFields         exit 3   records hold fields that the schema does not declare
│   ├── ExpectationFailed     exit 3   rows are not what `expect` says; nothing was committed
│   └── SourceError           exit 3   no such file, no access, or not that format
├── SchemaConflict            exit 4   the stream's schema does not fit the table's
├── DestinationError          exit 5   the store or the table refused the request
│   ├── ObjectExists          exit 5   a create-only put met an object of that name (retriable)
│   ├── PermissionRefused     exit 5   401 / 403: the hint names the permission or the key
│   ├── Unreachable           exit 5   endpoint, network, TLS, time-outs (retriable)
│   ├── CommitConflict        exit 5   another writer won, and the retries ran out (retriable)
│   └── OutcomeUnknown        exit 5   a commit may have been made: repeat with the same run id
├── RunMismatch               exit 6   a run id was repeated with other content
├── SparkFailure              exit 7   Spark failed in a way that none of the above names
└── LoadsFailed               exit 1   loads of a lake's file failed; theirs, where they have one
```

A message says what failed and the value seen; `hint` says what to do, or what exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lakeport.scrub import scrub

__all__ = [
    "BadRecord",
    "BadRecords",
    "CommitConflict",
    "ConfigError",
    "DestinationError",
    "ExpectationFailed",
    "InputError",
    "LakeportError",
    "LoadsFailed",
    "MissingDependency",
    "ObjectExists",
    "OutcomeUnknown",
    "PermissionRefused",
    "RunMismatch",
    "SchemaConflict",
    "SourceError",
    "SparkFailure",
    "UnknownFields",
    "Unreachable",
]

_RESUME = "`--resume` does what failed and what was skipped, and nothing else."


def walk_causes(error: BaseException, *, contexts: bool = False) -> Iterator[BaseException]:
    """Yield an error and its chain of causes, outermost first, each once even in a cycle.

    With `contexts`, the error that was being handled counts as a cause if there is no explicit
    one, as in tracebacks.
    """
    seen = set[int]()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        handled = link.__context__ if contexts and not link.__suppress_context__ else None
        link = link.__cause__ or handled


class LakeportError(Exception):
    """Base class of every error that lakeport raises on purpose.

    Args:
        message: what failed, with the value seen; credentials in it are masked.
        hint: what to do, or what exists; empty if there is nothing to add.
    """

    exit_code: int = 1
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = scrub(message)
        super().__init__(self.message, hint)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n\nHint: {self.hint}" if self.hint else self.message


class ConfigError(LakeportError):
    """A key, a flag or a value of the configuration is wrong; nothing was read or written."""

    exit_code = 2
    problems: tuple[tuple[tuple[str | int, ...], str, str], ...] = ()
    """A (path, text, hint) for each wrong key, if several keys were checked together."""


class MissingDependency(ConfigError):
    """A package, Java or a jar is not installed; the hint has the command that installs it."""


class InputError(LakeportError):
    """The source can't be landed as it is."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that can't be landed: its place in the input, and the reason.

    Attributes:
        stream: the stream's name; empty if the line names none.
        line: line number in the input, from 1; 0 if the source has no lines.
        column: dotted path of the wrong column; empty if the whole record is wrong.
        reason: the kind of fault, in words without the record's values.
        raw: the record's original bytes.
        file: the file's name, if the input has several.
        texts: (column, text) of each field, of a record in a CSV file; empty for others.
    """

    stream: str
    line: int
    column: str
    reason: str
    raw: bytes = b""
    file: str = ""
    texts: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        where = f"stream {self.stream!r}" if self.stream else "an unknown stream"
        return f"{where}, {self.fault}"

    @property
    def value(self) -> str:
        """First 80 characters of the text at fault in a CSV file, for people; empty if unknown."""
        return dict(self.texts).get(self.column, "")[:80]

    @property
    def fault(self) -> str:
        """Place and reason of the fault, in words: file, line, column and reason."""
        file = f"file {self.file!r}, " if self.file else ""
        column = f", column {self.column!r}" if self.column else ""
        return f"{file}line {self.line}{column}: {self.reason}"


class BadRecords(InputError):
    """Records break the declared schema, and the policy is to fail.

    Args:
        records: the first bad records, at least one.
        total: number of bad records, if they were counted.
    """

    def __init__(self, records: tuple[BadRecord, ...], total: int = 0, hint: str = "") -> None:
        first = records[0]
        more = f" (and {total - 1} more)" if total > 1 else ""
        super().__init__(
            f"bad record in {first}{more}",
            hint
            or "correct the source, or set `on_bad_record: quarantine` (`--on-bad-record "
            "quarantine`) to land the good records and set the bad ones aside.",
        )
        self.records = records
        self.total = max(total, len(records))

    def __reduce__(self) -> tuple[object, ...]:
        return (BadRecords, (self.records, self.total, self.hint))


class UnknownFields(InputError):
    """Records hold fields that the schema does not declare, and the policy is to fail."""


class ExpectationFailed(InputError):
    """The rows do not meet an expectation whose policy is to fail; none was committed."""


class SourceError(InputError):
    """The source can't be read: it is absent, forbidden, or has another format."""


class SchemaConflict(LakeportError):
    """The stream's schema does not fit the table's; nothing of the batch was written."""

    exit_code = 4


class DestinationError(LakeportError):
    """The store or the table refused a request."""

    exit_code = 5


class ObjectExists(DestinationError):
    """A create-only put failed, since an object of that name exists; the next name may work."""

    retriable = True


class PermissionRefused(DestinationError):
    """The store refused the credentials, or lacks a permission for them."""


class Unreachable(DestinationError):
    """The endpoint did not answer in time, or not at all."""

    retriable = True


class CommitConflict(DestinationError):
    """Another writer's commit conflicts with ours, and the retries ran out."""

    retriable = True


class OutcomeUnknown(DestinationError):
    """It is unknown whether a requested commit was made; the files that it needs were kept."""


class RunMismatch(LakeportError):
    """A run id was repeated, but the batch's content is not what the first run landed."""

    exit_code = 6


class SparkFailure(LakeportError):
    """Spark failed in a way that no other error names; `--debug` shows its own words."""

    exit_code = 7


class LoadsFailed(LakeportError):
    """Some loads of a `lakeport run` failed; loads that have landed stay landed.

    Args:
        report: the `lakeport.PipelineReport` of all loads.
    """

    def __init__(self, report: Any) -> None:
        failed = [(load.load, load.error) for load in report.failed if load.error is not None]
        hints = [error.hint for _, error in failed]
        if len(failed) == 1:
            message = f"load {failed[0][0]!r} failed: {failed[0][1].message}"
        else:
            each = "".join(
                f"\n  - {name}: {error.message}" + (f" ({error.hint})" if error.hint else "")
                for name, error in failed
            )
            asked = sum(load.outcome != "left out" for load in report.loads)
            message, hints = f"{len(failed)} of {asked} loads failed:{each}", []
        super().__init__(message, " ".join([*filter(None, hints), _RESUME]))
        self.report = report
        self.exit_code = report.exit_code

    def __reduce__(self) -> tuple[object, ...]:
        return (LoadsFailed, (self.report,))
