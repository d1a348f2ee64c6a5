"""Write `josefine_broker/wire/entities/`, our shape of each message, from kio's schemas.

`python -m tests.generate_entities` writes them;
tests/unit/josefine_broker/wire/test_entities.py holds them equal.
A field's name, type and order are those of kio's class of the newest version that is served, and
its default is kio's. Where a field has a default besides is a rule (`_default`), with the
exceptions below. Docstrings are written by hand in the files and kept; so are constants.
"""

import ast
import dataclasses
import re
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path

from josefine_broker.base.schemas import load_request_schema, load_response_schema
from josefine_broker.wire.apis import APIS, FETCH, PRODUCE, ApiSpec
from josefine_broker.wire.schema import our_name, parse_hint

FOLDER = Path(__file__).resolve().parents[1] / "josefine_broker" / "wire" / "entities"
BY_HAND = {PRODUCE, FETCH}

NAMES = {
    "AlterClientQuotasRequest": {
        "EntryData": "QuotaEntry",
        "EntityData": "QuotaPart",
        "OpData": "QuotaOp",
    },
    "AlterClientQuotasResponse": {"EntryData": "AlteredQuotas", "EntityData": "QuotaPart"},
    "DescribeClientQuotasRequest": {"ComponentData": "QuotaComponent"},
    "DescribeClientQuotasResponse": {
        "EntryData": "QuotaEntry",
        "EntityData": "QuotaPart",
        "ValueData": "QuotaValue",
    },
    "DescribeQuorumRequest": {"PartitionData": "PartitionRequest", "TopicData": "TopicRequest"},
}
"""Message → Kafka's name of a structure → ours, where Kafka's says nothing or means two things."""

OLDER = {
    "MetadataRequest": ("include_cluster_authorized_operations",),
    "MetadataResponse": ("cluster_authorized_operations",),
    "OffsetCommitRequest": ("retention_time_ms",),
    "OffsetCommitRequestTopic": ("name",),
    "OffsetCommitResponseTopic": ("name",),
    "OffsetFetchRequestTopics": ("name",),
    "OffsetFetchResponseTopics": ("name",),
    "TxnOffsetCommitRequestTopic": ("name",),
    "TxnOffsetCommitResponseTopic": ("name",),
    "UpdateFeaturesResponse": ("results",),
}
"""Fields that the newest version does not have, in an older one's place. Others went with a change
of structure (`josefine_broker/wire/versions.py`)."""

REQUIRED = {
    "add_partitions_to_txn.AddPartitionsToTxnTopic": "partitions",
    "alter_client_quotas.QuotaPart": "entity_name",
    "alter_replica_log_dirs.AlterReplicaLogDirTopic": "partitions",
    "delete_groups.DeleteGroupsRequest": "groups_names",
    "describe_client_quotas.QuotaPart": "entity_name",
    "describe_groups.DescribeGroupsRequest": "groups",
    "describe_producers.TopicRequest": "partition_indexes",
    "describe_transactions.DescribeTransactionsRequest": "transactional_ids",
    "describe_transactions.TopicData": "partitions",
    "write_txn_markers.WritableTxnMarkerTopic": "partition_indexes",
}
"""Structure → fields that whoever makes one has to name, although the rule gives them a default."""

