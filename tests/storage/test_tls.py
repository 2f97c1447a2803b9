"""A TLS connection that is cut is made anew; one that is not trusted is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import Unreachable
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.azure.store import AzureStorage
from lakeport.storage.base import CloudStorage
from lakeport.storage.gcs.settings import GcpSettings
from lakeport.storage.gcs.store import GcsStorage
from lakeport.storage.retry import RetryPolicy
from lakeport.storage.s3.settings import AwsSettings
from lakeport.storage.s3.store import S3Storage
from tests.emulators import Azurite
from tests.half_dead import BODY, half_dead
from tests.tls import Break, breaking_tls, certificate

Open = Callable[..., CloudStorage]
PATIENT = RetryPolicy(deadline=14)


def on_s3(endpoint: str) -> CloudStorage:
    keys: dict[str, Any] = {"access_key_id": "stub", "secret_access_key": "stub"}
    return S3Storage(
        "lake", "", AwsSettings(endpoint=endpoint, region="x", retry_policy=PATIENT, **keys)
    )


def on_gcs(endpoint: str) -> CloudStorage:
    settings = GcpSettings(endpoint=endpoint, token="stub", retry_policy=PATIENT)
    return GcsStorage("lake", "", settings)


def on_azure(endpoint: str) -> CloudStorage:
    keys: dict[str, Any] = {"account": Azurite.account, "access_key": Azurite.account_key}
    settings = AzureSettings(endpoint=f"{endpoint}/lake", retry_policy=PATIENT, **keys)
    return AzureStorage("lake", "", settings)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def trusted(paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, str(paths[0]))
    return paths


@pytest.mark.parametrize("storage", [on_s3, on_gcs, on_azure])
@pytest.mark.parametrize("how", ["reset", "closed", "cut", "silent"])
def test_a_handshake_that_breaks_is_begun_anew(
    storage: Open, how: Break, trusted: tuple[Path, Path]
) -> None:
    """Before the store has answered at all, and in the midst of a load."""
    with (
        half_dead("well") as server,
        breaking_tls(server.server_address[1], trusted) as tls,
    ):
        store = storage(f"https://127.0.0.1:{tls.port}")
        for _ in range(2):
            tls.breaks.append(how)
            assert store.get("t/1.json") == BODY
        assert tls.broken == 2


@pytest.mark.parametrize("storage", [on_s3, on_gcs, on_azure])
@pytest.mark.parametrize("what", ["its certificate", "no tls"])
def test_a_store_that_is_not_trusted_is_asked_once(
    storage: Open, what: str, paths: tuple[Path, Path]
) -> None:
    with half_dead("well") as server, breaking_tls(server.server_address[1], paths) as tls:
        tls.breaks += ["plain"] * 20 if what == "no tls" else []
        store = storage(f"https://127.0.0.1:{tls.port}")
        with pytest.raises(Unreachable, match="no trusted TLS connection") as caught:
            store.get("t/1.json")
        assert "CA_BUNDLE" in caught.value.hint
        assert not server.asked.is_set()
        assert tls.broken == (1 if what == "no tls" else 0)
