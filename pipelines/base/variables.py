"""Variable substitution: `${VAR}`, `${VAR:-default}` and `${secret:...}` in a text.

Names are looked up in the file's `vars`, then the pipeline's `name`, then the environment; as in a
shell, `:-` also replaces an empty value. `$${` is a literal `${`. There is no templating.

A secret is read only when a run needs it: `${secret:env:NAME}` and `${secret:file:/path}`, or
`${secret:file:/path#key}` for the line `key=value` of that file. Its value is remembered, so that
output can mask it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_SECRET = re.compile(r"secret:(?:env:([A-Za-z_][A-Za-z0-9_]*)|file:([^#]+)(?:#(.+))?)")
_SECRET_FORMS = "${secret:env:NAME}, ${secret:file:/path} or ${secret:file:/path#key}"
HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Gap:
    """A reference without a value, at `index` of the text. Without a message it is not an error."""

    index: int
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A text after the replacement. `is_unknown`: some value is missing or must not be read."""

    text: str
    gaps: tuple[Gap, ...] = ()
    is_secret: bool = False

    @property
    def is_unknown(self) -> bool:
        return bool(self.gaps)


@dataclass(slots=True, kw_only=True)
class Variables:
    """The names of one file. Grows while the file's own `vars` are read.

    `with_secrets`: read them; otherwise a text with a secret is unknown. `must_exist`: a missing
    variable is an error; otherwise its text is only unknown.
    """

    env: Mapping[str, str]
    with_secrets: bool = True
    must_exist: bool = True
    own: dict[str, Replaced] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set, repr=False)

    def replaced(self, text: str) -> Replaced:
        """The text with every reference replaced, and the references without a value."""
        if "${" not in text:
            return Replaced(text=text)
        parts: list[str] = []
        gaps: list[Gap] = []
        is_secret = False
        at = 0
        for match in REFERENCE.finditer(text):
            parts.append(text[at : match.start()])
            at = match.end()
            if match[1] is None:
                parts.append("${")
                continue
            found = (
                self._look_up(match[1])
                if match[2]
                else f"${{{match[1]}: no }} ends it; $${{ is a literal ${{"
            )
            is_secret |= isinstance(found, Replaced) and found.is_secret
            if isinstance(found, Replaced) and not found.is_unknown:
                parts.append(found.text)
            else:
                told = found if isinstance(found, str) else None
                gaps.append(Gap(match.start(), told))
        whole = "".join(parts) + text[at:] if parts else text
        return Replaced(text=whole, gaps=tuple(gaps), is_secret=is_secret)

    def hidden(self, text: str) -> str:
        """The text with the value of every secret that was read masked."""
        return hidden(text, self.secrets)

    def _look_up(self, reference: str) -> Replaced | str:
        """The value of a reference, or why there is none."""
        if reference.startswith("secret:"):
            return self._secret(reference)
        match = _NAME.fullmatch(reference)
        if match is None:
            return f"${{{reference}}}: expected ${{NAME}} or ${{NAME:-default}}"
        name, default = match[1], match[2]
        if default and "${" in default:
            return f"${{{reference}}}: a default is plain text: name what it refers to in `vars`"
        own = self.own.get(name)
        if own is not None and (own.text or own.is_unknown or default is None):
            return own
        if self.env.get(name) or (default is None and name in self.env):
            return Replaced(text=self.env[name])
        if default is not None:
            return Replaced(text=default)
        if not self.must_exist:
            return Replaced(text="", gaps=(Gap(0, None),))
        return (
            f"${{{name}}}: neither in `vars` nor in the environment, and without a default "
            f"(${{{name}:-…}})"
        )

    def _secret(self, reference: str) -> Replaced | str:
        match = _SECRET.fullmatch(reference)
        if match is None:
            return f"${{{reference}}}: expected {_SECRET_FORMS}"
        if not self.with_secrets:
            return Replaced(text="", gaps=(Gap(0, None),), is_secret=True)
        name, file, key = match[1], match[2], match[3]
        value, why = self._in_environment(name) if name else _in_file(file, key)
        if not value:
            return f"${{{reference}}}: {why}"
        self.secrets.add(value)
        return Replaced(text=value, is_secret=True)

    def _in_environment(self, name: str) -> tuple[str, str]:
        value = self.env.get(name, "")
        return value, f"`{name}` is {'empty' if name in self.env else 'not'} in the environment"


def hidden(text: str, secrets: set[str] | frozenset[str]) -> str:
    """The text with `***` for every secret in it, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def is_one_reference(text: str) -> bool:
    """Whether a text is one variable and nothing else."""
    match = REFERENCE.fullmatch(text)
    return match is not None and match[1] is not None and bool(match[2])


def _in_file(file: str, key: str | None) -> tuple[str, str]:
    """(value, "") or ("", why there is none). Never returns other content of the file."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return "", (error.strerror or "cannot be read") if isinstance(
            error, OSError
        ) else "not UTF-8 text"
    if key is None:
        return text.rstrip("\r\n"), "the file is empty"
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() == key:
            return value.strip(), f"`{key}` is empty in the file"
    return "", f"no line `{key}=...` in the file"
