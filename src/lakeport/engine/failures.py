"""Translation of errors of Spark, Delta, Hadoop and Python into lakeport's own.

A message has one sentence of the original, without stack traces and with secrets masked. The
original is the `__cause__`, unless its words hold a secret: then a masked copy of them is.
"""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from lakeport.errors import (
    CommitConflict,
    DestinationError,
    InputError,
    LakeportError,
    OutcomeUnknown,
    PermissionRefused,
    SchemaConflict,
    SparkFailure,
    Unreachable,
    walk_causes,
)
from lakeport.scrub import scrub

_MAX_SENTENCE: Final = 400
_MAX_CAUSES: Final = 12
_ABSENT_CALL: Final = re.compile(r"(Method|Constructor) ([\w.$]+)\(.*\) does not exist")  # py4j's
_PYTHON_TRACE: Final = re.compile(
    r"PythonException: [\s\S]*?Traceback \(most recent call last\):\n((?:[ \t].*\n)+)([\w.]+)"
)
_CONNECT: Final = "pyspark.errors.exceptions.connect"
_CAUSED: Final = re.compile(r"^Caused by: ([^\t]*)$", re.M)
_MEMORY_HINT: Final = "give Spark more memory (`spark.driver.memory`), or use smaller batches."
_DEBUG_HINT: Final = "`--debug` shows Spark's own words."
_TRANSIENT_HINT: Final = (
    "check the endpoint, the network and the proxy; a repeated run is safe. `give_up_after` says "
    "for how long a store is asked."
)


class _Rule(NamedTuple):
    """Maps exceptions whose class and message match a pattern to a LakeportError and a hint.

    Attributes:
        pattern: regular expression on `class name: message` of the exception.
        prefix: the error's message, as a template: `\\1` is the pattern's first group, and a `: {}`
            at the end stands for the exception's first sentence.
    """

    pattern: str
    error: type[LakeportError]
    prefix: str
    hint: str = ""


_STORE_RULES: Final = tuple(
    _Rule(pattern, Unreachable, prefix, _TRANSIENT_HINT)
    for pattern, prefix in (
        (
            r"(?:Status Code: |Operation failed: [^\n]*?, )(408|429|500|502|503|504)\b",
            r"the store kept answering \1",
        ),
        (r"UnknownHostException|UnresolvedAddress", "the store's host name is unknown"),
        (
            r"SSLException|SSLHandshake|SSLPeerUnverified",
            "there is no trusted TLS connection to the store",
        ),
        # It does not say whether earlier attempts met silence or refusals.
        (r"ApiCallTimeoutException", "the store did not get it done in time"),
        (
            r"ApiCallAttemptTimeoutException|SocketTimeoutException|ConnectTimeoutException"
            r"|[Rr]ead timed out",
            "the store stayed silent",
        ),
        (
            r"ConnectException|NoRouteToHost|HttpHostConnect",
            "the store does not take connections",
        ),
        (
            r"NoHttpResponse|Connection reset|AWSClientIOException|InvalidAbfsRestOperation"
            r"|Unable to execute HTTP request|Premature (?:end of \S+|EOF)|Unexpected end of file"
            r"|XML document structures must start and end within the same entity",
            "the connection to the store was cut",
        ),
    )
)