OPTIONAL = {
    "alter_configs.AlterConfigsRequest": "validate_only",
    "alter_configs.AlterableConfig": "value",
    "consumer_group_describe.Assignment": "topic_partitions",
    "consumer_group_describe.ConsumerGroupDescribeRequest": "include_authorized_operations",
    "consumer_group_describe.ConsumerGroupDescribeResponse": "groups",
    "consumer_group_describe.DescribedGroup": (
        "group_state group_epoch assignment_epoch assignor_name members"
    ),
    "consumer_group_describe.Member": "member_epoch client_id client_host",
    "consumer_group_describe.TopicPartitions": "topic_name",
    "consumer_group_heartbeat.Assignment": "topic_partitions",
    "consumer_group_heartbeat.ConsumerGroupHeartbeatRequest": (
        "member_id member_epoch topic_partitions"
    ),
    "consumer_group_heartbeat.ConsumerGroupHeartbeatResponse": "member_epoch heartbeat_interval_ms",
    "create_partitions.CreatePartitionsRequest": "validate_only",
    "create_topics.CreatableTopicConfig": "value",
    "create_topics.CreatableTopicResult": "configs",
    "describe_cluster.DescribeClusterRequest": "include_cluster_authorized_operations",
    "describe_groups.DescribedGroup": "group_state protocol_type protocol_data members",
    "describe_groups.DescribedGroupMember": "member_metadata member_assignment",
    "describe_producers.PartitionResponse": "active_producers",
    "describe_quorum.DescribeQuorumResponse": "nodes",
    "describe_quorum.PartitionData": "current_voters observers",
    "describe_transactions.TransactionState": "transaction_state topics",
    "describe_user_scram_credentials.DescribeUserScramCredentialsResult": "credential_infos",
    "get_telemetry_subscriptions.GetTelemetrySubscriptionsResponse": (
        "subscription_id push_interval_ms telemetry_max_bytes"
    ),
    "incremental_alter_configs.AlterableConfig": "value",
    "incremental_alter_configs.IncrementalAlterConfigsRequest": "validate_only",
    "init_producer_id.InitProducerIdRequest": "transactional_id",
    "join_group.JoinGroupResponse": "leader member_id members",
    "leave_group.LeaveGroupResponse": "members",
    "metadata.MetadataRequestTopic": "name",
    "offset_commit.OffsetCommitRequestPartition": "committed_metadata",
    "offset_delete.OffsetDeleteResponse": "topics",
    "remove_raft_voter.RemoveRaftVoterRequest": "cluster_id",
    "sync_group.SyncGroupRequest": "assignments",
    "sync_group.SyncGroupResponse": "assignment",
    "txn_offset_commit.TxnOffsetCommitRequestPartition": "committed_metadata",
    "update_features.UpdateFeaturesResponse": "results",
}
"""Structure → fields that may be left out, although the rule gives them no default."""

VALUES = {
    "alter_user_scram_credentials.ScramCredentialUpsertion.salted_password": "field(repr=False)",
    "describe_quorum.PartitionData.leader_id": "-1",
    "describe_quorum.PartitionData.leader_epoch": "-1",
    "describe_quorum.PartitionData.high_watermark": "-1",
    "describe_topic_partitions.DescribeTopicPartitionsResponsePartition.eligible_leader_replicas": (
        "()"
    ),
    "describe_topic_partitions.DescribeTopicPartitionsResponsePartition.last_known_elr": "()",
    "describe_transactions.TransactionState.transaction_timeout_ms": "-1",
    "describe_transactions.TransactionState.transaction_start_time_ms": "-1",
    "describe_transactions.TransactionState.producer_id": "-1",
    "describe_transactions.TransactionState.producer_epoch": "-1",
    "list_config_resources.ConfigResource.resource_type": "CLIENT_METRICS",
    "sasl_authenticate.SaslAuthenticateRequest.auth_bytes": "field(repr=False)",
    "sasl_authenticate.SaslAuthenticateResponse.auth_bytes": 'field(default=b"", repr=False)',
}
"""Field → its default, where that is not the one of its type; what is secret is never shown."""

_PLAIN = {
    "bool": ("bool", "False"),
    "bytes": ("bytes", 'b""'),
    "error_code": ("ErrorCode", "ErrorCode.none"),
    "float64": ("float", "0.0"),
    "records": ("bytes | None", "None"),
    "string": ("str", '""'),
    "uuid": ("UUID | None", "None"),
}
"""Type and default by Kafka's type; every other one is a number."""


