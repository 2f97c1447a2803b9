"""Which of a load's `sql`, `python` and expectations a value could not be computed for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lakeport.engine.spark.failures import mask_causes
from lakeport.engine.spark.sql.values import Uncomputed, uncomputed
from lakeport.errors import InputError
from lakeport.scrub import scrub

if TYPE_CHECKING:
    from lakeport.config.expectations import Expectation
    from lakeport.loading.batches.parts import Part
    from lakeport.loading.expect.checks import Checks
    from lakeport.loading.transform.transform import Transform

_CALLS: Final = {"in": ("isin",), "between": ("lt", "gt")}
_CALLED: Final = "compare columns with values of their own type; `sql` can cast them before."
_LONGEST: Final = 200


@contextmanager
def blaming(
    transform: Transform | None, checks: Checks | None, part: Part, secrets: Iterable[str]
) -> Iterator[None]:
    """Name what has failed where the body ends as a value can't be computed.

    Args:
        transform: what makes the rows.
        checks: what is expected of them.
        part: whose frame the body runs.
        secrets: values that must not be in the message.

    Raises:
        InputError: with the name of what has failed, or all that may have.
    """
    try:
        yield
    except InputError as error:
        found = uncomputed(error)
        if found is None:
            raise
        ours = part.made is not None and part.made.reading is not None
        others = [] if ours else ["the frame that is landed"]
        if transform is not None and transform.function is not None:
            others.append("`python`")
        sql, expected = transform.sql if transform else "", checks.expected if checks else ()
        made = _named(found, _suspects(found, sql, expected, others), secrets)
        made.__cause__ = error.__cause__
        mask_causes(made, secrets)
        raise made from made.__cause__


def _named(found: Uncomputed, suspects: Sequence[str], secrets: Iterable[str]) -> InputError:
    suspects = suspects or ["the frame"]
    who = suspects[0] if len(suspects) == 1 else f"one of {', '.join(suspects)}"
    what = " ".join(found.fragment.split()) if found.line else ""
    what = what if len(what) <= _LONGEST else what[: _LONGEST - 1] + "…"
    where = f": `{what}` (line {found.line}, column {found.column})" if what else ""
    hint = _CALLED if found.fragment and not found.line else found.hint
    return InputError(scrub(f"{who}{where} fails for some row: {found.reason}", secrets), hint)


def _suspects(
    found: Uncomputed, sql: str, expected: Sequence[Expectation], others: Sequence[str]
) -> list[str]:
    """What may have computed the value: what has just that SQL, else by how it was computed."""
    texts = {_title(one): one.check for one in expected if one.check}
    if sql:
        texts = {"`sql`": sql.rstrip().removesuffix(";"), **texts}
    if found.text:
        return [name for name, text in texts.items() if text == found.text][:1] or [*others]
    call = found.fragment
    calls = {_title(one): _CALLS[one.kind] for one in expected if one.kind in _CALLS}
    called = [name for name, by in calls.items() if not call or call in by]
    return [*([] if call else texts), *called, *others]


def _title(one: Expectation) -> str:
    return f"expectation {one.title}"