_RULES: Final[tuple[_Rule, ...]] = (
    _Rule(
        r"java\.lang\.OutOfMemoryError|GC overhead limit exceeded",
        SparkFailure,
        "Spark ran out of memory: {}",
        _MEMORY_HINT,
    ),
    _Rule(
        r"No space left on device|DiskFullException|There is not enough space",
        DestinationError,
        "the disk is full",
        "free some space, or point `spark.local.dir` and the target at a bigger disk.",
    ),
    _Rule(
        r"the outcome of the commit is unknown: ",
        OutcomeUnknown,
        "the store did not say whether it took the commit, and could not be asked afterwards",
        "repeat the run with the same `run_id`: what has landed is not landed again.",
    ),
    _Rule(
        r"ABFS does not allow files or directories to end with a dot",
        DestinationError,
        "a partition's value ends with a dot, and Azure takes no folder of such a name from Spark",
        "set the property `delta.randomizeFilePrefixes` to `true` in the `table_properties` of a "
        "load: files lie in no folders of partitions then.",
    ),
    _Rule(
        r"\bdelta[.\w]*\.(Concurrent\w+|MetadataChanged|ProtocolChanged"
        r"|DeltaConcurrentModification)Exception\b|\[DELTA_MAX_COMMIT_RETRIES_EXCEEDED\]",
        CommitConflict,
        "another writer changed the table at the same time: {}",
        "nothing of this batch was committed; run it again.",
    ),
    _Rule(
        r"\[(_LEGACY_ERROR_TEMP_DELTA_0007|DELTA_(FAILED_TO_MERGE_FIELDS|MERGE_INCOMPATIBLE\w*"
        r"|METADATA_MISMATCH|DUPLICATE_COLUMNS\w*|INSERT_COLUMN\w*|UNSUPPORTED_DATA_TYPE\w*"
        r"|CANNOT_CHANGE_DATA_TYPE|COLUMN_NOT_FOUND\w*|SCHEMA_\w+|PARTITION_SCHEMA\w*"
        r"|CHANGE_TABLE\w*|INVALID_CHARACTERS_IN_COLUMN\w*))",
        SchemaConflict,
        "the batch's schema does not fit the table's: {}",
    ),
    _Rule(
        r"\[DELTA_(VIOLATE_CONSTRAINT|NOT_NULL_CONSTRAINT)\w*",
        InputError,
        "a row breaks a constraint of the table: {}",
        "correct the source, or the table's constraint.",
    ),
    _Rule(
        r"\[DELTA_EXCEED_CHAR_VARCHAR_LIMIT\]|\[EXCEED_LIMIT_LENGTH\]",
        InputError,
        "a text is longer than the table's column of type CHAR or VARCHAR permits",
        "shorten it in the source, or give the column a longer type with ALTER TABLE.",
    ),
    _Rule(
        r"\[DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT",
        InputError,
        "the table fills an identity column itself, and the batch has values for it",
        "leave the column out of the source.",
    ),
    _Rule(
        r"\[DELTA_CANNOT_MODIFY_APPEND_ONLY\]",
        DestinationError,
        "rows of the table can't be changed or removed: its property `delta.appendOnly` is `true`",
        "use `mode: append`, or have the table's owner unset the property.",
    ),
    _Rule(
        r"ChecksumException: ",
        DestinationError,
        "a file does not match the checksum that lies beside it, in the file `.NAME.crc`: {}",
        "one of the two is damaged, or was replaced alone: bring the file back from a copy, or, "
        "if it is known to be right, delete its checksum.",
    ),
    _Rule(
        r"Checkpoint file to load version: \d+ is missing|/_delta_log/\S+ does not exist"
        r"|\[DELTA_(TRUNCATED_TRANSACTION_LOG|VERSIONS_NOT_CONTIGUOUS|LOG_FILE_NOT_FOUND\w*"
        r"|STATE_RECOVER_ERROR|MISSING_PART_FILES)",
        DestinationError,
        "files of the table's log are gone: {}",
        "bring `_delta_log` back from a copy; the table can't be read without them.",
    ),
    _Rule(
        r"FAILED_READ_FILE\.FILE_NOT_EXIST|FileNotFoundException: \S.*\.parquet\b",
        DestinationError,
        "a data file of the table is gone: {}",
        "restore the file, or the table to a version without it.",
    ),
    _Rule(
        r"is not a Parquet file|corrupted file: the footer",
        DestinationError,
        "a file of the table is damaged, or no Parquet file: {}",
        "bring it back from a copy, or restore the table to a version without it.",
    ),
    _Rule(
        r"\[(INVALID_JSON_DATA_TYPE|UNSUPPORTED_DATA_?TYPE)\b",
        DestinationError,
        "the table has a column of a type that Spark does not know: {}",
    ),
    _Rule(
        r"SQLSTATE: 22|\[(CAST_|NUMERIC_VALUE_OUT|ARITHMETIC_OVERFLOW|DIVIDE_BY_ZERO)",
        InputError,
        "a value of the frame can't be computed as its plan says",
        "correct the frame's casts; " + _DEBUG_HINT,
    ),
    _Rule(
        r"\[USER_RAISED_EXCEPTION\]",
        InputError,
        "the frame's plan raised an error of its own (`raise_error`, `assert_true`)",
        "correct the frame; " + _DEBUG_HINT,
    ),
    _Rule(
        r"RequestTimeTooSkewed|Request date header too old",
        DestinationError,
        "this machine's clock differs from the store's by more than 15 minutes",
        "set the clock (`timedatectl set-ntp true`), then run again.",
    ),
    _Rule(
        r"AWSRedirectException|PermanentRedirect|AuthorizationHeaderMalformed"
        r"|Status Code: 30[17]\b",
        DestinationError,
        "the bucket is in another region, or not at that endpoint (S3 answered with a redirect)",
        "set `aws_region` to the bucket's region, and leave out `aws_endpoint` for AWS.",
    ),
    _Rule(
        r"UnknownStoreException|NoSuchBucket|ContainerNotFound|FilesystemNotFound"
        r"|specified (bucket|container|filesystem) does not exist",
        DestinationError,
        "the bucket or container does not exist",
        "create it, or correct its name.",
    ),
    _Rule(
        r"ExpiredToken|TokenRefreshRequired|[Tt]oken (is|has) expired|Lifetime validation failed"
        r"|not valid in the specified time frame",
        PermissionRefused,
        "the session of the credentials has expired",
        "fetch new ones (a session's keys and token, or a SAS), and repeat the run.",
    ),
    _Rule(
        r"by AssumedRole\b|StsException",
        PermissionRefused,
        "the role can't be assumed",
        "check the keys that assume it, `role_arn`, its trust policy and `external_id`.",
    ),
    _Rule(
        r"Operation failed: [^\n]*?, 40[13], [^\n]*"
        r"\b(AuthenticationFailed|InvalidAuthenticationInfo)\b",
        PermissionRefused,
        "the store does not accept the credentials, or not any more",
        "an account's key may have been rotated, a SAS or a token may have expired: get new ones, "
        "and repeat the run.",
    ),
    _Rule(
        r"AccessDenied|AccessControlException|NoAuthWithAWSException|CredentialInitialization"
        r"|NoAwsCredentials|InvalidAccessKeyId|SignatureDoesNotMatch|AuthorizationFailure"
        r"|AuthenticationFailed|AuthorizationPermissionMismatch|InvalidAuthenticationInfo"
        r"|Status Code: 40[13]\b|, 40[13], |KeyProviderException|InvalidConfigurationValue"
        r"|Operation failed: .*?, 40[13]\b",
        PermissionRefused,
        "the store refused access: {}",
        "check the credentials and what they permit on this bucket or container.",
    ),
    _Rule(
        r"Python worker failed to connect back",
        SparkFailure,
        "a Python process of Spark's did not start within ten seconds",
        "its machine may be overloaded: try again when it has less to do.",
    ),
    *_STORE_RULES,
    _Rule(
        r"Operation failed: [^\n]*?, (409|412), [A-Z]+, |Status Code: (409|412)\b",
        DestinationError,
        r"the store refused a request because of a conflict (\1\2)",
        "repeat the run, with its `run_id` if it had one: what has landed is not landed again.",
    ),
    _Rule(
        r"\[(DELTA_(TABLE_NOT_FOUND|MISSING_DELTA_TABLE\w*|PATH_DOES_NOT_EXIST"
        r"|TABLE_ONLY_OPERATION|NOT_A_DELTA_TABLE)|PATH_NOT_FOUND)",
        DestinationError,
        "there is no such table: {}",
    ),
    _Rule(
        r"\bdelta[.\w]*\.(InvalidProtocolVersion|DeltaUnsupportedTableFeature|DeltaTableFeature)"
        r"Exception\b",
        DestinationError,
        "the table uses features of Delta that this version can't handle: {}",
    ),
    _Rule(
        r"requirement failed: Mismatched min(Reader|Writer)Version",
        DestinationError,
        "the versions in the table's protocol are none that this version of Delta knows: {}",
        "the table was made for a newer Delta, or its log is damaged: ask whoever writes it.",
    ),
    _Rule(
        r"\bJob(Group)? \S+ cancelled|cancelled as part of",
        SparkFailure,
        "the job was cancelled",
    ),
    _Rule(
        r"Python worker (exited|failed)|ExecutorLostFailure|SparkException: .*?worker.*?crashed",
        SparkFailure,
        "a Python worker ended unexpectedly",
        "it may have been killed for want of memory; use smaller batches.",
    ),
)
"""The first rule that matches an exception of the chain counts."""


