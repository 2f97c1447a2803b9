"""The exceptions behind an error: which come from the JVM, what they say, what to mask in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from lakeport.errors import causes
from lakeport.scrub import scrub

__all__ = ["MaskedCause", "from_java", "java_messages", "lost_call", "mask_causes", "of_spark"]

_DEEPEST: Final = 12


class MaskedCause(Exception):
    """Stands for a cause whose words held a secret: the same words, masked."""


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


def lost_call(error: BaseException) -> bool:
    """Whether an error says that the JVM did not answer a call, which may go on there."""
    return any(kind.__name__ == "Py4JNetworkError" for kind in type(error).__mro__)


def of_spark(error: BaseException) -> bool:
    """Whether an error goes back to one that was raised by the bridge to the JVM."""
    return any(from_java(cause) for cause in causes(error) if cause is not error)


def mask_causes(error: BaseException, secrets: Iterable[str]) -> None:
    """Put masked words in the place of the first cause that holds a secret, and of those below.

    Whoever prints a traceback prints the causes too, and a store's words may quote a request.

    Args:
        error: what is raised.
        secrets: values that must not be shown.
    """
    hidden = tuple(secrets)
    for raised, cause in pairwise(causes(error, contexts=True)):
        said = list(java_messages(cause))
        if not said and not from_java(cause):  # whose words went with the JVM
            said = [str(cause)]
        masked = [scrub(words, hidden) for words in said]
        if masked != said:
            stand_in = MaskedCause("\n".join(masked))
            raised.__cause__ = stand_in.with_traceback(cause.__traceback__)
            return


def java_messages(error: BaseException) -> Iterator[str]:
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