class Struct(typing.NamedTuple):
    """A structure of a message: our name of it, and its classes in kio by version, newest last."""

    module: str
    is_request: bool
    name: str
    classes: list[type | None]
    """None: that version has no such structure."""
    versions: range

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


class Member(typing.NamedTuple):
    """A field of a structure."""

    name: str
    hint: str
    default: str | None
    struct: type | None
    versions: list[int]
    """Those that carry it, of those that have the structure."""


def files() -> dict[str, str]:
    """The name of each file in FOLDER, and its text."""
    specs = [each for each in APIS.values() if not each.is_declined and each.key not in BY_HAND]
    made = {f"{_module(spec)}.py": text_of(spec) for spec in specs}
    return {**made, "__init__.py": _init(sorted(_module(spec) for spec in specs))}


def text_of(spec: ApiSpec) -> str:
    """The file of one API."""
    path = FOLDER / f"{_module(spec)}.py"
    kept = Kept(path.read_text() if path.exists() else "")
    shapes: dict[str, str] = {}
    for what, load in (("Request", load_request_schema), ("Response", load_response_schema)):
        versions = range(spec.min_version, spec.max_version + 1)
        classes: list[type | None] = [load(spec.key, each) for each in versions]
        root = Struct(_module(spec), what == "Request", spec.name + what, classes, versions)
        for name, lines in _shapes(root, NAMES.get(root.name, {})):
            text = "\n".join((kept.docstring(name), "", *lines)) if lines else kept.docstring(name)
            assert shapes.setdefault(name, text) == text, f"two structures {name} in {spec.name}"
    body = "".join(
        f"\n\n@dataclass(frozen=True, slots=True, kw_only=True)\nclass {name}:\n{text}\n"
        for name, text in shapes.items()
    )
    imports = ["from dataclasses import dataclass" + (", field" if "field(" in body else "")]
    imports += ["from uuid import UUID"] if "UUID" in body else []
    imports += (
        ["", "from josefine_broker.base.errors import ErrorCode"] if "ErrorCode" in body else []
    )
    head = (
        f'"""{spec.name} (key {spec.key}) in the one shape that handlers see: version'
        f" {spec.max_version}.{kept.more}\n"
    )
    return "\n".join([head, *imports]) + "\n" + kept.constants + body


