"""Azure storage against Azurite: behaviour, credentials, errors."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakeport.errors import DestinationError, ObjectExists, PermissionRefused, Unreachable
from lakeport.model import Storage
from lakeport.storage.azure import errors as azure_errors
from lakeport.storage.azure.client import connect
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.azure.store import AzureStorage
from lakeport.storage.retry import RetryPolicy
from tests.emulators import SAS_PERMISSIONS, Azurite
from tests.storage.behaviours import BEHAVIOURS, hides_its_secrets, keys, published, stage

_prefixes = (f"run/{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with Azurite(tmp_path_factory.mktemp("azurite")) as server:
        server.create_container("lake")
        yield server


def storage_of(azurite: Azurite, container: str = "lake", **more: Any) -> AzureStorage:
    given = {"access_key": azurite.account_key, "endpoint": azurite.endpoint, **more}
    return AzureStorage(container, next(_prefixes), AzureSettings(azurite.account, **given))


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda each: each.__name__)
def test_behaviour(azurite: Azurite, behaviour: Callable[[Storage], None]) -> None:
    behaviour(storage_of(azurite))


def test_root_may_be_the_whole_container(azurite: Azurite) -> None:
    azurite.create_container("whole")
    storage = dataclasses.replace(storage_of(azurite, "whole"), prefix="")
    published(storage, "a/b.csv", b"1")
    assert keys(storage) == ["a/b.csv"]
    at = "whole@devstoreaccount1.dfs.core.windows.net"
    assert (storage.uri(), storage.hadoop_uri("a")) == (f"abfs://{at}", f"abfs://{at}/a")


def test_azure_itself_is_reached_with_tls_only() -> None:
    settings = AzureSettings("acme", "a2V5")
    storage = AzureStorage("lake", "silver", settings)
    assert storage.uri("t") == "abfss://lake@acme.dfs.core.windows.net/silver/t"
    assert settings.address == "https://acme.blob.core.windows.net"


def test_a_blob_carries_type_and_metadata(azurite: Azurite) -> None:
    storage = storage_of(azurite)
    staged = stage(storage, "a.csv", b"1")
    storage.publish(staged, "a.csv")
    blob = azurite.client().get_blob_client("lake", f"{storage.prefix}/a.csv")
    about = blob.get_blob_properties()
    assert about.content_settings.content_type == "text/csv"
    assert about.metadata == {"lakeport_id": staged.token["id"]}


def test_what_others_staged_for_a_name_is_a_clash_and_no_loss(azurite: Azurite) -> None:
    storage = storage_of(azurite)
    first, second = (stage(storage, "t/a.csv", text) for text in (b"first", b"second"))
    storage.publish(second, "t/a.csv")
    with pytest.raises(ObjectExists):
        storage.publish(first, "t/a.csv")
    storage.delete("t/a.csv")
    with pytest.raises(DestinationError, match="staged is gone"):
        storage.publish(first, "t/a.csv")
    assert storage.get("t/a.csv") is None


def test_folders_that_hadoop_makes_are_no_objects(azurite: Azurite) -> None:
    storage = storage_of(azurite)
    blob = azurite.client().get_blob_client("lake", f"{storage.prefix}/t/folder")
    blob.upload_blob(b"", metadata={"hdi_isfolder": "true"})
    storage.put("t/folder/a", b"1")
    assert keys(storage) == ["t/folder/a"]


def test_a_replaced_blob_is_noticed_while_it_is_read(azurite: Azurite) -> None:
    storage = storage_of(azurite)
    storage.put("a", b"x" * (1 << 20))
    with storage.open("a") as file:
        file.read(10)
        storage.put("a", b"y" * (1 << 20))
        file.seek(900_000)
        with pytest.raises(DestinationError, match="replaced"):
            file.read(10)


def test_a_listing_has_many_pages(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = storage_of(azurite)
    real = AzureStorage._page

    def page(self: AzureStorage, prefix: str, **options: Any) -> Any:
        return real(self, prefix, **{**options, "limit": 2})

    monkeypatch.setattr(AzureStorage, "_page", page)
    for number in range(5):
        storage.put(f"t/{number}", b"")
    assert keys(storage, "t") == [f"t/{number}" for number in range(5)]


def test_a_sas_token_is_enough(azurite: Azurite) -> None:
    storage = storage_of(azurite, access_key="", sas_token=azurite.sas("lake"))
    published(storage, "t/a.csv", b"1")
    assert keys(storage) == ["t/a.csv"]
    storage.delete("t/a.csv")
    assert storage.get("t/a.csv") is None


@pytest.mark.parametrize("action", ["read", "write", "list", "delete"])
def test_a_refusal_names_what_is_missing(azurite: Azurite, action: str) -> None:
    attempts: dict[str, Callable[[Storage], object]] = {
        "read": lambda s: s.get("a"),
        "write": lambda s: s.put("a", b""),
        "list": lambda s: list(s.list("")),
        "delete": lambda s: s.delete("a"),
    }
    missing = {"write": ("write", "create", "add")}.get(action, (action,))
    token = azurite.sas("lake", **{name: True for name in SAS_PERMISSIONS if name not in missing})
    storage = storage_of(azurite, access_key="", sas_token=token)
    with pytest.raises(PermissionRefused, match=f"the request to {action} it") as caught:
        attempts[action](storage)
    assert f"permits to {action}" in caught.value.hint
    assert not any(secret in str(caught.value) for secret in storage.settings.secrets)


def test_an_expired_token_says_so(azurite: Azurite) -> None:
    storage = storage_of(azurite, access_key="", sas_token=azurite.sas("lake", -1))
    with pytest.raises(PermissionRefused, match="has expired"):
        storage.put("a", b"1")


def test_a_wrong_key_says_so_and_shows_nothing(azurite: Azurite) -> None:
    wrong = "d3Jvbmcta2V5LWNhbmFyeQ=="
    with pytest.raises(PermissionRefused) as caught:
        storage_of(azurite, access_key=wrong).put("a", b"1")
    assert "check `access_key`" in caught.value.hint
    assert wrong not in str(caught.value)


def test_there_is_no_such_container(azurite: Azurite) -> None:
    storage = storage_of(azurite, "lagoon")
    for attempt in (lambda: storage.put("a", b""), lambda: list(storage.list(""))):
        with pytest.raises(DestinationError, match="no such container: abfs://lagoon@"):
            attempt()
    with pytest.raises(DestinationError, match="no such container"):
        stage(storage, "a", b"1")


def test_an_endpoint_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = AzureSettings(
        "devstoreaccount1",
        "a2V5",
        endpoint="http://127.0.0.1:1",
        retry_policy=RetryPolicy(deadline=0.2),
    )
    with pytest.raises(Unreachable, match="can't be reached"):
        AzureStorage("lake", "", settings).put("a", b"1")


def test_repr_and_tokens_hold_no_secret(azurite: Azurite) -> None:
    hides_its_secrets(storage_of(azurite), azurite.account_key)


class _LostAnswers:
    """Does what is asked of a blob, and then says that the connection broke."""

    def __init__(self, blob: Any, operation: str) -> None:
        self._blob, self._operation, self._left = blob, operation, 1

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._blob, name)
        if name != self._operation or not self._left:
            return real

        def lose(*arguments: Any, **named: Any) -> Any:
            from azure.core.exceptions import ServiceResponseError

            real(*arguments, **named)
            self._left = 0
            raise ServiceResponseError("the connection was reset")

        return lose


@pytest.mark.parametrize("operation", ["commit_block_list", "upload_blob", "stage_block"])
def test_a_lost_answer_is_made_up_for(
    azurite: Azurite, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    storage = storage_of(azurite)
    connection = connect(storage.settings)
    real = connection.blob
    once: dict[str, _LostAnswers] = {}

    def blob(container: str, key: str) -> Any:
        return once.setdefault(key, _LostAnswers(real(container, key), operation))

    monkeypatch.setattr(connection, "blob", blob)
    published(storage, "t/a.csv", b"1")
    storage.put("t/b.csv", b"2", create_only=True)
    assert (storage.get("t/a.csv"), storage.get("t/b.csv")) == (b"1", b"2")


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "AuthorizationPermissionMismatch", "Storage Blob Data Contributor"),
        (403, "KeyBasedAuthenticationNotPermitted", "service principal"),
        (403, "AccountIsDisabled", "subscription"),
        (401, "InvalidAuthenticationInfo", "tenant_id"),
        (404, "ContainerNotFound", "never creates a container"),
        (503, "ServerBusy", "try again later"),
        (400, "InvalidBlockList", "took its place"),
    ],
)
def test_answers_become_advice(status: int, code: str, words: str) -> None:
    from azure.core.exceptions import HttpResponseError

    error = HttpResponseError("the store's words with canary-signature")
    error.status_code, error.error_code = status, code
    told = azure_errors.translate(error, "write", "abfss://x", AzureSettings("acme"))
    assert words in told.hint
    assert "canary" not in str(told)


def test_a_key_that_azure_does_not_accept_is_named() -> None:
    from azure.core.exceptions import ClientAuthenticationError

    error = ClientAuthenticationError("the MAC signature 'canary' is not the same")
    error.status_code, error.error_code = 403, "AuthenticationFailed"
    told = azure_errors.translate(error, "write", "abfss://x", AzureSettings("acme", "a2V5"))
    assert told.message == "`access_key` does not belong to the account 'acme'"
    assert "canary" not in str(told)


def test_half_an_answer_is_not_the_keys_fault() -> None:
    error = ValueError("Required Content-Range response header is missing or malformed.")
    told = azure_errors.translate(error, "read", "abfss://x", AzureSettings("acme", "a2V5"))
    assert isinstance(told, Unreachable)
    assert told.message == "abfss://x: the store's answer was cut, or is none of a store's"


def test_a_skewed_clock_is_named() -> None:
    from azure.core.exceptions import ClientAuthenticationError

    error = ClientAuthenticationError("Request date header too old: 'x'")
    error.status_code, error.error_code = 403, "AuthenticationFailed"
    told = azure_errors.translate(error, "write", "abfss://x", AzureSettings("acme", "a2V5"))
    assert "clock" in told.message
