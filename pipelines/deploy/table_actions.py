"""The state of a Delta table by its log, and the actions that swap it or take it back. Pure.

A state is all live actions of a version: protocol, metadata, files, transactions and domains. Both
commits replace every file of the table and carry the chain's next transaction, so one version of
the table has the rows together with their offsets. (Delta's PROTOCOL.md: actions.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from pipelines.exactly_once.other_chains import ChainName

Action = dict[str, Any]
FileId = tuple[str, str]
"""A file's path in the log, and its deletion vector."""

_WRITABLE = {
    "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping",
    "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "domainMetadata",
    "clustering", "vacuumProtocolCheck", "v2Checkpoint", "variantType", "variantType-preview",
    "appendOnly",
}  # fmt: skip
"""The table features for which a swap by files is a right commit."""
_BY_WRITER = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
}
"""The features that a legacy writer version stands for, each version with those before it."""
_READER_FEATURES = {
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview",
    "v2Checkpoint", "vacuumProtocolCheck", "variantType", "variantType-preview",
}  # fmt: skip
_ENCODER = json.JSONEncoder(ensure_ascii=False)  # `dumps` would make one for each line
_CONSTRAINTS = "delta.constraints."
_OF_FILES = (_CONSTRAINTS, "delta.columnMapping.", "delta.identity.")
"""Properties that belong to a schema and its files, not to the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A table at a version; -1: it has none."""

    version: int = -1
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    files: Mapping[FileId, Action] = field(default_factory=dict)
    domains: Mapping[str, Action] = field(default_factory=dict)

    def with_actions(self, version: int, actions: Iterable[Action]) -> TableState:
        """The state after a commit, or that of a checkpoint over an empty one."""
        files, domains = dict(self.files), dict(self.domains)
        state = replace(self, version=version)
        for action in actions:
            if add := action.get("add"):
                files[_file_id(add)] = add
            elif gone := action.get("remove"):
                files.pop(_file_id(gone), None)
            elif metadata := action.get("metaData"):
                state = replace(state, metadata=metadata)
            elif protocol := action.get("protocol"):
                state = replace(state, protocol=protocol)
            elif domain := action.get("domainMetadata"):
                domains[domain["domain"]] = domain
        return replace(state, files=files, domains=domains)


def _file_id(action: Action) -> FileId:
    vector = action.get("deletionVector")
    if not vector:
        return action["path"], ""
    parts = [str(vector.get(key, "")) for key in ("storageType", "pathOrInlineDv", "offset")]
    return action["path"], "|".join(parts)


def files_to_copy(state: TableState) -> list[str]:
    """The paths below the table's folder of the data files and deletion vectors of a state."""
    found: dict[str, None] = {}
    for add in state.files.values():
        found[unquote(add["path"])] = None
        vector = add.get("deletionVector") or {}
        if vector.get("storageType") == "u":
            found[vector_file(vector["pathOrInlineDv"])] = None
    return list(found)


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def vector_file(text: str) -> str:
    """The path of a deletion vector's file: a random prefix and a UUID in Z85, 20 characters."""
    prefix, coded = text[:-20], text[-20:]
    data = b""
    for at in range(0, 20, 5):
        value = 0
        for char in coded[at : at + 5]:
            value = value * 85 + _Z85.index(char)
        data += value.to_bytes(4, "big")
    hexed = data.hex()
    parts = (hexed[:8], hexed[8:12], hexed[12:16], hexed[16:20], hexed[20:])
    return f"{prefix + '/' if prefix else ''}deletion_vector_{'-'.join(parts)}.bin"


def why_not(state: TableState) -> str | None:
    """Why a table cannot be swapped by its files; None if it can."""
    if not state.protocol:
        return None
    others = sorted(_features(state.protocol) - _WRITABLE)
    if others:
        return f"its table has features that a deploy cannot write: {', '.join(others)}"
    settings = state.metadata.get("configuration", {})
    if settings.get("delta.appendOnly") == "true":
        return "its table is append-only (`delta.appendOnly`): no rows of it may be replaced"
    if any("://" in path or path.startswith("/") for path, _ in state.files):
        return "its table has files outside of its folder: it is a shallow clone"
    return None


def constraints_beyond(state: TableState, own: Iterable[str]) -> list[str]:
    """The CHECK constraints of a table that are not among `own`. Delta's names are in lower
    case."""
    known = {name.lower() for name in own}
    settings = state.metadata.get("configuration", {})
    names = [key.removeprefix(_CONSTRAINTS) for key in settings if key.startswith(_CONSTRAINTS)]
    return sorted(name for name in names if name.lower() not in known)


