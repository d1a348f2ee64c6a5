"""The completeness of a log on the broker's own disk, as a value.

Recovery determines it for each partition, the registration reports it, and the image keeps what is
not COMPLETE until that replica has fetched again (KIP-966 has only a flag for the whole broker). A
replica in doubt does not count in an election while a better one exists, dead or alive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from uuid import UUID

LogKey = tuple[UUID, int]
"""Topic id and partition: a topic that is deleted and created again has another id."""


class Completeness(Enum):
    """From best to worst."""

    COMPLETE = "complete"  # everything that this replica may have acknowledged is here
    UNSYNCED = "unsynced"  # a power failure, or the log was not checked: records may be missing
    SHORTENED = "shortened"  # records that may have been acknowledged are lost
    UNREADABLE = "unreadable"  # damaged and left unchanged; restoring the file repairs it
    MISSING = "missing"  # the directory, its identity or its first segments are missing

    @property
    def may_lead(self) -> bool:
        """Whether it may lead without an unclean election if no better replica exists: a power
        failure takes unsynced records from all replicas alike, and no replica has more."""
        return _RANK[self] <= _RANK[Completeness.UNSYNCED]

    @property
    def rank(self) -> int:
        """0 is the best."""
        return _RANK[self]

    def or_worse(self, other: "Completeness") -> "Completeness":
        """The worse of the two."""
        return self if _RANK[self] >= _RANK[other] else other

    def after(self, before: "Completeness") -> "Completeness":
        """The completeness that a new process reports, given `before` of the previous process that
        did not fetch again: the new one finds the log that the previous one repaired. An
        unreadable log was left unchanged, so what is found now counts."""
        if before is Completeness.UNREADABLE:
            return self
        if self is Completeness.UNREADABLE and not before.may_lead:
            return before
        return self.or_worse(before)


_RANK = {each: rank for rank, each in enumerate(Completeness)}


def _nothing() -> Mapping[LogKey, Completeness]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClaims:
    """The completeness of the logs that one process found on its disk, by partition.

    `default` applies to every partition that is not named. So the claims can be made without an
    image, and an image that lags cannot make them wrong.
    """

    default: Completeness = Completeness.COMPLETE
    logs: Mapping[LogKey, Completeness] = field(default_factory=_nothing)

    def of(self, key: LogKey) -> Completeness:
        return self.logs.get(key, self.default)

    def at_best(self, limit: Completeness) -> "LogClaims":
        """The claims with nothing better than `limit`."""
        logs = {key: each.or_worse(limit) for key, each in self.logs.items()}
        return LogClaims(default=self.default.or_worse(limit), logs=logs)

    @property
    def are_complete(self) -> bool:
        """Whether no log is in doubt."""
        return all(each is Completeness.COMPLETE for each in (self.default, *self.logs.values()))
