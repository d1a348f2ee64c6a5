"""The broker's configuration: typed, frozen, complete. Every key has a unit, a bound, a meaning.

This model is the one truth: `conf/broker.yaml` is generated from it, loading refuses what it does
not name, and every key can be overridden by the environment (`JOSEFINE__RAFT__ID=3`). Units come
last in a name (`_ms`, `_bytes`); `null` means "no limit" or "derived", as the meaning says.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from josefine_broker.base.limits import CONNECTION_IN_FLIGHT_MAX, FRAME_BYTES_MAX
from josefine_broker.config_source import ConfigError, Source, read_source

__all__ = ["BrokerConfig", "ConfigError", "HostPort", "Listener", "load_config"]

TIMEOUT_MS_MIN = 5
"""A timeout below this is a unit mistake (seconds for milliseconds), not a wish."""

ENV_PREFIX = "JOSEFINE__"

_HOST = re.compile(
    r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$"
)
_LISTENER_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*$")


class HostPort(NamedTuple):
    """An address to bind or to dial; port 0 means any free port when binding."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


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


def parse_host_port(value: object) -> HostPort:
    """`host:port`, `[v6]:port`; ValueError names what is wrong."""
    if isinstance(value, HostPort):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be host:port, got {value!r}")
    host, colon, port_text = value.rpartition(":")
    if not colon or not host:
        raise ValueError(f"must be host:port, got {value!r}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"{host!r} in {value!r} is not an IPv6 address") from None
    elif re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError(f"{host!r} in {value!r} is not an IPv4 address") from None
    elif not _HOST.match(host):
        raise ValueError(f"{host!r} in {value!r} is not a host name")
    if not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > 65_535:
        raise ValueError(f"port in {value!r} must be a number from 0 to 65535")
    return HostPort(host, int(port_text))


def parse_listener(value: object) -> Listener:
    """`NAME://host:port`; ValueError names what is wrong."""
    if isinstance(value, Listener):
        return value
    if not isinstance(value, str) or "://" not in value:
        raise ValueError(f"must be NAME://host:port, got {value!r}")
    name, _, address = value.partition("://")
    if not _LISTENER_NAME.match(name):
        raise ValueError(f"listener name {name!r} in {value!r} must be letters, digits, _ and -")
    host, port = parse_host_port(address)
    return Listener(name, host, port)


def _parse_listeners(value: object) -> tuple[Listener, ...]:
    if isinstance(value, str):  # the environment's form: comma-separated, as in Kafka
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of NAME://host:port, got {value!r}")
    listeners = tuple(parse_listener(item) for item in value)
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"listener name {name!r} is used twice")
    return listeners


def _unit(unit: str) -> dict[str, Any]:
    return {"unit": unit}


_TEXT = PlainSerializer(str, return_type=str)
Address = Annotated[HostPort, BeforeValidator(parse_host_port), _TEXT]
Listeners = Annotated[
    tuple[Listener, ...],
    BeforeValidator(_parse_listeners),
    PlainSerializer(lambda ls: [str(item) for item in ls], return_type=list[str]),
]
NodeId = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
TimeoutMs = Annotated[int, Field(strict=True, ge=TIMEOUT_MS_MIN, json_schema_extra=_unit("ms"))]
Count = Annotated[int, Field(strict=True, ge=1)]
Bytes = Annotated[int, Field(strict=True, ge=1, json_schema_extra=_unit("bytes"))]
Flag = Annotated[bool, Field(strict=True)]


