"""Versions of messages that Kafka has and kio does not have yet, as classes in kio's own form.

Each is derived from kio's newest class, or for a new key from that of a like message, by the fields
that changed, so that the codec, the shapes and the tests read it like every other one. A row goes
when kio has the version.
Source: the message definitions of Apache Kafka 4.4.0 (KIP-1242, KIP-1319, KIP-1331, KIP-1357,
DeleteGroups 3, UnregisterController 0).
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from uuid import UUID

Load = Callable[[int, int], type]
Fields = Mapping[str, tuple[tuple[str | None, *tuple[Any, ...]], ...]]
"""By structure: (the name of one of its fields, or None for the end, then the rows that take its
place, `KEEP` for itself)."""
KEEP = ()


class Change(typing.NamedTuple):
    """What a version changes: the (key, version) that it starts from, the fields, and a new
    message's name."""

    base: tuple[int, int]
    fields: Fields
    name: str = ""


class Structure(typing.NamedTuple):
    """A structure that kio does not have, as the kind of a field."""

    name: str
    fields: tuple[Any, ...]
    is_array: bool = False
    is_nullable: bool = False


def _new(name: str, kind: Any, kafka_type: str, default: Any = dataclasses.MISSING) -> Any:
    return name, kind, dataclasses.field(metadata={"kafka_type": kafka_type}, default=default)


def _of(name: str, kind: Structure, default: Any = dataclasses.MISSING) -> Any:
    return name, kind, dataclasses.field(default=default)


def _texts(name: str) -> Any:
    return _new(name, tuple[str, ...], "string", ())


_TOPIC_ID = ("name", _new("topic_id", UUID | None, "uuid"))

_NODE = Structure(
    "TopologyDescriptionNode",
    (
        _new("name", str, "string"),
        _new("node_type", int, "int8"),
        _texts("source_topics"),
        _new("sink_topic", str | None, "string", None),
        _texts("stores"),
        _texts("successors"),
    ),
)
_TOPOLOGY = Structure(
    "TopologyDescription",
    (
        _of(
            "subtopologies",
            Structure(
                "TopologyDescriptionSubtopology",
                (
                    _new("subtopology_id", str, "string"),
                    _of("nodes", _NODE._replace(is_array=True)),
                ),
                is_array=True,
            ),
        ),
        _of(
            "global_stores",
            Structure(
                "TopologyDescriptionGlobalStore",
                (_of("source", _NODE), _of("processor", _NODE)),
                is_array=True,
            ),
        ),
    ),
)

REQUESTS: dict[tuple[int, int], Change] = {
    (18, 5): Change(
        (18, 4),
        {
            "ApiVersionsRequest": (
                (None, _new("cluster_id", str | None, "string", None)),
                (None, _new("node_id", int, "int32", -1)),
            )
        },
    ),
    (28, 6): Change((28, 5), {"TxnOffsetCommitRequestTopic": (_TOPIC_ID,)}),
    (42, 3): Change((42, 2), {}),
    (88, 1): Change((88, 0), {}),
    (89, 1): Change(
        (89, 0),
        {
            "StreamsGroupDescribeRequest": (
                (None, _new("include_topology_description", bool, "bool", False)),
            )
        },
    ),
    (93, 0): Change(
        (64, 0),
        {
            "UnregisterBrokerRequest": (
                ("broker_id", _new("group_id", str, "string")),
                (None, _new("member_id", str, "string")),
                (None, _new("topology_epoch", int, "int32")),
                (None, _of("topology_description", _TOPOLOGY)),
            )
        },
        "StreamsGroupTopologyDescriptionUpdateRequest",
    ),
    (94, 0): Change(
        (64, 0),
        {"UnregisterBrokerRequest": (("broker_id", _new("controller_id", int, "int32")),)},
        "UnregisterControllerRequest",
    ),
}

