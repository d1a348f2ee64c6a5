"""The value types of the configuration: addresses, listeners, voters, times, sizes.

Each refuses bad input in words that follow the name of its key.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from josefine_broker.base.addresses import HostPort, parse_host_port
from josefine_broker.base.durations import FORMS, duration_ms

TIMEOUT_MS_MIN = 5
"""A timeout below this is a unit mistake (seconds for milliseconds), not an intention."""

_LISTENER_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*$")


class Listener(NamedTuple):
    """A named address, in Kafka's sense: the name pairs a bound address with its advertised one."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> HostPort:
        return HostPort(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


class Voter(NamedTuple):
    """A broker that forms the cluster: its id and its raft listener."""

    id: int
    host: str
    port: int

    @property
    def address(self) -> HostPort:
        return HostPort(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.id}@{self.address}"


def overlap(one: HostPort, other: HostPort) -> bool:
    """Do the two addresses exclude each other as listeners? Names are not resolved, except
    localhost."""
    if one.port != other.port or one.port == 0:
        return False
    hosts = {"127.0.0.1" if each.host == "localhost" else each.host for each in (one, other)}
    if len(hosts) == 1 or "::" in hosts:  # a socket on :: accepts IPv4 too
        return True
    return "0.0.0.0" in hosts and not any(":" in host for host in hosts)


def parse_listener(value: object) -> Listener:
    """`NAME://host:port`; the ValueError names the problem."""
    if isinstance(value, Listener):
        return value
    if not isinstance(value, str) or "://" not in value:
        raise ValueError(f"must be NAME://host:port, got {value!r}")
    name, _, address = value.partition("://")
    if not _LISTENER_NAME.match(name):
        raise ValueError(f"listener name {name!r} in {value!r} may have only a-z A-Z 0-9 _ -")
    host, port = parse_host_port(address)
    return Listener(name, host, port)


def parse_voter(value: object) -> Voter:
    """`id@host:port`; the ValueError names the problem."""
    if isinstance(value, Voter):
        return value
    id_text, at, address = value.partition("@") if isinstance(value, str) else ("", "", "")
    if not at or not re.fullmatch(r"[0-9]{1,10}", id_text) or not 1 <= int(id_text) < 2**31:
        raise ValueError(f"must be id@host:port, got {value!r}")
    host, port = parse_host_port(address)
    if port == 0:
        raise ValueError(f"{value!r} has port 0, which cannot be dialed")
    return Voter(int(id_text), host, port)


def _parse_listeners(value: object) -> tuple[Listener, ...]:
    listeners = tuple(parse_listener(item) for item in items(value, "NAME://host:port"))
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"listener name {name!r} is used twice")
    return listeners


def _parse_voters(value: object) -> tuple[Voter, ...]:
    voters = tuple(parse_voter(item) for item in items(value, "id@host:port"))
    ids = [voter.id for voter in voters]
    for id_ in ids:
        if ids.count(id_) > 1:
            raise ValueError(f"voter {id_} is listed twice")
    at: dict[HostPort, int] = {}
    for voter in voters:
        other = at.setdefault(voter.address, voter.id)
        if other != voter.id:
            raise ValueError(f"voters {other} and {voter.id} have the same address {voter.address}")
    return voters


def _parse_addresses(value: object) -> tuple[HostPort, ...]:
    return tuple(parse_host_port(item) for item in items(value, "host:port"))


def items(value: object, what: str) -> list[object]:
    """The items of a list; a text is the environment's form: comma-separated, as in Kafka."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of {what}, got {value!r}")
    return list(value)


def _parse_ms(value: object) -> object:
    """A number as it is, `7d` as its milliseconds; the ValueError names the unit for other
    texts."""
    if not isinstance(value, str):
        return value
    found = duration_ms(value)
    if found is None:
        raise ValueError(
            f"must be a whole number of milliseconds, or a time like {FORMS}, got {value!r}"
        )
    return found


def unit(name: str) -> dict[str, Any]:
    """The unit of a key in the generated file."""
    return {"unit": name}


_TEXT = PlainSerializer(str, return_type=str)
Address = Annotated[HostPort, BeforeValidator(parse_host_port), _TEXT]
Listeners = Annotated[
    tuple[Listener, ...],
    BeforeValidator(_parse_listeners),
    PlainSerializer(lambda ls: [str(item) for item in ls], return_type=list[str]),
]
Voters = Annotated[
    tuple[Voter, ...],
    BeforeValidator(_parse_voters),
    PlainSerializer(lambda voters: [str(item) for item in voters], return_type=list[str]),
]
Addresses = Annotated[
    tuple[HostPort, ...],
    BeforeValidator(_parse_addresses),
    PlainSerializer(lambda items: [str(item) for item in items], return_type=list[str]),
]
NodeId = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
TimeoutMs = Annotated[
    int,
    BeforeValidator(_parse_ms),
    Field(strict=True, ge=TIMEOUT_MS_MIN, json_schema_extra=unit("ms")),
]
DelayMs = Annotated[
    int,
    BeforeValidator(_parse_ms),
    Field(strict=True, ge=0, json_schema_extra=unit("ms")),
]
"""Unlike a timeout it may be zero."""
Ratio = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(strict=True, ge=1)]
Bytes = Annotated[int, Field(strict=True, ge=1, json_schema_extra=unit("bytes"))]
Flag = Annotated[bool, Field(strict=True)]


class Section(BaseModel):
    """A group of keys: immutable, and no key that is not declared here."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
