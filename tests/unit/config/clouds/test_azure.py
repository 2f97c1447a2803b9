"""Keys of the Delta destinations on Azure and S3."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lakeport.config.base import config_class
from lakeport.config.destinations.azure import DeltaLakeAzureConfig
from lakeport.config.destinations.s3 import DeltaLakeS3Config
from lakeport.errors import ConfigError
from lakeport.storage.azure.hadoop import hadoop_settings
from lakeport.storage.azure.settings import AzureSettings
from lakeport.storage.retry import RetryPolicy
from tests.unit.config.kit import load_target

URI = "abfss://lake@acme.dfs.core.windows.net/silver/users"
KEY = "Y2FuYXJ5LWtleQ=="


def config(**values: Any) -> DeltaLakeAzureConfig:
    return DeltaLakeAzureConfig(**{"table_uri": URI, **values})


@pytest.mark.parametrize(
    ("values", "root"),
    [
        ({}, URI),
        ({"account_name": "acme"}, URI),
        ({"table_uri": URI.replace("abfss", "abfs")}, URI),
        ({"table_uri": "abfs://lake/silver/users", "account_name": "acme"}, URI),
        ({"table_uri": f"{URI}/"}, URI),
        ({"table_uri": "abfss://lake/users", "account_name": "acme"}, URI.replace("silver/", "")),
        (
            {"table_uri": "abfss://lake@acme.dfs.core.chinacloudapi.cn/_raw/Users 1"},
            "abfss://lake@acme.dfs.core.chinacloudapi.cn/_raw/Users 1",
        ),
    ],
)
def test_the_table_is_where_the_uri_says(values: dict[str, Any], root: str) -> None:
    made = config(**values)
    assert made.storage().hadoop_uri(made.table_pattern) == root
    assert made.storage().uri("_lakeport/x") == f"{root.rpartition('/')[0]}/_lakeport/x"


def test_the_table_key_is_a_label() -> None:
    made = config(table="whatever")
    assert made.table_pattern == "users"
    assert config(table_uri=f"{URI}_{{stream}}").table_pattern == "users_{stream}"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"table_uri": "https://acme.blob.core.windows.net/lake/users"}, "abfss://container@"),
        ({"table_uri": "abfss://lake/users"}, "`account_name` is missing"),
        ({"table_uri": "abfss://lake@acme.dfs.core.windows.net/"}, "name a folder"),
        ({"table_uri": f"{URI}/../x"}, "table_uri"),
        ({"table_uri": f"{URI}?sv=1&sig=canary"}, "abfss://container@"),
        ({"table_uri": "abfss://La_ke@acme.dfs.core.windows.net/x"}, "container's name"),
        ({"table_uri": "abfss://lake/{stream}/x", "account_name": "acme"}, "last part only"),
        ({"table_uri": f"{URI}."}, "ends with a dot"),
        ({"account_name": "other"}, "`account_name` is 'other'"),
        ({"account_name": "acme.blob.core.windows.net"}, "bare name"),
        ({"access_key": "canary not base64"}, "access_key"),
        ({"sas_token": "canary"}, "sas_token"),
        ({"access_key": KEY, "sas_token": "sv=1&sig=canary"}, "exclude each other"),
        ({"tenant_id": "t", "client_id": "c"}, "go together"),
        ({"client_secret": "canary"}, "go together"),
        ({"managed_identity": True, "access_key": KEY}, "exclude each other"),
        ({"managed_identity": True, "client_secret": "canary"}, "managed_identity"),
        ({"azure_endpoint": "127.0.0.1:10000"}, "https://host"),
        ({"object_key_path": "x"}, "table_uri"),
        ({"file_type": "parquet"}, "file_type"),
        ({"acount_name": "acme"}, "account_name"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**values)
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)


def test_secrets_show_nowhere_but_travel() -> None:
    for secret in ({"access_key": KEY}, {"sas_token": "sv=1&sig=canary"}):
        made = config(**secret)
        assert not any(v in repr(made) + repr(made.storage()) for v in (KEY, "canary"))
        assert made.secrets()
        assert pickle.loads(pickle.dumps(made.storage())) == made.storage()


def test_a_question_mark_in_front_of_the_token_does_no_harm() -> None:
    made = config(sas_token="?sv=1&se=2&sig=x")
    assert made.storage().settings.sas_token == "sv=1&se=2&sig=x"


def test_null_and_blank_keys_are_absent() -> None:
    names = ("access_key", "sas_token", "tenant_id", "client_id", "client_secret", "azure_endpoint")
    for nothing in (None, "", " "):
        made = config(account_name=nothing, **dict.fromkeys(names, nothing))
        assert made.storage().settings == AzureSettings("acme")


def test_every_key_reaches_the_client() -> None:
    made = config(
        tenant_id="t",
        client_id="c",
        client_secret="s",
        azure_endpoint="http://127.0.0.1:10000/acme/",
    )
    assert made.storage().settings == AzureSettings(
        "acme", tenant_id="t", client_id="c", client_secret="s", endpoint="http://127.0.0.1:10000"
    )


AT = "acme.dfs.core.windows.net"
COPIES = "fs.azure.blob.copy.max.wait.millis"  # the connector has none for one account
OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"
PRINCIPAL = {
    f"fs.azure.account.oauth.provider.type.{AT}": f"{OAUTH}.ClientCredsTokenProvider",
    f"fs.azure.account.oauth2.client.endpoint.{AT}": (
        "https://login.microsoftonline.com/t/oauth2/token"
    ),
    f"fs.azure.account.oauth2.client.id.{AT}": "c",
    f"fs.azure.account.oauth2.client.secret.{AT}": "s",
}
ENVIRON = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"}


@pytest.mark.parametrize(
    ("given", "environ", "kind", "more"),
    [
        ({"access_key": "k"}, {}, "SharedKey", {f"fs.azure.account.key.{AT}": "k"}),
        ({"sas_token": "sig=x"}, {}, "SAS", {f"fs.azure.sas.fixed.token.{AT}": "sig=x"}),
        ({"tenant_id": "t", "client_id": "c", "client_secret": "s"}, {}, "OAuth", PRINCIPAL),
        ({}, {**ENVIRON, "AZURE_CLIENT_SECRET": "s"}, "OAuth", PRINCIPAL),
        (
            {},
            {**ENVIRON, "AZURE_FEDERATED_TOKEN_FILE": "/token"},
            "OAuth",
            {
                f"fs.azure.account.oauth.provider.type.{AT}": (
                    f"{OAUTH}.WorkloadIdentityTokenProvider"
                ),
                f"fs.azure.account.oauth2.token.file.{AT}": "/token",
            },
        ),
        (
            {"managed_identity": True, "client_id": "c"},
            {**ENVIRON, "AZURE_CLIENT_SECRET": "s"},
            "OAuth",
            {
                f"fs.azure.account.oauth.provider.type.{AT}": f"{OAUTH}.MsiTokenProvider",
                f"fs.azure.account.oauth2.client.id.{AT}": "c",
            },
        ),
    ],
)
def test_hadoop_gets_the_same(
    given: dict[str, Any],
    environ: dict[str, str],
    kind: str,
    more: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = hadoop_settings(AzureSettings("acme", **given))
    assert found.items() >= {f"fs.azure.account.auth.type.{AT}": kind, **more}.items()
    assert [key for key in found if not key.endswith(AT)] == [COPIES]


def test_an_emulator_is_reached_by_its_blob_service_without_tls() -> None:
    found = hadoop_settings(AzureSettings("acme", "k", endpoint="http://h:1"))
    assert found["fs.azure.abfs.endpoint"] == "h:1"
    assert found["fs.azure.networking.library"] == "JDK_HTTP_URL_CONNECTION"
    assert found[f"fs.azure.account.hns.enabled.{AT}"] == "false"


def test_targets_name_the_destination() -> None:
    made = load_target(URI, {"access_key": KEY}, environ={})
    assert isinstance(made, DeltaLakeAzureConfig)
    assert made.mode == "append"
    both = {"delta_lake_s3": {"delta", "s3a"}, "delta_lake_azure": {"delta", "azure"}}
    assert {name: set(config_class(name).delta_jars) for name in both} == both


def test_delta_on_s3_takes_the_keys_of_files_on_s3() -> None:
    made = DeltaLakeS3Config(
        bucket="lake",
        object_key_path="/silver/",
        aws_access_key_id="AK",
        aws_secret_access_key="sk",
        aws_endpoint="http://h:9",
        mode="overwrite",
        partition_keys="a,b",
    )
    assert made.storage().hadoop_uri("t") == "s3a://lake/silver/t"
    assert made.storage().hadoop_settings()["fs.s3a.bucket.lake.secret.key"] == "sk"
    assert made.partition_keys == ("a", "b")


@pytest.mark.parametrize("bucket", ["Lake", "my_lake"])
def test_a_bucket_that_spark_can_not_name_is_refused(bucket: str) -> None:
    with pytest.raises(ConfigError, match="can't be reached by Spark"):
        DeltaLakeS3Config(bucket=bucket)


def test_a_role_is_assumed_at_aws_or_at_the_endpoint() -> None:
    role = "arn:aws:iam::123456789012:role/x"
    role_keys: dict[str, Any] = {"aws_access_key_id": "AK", "aws_secret_access_key": "sk"}
    role_keys["role_arn"] = role
    made = (
        DeltaLakeS3Config(bucket="lake", aws_region="eu-west-1", **role_keys)
        .storage()
        .hadoop_settings()
    )
    start = "fs.s3a.bucket.lake.assumed.role.sts.endpoint"
    assert (made[f"{start}.region"], start in made) == ("eu-west-1", False)
    place = "http://127.0.0.1:9000"
    made = (
        DeltaLakeS3Config(bucket="lake", aws_endpoint=place, **role_keys)
        .storage()
        .hadoop_settings()
    )
    assert made[start] == place


def test_a_signature_in_a_uri_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="table_uri") as caught:
        DeltaLakeAzureConfig(table_uri="https://acme.blob.core.windows.net/c/t?sv=1&sig=CANARY")
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(("name", "good"), [("a-b", True), ("ab", False), ("a--b", False)])
def test_names_of_containers(name: str, good: bool) -> None:
    uri = f"abfss://{name}@acme.dfs.core.windows.net/t"
    if good:
        assert DeltaLakeAzureConfig(table_uri=uri).storage().container == name
        return
    with pytest.raises(ConfigError, match="container's name"):
        DeltaLakeAzureConfig(table_uri=uri)


@pytest.mark.parametrize("deadline", [1, 5, 30, 120, 600])
def test_sparks_connector_asks_about_as_long_as_it_is_told_to(deadline: float) -> None:
    found = hadoop_settings(AzureSettings("lake", "a2V5", retry_policy=RetryPolicy(deadline)))

    def value(name: str) -> float:
        return float(found[f"fs.azure.{name}.lake.dfs.core.windows.net"])

    retries, longest = int(value("io.retry.max.retries")), value("io.retry.max.backoff.interval")
    first = value("io.retry.backoff.interval")
    waited = sum(min(longest, first * 2**number) for number in range(retries)) / 1000
    assert deadline * 0.75 <= waited <= deadline * 1.1
    assert value("http.read.timeout") / 1000 * (retries + 1) <= max(6, deadline * 1.2)
    assert float(found[COPIES]) / 1000 == deadline / 4
