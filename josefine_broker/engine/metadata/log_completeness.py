"""What a broker may believe of a log on its own disk, as a value with a name.

Recovery makes it, per partition; the registration carries it; the image keeps what is not COMPLETE
until that replica has fetched again (KIP-966 knows only a flag for the whole broker). Whoever is in
doubt counts in no election while somebody better is left, dead or alive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from uuid import UUID

LogKey = tuple[UUID, int]
"""Topic id and partition: a topic made anew under its name is another."""


class Completeness(Enum):
    """From the best to the worst."""

    COMPLETE = "complete"  # everything that this replica may have confirmed is here
    UNSYNCED = "unsynced"  # the machine lost its power, or the log was not looked at: it may lack
    SHORTENED = "shortened"  # records that may have been confirmed are gone
    UNREADABLE = "unreadable"  # it is damaged and was left as it is; a restored file mends it
    MISSING = "missing"  # the directory, its identity or its first segments are not there

    @property
    def may_lead(self) -> bool:
        """Whether it may lead without an unclean election, should nobody better be left: a loss of
        power takes what was not synced from all replicas alike, and nobody is there to say more."""
        return _RANK[self] <= _RANK[Completeness.UNSYNCED]

    @property
    def rank(self) -> int:
        """0: the best."""
        return _RANK[self]

    def or_worse(self, other: "Completeness") -> "Completeness":
        """The worse of the two."""
        return self if _RANK[self] >= _RANK[other] else other

    def after(self, before: "Completeness") -> "Completeness":
        """What a new process is to be believed, when the one before was `before` and did not fetch
        again: it finds what that one had made anew. Only what could not be read was left as it was,
        and counts as it is found now."""
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
    """What one process found on its disk, by partition.

    `default` holds for every partition that is not named. So the claims need no image, and one that
    is behind cannot make them wrong.
    """

    default: Completeness = Completeness.COMPLETE
    logs: Mapping[LogKey, Completeness] = field(default_factory=_nothing)

    def of(self, key: LogKey) -> Completeness:
        return self.logs.get(key, self.default)

    def at_best(self, limit: Completeness) -> "LogClaims":
        """Nothing is believed to be better than that."""
        logs = {key: each.or_worse(limit) for key, each in self.logs.items()}
        return LogClaims(default=self.default.or_worse(limit), logs=logs)

    @property
    def are_complete(self) -> bool:
        """Nothing is in doubt."""
        return all(each is Completeness.COMPLETE for each in (self.default, *self.logs.values()))
