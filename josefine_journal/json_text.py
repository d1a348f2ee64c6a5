"""JSON encoding of the journal: compact, UTF-8, no NaN; errors are JournalError."""

import json
from typing import Any

from josefine_journal.errors import JournalError


def compact(value: object) -> str:
    """Without spaces, non-ASCII characters unescaped. Raises JournalError for values that JSON
    cannot represent."""
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"not representable as JSON: {error}") from error
    return text


def parse(text: bytes | str, what: str) -> Any:
    """Any JSON value; `what` names it in the error. Raises JournalError."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:  # also for invalid UTF-8
        raise JournalError(f"{what} is not valid JSON: {error}") from error


def parse_object(text: bytes | str, what: str) -> dict[str, Any]:
    """A JSON object. Raises JournalError."""
    value = parse(text, what)
    if not isinstance(value, dict):
        raise JournalError(f"{what} is not a JSON object")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