def _shapes(struct: Struct, names: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """(name, lines of the fields) of a structure, behind those that it has."""
    lines = []
    for each in _members(struct):
        hint = each.hint
        if each.struct is not None:
            name = names.get(each.struct.__name__, each.struct.__name__)
            hint = hint.replace("STRUCT", name)
            inner = [_struct_at(one, each.name) for one in struct.classes]
            yield from _shapes(struct._replace(name=name, classes=inner), names)
        default = "" if each.default is None else f" = {each.default}"
        lines.append(f"    {each.name}: {hint}{default}{_comment(struct, each)}")
    yield struct.name, lines


def _comment(struct: Struct, member: Member) -> str:
    """Which versions carry a field, of those that have its structure."""
    having = [
        v for v, each in zip(struct.versions, struct.classes, strict=True) if each is not None
    ]
    if member.versions == having:
        return ""
    first, last = member.versions[0], member.versions[-1]
    if last == having[-1]:
        return f"  # since version {first}"
    return f"  # until version {last}" if first == having[0] else f"  # versions {first} to {last}"


def _members(struct: Struct) -> list[Member]:
    newest = [each for each in struct.classes if each is not None][-1]
    fields = list(dataclasses.fields(newest))
    for name in OLDER.get(struct.name, ()):
        older = next(c for c in reversed(struct.classes) if c is not None and _field(c, name))
        before = [our_name(each) for each in dataclasses.fields(older)]
        before = before[: before.index(name)]
        place = [n for n, each in enumerate(fields) if our_name(each) in before]
        fields.insert(place[-1] + 1 if place else 0, _field(older, name))
    return [_member(struct, each) for each in fields]


def _member(struct: Struct, field: typing.Any) -> Member:
    name, kafka_type = our_name(field), field.metadata.get("kafka_type")
    is_array, nullable, inner = parse_hint(field.type)
    hint, natural = ("STRUCT", "None") if inner else _PLAIN.get(kafka_type, ("int", "0"))
    if is_array:
        hint, natural = f"tuple[{hint}, ...]", "()"
    if nullable and not hint.endswith("| None"):
        hint, natural = f"{hint} | None", "None"
    classes = zip(struct.versions, struct.classes, strict=True)
    versions = [version for version, each in classes if each is not None and _field(each, name)]
    is_everywhere = len(versions) == sum(each is not None for each in struct.classes)
    default = _default(field, natural, is_everywhere, struct.is_request)
    if name in REQUIRED.get(struct.path, "").split():
        default = None
    if name in OPTIONAL.get(struct.path, "").split():
        default = natural
    return Member(name, hint, VALUES.get(f"{struct.path}.{name}", default), inner, versions)


def _default(field: typing.Any, natural: str, is_everywhere: bool, is_request: bool) -> str | None:
    kafka_type = field.metadata.get("kafka_type")
    is_array, nullable, inner = parse_hint(field.type)
    if field.default is not dataclasses.MISSING:
        return _written(field.default, natural)
    if is_array and inner is not None:
        return None
    # What an older version does not carry has to be something when it is read.
    if not is_everywhere or kafka_type in ("uuid", "error_code"):
        return natural
    is_often_none = not is_request and not is_array and (nullable or kafka_type == "bool")
    return natural if is_often_none or field.name == "throttle_time" else None


def _written(default: typing.Any, natural: str) -> str:
    if hasattr(default, "total_seconds"):
        return str(round(default.total_seconds() * 1_000))
    if isinstance(default, str):
        return f'"{default}"'
    return natural if natural == "ErrorCode.none" else repr(default)


def _field(of: type, name: str) -> typing.Any:
    """kio's field by our name; None where there is none."""
    return next((each for each in dataclasses.fields(of) if our_name(each) == name), None)


def _struct_at(of: type | None, name: str) -> type | None:
    field = None if of is None else _field(of, name)
    return None if field is None else parse_hint(field.type)[2]


class Kept:
    """What of a file is written by hand."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        tree = ast.parse(text)
        self._classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
        self.more = '"""'
        """Of the file's docstring, what follows the first sentence."""
        self.constants = ""
        if tree.body:
            head = self._of(tree.body[0])
            found = re.search(r"version \d+\.", head)
            self.more = head[found.end() :] if found else '"""'
        made = [
            self._of(each)
            for each in tree.body[1:]
            if not isinstance(each, ast.ClassDef | ast.Import | ast.ImportFrom)
        ]
        if made:
            self.constants = "\n" + "\n".join(made) + "\n"

    def docstring(self, name: str) -> str:
        """That of a class, as it stands there."""
        found = self._classes.get(name)
        return self._of(found.body[0]) if found else f'    """{name}."""'

    def _of(self, node: ast.stmt) -> str:
        return "\n".join(self._lines[node.lineno - 1 : node.end_lineno])


def _init(modules: Sequence[str]) -> str:
    """The package's file: its list of modules, for type checkers and at run time."""
    text = (FOLDER / "__init__.py").read_text()
    listed = "".join(f"        {each},\n" for each in modules)
    text = re.sub(r"(entities import \(\n).*?(    \)\n)", rf"\g<1>{listed}\g<2>", text, flags=re.S)
    quoted = "".join(f'    "{each}",\n' for each in modules)
    return re.sub(r"(__all__ = \[\n).*?(\]\n)", rf"\g<1>{quoted}\g<2>", text, flags=re.S)


def _module(spec: ApiSpec) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", spec.name).lower()


if __name__ == "__main__":
    for file, text in files().items():
        (FOLDER / file).write_text(text)
