"""What one client knows and has agreed with itself: policy, cluster, coordinators, where to call.

`Session` is what operations have in common; the retries of one are `Attempts`. Operations
(`operations`, `admin`, `groups`) read and change it; shells only ask `candidates` and tell
`connected`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.cluster import Address, ClusterMetadata
from josefine_broker.client.effects import CONTROLLER, Pause
from josefine_broker.client.retry import Action, action_for, backoff_ms

NOT_THERE = frozenset({ErrorCode.not_controller, ErrorCode.network_exception})
RETRIABLE_UNKNOWN = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Waits of one client, in milliseconds."""

    request_timeout_ms: int = 30_000
    """An operation with all its retries; a long poll may take its own wait on top."""
    connect_timeout_ms: int = 5_000
    """One TCP connect and its ApiVersions answer."""
    bootstrap_timeout_ms: int = 10_000
    """How long a client that never reached any broker goes on trying."""
    unknown_topic_timeout_ms: int = 1_500
    """A topic may have been created an instant ago on another broker; after this it is unknown."""


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
        """Partition → the broker its leader sent readers of our rack to (KIP-392), and until when
        that is good, in ms."""
        self.ever_connected = False
        self.latest: Attempts | None = None
        """Of the operation that began last: what a shell tells who waits for it."""

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
        """It failed, or is none any more: any broker will do, for each passes changes on."""
        self.cluster = replace(self.cluster, controller_id=-1)

    def connected(self) -> None:
        """A broker answered: from now on an unreachable one is taken for a passing failure."""
        self.ever_connected = True

    def forget(self, topics: Iterable[str]) -> None:
        """Ask for metadata of these topics before they are used again."""
        gone = set(topics)
        kept = {name: t for name, t in self.cluster.topics.items() if name not in gone}
        self.cluster = replace(self.cluster, topics=kept)

    def start(
        self, now_ms: int, deadline_ms: int, what: str, *, unknown_is_final: bool = False
    ) -> "Attempts":
        """The retries of one operation; `what` names it in the sentence of a failure."""
        self.latest = Attempts(self, now_ms, deadline_ms, what, unknown_is_final)
        return self.latest


class Attempts:
    """The retries of one operation: decides after each failure whether to wait or to give up."""

    __slots__ = (
        "_count",
        "_session",
        "_started_ms",
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
        """When the try that is under way began."""
        self.what = what
        """Names the operation in a sentence."""
        self.trouble = ""
        """The last error that is hoped to pass."""
        self._unknown_is_final = unknown_is_final
        self._count = 0
        self.deadline_ms = deadline_ms

    def after(self, error: KafkaError, now_ms: int) -> Pause:
        """The pause before the next try. Raises when there is none: `error`, or its last word."""
        if error.code in NOT_THERE:
            self._session.forget_controller()
        pause = self.failed(now_ms)
        self.judge(error, now_ms)
        return pause

    def failed(self, now_ms: int) -> Pause:
        """Count one failed round; the pause that would come before the next."""
        self._count += 1
        self.resume_ms = now_ms + backoff_ms(self._count, self._session.rng)
        return Pause(until_ms=self.resume_ms)

    def judge(self, error: KafkaError, now_ms: int) -> None:
        """Raise when `error` does not pass by itself, or when the next try would come too late."""
        if action_for(error.code) is Action.FAIL:
            raise error
        if self._unknown_is_final and error.code in RETRIABLE_UNKNOWN:
            raise error
        self.trouble = _reason(error)
        if self.resume_ms < self._give_up_ms(error.code):
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
