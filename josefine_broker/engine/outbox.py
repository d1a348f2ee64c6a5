"""The broker's outgoing work, collected until the host takes it."""

from __future__ import annotations

from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.joining import Ask
from josefine_broker.engine.cluster.messages import Said


class Outbox:
    """The `Ready` that is being filled. Mutable."""

    def __init__(self) -> None:
        self.ready = e.Ready()

    def take(self) -> e.Ready:
        """What was collected since the last call; the host owns it from then on."""
        ready, self.ready = self.ready, e.Ready()
        return ready

    def send(self, to: int, said: Said) -> None:
        self.ready.sends.append(e.Send(to, said))

    def reply(self, reply_to: object, said: Said) -> None:
        """`reply_to` came with the request, opaque here: the host answers with it."""
        self.ready.replies.append(e.Reply(reply_to, said))

    def ask(self, ask: Ask | None) -> None:
        if ask is not None:
            self.ready.asks.append(ask)

    def tell(self, message: str, *, is_warning: bool = False, **fields: object) -> None:
        self.ready.notices.append(e.Notice(message, fields, is_warning))
