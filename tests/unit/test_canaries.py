"""Canary secrets through every way in, and the ways that words get out: none of them shows one."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakeport.cli.app import main
from lakeport.destinations import open_storage
from lakeport.engine.failures import translate
from lakeport.errors import ConfigError, LakeportError
from tests.echo_store import TOKEN, EchoStore
from tests.unit.config.kit import load_target

ID = "AKIA" + "CANARY0123456789"
SECRET = "canary/" + "of+the/secret/0123456789=="
SESSION = "canary/" + "of+the/session+token=="
EXTERNAL = "canary-of-the-role"
ACCOUNT_KEY = base64.b64encode(b"canary of the account or of SSE-C").decode()
SIGNATURE = "canary+of/the+signature="
KEY_ID = "canary0of0the0key0id"
PEM = (
    rsa.generate_private_key(public_exponent=65537, key_size=2048)
    .private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    .decode()
)
PLAIN = [ID, SECRET, SESSION, EXTERNAL, ACCOUNT_KEY, SIGNATURE, KEY_ID, TOKEN, PEM]
FORMS = {
    form
    for text in PLAIN
    for form in (
        text,
        quote(text, safe=""),
        quote(text, safe="").lower(),
        base64.b64encode(text.encode()).decode().rstrip("="),
        json.dumps(text)[1:-1],
    )
} | {PEM.splitlines()[1], SECRET.partition("/")[2]}

AZURE = {
    "destination": "delta_lake_azure",
    "table_uri": "abfss://lake@acct1.dfs.core.windows.net/t",
}
S3 = {
    "destination": "amazon_s3",
    "bucket": "lake",
    "aws_region": "us-east-1",
    "aws_access_key_id": ID,
    "aws_secret_access_key": SECRET,
}


def google_key(endpoint: str) -> dict[str, str]:
    return {
        "type": "service_account",
        "client_email": "a@b.c",
        "token_uri": f"{endpoint}/token",
        "private_key": PEM,
        "private_key_id": KEY_ID,
    }


CONFIGS: dict[str, Callable[[str], dict[str, Any]]] = {
    "s3": lambda url: {**S3, "aws_endpoint": url, "aws_session_token": SESSION},
    "s3 role": lambda url: {
        **S3,
        "aws_endpoint": url,
        "role_arn": "arn:aws:iam::123456789012:role/x",
        "external_id": EXTERNAL,
    },
    "azure key": lambda url: {**AZURE, "azure_endpoint": url, "access_key": ACCOUNT_KEY},
    "azure sas": lambda url: {
        **AZURE,
        "azure_endpoint": url,
        "sas_token": f"sv=2024-01-01&sp=rw&sig={quote(SIGNATURE, safe='')}",
    },
    "google": lambda url: {
        "destination": "google_cloud_storage",
        "bucket": "lake",
        "google_endpoint": url,
        "google_application_credentials": google_key(url),
    },
}
each_config = pytest.mark.parametrize("made", CONFIGS.values(), ids=CONFIGS)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def store() -> Iterator[EchoStore]:
    with EchoStore() as server:
        yield server


def told(error: BaseException) -> str:
    """Whatever an error shows to who prints it, its traceback and causes included."""
    shown = [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
    return "\n".join(shown)


def leaks(text: str) -> list[str]:
    """The canaries that the text holds."""
    return sorted(form for form in FORMS if form in text)


def write(path: Path, values: object) -> str:
    path.write_text(json.dumps(values))
    path.chmod(0o600)
    return str(path)


@each_config
@pytest.mark.parametrize("given", ["python", "file", "environment", "template"])
def test_a_config_shows_none(
    made: Callable[[str], dict[str, Any]], given: str, tmp_path: Path
) -> None:
    keys = made("http://127.0.0.1:9")
    environ = {}
    if given == "environment":
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in keys.items()}
        environ = {f"LAKEPORT_{key.upper()}": text for key, text in texts.items()}
        keys = {"destination": environ.pop("LAKEPORT_DESTINATION")}
    elif given == "template":
        environ = {f"X_{key}": text for key, text in keys.items() if isinstance(text, str)}
        keys |= {key[2:]: f"{{{{ env_var('{key}') }}}}" for key in environ}
    to = keys if given in ("python", "environment") else write(tmp_path / "c.json", keys)
    config = load_target(to, environ=environ)
    storage = open_storage(config)
    shown = [repr(config), str(config), f"{config}", config.model_dump_json(), *config.warnings]
    shown += [repr(storage), repr(getattr(storage, "settings", "")), repr(vars(config))]
    assert config.secrets()
    assert leaks("\n".join(shown)) == []


@each_config
@pytest.mark.parametrize(
    ("code", "status"),
    [("AccessDenied", 403), ("AuthenticationFailed", 401), ("NoSuchBucket", 404), ("Odd", 400)],
)
def test_the_words_of_a_store_show_none(
    store: EchoStore, made: Callable[[str], dict[str, Any]], code: str, status: int
) -> None:
    store.code, store.status = code, status
    before = store.requests
    storage = open_storage(load_target(made(store.endpoint), environ={}))
    acts: list[Callable[[], object]] = [
        lambda: storage.get("a/b"),
        lambda: storage.put("a/b", b"x", create_only=True),
        lambda: list(storage.list("a")),
        lambda: storage.open("a/b").read(),
        lambda: storage.stage("a/b", "text/plain").finish(),
    ]
    for act in acts:
        try:
            act()
        except LakeportError as error:
            assert leaks(told(error)) == []
    assert store.requests > before


@each_config
@pytest.mark.parametrize("flags", [["--debug"], ["--json"]], ids=str)
def test_a_failed_check_shows_none(
    store: EchoStore,
    made: Callable[[str], dict[str, Any]],
    flags: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = made(store.endpoint)
    if keys["destination"].startswith("delta"):
        keys["table_uri"] = "abfss://"  # else Spark would start; so it is an error of the config
    store.code, store.status = "AccessDenied", 403
    assert main(["check", "--to", write(tmp_path / "c.json", keys), *flags]) in (2, 5)
    out, err = capsys.readouterr()
    assert leaks(out + err) == []
    assert out + err


WRONG: dict[str, Mapping[str, Any]] = {
    "a key with a typing error": {**S3, "aws_secret_acces_key": SECRET},
    "a list": {**S3, "aws_secret_access_key": [SECRET]},
    "one of two": {"destination": "amazon_s3", "bucket": "lake", "aws_secret_access_key": SECRET},
    "an endpoint": {**S3, "aws_endpoint": f"https://{ID}:{SECRET}@host:9000"},
    "an endpoint's query": {**S3, "aws_endpoint": f"https://h/?X-Amz-Security-Token={SESSION}"},
    "a bucket": {**S3, "bucket": f"s3://{ID}:{SECRET}@lake"},
    "a bucket without a scheme": {**S3, "bucket": f"{ID}:{SECRET}@lake"},
    "a secret as region": {**S3, "aws_region": ACCOUNT_KEY},
    "a customer's key as algorithm": {**S3, "sse": ACCOUNT_KEY},
    "a customer's key": {**S3, "sse": "SSE-C", "sse_customer_key": ACCOUNT_KEY},
    "a customer's key for Spark": {
        **S3,
        "destination": "delta_lake_s3",
        "spark": {"spark.hadoop.fs.s3a.encryption.key": ACCOUNT_KEY, "x": [1]},
    },
    "metadata": {**S3, "object_metadata": json.dumps({"k": [ACCOUNT_KEY]})},
    "tags": {**S3, "object_tags": json.dumps({"k": [ACCOUNT_KEY]})},
    "constants": {**S3, "constant_columns": json.dumps({"k": [SECRET]})},
    "settings": {**S3, "spark": f"{{'fs.s3a.secret.key': '{SECRET}'}}"},
    "properties": {
        **S3,
        "destination": "delta_lake_s3",
        "table_properties": {"fs.s3a.secret.key": SECRET},
    },
    "an account's key": {**AZURE, "access_key": f"{ACCOUNT_KEY}!"},
    "a connection string": {**AZURE, "access_key": f"AccountName=a;AccountKey={ACCOUNT_KEY};"},
    "an account": {**AZURE, "account_name": ACCOUNT_KEY},
    "a table's URI": {**AZURE, "table_uri": f"{AZURE['table_uri']}?sig={SIGNATURE}"},
    "a signature": {**AZURE, "sas_token": SIGNATURE},
    "a key file's text": {
        "destination": "google_cloud_storage",
        "bucket": "lake",
        "google_application_credentials": "{" + PEM,
        "mode": "none",
    },
    "two ways in": {**AZURE, "access_key": ACCOUNT_KEY, "sas_token": f"sig={SIGNATURE}"},
}


@pytest.mark.parametrize("keys", WRONG.values(), ids=WRONG)
def test_a_wrong_config_shows_none(
    keys: Mapping[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_target(keys, environ={})
    assert leaks(told(caught.value)) == []
    path = write(tmp_path / "c.json", keys)
    for flags in ([], ["--debug"], ["--json", "--debug"]):
        assert main(["plan", "none.csv", "--to", path, *flags]) == 2
        out, err = capsys.readouterr()
        assert leaks(out + err) == []


@pytest.mark.parametrize(
    "uri",
    [
        f"s3://{ID}:{SECRET}@lake/x",
        f"postgres://user:{SECRET}@host/db",
        f"abfss://lake@acct1.dfs.core.windows.net/t?sig={SIGNATURE}",
        f"gs://lake/x?access_token={TOKEN}",
        f"https://acct1.blob.core.windows.net/lake?sv=1&sig={quote(SIGNATURE)}",
    ],
)
@pytest.mark.parametrize("command", ["plan none.csv --to", "table show", "plan --to lake"])
def test_a_target_with_credentials_in_it_shows_none(
    uri: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags in ([], ["--debug"]):
        assert main([*command.split(), uri, *flags]) != 0
        out, err = capsys.readouterr()
        assert leaks(out + err) == []


def test_a_secret_that_a_limit_would_cut_is_masked_whole(store: EchoStore) -> None:
    class Said(Exception):
        _desc = "x" * 390 + SECRET
        _stackTrace = ""

    assert SECRET[:7] not in str(translate(Said(), [SECRET]))
    store.code, store.status = "AccessDenied", 403
    storage = open_storage(load_target(CONFIGS["s3"](store.endpoint), environ={}))
    for length in range(300, 480, 20):  # moves the token across the place where words are cut
        with pytest.raises(LakeportError) as caught:
            storage.get("k" * length)
        assert SESSION[:12] not in str(caught.value)


def test_errors_mask_what_looks_like_a_credential() -> None:
    error = ConfigError(f"https://u:{SECRET}@host?sig={SIGNATURE} Authorization: Bearer {TOKEN}")
    assert leaks(told(error)) == []
