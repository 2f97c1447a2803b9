"""Mage's templates in config values: `{{ env_var('X') }}` and what else stands in braces.

A value is rendered after the file is parsed, never the file's text: a password with quotes, colons
or hashes in it stays that password. The expressions are Jinja's, run in its sandbox; statements
(`{% if %}`) are refused. What can be called, as in Mage's block and `io_config.yaml` files:

| call | gives |
|---|---|
| `env_var('X')` | the environment variable X |
| `variables('x')` | the run's variable: LAKEPORT_VAR_X |
| `mage_secret_var('x')`, `aws_secret_var('x')`, `azure_secret_var('x')` | the secret: from |
| | LAKEPORT_SECRET_X, else from Mage itself where it is installed, else (AWS) by boto3 |
| `json_value(text, 'a.b')` | a value inside JSON text |
| `n_days_ago(3)` | the date three days ago in UTC, such as 2024-03-04 |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from lakeport.errors import ConfigError, MissingDependency

# Not `*+`, though nothing is to be tried again: Python before 3.11.5, as in Debian 12, fails at it.
_TEMPLATE = re.compile(r"""\{\{((?:'[^']*'|"[^"]*"|(?!\}\})[^'"])*)\}\}""")
_STATEMENT = re.compile(r"\{%-?\s*(if|for|set|macro|include|import|extends|block|raw|call)\b")
_LONG = 1 << 63
_HIGHEST_POWER = 64
_HIDDEN = re.compile(r"lakeport0template(\d+)0")
_MAGE_SECRETS = {
    "mage_secret_var": ("mage_ai.data_preparation.shared.secrets", "get_secret_value"),
    "aws_secret_var": ("mage_ai.services.aws.secrets_manager.secrets_manager", "get_secret"),
    "azure_secret_var": ("mage_ai.services.azure.key_vault.key_vault", "get_secret"),
}


def hide(text: str) -> tuple[str, list[str]]:
    """Put plain words in place of templates, so that a YAML parser takes them for text.

    Example:
        >>> hide("bucket: {{ env_var('BUCKET') }}")
        ('bucket: lakeport0template00', ["{{ env_var('BUCKET') }}"])
    """
    found: list[str] = []

    def replace(match: re.Match[str]) -> str:
        found.append(match[0])
        return f"lakeport0template{len(found) - 1}0"

    return _TEMPLATE.sub(replace, text), found


def restore(value: Any, templates: Sequence[str]) -> Any:
    """Put templates back into parsed values.

    Example:
        >>> restore({"a": ["x-lakeport0template00"]}, ["{{ 1 }}"])
        {'a': ['x-{{ 1 }}']}
    """
    if isinstance(value, dict):
        return {restore(key, templates): restore(item, templates) for key, item in value.items()}
    if isinstance(value, list):
        return [restore(item, templates) for item in value]
    if not isinstance(value, str):
        return value
    return _HIDDEN.sub(lambda match: templates[int(match[1])], value)


def shown(hidden: str, templates: Sequence[str], index: int) -> int:
    """Where a character of a text with hidden templates stands in the text that has them.

    Example:
        >>> hidden, templates = hide("{{ 1 }}: x")
        >>> shown(hidden, templates, hidden.index("x"))
        9
    """
    moved = 0
    for match in _HIDDEN.finditer(hidden) if templates else ():
        if match.start() >= index:
            break
        moved += len(templates[int(match[1])]) - len(match[0])
    return index + moved


def render(text: str, environ: Mapping[str, str], name: str, plain: Callable[[str], str]) -> Any:
    """Put values in place of the templates of one text.

    Args:
        text: the text.
        environ: the environment, in which expressions find their values.
        name: how errors call the file.
        plain: what is done with the text around the templates; results are left as they are.

    Returns:
        Text, or the value itself where the whole text is one template.

    Raises:
        ConfigError: something that is not set or not there, or an expression that is none.

    Example:
        >>> render("{{ env_var('HOME') }}/lake", {"HOME": "/home/ada"}, "lake.yaml", str)
        '/home/ada/lake'
    """
    statement = _STATEMENT.search(text)
    if statement:
        raise ConfigError(
            f"{name} has a template's statement, {statement[0]} … %}}",
            "only expressions are taken, such as {{ env_var('NAME') }}.",
        )
    if "{{" not in text:
        return plain(text)
    whole = _TEMPLATE.fullmatch(text.strip())
    if whole:
        return _value(whole[1], environ, name)
    parts, at = [], 0
    for match in _TEMPLATE.finditer(text):
        parts += [text[at : match.start()], str(_value(match[1], environ, name))]
        at = match.end()
    parts.append(text[at:])
    if any("{{" in part for part in parts[::2]):
        raise ConfigError(
            f"{name} has a template that does not end: {{{{ without }}}}",
            "write {{ '{{' }} for two braces that are meant as they are.",
        )
    return "".join(part if number % 2 else plain(part) for number, part in enumerate(parts))


def _value(expression: str, environ: Mapping[str, str], name: str) -> Any:
    """The value of one expression.

    Raises:
        ConfigError: in words without any value.
    """
    try:
        from jinja2 import StrictUndefined
        from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError
        from jinja2.sandbox import SandboxedEnvironment
    except ImportError:
        raise MissingDependency(
            f"{name} has templates, and Jinja2 is not installed", "pip install Jinja2"
        ) from None

    class Bounded(SandboxedEnvironment):
        """Its products and powers are those of small numbers, which take no time and no memory."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if not (_small(left) and _small(right, _HIGHEST_POWER if operator == "**" else _LONG)):
                raise SecurityError
            return super().call_binop(context, operator, left, right)

    class Unset(StrictUndefined):
        """What is not set: false, to be used with `or` and `default`, and an error elsewhere."""

        __slots__ = ()

        def __bool__(self) -> bool:  # type: ignore[override]
            return False

    shown = expression.strip()
    calls = _calls(environ, lambda text: Unset(hint=text))
    try:
        environment = Bounded(undefined=Unset)
        made = environment.compile_expression(shown, undefined_to_none=False)(calls)
        if isinstance(made, Unset):
            made._fail_with_undefined_error()
    except TemplateSyntaxError as error:
        problem = f"is no expression: {error.message}"
    except UndefinedError as error:
        problem = f"has no value: {error.message}"
    except SecurityError:
        problem = "is not allowed"
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.message}", error.hint) from None
    except Exception as error:  # of a filter or an operator; its words may quote a value
        problem = f"can't be computed ({type(error).__name__})"
    else:
        return made
    known = ", ".join(sorted(calls))
    raise ConfigError(
        f"{name}: {{{{ {shown} }}}} {problem}",
        f"set it, or write {{{{ … or 'default' }}}}; what can be called: {known}.",
    )


def _small(number: Any, bound: int = _LONG) -> bool:
    return isinstance(number, (int, float)) and abs(number) <= bound


def _calls(
    environ: Mapping[str, str], unset: Callable[[str], Any]
) -> dict[str, Callable[..., Any]]:
    """What an expression can call."""

    def env_var(variable: str, default: Any = None) -> Any:
        found = environ.get(variable, default)
        text = f"the environment variable {variable!r} is not set"
        return unset(text) if found is None else found

    def variables(variable: str) -> Any:
        other = _variable("LAKEPORT_VAR_", variable)
        found = environ.get(other)
        text = f"there is no variable {variable!r}: {other} is not set"
        return unset(text) if found is None else found

    def secret(kind: str) -> Callable[..., Any]:
        def call(secret_name: str, *rest: Any, **named: Any) -> Any:
            other = _variable("LAKEPORT_SECRET_", secret_name)
            if other in environ:
                return environ[other]
            found = _stored_secret(kind, secret_name, *rest, **named)
            text = f"there is no secret {secret_name!r}, and {other} is not set either"
            return unset(text) if found is None else found

        return call

    return {
        "env_var": env_var,
        "variables": variables,
        "json_value": _json_value,
        "n_days_ago": lambda days: (datetime.now(UTC) - timedelta(days=days)).date().isoformat(),
        **{kind: secret(kind) for kind in _MAGE_SECRETS},
    }


def _variable(prefix: str, name: str) -> str:
    return prefix + re.sub(r"\W", "_", name).upper()


def _stored_secret(kind: str, name: str, *rest: Any, **named: Any) -> Any:
    """A secret of Mage's own store or of a cloud's; None if there is none."""
    module, function = _MAGE_SECRETS[kind]
    try:
        return getattr(import_module(module), function)(name, *rest, **named)
    except ImportError:
        return _aws_secret(name) if kind == "aws_secret_var" else None


def _aws_secret(name: str) -> Any:
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return None
    try:
        found = boto3.client("secretsmanager").get_secret_value(SecretId=name)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code == "ResourceNotFoundException":
            return None
        raise ConfigError(
            f"AWS Secrets Manager refused the secret {name!r}: {code}",
            "it takes the permission secretsmanager:GetSecretValue.",
        ) from None
    except BotoCoreError as error:
        raise ConfigError(
            f"AWS Secrets Manager could not be asked for the secret {name!r}: {error}",
            "check AWS's credentials, AWS_REGION and the network.",
        ) from None
    return found.get("SecretString")


def _json_value(text: Any, path: str) -> Any:
    try:
        value = json.loads(text) if isinstance(text, (str, bytes)) else text
    except ValueError:
        raise ConfigError(
            "`json_value` was given text that is no JSON", "check the secret's or variable's text."
        ) from None
    for part in path.split("."):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            raise ConfigError(
                f"`json_value`: the JSON has no {path!r}",
                "write the names on the way to the value, with dots between them.",
            )
    return value
