"""Reader of a `security` section: how the brokers of a source or a topic sink are reached.

Like every reader, it records problems and continues with harmless values. Passwords are references.
"""

from __future__ import annotations

import os
import re

from josefine_broker.client.security import parse_security
from pipelines.config.loader import Scalar
from pipelines.config.section import Reader
from pipelines.model.security import NAMES, in_words

_FILES = ("ca", "certificate", "key")
_PASSWORDS = ("password", "key_password")
_ELSEWHERE = "expected ${secret:env:NAME}, ${secret:file:/path}, file:/path or env:NAME"
_UNKNOWN = "env:UNKNOWN"
"""Placeholder of a value that is not known: every check accepts it."""


def settings_of(reader: Reader) -> dict[str, str]:
    """A client's settings by name, as far as they are known; empty: plaintext."""
    own = reader.section_of("security")
    if own is None:
        return {}
    said = {word: _value(own, word) for word in NAMES}
    found = {NAMES[word]: value for word, value in said.items() if value is not None}
    _judge(own, found)
    return found


def _value(own: Reader, word: str) -> str | None:
    if word in ("protocol", "mechanism"):
        return own.choice(word)
    if word == "verify_host":
        known = own.flag(word)
        return None if not own.has(word) else ("https" if known else "none")
    text = own.text(word)
    if text is None:
        return None
    if word in _PASSWORDS and not _is_elsewhere(own, word, text):
        own.wrong_at(word, f"a password must not be in this file: {_ELSEWHERE}")
        return _UNKNOWN
    return os.path.abspath(text) if word in _FILES else text


def _is_elsewhere(own: Reader, word: str, text: str) -> bool:
    node = own.table.nodes[word]
    by_reference = isinstance(node, Scalar) and node.is_secret
    return by_reference or re.match(r"(file|env):", text) is not None


def _judge(own: Reader, found: dict[str, str]) -> None:
    """Record what a client would refuse, if the keywords that decide it are known."""
    nodes = own.table.nodes
    there = {word: node for word, node in nodes.items() if isinstance(node, Scalar)}
    unknown = [word for word in NAMES if word in there and there[word].is_unknown]
    wrong = [w for w in ("protocol", "mechanism") if w in nodes and NAMES[w] not in found]
    if "protocol" not in nodes or wrong:
        return  # recorded already, or not known
    try:
        parse_security(found | {NAMES[word]: _UNKNOWN for word in unknown})
    except ValueError as error:
        name, _, why = str(error).partition(": ")
        word = next((each for each, its in NAMES.items() if its == name), "protocol")
        if word in nodes:
            own.wrong_at(word, in_words(why))
        else:
            own.missing(word)
