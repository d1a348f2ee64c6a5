"""The configs of a mirrored topic: the five that are the mirror's, and those that it follows."""

from __future__ import annotations

from collections.abc import Mapping

from josefine_broker.base.errors import KafkaError
from josefine_broker.client.admin import ConfigEntry

SOURCE = "josefine.mirror.source"
SESSION = "josefine.mirror.session"
ENDS = "josefine.mirror.ends"
END_EPOCHS = "josefine.mirror.end.epochs"
EPOCHS = "josefine.mirror.epochs"
OURS = ("josefine.", "remote.", "local.retention.", "leader.replication.", "follower.replication.")
"""Of one cluster alone: tables, archives, throttles of its brokers."""


def served(source: Mapping[str, ConfigEntry]) -> tuple[dict[str, str], list[str]]:
    """The configs that are set on the source's topic and are served here, and the names of the
    others."""
    from josefine_broker.engine.metadata.topic_config import check_config

    wanted: dict[str, str] = {}
    unserved: list[str] = []
    for name, entry in sorted(source.items()):
        if entry.is_default or entry.value is None or name.startswith(OURS):
            continue
        try:
            check_config(name, entry.value)
        except KafkaError:
            unserved.append(name)
        else:
            wanted[name] = entry.value
    return wanted, unserved


def changes(wanted: Mapping[str, str], found: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    """What makes the mirrored topic's configs those of its source."""
    new: dict[str, str | None] = {
        name: value
        for name, value in wanted.items()
        if name not in found or found[name].is_default or found[name].value != value
    }
    for name, entry in found.items():
        if not entry.is_default and name not in wanted and not name.startswith(OURS):
            new[name] = None
    return new
