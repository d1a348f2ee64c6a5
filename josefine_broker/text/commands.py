"""The table of commands: the only registration. Command words are case-insensitive."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from josefine_broker.text import subscribing
from josefine_broker.text.asking import Work
from josefine_broker.text.consuming import consume
from josefine_broker.text.creating import create
from josefine_broker.text.errors import TextError, error, shown
from josefine_broker.text.front import Client, Front
from josefine_broker.text.publishing import publish

One = Callable[[Front, Client, list[str]], Work[str]]
Many = Callable[[Front, Client, Sequence[list[str]]], Work[list[str]]]


def one(run: One) -> Many:
    """A command whose lines are served one by one."""

    def run_first(front: Front, client: Client, lines: Sequence[list[str]]) -> Work[list[str]]:
        (fields,) = lines
        return [(yield from run(front, client, fields))]

    return run_first


class Command(NamedTuple):
    """A command word and its function."""

    word: str
    usage: str
    fields_max: int
    run: Many
    is_gathered: bool = False
    """Lines that arrived together are served together."""
    is_for_reply: bool = False
    """Skipped if no client is left to read the reply."""


COMMANDS: Mapping[str, Command] = {
    each.word: each
    for each in (
        Command("CRTP", "CRTP topic [partitions]", 2, one(create)),
        Command("CRTTP", "CRTTP topic [partitions]", 2, one(create)),
        Command("PUBS", "PUBS topic message", 2, publish, is_gathered=True),
        Command(
            "SUBS",
            "SUBS topic group [partitions]",
            3,
            one(subscribing.subscribe),
            is_for_reply=True,
        ),
        Command("CONS", "CONS topic subscription-id from [to]", 4, one(consume), is_for_reply=True),
        Command("UNSUBS", "UNSUBS topic subscription-id", 2, one(subscribing.unsubscribe)),
        Command("DISC", "DISC", 0, one(subscribing.disconnect)),
        Command(
            "@SUBS",
            "@SUBS topic group partitions",
            3,
            one(subscribing.subscribe_here),
            is_for_reply=True,
        ),
        Command("@UNSUBS", "@UNSUBS topic subscription-id", 2, one(subscribing.unsubscribe_here)),
        Command("@KEEP", "@KEEP topic subscription-id offset", 3, one(subscribing.keep_here)),
    )
}
"""Commands with an `@` are sent by other brokers."""

LINE_FIELDS_MAX = 2**31
"""No limit: the fields after the word are ignored."""

KNOWN = ", ".join(word for word in COMMANDS if not word.startswith("@"))


def _hang_up(_front: Front, client: Client, _fields: list[str]) -> Work[str]:
    client.is_leaving = True
    yield from ()  # a generator, as all of them
    return error("this is not HTTP; the connection is closed")


HTTP = Command("HTTP", "", LINE_FIELDS_MAX, one(_hang_up))
HTTP_WORDS = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
)
"""Requests of a browser that a page directed to this port: the lines after them are not served."""


def find(fields: list[str]) -> Command:
    """The command of a line. Raises TextError."""
    word = fields[0].upper()
    command = HTTP if word in HTTP_WORDS else COMMANDS.get(word)
    if command is None:
        if fields == [""]:
            raise TextError(error(f"the line is empty; the commands are {KNOWN}"))
        raise TextError(error(f"unknown command '{shown(fields[0], 20)}'; they are {KNOWN}"))
    if len(fields) - 1 > command.fields_max:
        raise TextError(
            error(
                f"{word} has {len(fields) - 1} fields, at most {command.fields_max} are known: "
                f"{command.usage}; a field with spaces is put in double quotes"
            )
        )
    return command
