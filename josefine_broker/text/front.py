"""What the commands work on: the broker's context, settings, and a way to other brokers' text
listeners. One per broker.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from josefine_broker.engine.context import Context
from josefine_broker.text.subscriptions import Subscriptions

TEXT_LISTENER = "TEXT"
"""The name under which a broker registers where its text listener is: as the configuration has it.
"""


class LinePort(Protocol):
    """Says a line to another broker's text listener."""

    def __call__(
        self, broker_id: int, line: str, deadline_ms: int, on_reply: Callable[[str | None], None], /
    ) -> None:
        """`on_reply` comes once: with None when there is no reply."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSettings:
    """Configuration as far as the commands need it."""

    acks: int = -1
    is_strict: bool = False
    """Answer `This is not the leader` instead of asking the broker that leads."""
    line_bytes_max: int = 1_048_576
    reply_bytes_max: int = 1_048_576
    reply_records_max: int = 1_000
    subscriptions_max: int = 1_000
    """That one connection holds."""
    session_timeout_ms: int = 300_000
    timeout_ms: int = 10_000
    """How long a command waits for a leader, or for replicas."""


@dataclass(slots=True)
class Front:
    """The broker as the commands see it."""

    ctx: Context
    settings: TextSettings
    subscriptions: Subscriptions
    say: LinePort | None = None
    """None: this broker reaches no other."""
    turns: dict[str, int] = field(default_factory=dict)
    """Topic → how many messages without a key went there: whose turn it is."""


@dataclass(slots=True)
class Client:
    """What is kept of one connection."""

    held: dict[str, str] = field(default_factory=dict)
    """Subscription id → topic, of those granted here: DISC gives them back."""
    is_leaving: bool = False
    """It is to be hung up on once its replies are sent."""


def new_front(ctx: Context, settings: TextSettings, say: LinePort | None = None) -> Front:
    """With nothing heard of anybody yet."""
    subscriptions = Subscriptions(settings.session_timeout_ms, ctx.clock.now_ms())
    return Front(ctx, settings, subscriptions, say)
