"""Versions of messages that Kafka has and kio does not have yet, as classes in kio's own form.

Each is derived from kio's newest class by the fields that changed, so that the codec, the shapes
and the tests read it like every other one. A row goes when kio has the version.
Source: the message definitions of Apache Kafka 4.4.0 (KIP-1242, KIP-1319; DeleteGroups 3).
"""

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from uuid import UUID

Load = Callable[[int, int], type]
Fields = Mapping[str, tuple[tuple[str | None, Any], ...]]


class Change(typing.NamedTuple):
    """What a version changes: per structure, its new fields, each in place of the named one or at
    the end (None), and the version that it starts from."""

    base_version: int
    fields: Fields


def _new(name: str, kind: Any, kafka_type: str, default: Any = dataclasses.MISSING) -> Any:
    return name, kind, dataclasses.field(metadata={"kafka_type": kafka_type}, default=default)


_TOPIC_ID = ("name", _new("topic_id", UUID | None, "uuid"))

REQUESTS: dict[tuple[int, int], Change] = {
    (18, 5): Change(
        4,
        {
            "ApiVersionsRequest": (
                (None, _new("cluster_id", str | None, "string", None)),
                (None, _new("node_id", int, "int32", -1)),
            )
        },
    ),
    (28, 6): Change(5, {"TxnOffsetCommitRequestTopic": (_TOPIC_ID,)}),
    (42, 3): Change(2, {}),
}

RESPONSES: dict[tuple[int, int], Change] = {
    (18, 5): Change(4, {}),
    (28, 6): Change(5, {"TxnOffsetCommitResponseTopic": (_TOPIC_ID,)}),
    (42, 3): Change(
        2, {"DeletableGroupResult": ((None, _new("error_message", str | None, "string", None)),)}
    ),
}


def derived(load: Load, key: int, version: int, change: Change) -> type:
    """kio's class of the version before, with the change."""
    return _derive(load(key, change.base_version), version, change.fields)


def _derive(base: type, version: int, changed: Fields) -> type:
    rows = [_nested(field, version, changed) for field in dataclasses.fields(base)]
    for instead, row in changed.get(base.__name__, ()):
        at = len(rows) if instead is None else [each[0] for each in rows].index(instead)
        rows[at : at if instead is None else at + 1] = [row]
    constants = {
        name: value
        for name, value in vars(base).items()
        if name in ("__type__", "__flexible__", "__api_key__", "__header_schema__")
    }
    namespace: dict[str, Any] = {**constants, "__version__": type(base.__version__)(version)}  # type: ignore[attr-defined]
    namespace["__annotations__"] = dict.fromkeys(namespace, ClassVar)
    return dataclasses.make_dataclass(
        base.__name__, rows, namespace=namespace, frozen=True, slots=True, kw_only=True
    )


def _nested(field: Any, version: int, changed: Fields) -> tuple[str, Any, Any]:
    """The field with the structure below it derived, too."""
    copied = dataclasses.field(metadata=field.metadata, default=field.default)
    kind = field.type
    inner = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
    if dataclasses.is_dataclass(inner):
        made = _derive(typing.cast(type, inner), version, changed)
        kind = tuple[made, ...] if inner is not kind else made  # type: ignore[valid-type]
    return field.name, kind, copied