def translate(error: BaseException, secrets: Iterable[str] = ()) -> LakeportError:
    """Convert an exception to a LakeportError (unchanged if it is one), with `secrets` masked."""
    if isinstance(error, LakeportError):
        return error
    hidden = tuple(secrets)
    links = [scrub(link, hidden) for link in java_messages(error)]  # before they are cut
    result = _match_rule(links, error)
    result = type(result)(scrub(result.message, hidden), result.hint)
    result.__cause__ = error
    mask_causes(result, hidden)
    return result


@contextmanager
def translate_errors(secrets: Iterable[str] = ()) -> Iterator[None]:
    """Context manager that raises each exception of its body as a LakeportError.

    Raises:
        LakeportError: for every `Exception`; a `KeyboardInterrupt` passes unchanged.
    """
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:
        failure = translate(error, secrets)
        raise failure from failure.__cause__


@contextmanager
def translate_jvm_errors(secrets: Iterable[str]) -> Iterator[None]:
    """Context manager that raises py4j's exceptions as LakeportErrors, and no others."""
    try:
        yield
    except Exception as error:
        if not is_java_error(error):
            raise
        failure = translate(error, secrets)
        raise failure from failure.__cause__


def _match_rule(links: list[str], error: BaseException) -> LakeportError:
    """Return the error of the first rule that matches a Java message; else a SparkFailure.

    Args:
        links: `class name: message` of the Java exception and its causes; empty without one.
    """
    if not links:
        return _python_error(error)
    for raised in filter(None, map(_PYTHON_TRACE.search, links)):
        return _function_error(*raised.groups())
    for rule in _RULES:
        for link in links:
            found = re.search(rule.pattern, link)
            if found is not None:
                words, quotes, _ = found.expand(rule.prefix).partition(": {}")
                said = _first_sentence(link) if quotes else ""
                return rule.error(f"{words}: {said}" if said else words, rule.hint)
    reason = next(filter(None, map(_first_sentence, reversed(links))), "it gave no reason")
    return SparkFailure(f"Spark failed: {reason}", _DEBUG_HINT)


