"""A finding of `pipeline check`: one line with a level and a fix. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError

OK, WARNING, ERROR, SKIPPED = "ok", "warning", "error", "skipped"

ABSENT, FORBIDDEN = "absent", "forbidden"
"""Why a topic cannot be used; any other text is the broker's own reason."""

TROUBLES: Mapping[ErrorCode, str] = {
    ErrorCode.unknown_topic_or_partition: ABSENT,
    ErrorCode.topic_authorization_failed: FORBIDDEN,
}


class Finding(NamedTuple):
    """`level` is ok, warning, error or skipped; `mend` is the fix, "" if there is nothing to do."""

    level: str
    what: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.what}" + (f"; {self.mend}" if self.mend else "")


def reason_of(error: Exception) -> str:
    """The broker's message of an error, if there is one."""
    return error.message or error.code.name if isinstance(error, KafkaError) else str(error)
