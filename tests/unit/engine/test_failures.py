"""What others say when they fail -> our errors."""

from __future__ import annotations

import errno
import traceback
from urllib.parse import quote

import pytest

from lakeport import errors
from lakeport.engine.failures import (
    MaskedCause,
    is_spark_error,
    mask_causes,
    translate,
    translate_errors,
    translate_jvm_errors,
)
from lakeport.errors import InputError, LakeportError, SparkFailure, walk_causes
from lakeport.scrub import MASK


class JavaClass:
    def __init__(self, name: str) -> None:
        self.name = name

    def getName(self) -> str:
        return self.name


class JavaError:
    """What py4j shows of a Java exception."""

    def __init__(self, name: str, message: str | None, cause: JavaError | None = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getClass(self) -> JavaClass:
        return JavaClass(self.name)

    def getMessage(self) -> str | None:
        return self.message

    def getCause(self) -> JavaError | None:
        return self.cause


class FromJavaError(Exception):
    def __init__(self, *links: tuple[str, str | None]) -> None:
        java = None
        for name, message in reversed(links):
            java = JavaError(name, message, java)
        super().__init__("An error occurred while calling o1.x\n\tat a.b.C.d(E.java:1)")
        self.java_exception = java


CANARY = "canary/" + "5f" + "3a"
SPARK = "org.apache.spark.SparkException"
S3 = "software.amazon.awssdk.services.s3.model.S3Exception"


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([(SPARK, "Job aborted."), ("java.lang.OutOfMemoryError", "Java heap space")],
         "SparkFailure"),
        ([("io.delta.exceptions.ConcurrentAppendException", "[DELTA_X] Files were added.")],
         "CommitConflict"),
        ([("org.apache.spark.sql.delta.ProtocolChangedException", "changed")], "CommitConflict"),
        ([("org.apache.spark.sql.delta.DeltaIllegalStateException",
           "[DELTA_MAX_COMMIT_RETRIES_EXCEEDED] This commit has failed as it has been tried 31")],
         "CommitConflict"),
        ([("java.io.IOException", "the outcome of the commit is unknown: s3a://b/k could not be"),
          (S3, "Forbidden (Service: S3, Status Code: 403, Id: 1)")], "OutcomeUnknown"),
        ([("io.delta.exceptions.DeltaConcurrentModificationException", None)], "CommitConflict"),
        ([("org.apache.spark.sql.delta.DeltaAnalysisException",
           "[DELTA_FAILED_TO_MERGE_FIELDS] Failed to merge fields 'a' and 'a'. SQLSTATE: 22005")],
         "SchemaConflict"),
        ([("org.apache.spark.sql.AnalysisException",
           "[_LEGACY_ERROR_TEMP_DELTA_0007] A schema mismatch detected when writing")],
         "SchemaConflict"),
        ([("java.nio.file.AccessDeniedException",
           "s3a://b/k: getFileStatus on s3a://b/k: Access Denied")], "PermissionRefused"),
        ([("java.io.IOException", "x"), (S3, "Forbidden (Service: S3, Status Code: 403, Id: 1)")],
         "PermissionRefused"),
        ([("org.apache.hadoop.fs.azurebfs.contracts.exceptions.AbfsRestOperationException",
           'Operation failed: "Server failed to authenticate", 403, HEAD, http://x')],
         "PermissionRefused"),
        ([("org.apache.hadoop.fs.s3a.UnknownStoreException", "s3a://b/: bucket is unknown")],
         "DestinationError"),
        ([("org.apache.hadoop.fs.azurebfs.contracts.exceptions.AbfsRestOperationException",
           'Operation failed: "Conflict", 409, HEAD, http://x?upn=false&timeout=90s, rId')],
         "DestinationError"),
        ([(SPARK, "Job aborted."), ("org.apache.http.ConnectionClosedException",
           "Premature end of Content-Length delimited message body (expected: 9; received: 4)")],
         "Unreachable"),
        ([("java.io.IOException", "Premature EOF")], "Unreachable"),
        ([("org.xml.sax.SAXParseException",
           "XML document structures must start and end within the same entity.")], "Unreachable"),
        ([("java.net.UnknownHostException", "nowhere.example")], "Unreachable"),
        ([("org.apache.hadoop.fs.s3a.AWSClientIOException", "Unable to execute HTTP request")],
         "Unreachable"),
        ([("java.io.IOException", "No space left on device")], "DestinationError"),
        ([("org.apache.spark.SparkNumberFormatException",
           "[CAST_INVALID_INPUT] The value 'canary' can not be cast. SQLSTATE: 22018")],
         "InputError"),
        ([("org.apache.spark.sql.delta.schema.DeltaInvariantViolationException",
           "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK p (id > 0) violated by row with values:"
           "\n - id : canary")], "InputError"),
        ([("org.apache.spark.SparkRuntimeException",
           "[USER_RAISED_EXCEPTION] canary is odd SQLSTATE: P0001")], "InputError"),
        ([("org.apache.spark.sql.AnalysisException", "[PATH_NOT_FOUND] no such path")],
         "DestinationError"),
        ([(SPARK, "Job 3 cancelled part of cancelled job group x")], "SparkFailure"),
        ([("java.lang.IllegalStateException", "who knows")], "SparkFailure"),
    ],
)  # fmt: skip
def test_java(links: list[tuple[str, str | None]], expected: str) -> None:
    error = FromJavaError(*links)
    found = translate(error)
    assert type(found) is getattr(errors, expected)
    assert found.__cause__ is error
    assert "\tat " not in str(found)
    assert "canary" not in str(found)


