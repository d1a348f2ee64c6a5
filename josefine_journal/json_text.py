"""JSON as the journal writes it (compact, UTF-8, no NaN) and reads it (with one kind of error)."""

import json
from typing import Any

from josefine_journal.errors import JournalError


def compact(value: object) -> str:
    """Without a blank, characters as they are. Raises JournalError for what JSON cannot say."""
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"no JSON: {error}") from error
    return text


def parse(text: bytes | str, what: str) -> Any:
    """Any JSON value; `what` names it in the error. Raises JournalError."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:  # of UTF-8 too
        raise JournalError(f"{what} is no JSON: {error}") from error


def parse_object(text: bytes | str, what: str) -> dict[str, Any]:
    """A JSON object. Raises JournalError."""
    value = parse(text, what)
    if not isinstance(value, dict):
        raise JournalError(f"{what} is no JSON object")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
