"""The exceptions behind an error: each once, whatever ring they form, and without secrets."""

from __future__ import annotations

import traceback

import pytest

from lakeport.engine.spark.causes import mask_causes, of_spark
from lakeport.errors import InputError, SparkFailure, causes

CANARY = "canary/" + "5f" + "3a"


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_causes_are_masked_however_deep_and_however_raised() -> None:
    def fail() -> None:
        try:
            try:
                raise ValueError(CANARY)
            except ValueError:
                raise SparkFailure("implicit")  # noqa: B904
        except SparkFailure as error:
            raise InputError("explicit") from error

    with pytest.raises(InputError) as caught:
        fail()
    assert "5f3a" in shown(caught.value)
    mask_causes(caught.value, [CANARY])
    assert "5f3a" not in shown(caught.value) and "implicit" in shown(caught.value)
    mask_causes(caught.value, [CANARY])  # a second time there is nothing left to mask
    mask_causes(ValueError("none"), [CANARY])


@pytest.mark.timeout(20)
def test_causes_that_form_a_ring_are_masked_to_its_end() -> None:
    """As when a cause is raised again while the error that it led to is handled."""
    outer, inner = InputError("outer"), ValueError("inner")
    outer.__cause__, inner.__context__ = inner, outer
    mask_causes(outer, [CANARY])
    assert outer.__cause__ is inner
    inner.args = (f"it said {CANARY}",)
    mask_causes(outer, [CANARY])
    assert CANARY not in str(outer.__cause__)


@pytest.mark.timeout(20)
def test_causes_are_told_once_each_also_of_a_ring() -> None:
    outer, inner = InputError("outer"), ValueError("inner")
    outer.__cause__, inner.__cause__ = inner, outer
    assert list(causes(outer)) == [outer, inner]
    assert not of_spark(outer)


def test_what_was_being_handled_counts_where_it_is_asked_for() -> None:
    first, second, third = KeyboardInterrupt(), KeyboardInterrupt(), SparkFailure("x")
    third.__context__, second.__context__ = second, first
    assert list(causes(third)) == [third]
    assert list(causes(third, contexts=True)) == [third, second, first]
    second.__suppress_context__ = True
    assert list(causes(third, contexts=True)) == [third, second]
