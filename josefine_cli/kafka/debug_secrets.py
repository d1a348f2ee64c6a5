"""Secrets in a debug bundle: they are masked, and a part that still has one is refused. Pure.

Known secrets are those of the client's settings, of variables whose names are those of secrets, and
what files and references of secrets contain. Unknown ones are found by their form: the value of a
key that names a secret, a private key in PEM, the login in a URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from josefine_broker.base.security import parse_secret_place

MASK = "***"
MASKED_LENGTH_MIN = 4
"""A shorter secret is masked only as a whole word: it would be a part of most texts."""

VARIABLE_LENGTH_MIN = 6

NAMES_SECRET = re.compile(r"(?i)(passw|secret|token|credential|api_?key|jaas|authorization)")
"""What is in the name of a key or variable whose value is a secret."""

_REFERENCE = re.compile(r"(file|env):\S+|\$\{[^}]*\}")
_ASSIGNED = re.compile(
    r"""(?ix)
    (?P<name> [\w.\-]* (?:passw|secret|token|credential|api_?key|jaas|authorization) [\w.\-]*
      ["']? \s* [:=] \s* )
    (?P<value> "(?:[^"\\]|\\.)*" | '[^']*' | (?:basic|bearer)\s+\S+ | [^\s,;}\]]+ )
    """
)
_LINE = re.compile(
    r"""(?imx) ^ (?P<name> \s* [\w.\-]* (?:passw|secret|token|credential|jaas) [\w.\-]*
    \s* [:=] \s* ) (?P<value> [^"'\s\[{] .*) $"""
)
"""A line of a configuration: a secret without quotes may have spaces."""
_COUNTED = re.compile(r"(?i)token|credential|key")
"""Names whose numbers are counts, such as those of metrics."""
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_URL_LOGIN = re.compile(r"(?P<scheme>\w+://[^\s/:@]+:)[^\s/@]+@")
_PLAIN_VALUES = frozenset(("null", "none", "true", "false", "-", "~", MASK))


class SecretFoundError(ValueError):
    """A part of the bundle has a secret that cannot be masked."""


def known_secrets(settings: Mapping[str, str], env: Mapping[str, str]) -> frozenset[str]:
    """The secrets of a client's settings and of the environment, with what references lead to."""
    found: set[str] = set()
    named = {**settings, **env}
    for name, value in named.items():
        # A variable may be a switch or a count; a client's setting is a secret at any length.
        is_long = name in settings or len(value) >= VARIABLE_LENGTH_MIN
        if NAMES_SECRET.search(name) and value and is_long:
            found |= _resolved(value, env)
    return frozenset(each for each in found if each.lower() not in _PLAIN_VALUES)


def _resolved(value: str, env: Mapping[str, str]) -> set[str]:
    """The secret itself, or what a reference to one leads to."""
    if not _REFERENCE.fullmatch(value):
        return {value}
    try:
        return {parse_secret_place(value).read(env).strip()} - {""}
    except ValueError:
        return set()  # it leads to nothing here


def masked(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets and without values that are secrets by their keys."""
    # The longest first: one secret may be a part of another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = _pattern(secret).sub(MASK, text)
    text = _URL_LOGIN.sub(rf"\g<scheme>{MASK}@", text)
    return _ASSIGNED.sub(_masked_value, _LINE.sub(_masked_value, text))


def _masked_value(found: re.Match[str]) -> str:
    value = found["value"]
    bare = value.strip("\"'")
    first = bare.split(maxsplit=1)[0] if bare.split() else ""
    if _REFERENCE.fullmatch(first) or bare.lower() in _PLAIN_VALUES:
        return found[0]
    if _is_number(bare) and _COUNTED.search(found["name"]):
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['name']}{quote}{MASK}{quote}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[\d.]+(?:e[+-]?\d+)?", text, re.IGNORECASE) is not None


def without_secrets(value: Any) -> Any:
    """A configuration's values, those of secret keys masked unless they are references."""
    if isinstance(value, Mapping):
        return {
            name: MASK if _is_secret(str(name), each) else without_secrets(each)
            for name, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_secrets(each) for each in value]
    return value


def _is_secret(name: str, value: Any) -> bool:
    is_text = isinstance(value, str) and value != ""
    return bool(NAMES_SECRET.search(name)) and is_text and not _REFERENCE.fullmatch(value)


def refuse_secrets(name: str, text: str, secrets: Iterable[str]) -> None:
    """Raise SecretFoundError, without the secret, if a part's name or text still has one."""
    if _PRIVATE_KEY.search(text):
        raise SecretFoundError(f"{name}: it has a private key in PEM")
    for secret in secrets:
        if _pattern(secret).search(text) or _pattern(secret).search(name):
            raise SecretFoundError(f"{masked(name, [secret])}: it has a secret that stays in it")


def _pattern(secret: str) -> re.Pattern[str]:
    exact = re.escape(secret)
    if len(secret) < MASKED_LENGTH_MIN:
        return re.compile(rf"(?<!\w){exact}(?!\w)")
    return re.compile(exact)
