"""References in config values: environment variables, files, and secrets of secret stores.

| reference | value |
|---|---|
| `${NAME}`, `${env:NAME}` | the environment variable |
| `${file:/run/secrets/db}` | the file's text, without the end of its last line |
| `${aws-secret:NAME}` | a secret in AWS Secrets Manager, by name or ARN |
| `${aws-ssm:/PATH/NAME}` | a parameter in AWS SSM Parameter Store, decrypted |
| `${gcp-secret:projects/PROJECT/secrets/NAME}` | a secret in Google Secret Manager |
| `${azure-secret:VAULT/NAME}` | a secret in Azure Key Vault, also by its URL |
| `${vault:PATH#FIELD}` | a field of a secret in HashiCorp Vault |

`#FIELD` takes one field of a secret that is a JSON object. Each store is asked by its own SDK,
which finds its credentials in the usual places. `scrub` masks what files and stores have given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lakeport.config.explain import did_you_mean
from lakeport.errors import ConfigError
from lakeport.host.packages import missing_extra_error
from lakeport.scrub import find_secret_arguments, mask_everywhere

REFERENCE = re.compile(r"\$(\$?)\{([^}]*)\}")
"""A reference in a text; its groups: a second `$`, which escapes it, and the text in braces."""

_GOOGLE = re.compile(r"projects/[^/]+/secrets/[^/]+(/versions/[^/]+)?")
_ABSENT = (
    "FileNotFoundError",
    "InvalidPath",
    "NotFound",
    "ParameterNotFound",
    "ParameterVersionNotFound",
    "ResourceNotFoundError",
    "ResourceNotFoundException",
)
_REFUSED = re.compile(
    "[Aa]uth|Access|Credential|Denied|Forbidden|Permission|RefreshError|Signature|Token|Unrecognized"
    "|HTTP 40[13]"
)


class _WrongFormError(Exception):
    """A reference's text does not name a secret as its store does."""


def _read_file(path: str) -> str:
    """Return a file's text without the end of its last line; OSError if it can't be read."""
    return Path(path).expanduser().read_text("utf-8").removesuffix("\n").removesuffix("\r")


def _fetch_aws_secret(name: str) -> str:
    """Return the text of a secret in AWS Secrets Manager, by name or ARN."""
    found = _aws_client("secretsmanager", name).get_secret_value(SecretId=name)
    return str(found.get("SecretString") or found["SecretBinary"].decode())


def _fetch_aws_parameter(name: str) -> str:
    """Return a decrypted parameter of AWS SSM Parameter Store, by name or ARN."""
    found = _aws_client("ssm", name).get_parameter(Name=name, WithDecryption=True)
    return str(found["Parameter"]["Value"])


def _aws_client(service: str, name: str) -> Any:
    """Return a client of an AWS service, in the region of an ARN, else in the usual one."""
    import boto3

    region = name.split(":")[3] if name.startswith("arn:") and name.count(":") > 3 else None
    return boto3.client(service, region_name=region)


def _fetch_google_secret(name: str) -> str:
    """Return the newest version of a secret in Google Secret Manager, or the one in its name."""
    if not _GOOGLE.fullmatch(name):
        raise _WrongFormError
    from google.cloud import secretmanager

    version = name if "/versions/" in name else f"{name}/versions/latest"
    answer = secretmanager.SecretManagerServiceClient().access_secret_version(name=version)
    return str(answer.payload.data.decode())


def _fetch_azure_secret(name: str) -> str:
    """Return a secret in Azure Key Vault: `VAULT/NAME`, `VAULT/NAME/VERSION`, or its URL."""
    vault, *path = name.removeprefix("https://").replace("/secrets/", "/", 1).split("/")
    if len(path) not in (1, 2) or not vault or not all(path):
        raise _WrongFormError
    from azure.identity import DefaultAzureCredential
    from azure.keyvault.secrets import SecretClient

    host = vault if "." in vault else f"{vault}.vault.azure.net"
    with DefaultAzureCredential() as key, SecretClient(f"https://{host}", key) as client:
        return str(client.get_secret(*path).value)


def _fetch_vault_secret(path: str) -> Any:
    """Return the fields of a secret in HashiCorp Vault, of either version of its key-value store.

    None if there is none.
    """
    import hvac

    found = hvac.Client(namespace=os.environ.get("VAULT_NAMESPACE")).read(path)
    fields = None if found is None else found["data"]
    return fields["data"] if fields and {"data", "metadata"} == fields.keys() else fields


class _Store(NamedTuple):
    """A kind of reference: its store's name, pip extra, form, permission and reader."""

    title: str
    extra: str
    form: str
    permission: str
    fetch: Callable[[str], Any]


_STORES = {
    "file": _Store("this machine", "", "/run/secrets/NAME", "to read the file", _read_file),
    "aws-secret": _Store(
        "AWS Secrets Manager",
        "aws-secrets",
        "NAME",
        "secretsmanager:GetSecretValue",
        _fetch_aws_secret,
    ),
    "aws-ssm": _Store(
        "AWS SSM Parameter Store",
        "aws-secrets",
        "/PATH/NAME",
        "ssm:GetParameter",
        _fetch_aws_parameter,
    ),
    "gcp-secret": _Store(
        "Google Secret Manager",
        "gcp-secrets",
        "projects/PROJECT/secrets/NAME",
        "secretmanager.versions.access",
        _fetch_google_secret,
    ),
    "azure-secret": _Store(
        "Azure Key Vault",
        "azure-secrets",
        "VAULT/NAME",
        "to get secrets (Key Vault Secrets User)",
        _fetch_azure_secret,
    ),
    "vault": _Store(
        "HashiCorp Vault",
        "vault",
        "secret/data/NAME#FIELD",
        "to read the path",
        _fetch_vault_secret,
    ),
}
_KINDS = ("env", *_STORES)


