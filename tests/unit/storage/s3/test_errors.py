"""Failures of the AWS SDK -> lakeport's errors, with what to change."""

from __future__ import annotations

from typing import Any

import botocore.exceptions as aws  # type: ignore[import-untyped,unused-ignore]
import pytest
from botocore.parsers import (  # type: ignore[import-untyped,unused-ignore]
    ResponseParserError,
)

from lakeport.errors import ConfigError, DestinationError, PermissionRefused, Unreachable
from lakeport.storage.s3.errors import is_transient, may_have_succeeded, translate
from lakeport.storage.s3.settings import AwsSettings

SETTINGS = AwsSettings("AKCANARY", "s3cr3t-canary", "tok-canary", profile="lake")
OK = {"endpoint_url": "https://h", "error": "x"}


def answer(
    status: int, code: str, message: str = "", operation: str = "PutObject", **h: str
) -> Any:
    about = {"HTTPStatusCode": status, "HTTPHeaders": {k.replace("_", "-"): h[k] for k in h}}
    error = {"Code": code, "Message": message}
    return aws.ClientError({"Error": error, "ResponseMetadata": about}, operation)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (aws.EndpointConnectionError(**OK), Unreachable, "aws_endpoint"),
        (aws.ConnectTimeoutError(**OK), Unreachable, "firewall"),
        (aws.ReadTimeoutError(**OK), Unreachable, "can't be reached"),
        (ResponseParserError("no XML"), Unreachable, "the proxy"),
        (aws.ConnectionClosedError(**OK), Unreachable, "can't be reached"),
        (aws.SSLError(**OK), Unreachable, "AWS_CA_BUNDLE"),
        (aws.ProxyConnectionError(proxy_url="http://p", error="x"), Unreachable, "proxy"),
        (aws.NoCredentialsError(), PermissionRefused, "searched in this order"),
        (aws.PartialCredentialsError(provider="env", cred_var="x"), PermissionRefused, "searched"),
        (aws.CredentialRetrievalError(provider="x", error_msg="y"), PermissionRefused, "searched"),
        (aws.SSOTokenLoadError(error_msg="x"), PermissionRefused, "aws sso login"),
        (aws.UnauthorizedSSOTokenError(), PermissionRefused, "aws sso login"),
        (aws.TokenRetrievalError(provider="sso", error_msg="x"), PermissionRefused, "sso login"),
        (aws.ProfileNotFound(profile="lake"), ConfigError, "no profile 'lake'"),
        (aws.InvalidRegionError(region_name="!"), DestinationError, "`aws_region`"),
        (ValueError("Invalid endpoint: x"), DestinationError, "`aws_endpoint`"),
        (aws.ParamValidationError(report="Invalid Bucket name"), DestinationError, "`bucket`"),
        (aws.UnknownParameterError(name="x", operation="y", choices="z"), DestinationError, "SDK"),
    ],
)
def test_failures_without_an_answer(error: Exception, kind: type[Exception], words: str) -> None:
    made = translate(error, "put_object", "s3://lake/a/b", SETTINGS)
    assert isinstance(made, kind)
    assert words in str(made)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            answer(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1"),
            "`aws_region: eu-west-1`",
        ),
        (answer(400, "AuthorizationHeaderMalformed", x_amz_bucket_region="eu-west-1"), "eu-west-1"),
        (answer(307, "TemporaryRedirect"), "set `aws_region` to the bucket's region"),
        (answer(403, "AccessDenied", "not authorized to perform kms:GenerateDataKey"), "kms:Gen"),
        (answer(400, "KMS.NotFoundException"), "`sse_kms_key_id`"),
        (answer(404, "kms:KeyNotFound"), "`sse_kms_key_id`"),
        (answer(400, "400", "Bad Request"), "does not answer as S3 does"),
        (
            answer(403, "AccessDenied", "explicit deny"),
            "allow s3:PutObject on arn:aws:s3:::lake/a/*",
        ),
        (answer(403, "403"), "(AccessDenied)"),
        (answer(418, "Teapot", "short and stout"), "418 Teapot: short and stout"),
        (answer(403, "InvalidClientTokenId", operation="AssumeRole"), "secret that assumes"),
        (answer(403, "AccessDenied", operation="AssumeRole"), "sts:AssumeRole"),
    ],
)
def test_answers_name_what_to_change(error: Exception, words: str) -> None:
    assert words in str(translate(error, "put_object", "s3://lake/a/b", SETTINGS))


def test_the_stores_words_are_shown_without_secrets() -> None:
    said = "key AKCANARY secret=s3cr3t-canary token: tok-canary Signature=QUJDREVGR0hJSktMTU5PUA=="
    made = str(translate(answer(403, "AccessDenied", said), "put_object", "s3://l/k", SETTINGS))
    assert "canary" not in made.lower()
    assert "QUJD" not in made


def test_what_may_pass_and_what_may_be_done() -> None:
    lost = aws.ReadTimeoutError(**OK)
    assert (is_transient(lost), may_have_succeeded(lost)) == (True, True)
    unsent = aws.EndpointConnectionError(**OK)
    assert (is_transient(unsent), may_have_succeeded(unsent)) == (True, False)
    fought = answer(409, "ConditionalRequestConflict")
    assert (is_transient(fought), may_have_succeeded(fought)) == (True, False)
    for final in (aws.SSLError(**OK), aws.NoCredentialsError(), answer(403, "AccessDenied")):
        assert not is_transient(final)
