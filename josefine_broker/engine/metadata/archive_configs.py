"""The rules between the topic configs of an archived topic (`remote.storage.enable`, KIP-405).

Kafka's own rules come first, so that a tool gets Kafka's answer; then what an archive cannot serve
yet is refused, because a topic must never keep less than its configs promise. Pure.
"""

from collections.abc import Mapping

from josefine_broker.engine.metadata.log_config import AS_RETENTION, LogConfig
from josefine_broker.engine.metadata.table_configs import unwritten

_LOCATION = "'josefine.archive.location'"
_ENABLE = "'remote.storage.enable'"
_DECLINED = {
    "remote.log.copy.disable": "set 'remote.storage.enable' to false, and the archive stays as is",
    "remote.log.delete.on.disable": "the archive is its owner's, and no broker deletes it",
}


def archive_contradiction(log: LogConfig, inert: Mapping[str, str], table: str) -> str:
    """Why these settings cannot be together; empty if they can. `table`: the location of the
    topic's own table."""
    if not log.archived:
        return ""
    if "compact" in log.cleanup_policy:
        return f"{_ENABLE} is unsupported for compacted topics: 'cleanup.policy' must be delete"
    if not log.deletes:
        return f"{_ENABLE} needs 'cleanup.policy' delete"
    wrong = _of_bounds(log)
    if wrong:
        return wrong
    if not log.archive_location:
        return f"{_ENABLE} needs {_LOCATION}, where `josefine archive run` keeps the archive"
    if log.archive_location == table:
        return f"{_LOCATION} is that of 'josefine.table.location': an archive has its own table"
    if wrong := unwritten("josefine.archive.location", log.archive_location):
        return wrong
    for name, instead in _DECLINED.items():
        if inert.get(name) == "true":
            return f"'{name}' true is not served with an archive: {instead}"
    return ""


def _of_bounds(log: LogConfig) -> str:
    """Kafka's rule: the local bound is within that of the whole."""
    bounds = (
        ("ms", log.retention_ms, log.local_retention_ms),
        ("bytes", log.retention_bytes, log.local_retention_bytes),
    )
    for name, whole, local in bounds:
        if whole is None or local == AS_RETENTION:
            continue
        if local == -1:
            return f"'local.retention.{name}' must not be -1 with 'retention.{name}' {whole}"
        if local > whole:
            return f"'local.retention.{name}' {local} is more than 'retention.{name}' {whole}"
    return ""