def _features(protocol: Action) -> set[str]:
    """All features of a protocol, also those that a legacy version stands for."""
    writer = int(protocol.get("minWriterVersion", 1))
    if writer >= 7:
        return {*(protocol.get("writerFeatures") or ()), *(protocol.get("readerFeatures") or ())}
    found = {name for at, names in _BY_WRITER.items() if at <= writer for name in names}
    return found | ({"identityColumns"} if writer == 6 else set())


def together(one: Action, other: Action) -> Action:
    """The protocol with the features of both."""
    if not one or not other or one == other:
        return one or other
    is_named = [p for p in (one, other) if int(p["minWriterVersion"]) >= 7]
    if not is_named:
        keys = ("minReaderVersion", "minWriterVersion")
        return {key: max(int(one[key]), int(other[key])) for key in keys}
    features = _features(one) | _features(other)
    readers = sorted(features & _READER_FEATURES)
    made: Action = {"minReaderVersion": 1, "minWriterVersion": 7}
    if readers == ["columnMapping"]:
        made["minReaderVersion"] = 2
    elif readers:
        made |= {"minReaderVersion": 3, "readerFeatures": readers}
    return made | {"writerFeatures": sorted(features)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A commit that replaces all files: its chain entry, operation, time, and a mark of its own."""

    name: ChainName
    txn_version: int
    said: Mapping[str, Any]
    operation: str
    now_ms: int
    mark: str

    def lines(self, live: TableState, then: TableState) -> str:
        """The commit file that turns `live` into `then`: every action, a line each. Characters
        stay as they are: delta-rs decodes some escapes wrongly (`sinks/parquet_statistics.py`)."""
        actions = self._actions(live, then)
        return "".join(_ENCODER.encode(each) + "\n" for each in actions)

    def _actions(self, live: TableState, then: TableState) -> Iterator[Action]:
        """Transactions are not taken back: Delta skips a number that was there before."""
        yield {"commitInfo": self._info(live)}
        protocol = together(then.protocol, live.protocol)
        if protocol != live.protocol:
            yield {"protocol": protocol}
        metadata = _metadata(live, then)
        if metadata != live.metadata:
            yield {"metaData": metadata}
        txn = {"appId": self.name.app_id, "version": self.txn_version, "lastUpdated": self.now_ms}
        yield {"txn": txn}
        for name, domain in live.domains.items():
            if name not in then.domains and not domain.get("removed"):
                yield {"domainMetadata": {**domain, "removed": True}}
        for name, domain in then.domains.items():
            if live.domains.get(name) != domain:
                yield {"domainMetadata": domain}
        for file, add in live.files.items():
            if file not in then.files:
                yield {"remove": self._removed(add)}
        for file, add in then.files.items():
            if file not in live.files:
                yield {"add": {**add, "modificationTime": self.now_ms, "dataChange": True}}

    def _info(self, live: TableState) -> Action:
        info: Action = {
            "timestamp": self.now_ms,
            "operation": self.operation,
            "operationParameters": {},
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "operationMetrics": {},
            "engineInfo": "Josefine",
            "txnId": self.mark,
            "userMetadata": json.dumps(self.said),
        }
        return info if live.version < 0 else {**info, "readVersion": live.version}

    def _removed(self, add: Action) -> Action:
        kept = ("path", "partitionValues", "size", "deletionVector", "tags")
        gone = {key: add[key] for key in kept if add.get(key) is not None}
        times = {"deletionTimestamp": self.now_ms, "dataChange": True, "extendedFileMetadata": True}
        return {**gone, **times}


def _metadata(live: TableState, then: TableState) -> Action:
    """The schema of `then` under the table's own id: streams read the table by it. A property that
    a person gave the table stays, unless `then` has another value."""
    if not live.metadata:
        return dict(then.metadata)
    before = live.metadata.get("configuration", {})
    stay = {key: text for key, text in before.items() if not key.startswith(_OF_FILES)}
    made = {**then.metadata, "configuration": {**stay, **then.metadata.get("configuration", {})}}
    for key in ("id", "name", "description", "createdTime"):
        made.pop(key, None)
        if live.metadata.get(key) is not None:
            made[key] = live.metadata[key]
    return made
