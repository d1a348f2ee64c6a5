"""Administration of ACLs (KIP-140) and SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from josefine_broker.base.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.scram import NUMBERS, salted_password
from josefine_broker.client import effects
from josefine_broker.client.effects import ANY_BROKER, Call
from josefine_broker.client.operations import ask_until
from josefine_broker.client.session import Attempts, Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e


def create_acls(
    session: Session, acls: Sequence[Acl], now_ms: int, deadline_ms: int
) -> effects.Operation[None]:
    """Create all of them, or raise the first error; an existing ACL is no error."""
    attempts = session.start(now_ms, deadline_ms, "create ACLs")
    request = e.create_acls.CreateAclsRequest(
        creations=tuple(
            e.create_acls.AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        )
    )
    call = Call(node=ANY_BROKER, api_key=apis.CREATE_ACLS, request=request)
    yield from ask_until(attempts, call, lambda response: _first_error(response.results))


def describe_acls(
    session: Session, wanted: AclFilter, now_ms: int, deadline_ms: int
) -> effects.Operation[list[Acl]]:
    """The ACLs that match the filter."""
    attempts = session.start(now_ms, deadline_ms, "describe ACLs")
    request = e.describe_acls.DescribeAclsRequest(**_words(wanted))
    call = Call(node=ANY_BROKER, api_key=apis.DESCRIBE_ACLS, request=request)
    response, _ = yield from ask_until(attempts, call, lambda found: _first_error([found]))
    return [
        _acl(each.resource_type, each.resource_name, each.pattern_type, acl)
        for each in response.resources
        for acl in each.acls
    ]


def delete_acls(
    session: Session, wanted: AclFilter, now_ms: int, deadline_ms: int
) -> effects.Operation[list[Acl]]:
    """Delete matching ACLs; returns them."""
    attempts = session.start(now_ms, deadline_ms, "delete ACLs")
    unwanted = e.delete_acls.DeleteAclsFilter(**_words(wanted))
    request = e.delete_acls.DeleteAclsRequest(filters=(unwanted,))
    call = Call(node=ANY_BROKER, api_key=apis.DELETE_ACLS, request=request)
    response, _ = yield from ask_until(
        attempts, call, lambda answer: _first_error(answer.filter_results)
    )
    return [
        _acl(each.resource_type, each.resource_name, each.pattern_type, each)
        for result in response.filter_results
        for each in result.matching_acls
    ]


def describe_users(
    session: Session, now_ms: int, deadline_ms: int
) -> effects.Operation[dict[str, dict[str, int]]]:
    """User → mechanism → iterations, for users in the metadata."""
    attempts = session.start(now_ms, deadline_ms, "describe users")
    request = e.describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)
    call = Call(node=ANY_BROKER, api_key=apis.DESCRIBE_USER_SCRAM_CREDENTIALS, request=request)
    response, _ = yield from ask_until(
        attempts, call, lambda found: _first_error([found, *found.results])
    )
    names = {number: name for name, number in NUMBERS.items()}
    return {
        each.user: {names[info.mechanism]: info.iterations for info in each.credential_infos}
        for each in response.results
    }


def set_password(
    session: Session,
    user: str,
    password: str,
    mechanisms: Sequence[str],
    salt: bytes,
    iterations: int,
    now_ms: int,
    deadline_ms: int,
) -> effects.Operation[None]:
    """Set a password for each mechanism; `salt` is random. The salted password that is sent is as
    good as the password: use TLS."""
    attempts = session.start(now_ms, deadline_ms, "set a password")
    request = e.alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=(),
        upsertions=tuple(
            e.alter_user_scram_credentials.ScramCredentialUpsertion(
                name=user,
                mechanism=NUMBERS[each],
                iterations=iterations,
                salt=salt,
                salted_password=salted_password(each, password, salt, iterations),
            )
            for each in mechanisms
        ),
    )
    yield from _alter_users(attempts, request)


def remove_user(
    session: Session, user: str, mechanisms: Sequence[str], now_ms: int, deadline_ms: int
) -> effects.Operation[None]:
    """Delete the user's credentials of these mechanisms, each of which must exist."""
    attempts = session.start(now_ms, deadline_ms, "remove a user")
    request = e.alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=tuple(
            e.alter_user_scram_credentials.ScramCredentialDeletion(
                name=user, mechanism=NUMBERS[each]
            )
            for each in mechanisms
        ),
        upsertions=(),
    )
    yield from _alter_users(attempts, request)


def _alter_users(
    attempts: Attempts, request: e.alter_user_scram_credentials.AlterUserScramCredentialsRequest
) -> effects.Operation[None]:
    call = Call(node=ANY_BROKER, api_key=apis.ALTER_USER_SCRAM_CREDENTIALS, request=request)
    yield from ask_until(attempts, call, lambda answer: _first_error(answer.results))


def _words(wanted: AclFilter) -> dict[str, Any]:
    """The fields of DescribeAcls and DeleteAcls."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _acl(kind: int, name: str, pattern: int, told: Any) -> Acl:
    return Acl(
        ResourceType(kind),
        name,
        PatternType(pattern),
        told.principal,
        told.host,
        Operation(told.operation),
        Permission(told.permission_type),
    )


def _first_error(results: Iterable[Any]) -> KafkaError | None:
    for each in results:
        if each.error_code is not ErrorCode.none:
            message = each.error_message or each.error_code.name.replace("_", " ")
            return KafkaError(each.error_code, message)
    return None
