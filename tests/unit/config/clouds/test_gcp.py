"""Keys of the destinations on Google Cloud Storage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeport.config.destinations.gcs import GoogleCloudStorageConfig
from lakeport.errors import ConfigError

KEY = {"type": "service_account", "private_key": "pem-canary", "client_email": "a@b"}
KMS = "projects/p/locations/l/keyRings/r/cryptoKeys/k"


def config(**values: Any) -> GoogleCloudStorageConfig:
    return GoogleCloudStorageConfig(**{"bucket": "lake", **values})


def test_defaults_and_nulls() -> None:
    made = config(google_application_credentials=None, object_key_path=None, google_endpoint="")
    settings = made.gcp_settings()
    assert (settings.credentials, settings.endpoint, made.file_type) == ("", "", "parquet")
    assert made.storage().uri("t/a") == "gs://lake/t/a"


@pytest.mark.parametrize("form", ["path", "text", "mapping"])
def test_the_key_comes_in_three_forms(form: str, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(KEY))
    given = {"path": str(path), "text": json.dumps(KEY), "mapping": KEY}[form]
    made = config(google_application_credentials=given)
    assert json.loads(made.gcp_settings().credentials) == KEY
    assert made.secrets() == ("pem-canary",)
    assert "canary" not in repr(made) + repr(made.storage())


@pytest.mark.parametrize("content", [None, "not json", "[]", '{"a": 1}'])
def test_a_file_that_is_no_key(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match="google_application_credentials") as caught:
        config(google_application_credentials=str(path)).storage()
    assert "key.json" in str(caught.value)


def test_the_emulator_of_the_environment_is_used_without_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = config()
    for host in ("localhost:4443", "http://localhost:4443/"):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)
        settings = made.gcp_settings()
        assert (settings.endpoint, settings.anonymous) == ("http://localhost:4443", True)
    named = config(google_endpoint="http://h:1").gcp_settings()
    assert named.endpoint == "http://h:1"


def test_a_token_never_goes_to_an_endpoint_without_tls_unasked() -> None:
    assert config(google_endpoint="http://h:1").gcp_settings().anonymous
    assert not config(google_endpoint="https://h").gcp_settings().anonymous
    key = json.dumps(KEY)
    keyed = config(google_endpoint="http://h:1", google_application_credentials=key)
    assert not keyed.gcp_settings().anonymous


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"bucket": "gs://lake"}, "bare name"),
        ({"object_key_path": "../x"}, "object_key_path"),
        ({"kms_key_name": "key"}, "kms_key_name"),
        ({"google_endpoint": "localhost"}, "https://host"),
        ({"file_type": "delta"}, "file_type"),
        ({"google_projekt": "p"}, "google_project"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config(**values)


def test_project_and_key_reach_the_connection() -> None:
    settings = config(google_project="payer", kms_key_name=KMS).gcp_settings()
    assert (settings.project, settings.kms_key_name) == ("payer", KMS)