def _function_error(frames: str, kind: str) -> LakeportError:
    """Return a SparkFailure that names the class and place of a Python UDF's exception."""
    places = re.findall(r'File "([^"]*)", line (\d+), in (\S+)', frames)
    where = "".join(f" {_format_place(*place)}" for place in places[-1:])
    return SparkFailure(
        f"a Python function of the frame raised {kind}{where}",
        "correct the function; `--debug` shows its own words.",
    )


def _python_error(error: BaseException) -> LakeportError:
    """Map a Python exception to a LakeportError by its class and errno, without its message."""
    kind = type(error)
    if is_java_error(error):
        if found := _ABSENT_CALL.search(str(error)):
            return SparkFailure(
                f"this Spark has no {found[1].lower()} {found[2]!r} as lakeport calls it",
                "lakeport was run on Spark 3.5 to 4.3; another build may have changed it.",
            )
        return SparkFailure(
            "Spark's Java process is gone",
            "it may have been killed for want of memory; " + _MEMORY_HINT,
        )
    if kind.__module__.startswith("pyspark"):
        return SparkFailure(f"Spark failed: {_first_sentence(str(error))}", _DEBUG_HINT)
    if isinstance(error, MemoryError):
        return SparkFailure("a task ran out of memory", _MEMORY_HINT)
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DestinationError("the disk is full", "free some space.")
        message = f"{kind.__name__}: {error.strerror or 'no reason given'}"
        if isinstance(error, PermissionError):
            return PermissionRefused(message, "check who owns the folder, and its mode.")
        if isinstance(error, ConnectionError | TimeoutError):
            return Unreachable(message, _TRANSIENT_HINT)
        return DestinationError(message, "`--debug` shows where.")
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return SparkFailure(f"{name} {_where_raised(error)}".rstrip(), "`--debug` shows its own words.")