class Section(BaseModel):
    """A group of keys: immutable, and no key that is not declared here."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class IdentitySection(Section):
    """Who this broker is and where it keeps its data."""

    id: NodeId = Field(default=1, description="This broker's number, unique in its cluster.")
    data_dir: Path = Field(
        default=Path("data/broker-1"),
        description="Directory of logs and metadata, relative to the working directory.",
    )
    listeners: Listeners = Field(
        default=(Listener("PLAINTEXT", "127.0.0.1", 9092),),
        description="Addresses to listen on for Kafka clients, as NAME://host:port;"
        " port 0 is any free port.",
    )
    advertised_listeners: Listeners = Field(
        default=(),
        description="What Metadata tells clients to dial, per listener name; a name left out"
        " advertises its bound address. A client is answered with the address of the listener it"
        " came through.",
    )
    auto_create_topics: Flag = Field(
        default=True,
        description="Create a topic with the defaults below when a client asks for it by name.",
    )


class NetworkSection(Section):
    """Bounds of connections."""

    connections_max: Count = Field(
        default=2_000, description="Open client connections; a further one is closed at once."
    )
    frame_bytes_max: Annotated[Bytes, Field(ge=1_024, le=2**31 - 1)] = Field(
        default=FRAME_BYTES_MAX, description="Largest request; a longer one closes its connection."
    )
    in_flight_max: Count = Field(
        default=CONNECTION_IN_FLIGHT_MAX,
        description="Requests of one connection waiting for an answer; past that it is not read.",
    )
    write_buffer_bytes: Bytes = Field(
        default=1_048_576,
        description="Answers a client has not yet read; past that its next requests wait.",
    )
    idle_timeout_ms: TimeoutMs = Field(
        default=600_000, description="A connection that sends nothing for this long is closed."
    )
    shutdown_timeout_ms: TimeoutMs = Field(
        default=5_000, description="Time that requests in flight have to be answered at shutdown."
    )


class TopicDefaultsSection(Section):
    """What a new topic gets when its creator does not say."""

    partitions: Annotated[int, Field(strict=True, ge=1, le=10_000)] = Field(
        default=1, description="Partitions of a new topic."
    )
    replication_factor: Annotated[int, Field(strict=True, ge=1, le=32_767)] = Field(
        default=1, description="Copies of each partition of a new topic."
    )
    min_insync_replicas: Annotated[int, Field(strict=True, ge=1, le=32_767)] = Field(
        default=1, description="Replicas that must have a record before acks=all is answered."
    )


class LogSection(Section):
    """Defaults of a partition's log; a topic's own configuration goes before them."""

    segment_bytes: Annotated[Bytes, Field(ge=1_024, le=2**31 - 1)] = Field(
        default=1_073_741_824, description="A segment file is closed before it grows past this."
    )
    segment_ms: TimeoutMs = Field(
        default=604_800_000, description="A segment older than this is closed at the next append."
    )
    segment_records: Count | None = Field(
        default=None, description="Records after which a segment is closed; null: no such rule."
    )
    index_interval_bytes: Bytes = Field(
        default=4_096, description="Log bytes between two entries of the sparse index."
    )
    message_bytes_max: Bytes = Field(
        default=1_048_588, description="Largest record batch accepted, as sent (compressed)."
    )
    retention_ms: TimeoutMs | None = Field(
        default=604_800_000,
        description="Closed segments older than this are deleted; null: kept for ever.",
    )
    retention_bytes: Bytes | None = Field(
        default=None,
        description="Oldest closed segments go while a partition is larger; null: no bound.",
    )
    retention_check_interval_ms: TimeoutMs = Field(
        default=300_000, description="Time between two rounds of retention."
    )
    flush_messages: Count | None = Field(
        default=None,
        description="Records after which a log is fsynced before the answer; null: left to the"
        " operating system, as Kafka does (1: every batch).",
    )
    flush_ms: TimeoutMs | None = Field(
        default=None,
        description="Age at which unsynced data is fsynced; null: left to the operating system.",
    )
    timestamp_type: Literal["CreateTime", "LogAppendTime"] = Field(
        default="CreateTime",
        description="Whose clock stamps records: the producer's or the broker's.",
    )


class RaftSection(Section):
    """The chained Raft that keeps the cluster's metadata."""

    id: NodeId | None = Field(default=None, description="Raft voter number; null: the broker's id.")
    heartbeat_timeout_ms: TimeoutMs = Field(
        default=100, description="Time between two signs of life of the raft leader."
    )
    election_timeout_ms: TimeoutMs = Field(
        default=1_000,
        description="Silence after which a voter campaigns; at least twice the heartbeat.",
    )
    proposal_timeout_ms: TimeoutMs = Field(
        default=10_000, description="Longest wait for a metadata change of the broker itself."
    )

    @model_validator(mode="after")
    def _election_outlasts_heartbeat(self) -> RaftSection:
        if self.election_timeout_ms < 2 * self.heartbeat_timeout_ms:
            raise ValueError(
                "election_timeout_ms must be at least twice heartbeat_timeout_ms, got "
                f"{self.election_timeout_ms} and {self.heartbeat_timeout_ms}"
            )
        return self


