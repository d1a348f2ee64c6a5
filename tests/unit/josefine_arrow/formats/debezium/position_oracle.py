"""The table of positions evaluated in Python: the oracle of Spark's columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

from josefine_arrow.formats.debezium.position import (
    ABSENT,
    CONNECTORS,
    NO_CONNECTOR,
    SEPARATOR,
    malformed,
    missing,
    unknown_connector,
)


def position_of(source: Mapping[str, object]) -> tuple[str | None, str | None]:
    """(the position, None) or (None, the reason why there is none). Total."""
    connector = source.get("connector")
    if connector is None:
        return None, NO_CONNECTOR
    parts = CONNECTORS.get(str(connector))
    if parts is None:
        return None, unknown_connector(str(connector))
    found = []
    for part in parts:
        said = [str(source[name]) for name in part.fields if source.get(name) is not None]
        text = next((each for each in said if each.lower() not in ABSENT), part.default)
        if text is None:
            return None, missing(part)
        match = re.match(part.pattern, text)
        if match is None:
            return None, text.join(malformed(part))
        found.append(match[1].lower().rjust(part.width, "0"))
    return SEPARATOR.join(found), None