def test_a_call_that_ran_out_of_time_is_not_told_as_silence() -> None:
    sdk = "software.amazon.awssdk.core.exception"
    whole, one = f"{sdk}.ApiCallTimeoutException", f"{sdk}.ApiCallAttemptTimeoutException"
    words = "Client execution did not complete before the specified timeout: 30000 millis"
    assert "did not get it done in time" in str(translate(FromJavaError((whole, words))))
    assert "stayed silent" in str(translate(FromJavaError((one, words))))


def test_credentials_that_azure_does_not_accept_any_more() -> None:
    words = (
        'Operation failed: "Forbidden", 403, GET, http://h/a/lake?sig=canary, rId: , '
        'AuthenticationFailed, "Server failed to authenticate the request."'
    )
    error = translate(FromJavaError(("x.AbfsRestOperationException", words)))
    assert type(error) is errors.PermissionRefused
    assert error.message == "the store does not accept the credentials, or not any more"
    assert "SAS" in error.hint


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        ("java.lang.IllegalArgumentException", "requirement failed: Mismatched minReaderVersion "
         "and readerFeatures.", "versions in the table's protocol"),
        ("org.apache.hadoop.fs.ChecksumException", "Checksum error: file:/t/p.parquet at 512 exp: "
         "-1 got: 1", "does not match the checksum that lies beside it"),
        ("java.lang.IllegalStateException", "Checkpoint file to load version: 4 is missing.",
         "files of the table's log are gone"),
        ("java.io.FileNotFoundException", "File file:/t/_delta_log/_sidecars/4.parquet does not "
         "exist", "files of the table's log are gone"),
        ("java.io.FileNotFoundException", "File file:/t/p.parquet does not exist",
         "a data file of the table is gone"),
        ("java.lang.RuntimeException", "file:/t/p.parquet is not a Parquet file. Expected magic",
         "damaged, or no Parquet file"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_told(kind: str, words: str, told: str) -> None:
    found = translate(FromJavaError((SPARK, "Job aborted."), (kind, words)))
    assert type(found) is errors.DestinationError
    assert told in found.message
    assert found.message.endswith(words.split(". ")[0].rstrip("."))


def test_a_python_function_of_the_frame() -> None:
    """Kind and place; its words may quote a record, and say nothing of the store."""
    told = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "/venv/pandas/frame.py", line 8, in __getitem__
    raise KeyError(key)
  File "/jobs/job.py", line 12, in parse
    raise Odd(f"Connection reset, SQLSTATE: 22, {row}")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
jobs.Odd: Connection reset, SQLSTATE: 22, canary
  File "canary", line 1, in canary
canary: canary
 SQLSTATE: 38000"""
    links = [(SPARK, "Job aborted."), ("org.apache.spark.api.python.PythonException", told)]
    found = translate(FromJavaError(*links))
    words = "a Python function of the frame raised jobs.Odd in parse (job.py:12)"
    assert (type(found), found.message) == (errors.SparkFailure, words)


def test_one_sentence_of_the_cause() -> None:
    error = FromJavaError(
        (SPARK, "Job aborted.\n\tat x"), ("a.b.OddException", "a.b.OddException: Odd. More.\nat")
    )
    assert translate(error).message == "Spark failed: Odd"


def test_secrets_are_masked() -> None:
    error = FromJavaError(("a.b.OddException", "no luck with can+ary at https://h/?sig=abc"))
    found = translate(error, ["can+ary"])
    assert found.message == f"Spark failed: no luck with {MASK} at https://h/?sig={MASK}"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left"), "DestinationError"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "PermissionRefused"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "Unreachable"),
        (TimeoutError("slow"), "Unreachable"),
        (MemoryError(), "SparkFailure"),
        (ValueError("canary"), "SparkFailure"),
    ],
)
def test_python(error: Exception, expected: str) -> None:
    found = translate(error)
    assert type(found) is getattr(errors, expected)
    assert "canary" not in str(found)


def test_a_jvm_that_is_gone() -> None:
    from py4j.protocol import Py4JNetworkError

    assert "Java process is gone" in translate(Py4JNetworkError("refused")).message


def test_our_own_pass() -> None:
    error = InputError("x")
    assert translate(error) is error
    with pytest.raises(InputError) as caught, translate_errors():
        raise error
    assert caught.value is error


def test_context_manager() -> None:
    with pytest.raises(SparkFailure) as caught, translate_errors():
        raise ValueError("canary")
    assert isinstance(caught.value, LakeportError)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(KeyboardInterrupt), translate_errors():
        raise KeyboardInterrupt


def test_errors_of_the_jvm_alone() -> None:
    from py4j.protocol import Py4JNetworkError

    with pytest.raises(SparkFailure, match="Java process is gone"), translate_jvm_errors(()):
        raise Py4JNetworkError("refused")
    with pytest.raises(ValueError, match="as it came"), translate_jvm_errors(()):
        raise ValueError("as it came")


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_a_cause_that_holds_a_secret_is_masked() -> None:
    plain = FromJavaError((SPARK, "Job aborted"), (S3, "no such bucket"))
    assert translate(plain, [CANARY]).__cause__ is plain
    for words in (CANARY, quote(CANARY, safe=""), f"Authorization: Bearer {CANARY}"):
        with pytest.raises(LakeportError) as caught, translate_errors([CANARY]):
            raise FromJavaError((SPARK, "Job aborted"), (S3, f"GET /a {words}"))
        assert isinstance(caught.value.__cause__, MaskedCause)
        assert "5f3a" not in shown(caught.value) and MASK in shown(caught.value)
        assert "Job aborted" in str(caught.value.__cause__)


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
    assert list(walk_causes(outer)) == [outer, inner]
    assert not is_spark_error(outer)


def test_what_was_being_handled_counts_where_it_is_asked_for() -> None:
    first, second, third = KeyboardInterrupt(), KeyboardInterrupt(), SparkFailure("x")
    third.__context__, second.__context__ = second, first
    assert list(walk_causes(third)) == [third]
    assert list(walk_causes(third, contexts=True)) == [third, second, first]
    second.__suppress_context__ = True
    assert list(walk_causes(third, contexts=True)) == [third, second]
