"""What Spark, Delta, Hadoop and Python say when they fail -> lakeport's own errors.

Messages have one sentence of the cause, without stack traces and with secrets masked; the original
is the error's `__cause__`, or what it said, masked, where that holds a secret.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Final

from lakeport.errors import (
    DestinationError,
    LakeportError,
    PermissionRefused,
    SparkFailure,
    Unreachable,
    causes,
)
from lakeport.scrub import scrub
from lakeport.spark.failure_rules import DEBUG_HINT, MEMORY_HINT, RULES, TRANSIENT_HINT

__all__ = [
    "MaskedCause",
    "first_line",
    "from_java",
    "mask_causes",
    "of_spark",
    "scrub",
    "translate",
    "translated",
]

_LONGEST: Final = 400
_DEEPEST: Final = 12
_RAISED: Final = re.compile(
    r"PythonException: [\s\S]*?Traceback \(most recent call last\):\n((?:[ \t].*\n)+)([\w.]+)"
)


class MaskedCause(Exception):
    """Stands for a cause whose words held a secret: the same words, masked."""


def translate(error: BaseException, secrets: Iterable[str] = ()) -> LakeportError:
    """The error of lakeport's that says what happened; `error` is its `__cause__`, if it may be.

    Args:
        error: anything that a call into Spark, or a task, raised.
        secrets: values that must not be in the message.
    """
    if isinstance(error, LakeportError):
        return error
    hidden = tuple(secrets)
    links = [scrub(link, hidden) for link in _chain(error)]  # whole: later they are cut
    result = _judge(links, error)
    result = type(result)(scrub(result.message, hidden), result.hint)
    result.__cause__ = error
    mask_causes(result, hidden)
    return result


def mask_causes(error: BaseException, secrets: Iterable[str]) -> None:
    """Put masked words in the place of the first cause that holds a secret, and of those below.

    Whoever prints a traceback prints the causes too, and a store's words may quote a request.

    Args:
        error: what is raised.
        secrets: values that must not be shown.
    """
    hidden = tuple(secrets)
    seen = {id(error)}  # an error that is raised again while its cause is handled closes a ring
    while True:
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None or id(cause) in seen:
            return
        seen.add(id(cause))
        said = list(_chain(cause))
        if not said and not from_java(cause):  # whose words went with the JVM
            said = [str(cause)]
        masked = [scrub(words, hidden) for words in said]
        if masked != said:
            stand_in = MaskedCause("\n".join(masked))
            error.__cause__ = stand_in.with_traceback(cause.__traceback__)
            return
        error = cause


@contextmanager
def translated(secrets: Iterable[str] = ()) -> Iterator[None]:
    """Raise what `translate` makes of an exception of the body.

    Raises:
        LakeportError: always one of its kinds. `KeyboardInterrupt` and its like pass unchanged.
    """
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:
        told = translate(error, secrets)
        raise told from told.__cause__


def from_java(error: BaseException) -> bool:
    """Whether it was raised by the bridge to the JVM, such as a refused connection to it."""
    if type(error).__module__.startswith("py4j"):
        return True
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("py4j."):
            return True
        trace = trace.tb_next
    return False


def of_spark(error: BaseException) -> bool:
    """Whether an error goes back to one that was raised by the bridge to the JVM."""
    return any(from_java(cause) for cause in causes(error) if cause is not error)


def _judge(links: list[str], error: BaseException) -> LakeportError:
    if not links:
        return _of_python(error)
    for raised in filter(None, map(_RAISED.search, links)):
        return _of_function(*raised.groups())
    for rule in RULES:
        for link in links:
            found = rule.pattern.search(link)
            if found is not None:
                told = f": {_sentence(link)}" if rule.quote and _sentence(link) else ""
                return rule.error(found.expand(rule.prefix) + told, rule.hint)
    told = next(filter(None, map(_sentence, reversed(links))), "it gave no reason")
    return SparkFailure(f"Spark failed: {told}", DEBUG_HINT)


def _of_function(frames: str, kind: str) -> LakeportError:
    """What a Python function of the frame raised, by kind and place: its words may quote data."""
    places = re.findall(r'File "([^"]*)", line (\d+), in (\S+)', frames)
    where = "".join(f" {_at(*place)}" for place in places[-1:])
    return SparkFailure(
        f"a Python function of the frame raised {kind}{where}",
        "correct the function; `--debug` shows its own words.",
    )


def _of_python(error: BaseException) -> LakeportError:
    """An exception without a Java side. Messages of unknown kinds may quote data: not repeated."""
    kind = type(error)
    if from_java(error):
        return SparkFailure(
            "Spark's Java process is gone",
            "it may have been killed for want of memory; " + MEMORY_HINT,
        )
    if kind.__module__.startswith("pyspark"):
        return SparkFailure(f"Spark failed: {_sentence(str(error))}", DEBUG_HINT)
    if isinstance(error, MemoryError):
        return SparkFailure("a task ran out of memory", MEMORY_HINT)
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DestinationError("the disk is full", "free some space.")
        told = f"{kind.__name__}: {error.strerror or 'no reason given'}"
        if isinstance(error, PermissionError):
            return PermissionRefused(told, "check who owns the folder, and its mode.")
        if isinstance(error, ConnectionError | TimeoutError):
            return Unreachable(told, TRANSIENT_HINT)
        return DestinationError(told, "`--debug` shows where.")
    return SparkFailure(f"{_name(kind)} {_place(error)}".rstrip(), "`--debug` shows its own words.")


def _name(kind: type) -> str:
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _place(error: BaseException) -> str:
    """Where it was raised: the innermost frame, without the folder."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return _at(code.co_filename, trace.tb_lineno, code.co_name)


def _at(file: str, line: int | str, function: str) -> str:
    return f"in {function} ({PurePath(file).name}:{line})"


def _chain(error: BaseException) -> Iterator[str]:
    """`class name: message` of a Java exception and its causes, outermost first."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        description = getattr(error, "_desc", None)
        if isinstance(description, str) and description:
            yield f"{getattr(error, '_stackTrace', '').partition(':')[0]}: {description}"
        return
    for _ in range(_DEEPEST):
        try:
            yield f"{java.getClass().getName()}: {java.getMessage() or ''}"
            java = java.getCause()
        except Exception:
            # The JVM is gone, and with it what it had to say.
            return
        if java is None:
            return


def _sentence(text: str) -> str:
    """The first sentence of a Java message, without class names and stack traces.

    >>> _sentence("java.io.IOException: Stream closed. Try again.\\n\\tat a.b.C(D.java:1)")
    'Stream closed'
    """
    line = re.sub(
        r"^(?:(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable)[\w$]*:\s*)+", "", text.strip()
    )
    line = line.partition("\n")[0].strip()
    sentence = re.split(r"\.\s", line, maxsplit=1)[0].rstrip(".:")
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1] + "…"


def first_line(error: Exception) -> str:
    """The first line of what Spark says."""
    return next((line for line in str(error).splitlines() if line.strip()), "no reason given")
