"""A client of the text protocol over a plain socket."""

from __future__ import annotations

import json
import socket
from typing import Any

from tests.support.broker import BrokerProcess

TIMEOUT_S = 30.0


def text_address(broker: BrokerProcess) -> tuple[str, int]:
    """Where its text listener is; it must have one (`text__port=0`)."""
    found = json.loads((broker.data_dir / "broker.addresses.json").read_text())["text"]
    host, _, port = found.rpartition(":")
    return host, int(port)


class TextSocket:
    """Says lines and waits for their replies."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self._replies = self.socket.makefile("rb")

    def __enter__(self) -> TextSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._replies.close()
        self.socket.close()

    def say(self, line: str) -> str:
        """The reply to a line."""
        self.send(f"{line}\n".encode())
        return self.reply()

    def data(self, line: str) -> Any:
        """What a reply with data has in it."""
        reply = self.say(line)
        assert reply.startswith("{"), reply
        return json.loads(reply)["Data"]

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> str:
        """The next line; empty: the broker hung up."""
        return self._replies.readline().decode().removesuffix("\n")
