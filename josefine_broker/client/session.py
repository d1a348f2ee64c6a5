"""The state of one client: policy, cluster metadata, coordinators, addresses.

`Session` is the shared state of operations; `Attempts` are the retries of one. Operations
(`operations`, `admin`, `groups`) read and change it; shells only call `candidates` and `connected`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.cluster import Address, ClusterMetadata
from josefine_broker.client.effects import CONTROLLER, Pause
from josefine_broker.client.retry import UNHEARD_TRIES_MAX, Action, Unheard, action_for, backoff_ms

NOT_THERE = frozenset({ErrorCode.not_controller, ErrorCode.network_exception})
RETRIABLE_UNKNOWN = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Waits of one client, in milliseconds."""

    request_timeout_ms: int = 30_000
    """An operation with all its retries; a long poll may add its own wait."""
    connect_timeout_ms: int = 5_000
    """One TCP connect and its ApiVersions answer."""
    bootstrap_timeout_ms: int = 10_000
    """How long a client that never reached any broker keeps trying."""
    unknown_topic_timeout_ms: int = 1_500
    """A topic may have been created a moment ago on another broker; after this it is unknown."""


DEFAULT_POLICY = Policy()


class Session:
    """State of one client; `rng` only spreads retries."""

    __slots__ = (
        "bootstrap",
        "cluster",
        "coordinators",
        "ever_connected",
        "latest",
        "nearer",
        "policy",
        "rng",
    )

    def __init__(self, bootstrap: tuple[Address, ...], policy: Policy, rng: Random) -> None:
        self.bootstrap = bootstrap
        self.policy = policy
        self.rng = rng
        self.cluster = ClusterMetadata()
        self.coordinators: dict[str, int] = {}
        """Group → broker id."""
        self.nearer: dict[TopicPartition, tuple[int, int]] = {}
        """Partition → the broker to which its leader redirected readers of our rack (KIP-392), and
        the expiry of that in ms."""
        self.ever_connected = False
        self.latest: Attempts | None = None
        """The operation that started last: a shell shows its state to waiting users."""

    def candidates(self, node: int) -> tuple[Address, ...]:
        """Addresses to try for a call, best first."""
        brokers = self.cluster.brokers
        if node == CONTROLLER:
            node = self.cluster.controller_id
        if node in brokers:
            return (brokers[node].address,)
        known = tuple(broker.address for broker in brokers.values())
        return known + tuple(a for a in self.bootstrap if a not in known)

    def forget_controller(self) -> None:
        """It failed, or is no longer the controller: use any broker, because all forward
        changes."""
        self.cluster = replace(self.cluster, controller_id=-1)

    def connected(self) -> None:
        """A broker answered: from now on an unreachable one counts as a retriable failure."""
        self.ever_connected = True

    def forget(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of these topics before they are used again."""
        gone = set(topics)
        kept = {name: t for name, t in self.cluster.topics.items() if name not in gone}
        self.cluster = replace(self.cluster, topics=kept)

    def start(
        self, now_ms: int, deadline_ms: int, what: str, *, unknown_is_final: bool = False
    ) -> "Attempts":
        """The retries of one operation; `what` names it in error messages."""
        self.latest = Attempts(self, now_ms, deadline_ms, what, unknown_is_final)
        return self.latest


class Attempts:
    """The retries of one operation: decides after each failure between a pause and giving up."""

    __slots__ = (
        "_count",
        "_session",
        "_started_ms",
        "_unheard",
        "_unknown_is_final",
        "deadline_ms",
        "resume_ms",
        "trouble",
        "what",
    )

    def __init__(
        self,
        session: Session,
        now_ms: int,
        deadline_ms: int,
        what: str,
        unknown_is_final: bool = False,
    ) -> None:
        self._session = session
        self._started_ms = now_ms
        self.resume_ms = now_ms
        """Start of the current attempt."""
        self.what = what
        """Name of the operation in messages."""
        self.trouble = ""
        """The last retriable error."""
        self._unknown_is_final = unknown_is_final
        self._count = 0
        self._unheard = 0
        self.deadline_ms = deadline_ms

    def after(self, error: KafkaError, now_ms: int) -> Pause:
        """The pause before the next attempt. Raises if there is none: `error`, or its final
        message."""
        if error.code in NOT_THERE:
            self._session.forget_controller()
        pause = self.failed(now_ms)
        self.judge(error, now_ms)
        return pause

    def failed(self, now_ms: int) -> Pause:
        """Count one failed round; returns the pause before the next."""
        self._count += 1
        self.resume_ms = now_ms + backoff_ms(self._count, self._session.rng)
        return Pause(until_ms=self.resume_ms)

    def judge(self, error: KafkaError, now_ms: int) -> None:
        """Raise when `error` is final, or when the next attempt would come too late."""
        if action_for(error.code) is Action.FAIL:
            raise error
        if self._unknown_is_final and error.code in RETRIABLE_UNKNOWN:
            raise error
        self.trouble = _reason(error)
        self._unheard = self._unheard + 1 if isinstance(error, Unheard) else 0
        if self._unheard < UNHEARD_TRIES_MAX and self.resume_ms < self._give_up_ms(error.code):
            return
        raise KafkaError(error.code, self._last_word(error, now_ms)) from error

    def _give_up_ms(self, code: ErrorCode) -> int:
        policy = self._session.policy
        if code is ErrorCode.network_exception and not self._session.ever_connected:
            return min(self.deadline_ms, self._started_ms + policy.bootstrap_timeout_ms)
        if code in RETRIABLE_UNKNOWN:
            return min(self.deadline_ms, self._started_ms + policy.unknown_topic_timeout_ms)
        return self.deadline_ms

    def _last_word(self, error: KafkaError, now_ms: int) -> str:
        reason = _reason(error)
        if error.code in RETRIABLE_UNKNOWN:
            return reason
        tries = "once" if self._count == 1 else f"{self._count} times"
        waited_s = (now_ms - self._started_ms) / 1000
        what = f"{self.what}: " if self._session.ever_connected else ""
        return f"{what}{reason}, tried {tries} in {waited_s:.1f} s"


def _reason(error: KafkaError) -> str:
    return error.message or error.code.name.replace("_", " ")