def _where_raised(error: BaseException) -> str:
    """Return the place that raised an exception: function, file name and line; empty if unknown."""
    frames = traceback.extract_tb(error.__traceback__)[-1:]
    return "".join(_format_place(each.filename, each.lineno or 0, each.name) for each in frames)


def _format_place(file: str, line: int | str, function: str) -> str:
    """Return a phrase such as `in read (frames.py:12)`."""
    return f"in {function} ({PurePath(file).name}:{line})"


def _first_sentence(text: str) -> str:
    """Return the first sentence of a Java message, at most 400 characters, without class names.

    >>> _first_sentence("java.io.IOException: Stream closed. Try again.\\n\\tat a.b.C(D.java:1)")
    'Stream closed'
    """
    line = re.sub(
        r"^(?:(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable)[\w$]*:\s*)+", "", text.strip()
    )
    line = line.partition("\n")[0].strip()
    sentence = re.split(r"\.\s", line, maxsplit=1)[0].rstrip(".:")
    return sentence if len(sentence) <= _MAX_SENTENCE else sentence[: _MAX_SENTENCE - 1] + "…"


class MaskedCause(Exception):
    """Stand-in for a cause whose words held a secret: the same words, masked."""


def is_java_error(error: BaseException) -> bool:
    """Whether an exception comes from py4j or Spark Connect, such as a refused connection."""
    if type(error).__module__.startswith(("py4j", _CONNECT)):
        return True
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("py4j."):
            return True
        trace = trace.tb_next
    return False


def is_lost_call(error: BaseException) -> bool:
    """Whether the JVM did not answer a call, which may still run there."""
    return any(kind.__name__ == "Py4JNetworkError" for kind in type(error).__mro__)


def is_spark_error(error: BaseException) -> bool:
    """Whether one of an error's causes comes from py4j or Spark Connect."""
    return any(is_java_error(cause) for cause in walk_causes(error) if cause is not error)


def mask_causes(error: BaseException, secrets: Iterable[str]) -> None:
    """Replace the first cause whose message has a secret by a masked stand-in; drop deeper causes.

    A printed traceback shows the causes, too, and a store's words may quote a request.
    """
    hidden = tuple(secrets)
    for raised, cause in pairwise(walk_causes(error, contexts=True)):
        said = list(java_messages(cause))
        if not said and not is_java_error(cause):  # its words are gone with the JVM
            said = [str(cause)]
        masked = [scrub(words, hidden) for words in said]
        if masked != said:
            stand_in = MaskedCause("\n".join(masked))
            raised.__cause__ = stand_in.with_traceback(cause.__traceback__)
            return


def java_messages(error: BaseException) -> Iterator[str]:
    """Yield `class name: message` of a Java exception and its causes; nothing for others.

    A Spark Connect server sends them as the text of a stack trace.
    """
    if type(error).__module__ == _CONNECT:
        name = type(error).__name__.replace("SparkConnect", "Spark")  # ConnectException is another
        yield f"{_CONNECT}.{name}: {getattr(error, '_message', None) or error}"
        yield from _CAUSED.findall(getattr(error, "_stacktrace", None) or "")
        return
    described = getattr(error, "_desc", None)
    if described and isinstance(described, str) and next(java_causes(error), None) is None:
        yield f"{getattr(error, '_stackTrace', '').partition(':')[0]}: {described}"
    with suppress(Exception):  # the JVM is gone
        for java in java_causes(error):
            yield f"{java.getClass().getName()}: {java.getMessage() or ''}"


def java_causes(error: BaseException) -> Iterator[Any]:
    """Yield the Java exception behind a Python one, then its causes; at most twelve in all."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_MAX_CAUSES):
        if java is None:
            return
        yield java
        java = java.getCause()
