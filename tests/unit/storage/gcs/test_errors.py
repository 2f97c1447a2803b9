"""Failures of Google Cloud Storage -> lakeport's errors, with what to change."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from lakeport.errors import PermissionRefused
from lakeport.storage.gcs.errors import ErrorResponse, translate
from lakeport.storage.gcs.settings import GcpSettings


def refused(settings: GcpSettings) -> str:
    answer = SimpleNamespace(
        status_code=401, reason="Unauthorized", json=lambda: {"error": {"message": "Invalid"}}
    )
    told = translate(ErrorResponse(answer), "storage.objects.create", "gs://lake/a", settings)
    assert type(told) is PermissionRefused
    assert told.message == "gs://lake/a: Google does not accept the credentials: Invalid"
    return told.hint


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("service_account", "its key may be disabled or deleted"),
        ("authorized_user", "`gcloud auth application-default login` makes a new one"),
        ("external_account", "fetch them anew"),
    ],
)
def test_a_credential_that_is_refused_is_advised_by_its_kind(kind: str, words: str) -> None:
    assert words in refused(GcpSettings(json.dumps({"type": kind})))


def test_credentials_of_the_machine_are_no_key() -> None:
    hint = refused(GcpSettings())
    assert "application-default login" in hint
    assert "key" not in hint


def test_an_endpoint_that_wants_credentials_after_all() -> None:
    assert "none are sent" in refused(GcpSettings(endpoint="http://127.0.0.1:1"))
