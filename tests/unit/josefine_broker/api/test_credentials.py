"""Passwords in the metadata (KIP-554): what is taken, what is shown, and who comes in by them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.scram import NUMBERS, client_final, client_first, salted_password
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.change_words import describe_change
from josefine_broker.engine.metadata.image import JOSEFINE_VERSION, FeatureRange, MetadataImage
from josefine_broker.engine.security.sasl import MECHANISMS, Sasl, SaslState, Users
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.world import World

SALT = b"0123456789abcdef"
PASSWORD = "open, sesame=1"
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def upsertion(
    user: str = "alice", mechanism: str = SHA_256, password: str = PASSWORD, iterations: int = 4_096
) -> e.alter_user_scram_credentials.ScramCredentialUpsertion:
    return e.alter_user_scram_credentials.ScramCredentialUpsertion(
        name=user,
        mechanism=NUMBERS[mechanism],
        iterations=iterations,
        salt=SALT,
        salted_password=salted_password(mechanism, password, SALT, iterations),
    )


def deletion(
    user: str = "alice", mechanism: str = SHA_256
) -> e.alter_user_scram_credentials.ScramCredentialDeletion:
    return e.alter_user_scram_credentials.ScramCredentialDeletion(
        name=user, mechanism=NUMBERS[mechanism]
    )


def alter(world: World, *changes: Any) -> dict[str, ErrorCode]:
    kind = e.alter_user_scram_credentials.ScramCredentialDeletion
    request = e.alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in changes if isinstance(each, kind)),
        upsertions=tuple(each for each in changes if not isinstance(each, kind)),
    )
    answer = world.ask(apis.ALTER_USER_SCRAM_CREDENTIALS, request)
    return {each.user: each.error_code for each in answer.results}


def described(world: World, *users: str) -> dict[str, Any]:
    request = e.describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=tuple(e.describe_user_scram_credentials.UserName(name=each) for each in users)
    )
    answer = world.ask(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    return {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        or each.error_code
        for each in answer.results
    }


def users_of(world: World, passwords: dict[str, str] | None = None) -> Users:
    return Users(passwords or {}, b"salting", 4_096, lambda: world.ctx.image.credentials)


def comes_in(users: Users, user: str, password: str, mechanism: str) -> bool:
    sasl = Sasl(MECHANISMS)
    sasl.choose(mechanism)
    if mechanism == "PLAIN":
        sasl.authenticate(f"\0{user}\0{password}".encode(), users, "n")
        return sasl.state is SaslState.KNOWN
    first = client_first(user, "cnonce")
    challenge = sasl.authenticate(first.encode(), users, "snonce")
    final, awaited = client_final(mechanism, password, first, challenge.token)
    answer = sasl.authenticate(final.encode(), users, "unused")
    return sasl.state is SaslState.KNOWN and answer.token.decode() == awaited


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("iterations", [4_096, 16_384])
def test_user_of_the_metadata_comes_in_by_the_password_alone(
    mechanism: str, iterations: int
) -> None:
    world = World()
    assert alter(world, upsertion(mechanism=mechanism, iterations=iterations)) == {
        "alice": ErrorCode.none
    }
    users = users_of(world)

    for by in (mechanism, "PLAIN"):
        assert comes_in(users, "alice", PASSWORD, by)
        assert not comes_in(users, "alice", "guess", by)
        assert not comes_in(users, "bob", PASSWORD, by)
    other = SHA_512 if mechanism == SHA_256 else SHA_256
    assert not comes_in(users, "alice", PASSWORD, other)


def test_new_password_counts_at_once_and_a_removed_user_is_out() -> None:
    world = World()
    users = users_of(world)
    alter(world, upsertion())
    alter(world, upsertion(password="another"))
    assert not comes_in(users, "alice", PASSWORD, SHA_256)
    assert comes_in(users, "alice", "another", SHA_256)

    assert alter(world, deletion()) == {"alice": ErrorCode.none}

    assert not comes_in(users, "alice", "another", SHA_256)
    assert alter(world, deletion()) == {"alice": ErrorCode.resource_not_found}


def test_password_of_the_brokers_file_is_the_one_that_counts() -> None:
    world = World()
    alter(world, upsertion())
    users = users_of(world, {"alice": "of the file"})

    for mechanism in (SHA_256, "PLAIN"):
        assert comes_in(users, "alice", "of the file", mechanism)
        assert not comes_in(users, "alice", PASSWORD, mechanism)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"iterations": 4_095}, ErrorCode.unacceptable_credential),
        ({"iterations": 16_385}, ErrorCode.unacceptable_credential),
        ({"salt": b""}, ErrorCode.unacceptable_credential),
        ({"salt": b"x" * 1_025}, ErrorCode.unacceptable_credential),
        ({"salted_password": b""}, ErrorCode.unacceptable_credential),
        ({"salted_password": b"x" * 33}, ErrorCode.unacceptable_credential),
        ({"name": ""}, ErrorCode.unacceptable_credential),
        ({"name": "x" * 250}, ErrorCode.unacceptable_credential),
        ({"mechanism": 3}, ErrorCode.unsupported_sasl_mechanism),
        ({"name": "", "mechanism": 3}, ErrorCode.unacceptable_credential),
    ],
)
def test_credential_that_would_not_do_is_refused_with_all_of_its_user(
    wrong: dict[str, Any], code: ErrorCode
) -> None:
    world = World()
    bad = replace(upsertion(), **wrong)
    good = replace(upsertion(mechanism=SHA_512), name=bad.name)

    assert alter(world, bad, good, upsertion("bob")) == {bad.name: code, "bob": ErrorCode.none}
    assert described(world).keys() == {"bob"}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"name": ""}, ErrorCode.unacceptable_credential),
        ({"name": "", "mechanism": 3}, ErrorCode.unacceptable_credential),
        ({"name": "x" * 250}, ErrorCode.resource_not_found),
        ({"mechanism": 3}, ErrorCode.unsupported_sasl_mechanism),
    ],
)
def test_deletion_checks_the_name_then_the_mechanism_then_what_is_there(
    wrong: dict[str, Any], code: ErrorCode
) -> None:
    bad = replace(deletion(), **wrong)

    assert alter(World(), bad) == {bad.name: code}


def test_first_error_of_a_user_is_returned() -> None:
    weak = upsertion(mechanism=SHA_512, iterations=4_095)

    assert alter(World(), deletion(), weak) == {"alice": ErrorCode.resource_not_found}


def test_mechanism_that_is_named_twice_is_refused() -> None:
    world = World()

    assert alter(world, upsertion(), upsertion()) == {"alice": ErrorCode.duplicate_resource}
    alter(world, upsertion())
    assert alter(world, deletion(), upsertion()) == {"alice": ErrorCode.duplicate_resource}


def test_users_are_described_without_their_secrets() -> None:
    world = World()
    alter(world, upsertion(), upsertion(mechanism=SHA_512, iterations=5_000), upsertion("bob"))

    assert described(world) == {"alice": [(1, 4_096), (2, 5_000)], "bob": [(1, 4_096)]}
    assert described(world, "bob", "carol") == {
        "bob": [(1, 4_096)], "carol": ErrorCode.resource_not_found,
    }  # fmt: skip
    assert described(world, "bob", "bob") == {"bob": ErrorCode.duplicate_resource}


def test_secrets_are_in_no_sentence() -> None:
    world = World()
    alter(world, upsertion())
    payload = world.raft.committed[-1]
    change, _ = decode_change(payload)
    (credential,) = world.ctx.image.credentials.values()

    for text in (describe_change(change, {}), repr(change), repr(upsertion())):
        for secret in (credential.stored_key, credential.server_key, upsertion().salted_password):
            assert secret.hex() not in text
            assert repr(secret) not in text
    assert describe_change(change, {}) == "passwords: alice by SCRAM-SHA-256"


def test_credentials_survive_a_restart_and_a_snapshot() -> None:
    world = World()
    alter(world, upsertion(), upsertion("bob", SHA_512))
    image = world.ctx.image

    assert world.restart().ctx.image.credentials == image.credentials
    assert MetadataImage.from_bytes(image.to_bytes()) == image


def test_cluster_of_before_keeps_no_users_and_no_acls() -> None:
    world = World(features=(FeatureRange(JOSEFINE_VERSION, 1, 5),))

    assert alter(world, upsertion()) == {"alice": ErrorCode.unsupported_version}
    assert world.ctx.image.credentials == {}
