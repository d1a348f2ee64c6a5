"""One connection of the text protocol: bytes in, reply lines out, in order, one for each line.

A session waits for at most one thing, a parked request; its host calls `resume` when it is done.
Meanwhile it accepts bytes and serves none. Adjacent PUBS lines are served together. No bytes of a
client raise.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from josefine_broker.base.errors import CorruptData, Fatal, KafkaError
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.text.asking import Work
from josefine_broker.text.commands import Command, find
from josefine_broker.text.errors import TextError, error
from josefine_broker.text.fields import split_fields
from josefine_broker.text.front import Client, Front
from josefine_broker.text.lines import LineBuffer

GATHERED_LINES_MAX = 500
GATHERED_BYTES_MAX = 1 << 20
"""Bytes of lines that are served together."""


class State(Enum):
    """The states of a session."""

    IDLE = "idle"  # no command is running; the next line is served when it arrives
    RUNNING = "running"  # a command is being served, within one call of its host
    WAITING = "waiting"  # the command waits for a parked request; bytes are buffered, none served
    CLOSED = "closed"  # no more lines are served; pending replies are still sent


class Input(Enum):
    """The inputs of a session."""

    LINE = "line"  # a complete line is available
    WAIT = "wait"  # the command has to wait
    RESUME = "resume"  # the awaited request is done
    REPLY = "reply"  # the command has its reply
    LEAVE = "leave"  # DISC, HTTP, the end of the client's input, or the connection is gone


TRANSITIONS: Mapping[tuple[State, Input], State] = {
    (State.IDLE, Input.LINE): State.RUNNING,
    (State.IDLE, Input.LEAVE): State.CLOSED,
    (State.RUNNING, Input.WAIT): State.WAITING,
    (State.RUNNING, Input.REPLY): State.IDLE,
    (State.RUNNING, Input.LEAVE): State.CLOSED,
    (State.WAITING, Input.RESUME): State.RUNNING,
    (State.WAITING, Input.LEAVE): State.CLOSED,
}
"""An unlisted pair cannot happen."""


def next_state(state: State, event: Input) -> State:
    """Raises Fatal for an unlisted pair."""
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise Fatal(f"a text session is {state.value} and got {event.value}")
    return found


class Session:
    """Mutable: received but unserved bytes, the running command, and replies not taken yet."""

    __slots__ = (
        "_client", "_front", "_is_deserted", "_lines", "_next", "_out", "_work", "has_ended",
        "state", "waiting",
    )  # fmt: skip

    def __init__(self, front: Front) -> None:
        self._front = front
        self._client = Client()
        self._lines = LineBuffer(front.settings.line_bytes_max)
        self._next: tuple[Command, list[str]] | str | None = None
        """A parsed line that is not served yet: a command, or its refusal."""
        self._is_deserted = False
        self._out: list[str] = []
        self._work: Work[list[str]] | None = None
        self.has_ended = False
        """The client sends nothing more: the session closes when all lines are served."""
        self.state = State.IDLE
        self.waiting: Parked | None = None

    @property
    def unserved_bytes(self) -> int:
        return len(self._lines)

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes. Bytes after the session closed are ignored."""
        if not self.is_closed:
            self._lines.feed(data)

    def desert(self) -> None:
        """The client is gone: run its remaining commands as far as they need no reader."""
        self.has_ended = self._is_deserted = True

    def take(self) -> bytes:
        """The pending replies, each a line."""
        out, self._out = self._out, []
        return "".join(f"{each}\n" for each in out).encode()

    def step(self) -> bool:
        """Serve the next line, or adjacent lines that go together; returns whether more may be done
        now. Otherwise it waits for bytes or for `waiting`, or is closed."""
        if self.state is not State.IDLE:
            return False
        line = self._peek()
        if line is None:
            if self.has_ended:
                self._become(Input.LEAVE)
            return False
        self._next = None
        if self._is_deserted and (isinstance(line, str) or line[0].is_for_reply):
            return True
        self._become(Input.LINE)
        if isinstance(line, str):
            self._reply([line])
            return not self.is_closed
        command, fields = line
        lines = [fields]
        if command.is_gathered:
            self._gather(command, lines)
        self._work = command.run(self._front, self._client, lines)
        return self._go_on(None)

    def resume(self) -> bool:
        """The request in `waiting` is done; continues like `step`."""
        parked = self.waiting
        assert parked is not None
        assert parked.done
        self.waiting = None
        self._become(Input.RESUME)
        return self._go_on(parked.response)

    def fail(self) -> None:
        """The running command ended by an error of ours."""
        self._work = None
        self._reply([error("the broker failed on this command")])

    def close(self) -> None:
        """The connection is gone: a running command gets no answer."""
        if self.is_closed:
            return
        work, self._work, self.waiting = self._work, None, None
        self._become(Input.LEAVE)
        if work is not None:
            work.close()

    def _become(self, event: Input) -> None:
        self.state = next_state(self.state, event)

    def _go_on(self, answer: Any) -> bool:
        """Run the command until it waits or has its replies."""
        work = self._work
        assert work is not None
        while True:
            try:
                parked = work.send(answer)
            except StopIteration as stop:
                replies: list[str] = stop.value
                break
            except TextError as refusal:
                replies = [str(refusal)]
                break
            except (KafkaError, CorruptData) as refusal:
                replies = [error(str(refusal))]
                break
            if not parked.done:
                self.waiting = parked
                self._become(Input.WAIT)
                return False
            answer = parked.response
        self._work = None
        self._reply(replies)
        return not self.is_closed

    def _reply(self, replies: list[str]) -> None:
        self._out += replies
        self._become(Input.LEAVE if self._client.is_leaving else Input.REPLY)

    def _gather(self, command: Command, lines: list[list[str]]) -> None:
        """More adjacent lines of the same command, as far as they have arrived."""
        size = sum(map(len, lines[0]))
        while len(lines) < GATHERED_LINES_MAX and size < GATHERED_BYTES_MAX:
            found = self._peek()
            if found is None or isinstance(found, str) or found[0] is not command:
                return
            self._next = None
            lines.append(found[1])
            size += sum(map(len, found[1]))

    def _peek(self) -> tuple[Command, list[str]] | str | None:
        """The next line; it stays the next one until `_next` is cleared."""
        if self._next is None:
            self._next = self._parse()
        return self._next

    def _parse(self) -> tuple[Command, list[str]] | str | None:
        try:
            line = self._lines.take()
            if line is None:
                return None
            fields = split_fields(line)
            return find(fields), fields[1:]
        except OverflowError:
            return error(f"the line is longer than {self._lines.line_bytes_max} bytes")
        except TextError as refusal:
            return str(refusal)
