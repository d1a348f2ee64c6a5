"""The environment of the commands: the broker's context, settings, and a way to other brokers' text
listeners. One per broker.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from josefine_broker.engine.context import Context
from josefine_broker.text.subscriptions import Subscriptions

TEXT_LISTENER = "TEXT"
"""The name under which a broker registers its text listener, as in the configuration.
"""


class LinePort(Protocol):
    """Sends a line to another broker's text listener."""

    def __call__(
        self, broker_id: int, line: str, deadline_ms: int, on_reply: Callable[[str | None], None], /
    ) -> None:
        """`on_reply` is called once, with None when there is no reply."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSettings:
    """The configuration of the commands."""

    acks: int = -1
    is_strict: bool = False
    """Answer `This is not the leader` instead of forwarding to the leader."""
    line_bytes_max: int = 1_048_576
    reply_bytes_max: int = 1_048_576
    reply_records_max: int = 1_000
    subscriptions_max: int = 1_000
    """Limit of one connection."""
    session_timeout_ms: int = 300_000
    timeout_ms: int = 10_000
    """How long a command waits for a leader, or for replicas."""


@dataclass(slots=True)
class Front:
    """The broker as the commands use it."""

    ctx: Context
    settings: TextSettings
    subscriptions: Subscriptions
    say: LinePort | None = None
    """None: this broker reaches no other."""
    turns: dict[str, int] = field(default_factory=dict)
    """Topic → number of messages without a key: selects the next partition."""


@dataclass(slots=True)
class Client:
    """The state of one connection."""

    held: dict[str, str] = field(default_factory=dict)
    """Subscription id → topic, for subscriptions granted here: DISC releases them."""
    is_leaving: bool = False
    """To be disconnected once its replies are sent."""


def new_front(ctx: Context, settings: TextSettings, say: LinePort | None = None) -> Front:
    """A front without any state yet."""
    subscriptions = Subscriptions(settings.session_timeout_ms, ctx.clock.now_ms())
    return Front(ctx, settings, subscriptions, say)
