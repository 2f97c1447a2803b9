"""What Spark, Delta and Hadoop say when they fail, and which error of lakeport's that is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

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
)

__all__ = ["DEBUG_HINT", "MEMORY_HINT", "RULES", "TRANSIENT_HINT", "Rule"]

MEMORY_HINT: Final = "give Spark more memory (`spark.driver.memory`), or use smaller batches."
DEBUG_HINT: Final = "`--debug` shows Spark's own words."
TRANSIENT_HINT: Final = (
    "check the endpoint, the network and the proxy; a repeated run is safe. `give_up_after` says "
    "for how long a store is asked."
)
_ACCESS_HINT: Final = "check the credentials and what they permit on this bucket or container."


@dataclass(frozen=True, slots=True)
class Rule:
    """Chain links that match (by `class name: message`) become `error` with `prefix` and `hint`.

    `prefix` is a template of regular expressions: `\\1` is what the pattern's first group matched.
    """

    pattern: re.Pattern[str]
    error: type[LakeportError]
    prefix: str
    hint: str = ""
    quote: bool = True


def _rule(
    pattern: str, error: type[LakeportError], prefix: str, hint: str = "", *, quote: bool = True
) -> Rule:
    return Rule(re.compile(pattern), error, prefix, hint, quote)


_OF_STORMS: Final = tuple(
    _rule(pattern, Unreachable, prefix, TRANSIENT_HINT, quote=False)
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
        # What the tries before it met, silence or refusals, it does not tell.
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

RULES: Final[tuple[Rule, ...]] = (
    _rule(
        r"java\.lang\.OutOfMemoryError|GC overhead limit exceeded",
        SparkFailure,
        "Spark ran out of memory",
        MEMORY_HINT,
    ),
    _rule(
        r"No space left on device|DiskFullException|There is not enough space",
        DestinationError,
        "the disk is full",
        "free some space, or point `spark.local.dir` and the target at a bigger disk.",
        quote=False,
    ),
    _rule(
        r"the outcome of the commit is unknown: ",
        OutcomeUnknown,
        "the store did not say whether it took the commit, and could not be asked afterwards",
        "repeat the run with the same `run_id`: what has landed is not landed again.",
        quote=False,
    ),
    _rule(
        r"ABFS does not allow files or directories to end with a dot",
        DestinationError,
        "a partition's value ends with a dot, and Azure takes no folder of such a name from Spark",
        "set the property `delta.randomizeFilePrefixes` to `true` in the `table_properties` of a "
        "load: files lie in no folders of partitions then.",
        quote=False,
    ),
    _rule(
        r"\bdelta[.\w]*\.(Concurrent\w+|MetadataChanged|ProtocolChanged"
        r"|DeltaConcurrentModification)Exception\b|\[DELTA_MAX_COMMIT_RETRIES_EXCEEDED\]",
        CommitConflict,
        "another writer changed the table at the same time",
        "nothing of this batch was committed; run it again.",
    ),
    _rule(
        r"\[(_LEGACY_ERROR_TEMP_DELTA_0007|DELTA_(FAILED_TO_MERGE_FIELDS|MERGE_INCOMPATIBLE\w*"
        r"|METADATA_MISMATCH|DUPLICATE_COLUMNS\w*|INSERT_COLUMN\w*|UNSUPPORTED_DATA_TYPE\w*"
        r"|CANNOT_CHANGE_DATA_TYPE|COLUMN_NOT_FOUND\w*|SCHEMA_\w+|PARTITION_SCHEMA\w*"
        r"|CHANGE_TABLE\w*|INVALID_CHARACTERS_IN_COLUMN\w*))",
        SchemaConflict,
        "the batch's schema does not fit the table's",
    ),
    _rule(
        r"\[DELTA_(VIOLATE_CONSTRAINT|NOT_NULL_CONSTRAINT)\w*",
        InputError,
        "a row breaks a constraint of the table",
        "correct the source, or the table's constraint.",
    ),
    _rule(
        r"\[DELTA_EXCEED_CHAR_VARCHAR_LIMIT\]|\[EXCEED_LIMIT_LENGTH\]",
        InputError,
        "a text is longer than the table's column of type CHAR or VARCHAR permits",
        "shorten it in the source, or give the column a longer type with ALTER TABLE.",
        quote=False,
    ),
    _rule(
        r"\[DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT",
        InputError,
        "the table fills an identity column itself, and the batch has values for it",
        "leave the column out of the source.",
        quote=False,
    ),
    _rule(
        r"\[DELTA_CANNOT_MODIFY_APPEND_ONLY\]",
        DestinationError,
        "rows of the table can't be changed or removed: its property `delta.appendOnly` is `true`",
        "use `mode: append`, or have the table's owner unset the property.",
        quote=False,
    ),
    _rule(
        r"ChecksumException: ",
        DestinationError,
        "a file does not match the checksum that lies beside it, in the file `.NAME.crc`",
        "one of the two is damaged, or was replaced alone: bring the file back from a copy, or, "
        "if it is known to be right, delete its checksum.",
    ),
    _rule(
        r"Checkpoint file to load version: \d+ is missing|/_delta_log/\S+ does not exist"
        r"|\[DELTA_(TRUNCATED_TRANSACTION_LOG|VERSIONS_NOT_CONTIGUOUS|LOG_FILE_NOT_FOUND\w*"
        r"|STATE_RECOVER_ERROR|MISSING_PART_FILES)",
        DestinationError,
        "files of the table's log are gone",
        "bring `_delta_log` back from a copy; the table can't be read without them.",
    ),
    _rule(
        r"FAILED_READ_FILE\.FILE_NOT_EXIST|FileNotFoundException: \S.*\.parquet\b",
        DestinationError,
        "a data file of the table is gone",
        "restore the file, or the table to a version without it.",
    ),
    _rule(
        r"is not a Parquet file|corrupted file: the footer",
        DestinationError,
        "a file of the table is damaged, or no Parquet file",
        "bring it back from a copy, or restore the table to a version without it.",
    ),
    _rule(
        r"\[(INVALID_JSON_DATA_TYPE|UNSUPPORTED_DATA_?TYPE)\b",
        DestinationError,
        "the table has a column of a type that Spark does not know",
    ),
    _rule(
        r"SQLSTATE: 22|\[(CAST_|NUMERIC_VALUE_OUT|ARITHMETIC_OVERFLOW|DIVIDE_BY_ZERO)",
        InputError,
        "a value of the frame can't be computed as its plan says",
        "correct the frame's casts; " + DEBUG_HINT,
        quote=False,
    ),
    _rule(
        r"\[USER_RAISED_EXCEPTION\]",
        InputError,
        "the frame's plan raised an error of its own (`raise_error`, `assert_true`)",
        "correct the frame; " + DEBUG_HINT,
        quote=False,
    ),
    _rule(
        r"RequestTimeTooSkewed|Request date header too old",
        DestinationError,
        "this machine's clock differs from the store's by more than 15 minutes",
        "set the clock (`timedatectl set-ntp true`), then run again.",
        quote=False,
    ),
    _rule(
        r"AWSRedirectException|PermanentRedirect|AuthorizationHeaderMalformed"
        r"|Status Code: 30[17]\b",
        DestinationError,
        "the bucket is in another region, or not at that endpoint (S3 answered with a redirect)",
        "set `aws_region` to the bucket's region, and leave out `aws_endpoint` for AWS.",
        quote=False,
    ),
    _rule(
        r"UnknownStoreException|NoSuchBucket|ContainerNotFound|FilesystemNotFound"
        r"|specified (bucket|container|filesystem) does not exist",
        DestinationError,
        "the bucket or container does not exist",
        "create it, or correct its name.",
        quote=False,
    ),
    _rule(
        r"ExpiredToken|TokenRefreshRequired|[Tt]oken (is|has) expired|Lifetime validation failed"
        r"|not valid in the specified time frame",
        PermissionRefused,
        "the session of the credentials has expired",
        "fetch new ones (a session's keys and token, or a SAS), and repeat the run.",
        quote=False,
    ),
    _rule(
        r"by AssumedRole\b|StsException",
        PermissionRefused,
        "the role can't be assumed",
        "check the keys that assume it, `role_arn`, its trust policy and `external_id`.",
        quote=False,
    ),
    _rule(
        r"Operation failed: [^\n]*?, 40[13], [^\n]*"
        r"\b(AuthenticationFailed|InvalidAuthenticationInfo)\b",
        PermissionRefused,
        "the store does not accept the credentials, or not any more",
        "an account's key may have been rotated, a SAS or a token may have expired: get new ones, "
        "and repeat the run.",
        quote=False,
    ),
    _rule(
        r"AccessDenied|AccessControlException|NoAuthWithAWSException|CredentialInitialization"
        r"|NoAwsCredentials|InvalidAccessKeyId|SignatureDoesNotMatch|AuthorizationFailure"
        r"|AuthenticationFailed|AuthorizationPermissionMismatch|InvalidAuthenticationInfo"
        r"|Status Code: 40[13]\b|, 40[13], |KeyProviderException|InvalidConfigurationValue"
        r"|Operation failed: .*?, 40[13]\b",
        PermissionRefused,
        "the store refused access",
        _ACCESS_HINT,
    ),
    *_OF_STORMS,
    _rule(
        r"Operation failed: [^\n]*?, (409|412), [A-Z]+, |Status Code: (409|412)\b",
        DestinationError,
        r"the store refused a request because of a conflict (\1\2)",
        "repeat the run, with its `run_id` if it had one: what has landed is not landed again.",
        quote=False,
    ),
    _rule(
        r"\[(DELTA_(TABLE_NOT_FOUND|MISSING_DELTA_TABLE\w*|PATH_DOES_NOT_EXIST"
        r"|TABLE_ONLY_OPERATION|NOT_A_DELTA_TABLE)|PATH_NOT_FOUND)",
        DestinationError,
        "there is no such table",
    ),
    _rule(
        r"\bdelta[.\w]*\.(InvalidProtocolVersion|DeltaUnsupportedTableFeature|DeltaTableFeature)"
        r"Exception\b",
        DestinationError,
        "the table uses features of Delta that this version can't handle",
    ),
    _rule(
        r"requirement failed: Mismatched min(Reader|Writer)Version",
        DestinationError,
        "the versions in the table's protocol are none that this version of Delta knows",
        "the table was made for a newer Delta, or its log is damaged: ask whoever writes it.",
    ),
    _rule(
        r"\bJob(Group)? \S+ cancelled|cancelled as part of",
        SparkFailure,
        "the job was cancelled",
        quote=False,
    ),
    _rule(
        r"Python worker (exited|failed)|ExecutorLostFailure|SparkException: .*?worker.*?crashed",
        SparkFailure,
        "a Python worker ended unexpectedly",
        "it may have been killed for want of memory; use smaller batches.",
        quote=False,
    ),
)
"""The first one that matches any link counts."""
