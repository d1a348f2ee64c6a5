"""ACL requests: which numbers and which combinations name one ACL."""

import pytest

from josefine_broker.base.acls import Operation, PatternType, Permission, ResourceType
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.acls import TEXT_CHARS_MAX, acl_of, filter_of

TOPIC, LITERAL, READ, ALLOW = (
    ResourceType.TOPIC.value, PatternType.LITERAL.value, Operation.READ.value,
    Permission.ALLOW.value,
)  # fmt: skip
GOOD = {
    "resource_type": TOPIC, "name": "t", "pattern": LITERAL, "principal": "User:a", "host": "*",
    "operation": READ, "permission": ALLOW,
}  # fmt: skip


def test_numbers_of_a_request_name_one_acl() -> None:
    acl = acl_of(filter_of(**GOOD))

    assert tuple(acl) == (
        ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ,
        Permission.ALLOW,
    )  # fmt: skip


@pytest.mark.parametrize("field", ["resource_type", "pattern", "operation", "permission"])
def test_a_number_that_kafka_does_not_have_is_refused(field: str) -> None:
    with pytest.raises(KafkaError) as caught:
        filter_of(**{**GOOD, field: 99})

    assert caught.value.code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"resource_type": ResourceType.ANY.value}, "one resource type"),
        ({"pattern": PatternType.MATCH.value}, "LITERAL or PREFIXED"),
        ({"operation": Operation.ANY.value}, "one operation"),
        ({"permission": Permission.ANY.value}, "one permission"),
        ({"operation": Operation.CLUSTER_ACTION.value}, "is not valid for resource type TOPIC"),
        ({"name": ""}, "none of them empty"),
        ({"principal": None}, "none of them empty"),
        ({"host": ""}, "none of them empty"),
        ({"name": "x" * (TEXT_CHARS_MAX + 1)}, "has at most 1024 characters"),
        ({"principal": "Group:a"}, "a principal must be 'User:NAME', not 'Group:a'"),
        ({"principal": "User:"}, "a principal must be 'User:NAME', not 'User:'"),
        ({"resource_type": ResourceType.CLUSTER.value, "operation": Operation.ALTER.value},
         "the only resource of type CLUSTER is 'kafka-cluster', not 't'"),
    ],
)  # fmt: skip
def test_what_names_no_single_acl_is_refused_with_the_reason(changed, why: str) -> None:
    with pytest.raises(KafkaError) as caught:
        acl_of(filter_of(**{**GOOD, **changed}))

    assert caught.value.code is ErrorCode.invalid_request
    assert why in caught.value.message


@pytest.mark.parametrize("operation", [Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS])
def test_a_right_on_the_configurations_of_a_group_can_be_given(operation: Operation) -> None:
    """Or with access control only superusers could read and set them."""
    kind = ResourceType.GROUP
    wanted = filter_of(**{**GOOD, "resource_type": kind.value, "operation": operation.value})
    assert acl_of(wanted).operation is operation


def test_all_operations_of_a_resource_are_one_acl() -> None:
    assert acl_of(filter_of(**{**GOOD, "operation": Operation.ALL.value}))
