"""Points in time in files and commands: `2013-01-01`, `2013-01-01T05:00:00Z`."""

from datetime import UTC, datetime


def moment_ms(text: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time; UTC unless it names another zone. None:
    invalid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