class AdminSection(Section):
    """The HTTP listener of `/health` and `/metrics`."""

    address: Address | None = Field(
        default=HostPort("127.0.0.1", 9644),
        description="host:port of /health and /metrics; port 0 is any free port; null: off.",
    )


class LoggingSection(Section):
    """What the broker logs to stderr; the lines of its start and stop go to stdout."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe event to log."
    )


class BrokerConfig(Section):
    """The whole configuration of one broker."""

    broker: IdentitySection = IdentitySection()
    network: NetworkSection = NetworkSection()
    topic_defaults: TopicDefaultsSection = TopicDefaultsSection()
    log: LogSection = LogSection()
    raft: RaftSection = RaftSection()
    admin: AdminSection = AdminSection()
    logging: LoggingSection = LoggingSection()

    @model_validator(mode="after")
    def _listeners_fit(self) -> BrokerConfig:
        if not self.broker.listeners:
            raise ValueError("broker.listeners must name at least one listener")
        bound = {listener.name for listener in self.broker.listeners}
        for advertised in self.broker.advertised_listeners:
            if advertised.name not in bound:
                raise ValueError(
                    f"broker.advertised_listeners names {advertised.name!r}, which is not in"
                    " broker.listeners"
                )
            if advertised.host in ("0.0.0.0", "::") or advertised.port == 0:
                raise ValueError(
                    f"broker.advertised_listeners {advertised} is no address a client can dial"
                )
        return self

    @property
    def raft_id(self) -> int:
        return self.broker.id if self.raft.id is None else self.raft.id


def key_paths() -> list[str]:
    """Every key there is, dotted: what an unknown key is compared with."""
    return [
        f"{section}.{key}"
        for section, field in BrokerConfig.model_fields.items()
        for key in _section_model(field.annotation).model_fields
    ]


def _section_model(annotation: Any) -> type[Section]:
    assert isinstance(annotation, type)
    assert issubclass(annotation, Section)
    return annotation


def load_config(
    path: Path | str | None,
    env: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
) -> BrokerConfig:
    """File (YAML or TOML by suffix), then environment, then `overrides` (dotted keys: the command
    line); the later wins. ConfigError is one sentence with file, line where known, and key."""
    source = read_source(Path(path) if path is not None else None)
    source.apply_environment(env, ENV_PREFIX)
    for key, value in (overrides or {}).items():
        source.set(tuple(key.split(".")), value, "command line")
    source.refuse_unknown(key_paths())
    try:
        return BrokerConfig.model_validate(source.values)
    except ValidationError as error:
        raise ConfigError(_first_problem(error, source)) from None


def _first_problem(error: ValidationError, source: Source) -> str:
    problem = error.errors(include_url=False)[0]
    # A union adds its own steps to the path (`retention_ms.constrained-int`): keys end at depth 2.
    path = tuple(str(step) for step in problem["loc"][:2])
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    where = source.place(path)
    if not path:
        return f"{where}: {message}"
    got = f", got {problem['input']!r}" if "got" not in message else ""
    return f"{where}: {'.'.join(path)}: {message}{got}"
