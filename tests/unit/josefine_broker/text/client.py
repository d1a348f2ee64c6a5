"""A client of the text protocol without a socket: a session over a broker in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from josefine_broker.text.front import Front, LinePort, TextSettings, new_front
from josefine_broker.text.session import Session
from tests.unit.josefine_broker.api.world import World

README_MESSAGE = '"{""Header"":""header"",""Key"":""124"",""Body"":""Hello World!""}"'
"""The example of the original's README."""


def front_of(world: World, say: LinePort | None = None, **settings: Any) -> Front:
    return new_front(world.ctx, TextSettings(**settings), say)


class TextClient:
    """Says lines, and has the replies."""

    def __init__(self, front: Front, advance: Callable[[int], None] | None = None) -> None:
        """`advance` lets time pass, for commands that wait."""
        self.session = Session(front)
        self._advance = advance

    def send(self, data: bytes) -> list[str]:
        """The replies that these bytes gave."""
        self.session.receive(data)
        return self.run()

    def say(self, line: str) -> str:
        """The one reply to a line."""
        (reply,) = self.send(f"{line}\n".encode())
        return reply

    def data(self, line: str) -> Any:
        """What a reply with data has in it."""
        reply = json.loads(self.say(line))
        assert reply["Ok"] is True
        return reply["Data"]

    def run(self) -> list[str]:
        """Everything that can be done, time passing while something waits."""
        session = self.session
        goes_on = True
        while goes_on or session.waiting is not None:
            if session.waiting is None:
                goes_on = session.step()
            elif session.waiting.done:
                goes_on = session.resume()
            elif self._advance is not None:
                self._advance(10)
            else:
                break
        return session.take().decode().splitlines()


def client_of(world: World, **settings: Any) -> TextClient:
    return TextClient(front_of(world, **settings), world.advance)


def message(body: str, key: str = "", header: str = "") -> str:
    """The field of a PUBS."""
    text = json.dumps({"Header": header, "Key": key, "Body": body}, separators=(",", ":"))
    return '"' + text.replace('"', '""') + '"'