def is_reference(value: object) -> bool:
    """Whether a config value is nothing but one reference of a named kind.

    >>> is_reference("${file:/run/secrets/key}"), is_reference("${KEY}"), is_reference("key")
    (True, False, False)
    """
    found = REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return found is not None and not found[1] and found[2].partition(":")[0] in _KINDS


def resolve_reference(reference: str, environ: Mapping[str, str], name: str) -> str:
    """Return the value that a reference's text, without `${` and `}`, stands for.

    Errors name the file `name`, and never hold a value.

    Raises:
        ConfigError: the kind of reference is unknown, a variable or secret is missing, the store
            refuses or can't be reached, or the secret has no such field.
        MissingDependency: the store's SDK is not installed.

    Example:
        >>> resolve_reference("env:HOME", {"HOME": "/home/ada"}, "lake.yaml")
        '/home/ada'
    """
    kind, colon, rest = reference.partition(":")
    if not colon or kind == "env":
        variable = rest if colon else kind
        if variable not in environ:
            raise ConfigError(
                f"{name} uses the environment variable {variable!r}, which is not set",
                f"set {variable}, or write $${{ for a literal ${{.",
            )
        return environ[variable]
    if kind not in _STORES:
        raise ConfigError(
            f"{name} has a reference `${{{kind}:…}}`, which is of no kind that there is"
            f"{did_you_mean(kind, _KINDS)}",
            f"the kinds are {', '.join(_KINDS)}; write $${{ for a literal ${{.",
        )
    secret, _, field = rest.partition("#")
    try:
        found = fetch_secret(kind, secret)
    except ConfigError as error:
        raise type(error)(f"{name}: {error.message}", error.hint) from None
    if found is None:
        raise ConfigError(
            f"{name}: {_STORES[kind].title} has no secret {secret!r}",
            f"check its name, written like {_STORES[kind].form}, and of a cloud the account, "
            "region or project.",
        )
    where = f"{name}: the secret {secret!r}"
    text = _take_field(found, field, where) if field or isinstance(found, Mapping) else found
    value = text if isinstance(text, str) else json.dumps(text)
    for each in (value, *find_secret_arguments([value])):  # of JSON, also its members
        mask_everywhere(each)
    return value


def resolve_values(values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return keys that stand outside of files, with references of a named kind resolved.

    They are resolved in texts, and in mappings of texts such as `spark`. `${NAME}` stays.

    Raises:
        ConfigError: as for `resolve_reference`; it names `place` and the key.
    """

    def resolve(value: Any, key: str) -> Any:
        def replace(match: re.Match[str]) -> str:
            escaped, reference = match.groups()
            if reference.partition(":")[0] not in _KINDS or ":" not in reference:
                return match[0]
            if escaped:
                return match[0][1:]
            return resolve_reference(reference, os.environ, f"{place}, `{key}`")

        return REFERENCE.sub(replace, value) if isinstance(value, str) else value

    return {
        key: {name: resolve(each, f"{key}.{name}") for name, each in value.items()}
        if isinstance(value, dict)
        else resolve(value, key)
        for key, value in values.items()
    }


def fetch_secret(kind: str, secret: str) -> Any:
    """Fetch a secret from a store: its text, or fields of Vault's; None if there is none.

    Raises:
        ConfigError: the store refuses, can't be reached, or knows no name of such a form.
        MissingDependency: the store's SDK is not installed.
    """
    store = _STORES[kind]
    try:
        if not secret.strip():
            raise _WrongFormError
        return store.fetch(secret)
    except ImportError:
        raise missing_extra_error(
            f"the SDK for secrets in {store.title} is not installed", store.extra
        ) from None
    except _WrongFormError:
        raise ConfigError(
            f"{store.title} has no secret of a name like {secret!r}",
            f"write ${{{kind}:{store.form}}}.",
        ) from None
    except Exception as error:  # of the SDK's own classes, whose messages may hold anything
        code = _error_code(error)
    if code in _ABSENT:
        return None
    if _REFUSED.search(code):
        raise ConfigError(
            f"{store.title} refused the secret {secret!r}: {code}",
            f"it takes credentials from the usual places, with the permission {store.permission}.",
        )
    raise ConfigError(
        f"{store.title} could not be asked for the secret {secret!r}: {code}",
        "check the credentials, the region or address, and the network.",
    )


def _error_code(error: Exception) -> str:
    """Return an SDK's code of an error, else the error's class, with a status of HTTP."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore's
        return str(response.get("Error", {}).get("Code", "")) or type(error).__name__
    status = getattr(error, "status_code", None)
    return type(error).__name__ + (f" (HTTP {status})" if status in (401, 403) else "")


def _take_field(found: Any, field: str, where: str) -> Any:
    """Return a field of a secret, or its only one for ""; ConfigError if there is no such."""
    try:
        fields = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        fields = None
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{where} has no fields: it is no JSON object", f"leave #{field} out.")
    if not field and len(fields) == 1:
        return next(iter(fields.values()))
    if field not in fields:
        problem = f"has no field {field!r}" if field else "has several fields"
        names = ", ".join(map(repr, fields)) or "none"
        raise ConfigError(f"{where} {problem}", f"write #FIELD behind its name; it has {names}.")
    return fields[field]