RESPONSES: dict[tuple[int, int], Change] = {
    (18, 5): Change((18, 4), {}),
    (28, 6): Change((28, 5), {"TxnOffsetCommitResponseTopic": (_TOPIC_ID,)}),
    (42, 3): Change(
        (42, 2),
        {"DeletableGroupResult": ((None, _new("error_message", str | None, "string", None)),)},
    ),
    (88, 1): Change(
        (88, 0),
        {
            "StreamsGroupHeartbeatResponse": (
                ("acceptable_recovery_lag",),
                ("task_offset_interval", KEEP, _new("acceptable_recovery_lag", int, "int64", -1)),
                (
                    "warmup_tasks",
                    KEEP,
                    _new("topology_description_required", bool, "bool", False),
                ),
            )
        },
    ),
    (89, 1): Change(
        (89, 0),
        {
            "DescribedGroup": (
                (None, _of("topology_description", _TOPOLOGY._replace(is_nullable=True), None)),
                (None, _new("topology_description_status", int, "int8", 0)),
                (None, _new("assignor_name", str | None, "string", None)),
            )
        },
    ),
    (93, 0): Change((64, 0), {}, "StreamsGroupTopologyDescriptionUpdateResponse"),
    (94, 0): Change((64, 0), {}, "UnregisterControllerResponse"),
}


def derived(load: Load, key: int, version: int, change: Change) -> type:
    """The class of a version, in kio's form."""
    return _derive(load(*change.base), (key, version), change.fields, change.name)


def _derive(base: type, at: tuple[int, int], changed: Fields, name: str = "") -> type:
    rows = [_nested(field, at, changed) for field in dataclasses.fields(base)]
    for instead, *new in changed.get(base.__name__, ()):
        place = len(rows) if instead is None else [each[0] for each in rows].index(instead)
        old = rows[place : place + 1]
        rows[place : place + 1] = [
            each for row in new for each in (old if row == KEEP else [_built(row, base, at)])
        ]
    return _made(name or base.__name__, rows, base, at)


def _made(name: str, rows: list[Any], base: Any, at: tuple[int, int]) -> type:
    """A class with kio's constants, which are those of `base` but for the key and the version."""
    namespace: dict[str, Any] = {
        "__type__": base.__type__,
        "__version__": type(base.__version__)(at[1]),
        "__flexible__": base.__flexible__,
    }
    if hasattr(base, "__api_key__"):
        namespace["__api_key__"] = type(base.__api_key__)(at[0])
        namespace["__header_schema__"] = base.__header_schema__
    namespace["__annotations__"] = dict.fromkeys(namespace, ClassVar)
    return dataclasses.make_dataclass(
        name, rows, namespace=namespace, frozen=True, slots=True, kw_only=True
    )


def _built(row: tuple[str, Any, Any], base: Any, at: tuple[int, int]) -> tuple[str, Any, Any]:
    """The row with the class of its structure, if it has one."""
    name, kind, field = row
    if isinstance(kind, Structure):
        made: Any = _made(kind.name, [_built(each, base, at) for each in kind.fields], base, at)
        kind = tuple[made, ...] if kind.is_array else made | None if kind.is_nullable else made
    return name, kind, _copied(field)


def _nested(field: Any, at: tuple[int, int], changed: Fields) -> tuple[str, Any, Any]:
    """The field with the structure below it derived, too."""
    made, is_array, is_nullable = _structure(field.type)
    if made is None:
        return field.name, field.type, _copied(field)
    derived: Any = _derive(made, at, changed)
    kind = tuple[derived, ...] if is_array else derived
    return field.name, kind | None if is_nullable else kind, _copied(field)


def _structure(kind: Any) -> tuple[type | None, bool, bool]:
    """(the structure of a field's type or None, whether it is an array, whether it may be null)."""
    parts = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    (kind, *more) = [each for each in parts if each is not type(None)]
    is_array = typing.get_origin(kind) is tuple
    inner = typing.get_args(kind)[0] if is_array else kind
    is_structure = not more and isinstance(inner, type) and dataclasses.is_dataclass(inner)
    return inner if is_structure else None, is_array, len(parts) > 1


def _copied(field: Any) -> Any:
    return dataclasses.field(metadata=field.metadata, default=field.default)
