"""Mage's templates in config values: `{{ env_var('X') }}` and other expressions in braces.

Values are rendered after the file is parsed, so that a password may have quotes, colons or hashes.
The expressions are Jinja's, run in its sandbox; statements (`{% if %}`) are refused. These
functions exist, as in Mage's block and `io_config.yaml` files:

| call | returns |
|---|---|
| `env_var('X')` | the environment variable X |
| `variables('x')` | the run's variable: LAKEPORT_VAR_X |
| `mage_secret_var('x')`, `aws_secret_var('x')`, `azure_secret_var('x')` | the secret: |
| | LAKEPORT_SECRET_X, else from Mage if it is installed, else (AWS) from boto3 |
| `json_value(text, 'a.b')` | a value inside JSON text |
| `n_days_ago(3)` | the date three days ago in UTC, such as 2024-03-04 |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from lakeport.config.references import fetch_secret
from lakeport.errors import ConfigError, MissingDependency
from lakeport.scrub import mask_everywhere

# Not the possessive `*+`, which Python before 3.11.5, as in Debian 12, gets wrong.
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
    """Replace Mage's `{{ }}` templates by placeholder words; return the text and the templates.

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
    """Replace placeholders by their templates in nested values and keys.

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


def index_with_templates(hidden: str, templates: Sequence[str], index: int) -> int:
    """Convert an index in text with placeholders to one in the original text.

    Example:
        >>> hidden, templates = hide("{{ 1 }}: x")
        >>> index_with_templates(hidden, templates, hidden.index("x"))
        9
    """
    moved = 0
    for match in _HIDDEN.finditer(hidden) if templates else ():
        if match.start() >= index:
            break
        moved += len(templates[int(match[1])]) - len(match[0])
    return index + moved


def render(
    text: str, environ: Mapping[str, str], name: str, convert_plain: Callable[[str], str]
) -> Any:
    """Evaluate the templates in a text; for a lone template, return its value, of any type.

    `convert_plain` is applied to the text around the templates, but not to their values. Errors
    name the file `name`.

    Raises:
        ConfigError: a variable or secret is not set, or an expression is wrong.

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
        return convert_plain(text)
    whole = _TEMPLATE.fullmatch(text.strip())
    if whole:
        return _evaluate(whole[1], environ, name)
    parts, start = [], 0
    for match in _TEMPLATE.finditer(text):
        parts += [text[start : match.start()], str(_evaluate(match[1], environ, name))]
        start = match.end()
    parts.append(text[start:])
    if any("{{" in part for part in parts[::2]):
        raise ConfigError(
            f"{name} has a template that does not end: {{{{ without }}}}",
            "write {{ '{{' }} for two braces that are meant as they are.",
        )
    return "".join(part if number % 2 else convert_plain(part) for number, part in enumerate(parts))


def _evaluate(expression: str, environ: Mapping[str, str], name: str) -> Any:
    """Evaluate an expression in Jinja's sandbox; ConfigError, without values, if it fails."""
    from jinja2 import StrictUndefined
    from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError
    from jinja2.sandbox import SandboxedEnvironment

    class BoundedEnvironment(SandboxedEnvironment):
        """A sandbox that multiplies small numbers only: large products would take all memory."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            bound = _HIGHEST_POWER if operator == "**" else _LONG
            if not (_is_small(left) and _is_small(right, bound)):
                raise SecurityError
            return super().call_binop(context, operator, left, right)

    class Unset(StrictUndefined):
        """An unset value: false for `or` and `default`, an error everywhere else."""

        __slots__ = ()

        def __bool__(self) -> bool:  # type: ignore[override]
            return False

    source = expression.strip()
    functions = _make_functions(environ, lambda text: Unset(hint=text))
    try:
        environment = BoundedEnvironment(undefined=Unset)
        value = environment.compile_expression(source, undefined_to_none=False)(functions)
        if isinstance(value, Unset):
            value._fail_with_undefined_error()
    except TemplateSyntaxError as error:
        problem = f"is no expression: {error.message}"
    except UndefinedError as error:
        problem = f"has no value: {error.message}"
    except SecurityError:
        problem = "is not allowed"
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.message}", error.hint) from None
    except Exception as error:  # from a filter or an operator; its message may quote a value
        problem = f"can't be computed ({type(error).__name__})"
    else:
        return value
    known = ", ".join(sorted(functions))
    raise ConfigError(
        f"{name}: {{{{ {source} }}}} {problem}",
        f"set it, or write {{{{ … or 'default' }}}}; what can be called: {known}.",
    )


def _is_small(number: Any, bound: int = _LONG) -> bool:
    """Whether a value is a number of at most `bound`, in size."""
    return isinstance(number, (int, float)) and abs(number) <= bound


def _make_functions(
    environ: Mapping[str, str], unset: Callable[[str], Any]
) -> dict[str, Callable[..., Any]]:
    """Return the functions for template expressions; `unset` makes the value of a missing name."""

    def env_var(variable: str, default: Any = None) -> Any:
        found = environ.get(variable, default)
        text = f"the environment variable {variable!r} is not set"
        return unset(text) if found is None else found

    def variables(variable: str) -> Any:
        other = _variable_name("LAKEPORT_VAR_", variable)
        found = environ.get(other)
        text = f"there is no variable {variable!r}: {other} is not set"
        return unset(text) if found is None else found

    def secret(kind: str) -> Callable[..., Any]:
        def call(secret_name: str, *rest: Any, **named: Any) -> Any:
            other = _variable_name("LAKEPORT_SECRET_", secret_name)
            if other in environ:
                return environ[other]
            found = _fetch_secret(kind, secret_name, *rest, **named)
            if isinstance(found, str):
                mask_everywhere(found)
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


def _variable_name(prefix: str, name: str) -> str:
    """Return the environment variable for a name: `my-key` -> `<prefix>MY_KEY`."""
    return prefix + re.sub(r"\W", "_", name).upper()


def _fetch_secret(kind: str, name: str, *rest: Any, **named: Any) -> Any:
    """Fetch a secret with Mage's function, else from AWS with boto3; None if absent."""
    module, function = _MAGE_SECRETS[kind]
    try:
        return getattr(import_module(module), function)(name, *rest, **named)
    except ImportError:
        if kind != "aws_secret_var":
            return None
    with suppress(MissingDependency):
        return fetch_secret("aws-secret", name)
    return None


def _json_value(text: Any, path: str) -> Any:
    """Return the value at a dotted path in JSON text; raise ConfigError if there is none."""
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
