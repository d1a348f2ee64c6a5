"""Quotas in the metadata (KIP-546): what is taken, what is shown."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.quotas import CONSUMER, DEFAULT, PRODUCER, REQUEST, QuotaEntity
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.change_words import describe_change
from josefine_broker.engine.metadata.changes import AlterQuotas, QuotaChange
from josefine_broker.engine.metadata.image import JOSEFINE_VERSION, FeatureRange, MetadataImage
from josefine_broker.engine.metadata.proposals import is_in_effect
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.world import World

a, d = e.alter_client_quotas, e.describe_client_quotas
ALICE = (("user", "alice"),)
Parts = tuple[tuple[str, str | None], ...]


def entry(parts: Parts, *ops: tuple[str, float | None]) -> a.QuotaEntry:
    """`None` takes a bound away."""
    return a.QuotaEntry(
        entity=tuple(a.QuotaPart(entity_type=kind, entity_name=name) for kind, name in parts),
        ops=tuple(
            a.QuotaOp(key=key, value=value or 0.0, remove=value is None) for key, value in ops
        ),
    )


def alter(world: World, *entries: a.QuotaEntry, validate_only: bool = False) -> list[Any]:
    """Per entry its code, or its message where there is one."""
    request = a.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    answer = world.ask(apis.ALTER_CLIENT_QUOTAS, request)
    assert [each.entity for each in answer.entries] == [each.entity for each in entries]
    return [each.error_message or each.error_code for each in answer.entries]


def described(world: World, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """(Parts, bounds) of each entity, or the message."""
    request = d.DescribeClientQuotasRequest(
        components=tuple(
            d.QuotaComponent(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ),
        strict=strict,
    )
    answer = world.ask(apis.DESCRIBE_CLIENT_QUOTAS, request)
    if answer.error_code is not ErrorCode.none:
        return answer.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }


ALL: tuple[Parts, ...] = (
    ALICE,
    (("user", None),),
    (("client-id", "app"),),
    (("client-id", None),),
    (("user", "alice"), ("client-id", "app")),
    (("user", "alice"), ("client-id", None)),
    (("user", None), ("client-id", None)),
)


def world_with_all() -> World:
    world = World()
    told = alter(world, *(entry(parts, (PRODUCER, 100.0 + n)) for n, parts in enumerate(ALL)))
    assert told == [ErrorCode.none] * len(ALL)
    return world


def test_bounds_are_set_replaced_and_taken_away_one_by_one() -> None:
    world = World()
    alter(world, entry(ALICE, (PRODUCER, 1000.0), (REQUEST, 12.5)))
    alter(world, entry(ALICE, (PRODUCER, 2000.0), (CONSUMER, 1.0), (REQUEST, None)))
    assert described(world) == {ALICE: {PRODUCER: 2000.0, CONSUMER: 1.0}}

    alter(world, entry(ALICE, (PRODUCER, None), (CONSUMER, None)))

    assert described(world) == {}
    assert world.ctx.image.quotas == {}


@pytest.mark.parametrize(
    ("components", "strict", "fit"),
    [
        ((), False, ALL),
        ((), True, ()),
        ((("user", 0, "alice"),), False, (ALL[0], ALL[4], ALL[5])),
        ((("user", 0, "alice"),), True, (ALL[0],)),
        ((("user", 1, None),), False, (ALL[1], ALL[6])),
        ((("user", 2, None),), True, (ALL[0], ALL[1])),
        ((("client-id", 2, None),), False, ALL[2:]),
        ((("user", 2, None), ("client-id", 1, None)), True, (ALL[5], ALL[6])),
        ((("user", 0, "bob"),), False, ()),
        ((("ip", 2, None),), False, ()),
        ((("user", 0, ""),), False, ()),
    ],
)
def test_filter_fits_whom_kafka_says(components: Any, strict: bool, fit: tuple[Parts, ...]) -> None:
    found = described(world_with_all(), *components, strict=strict)

    assert found.keys() == set(fit)


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ((("host", 2, None),), "quotas are of user and client-id, not of 'host'"),
        ((("user", 2, None), ("user", 1, None)), "type 'user' is named more than once"),
        ((("user", 3, None),), "there is no match of type 3"),
        ((("user", 0, None),), "an exact match of 'user' needs a name"),
    ],
)
def test_filter_that_means_nothing_is_refused(components: Any, message: str) -> None:
    assert described(World(), *components) == message


@pytest.mark.parametrize(
    ("parts", "ops", "message"),
    [
        (
            ALICE,
            [("controller_mutation_rate", 1.0)],
            "there is no quota 'controller_mutation_rate'",
        ),
        (ALICE, [(PRODUCER, 1.0), (PRODUCER, 2.0)], "'producer_byte_rate' of user alice is named"),
        (ALICE, [(PRODUCER, 0.0)], "'producer_byte_rate' is more than 0, not 0"),
        (ALICE, [(REQUEST, -1.0)], "'request_percentage' is more than 0, not -1"),
        (ALICE, [(CONSUMER, 1.5)], "'consumer_byte_rate' is a whole number of bytes a second"),
        (ALICE, [(CONSUMER, 1e300)], "'consumer_byte_rate' is a whole number of bytes a second"),
        (ALICE, [(CONSUMER, inf)], "'consumer_byte_rate' is more than 0, not inf"),
        (ALICE, [(CONSUMER, nan)], "'consumer_byte_rate' is more than 0, not nan"),
        ((), [(CONSUMER, 1.0)], "a quota is of a user or a client-id"),
        ((("ip", "::1"),), [(CONSUMER, 1.0)], "quotas are of user and client-id, not of 'ip'"),
        ((("user", ""),), [(CONSUMER, 1.0)], "the name of a user is not empty"),
        ((("user", "x" * 1_025),), [(CONSUMER, 1.0)], "the name of a user has 1024 characters"),
        ((*ALICE, ("user", "bob")), [(CONSUMER, 1.0)], "type 'user' is named more than once"),
    ],
)
def test_bound_that_would_not_do_is_refused_with_all_of_its_entity(
    parts: Parts, ops: list[tuple[str, float]], message: str
) -> None:
    world = World()
    good = entry((("client-id", "app"),), (CONSUMER, 7.0))
    told = alter(world, entry(parts, (CONSUMER, 5.0), *ops) if len(ops) > 1 else entry(parts, *ops),
                 good)  # fmt: skip

    assert told[0].startswith(message)
    assert told[1] is ErrorCode.none
    assert described(world) == {(("client-id", "app"),): {CONSUMER: 7.0}}


def test_entity_that_is_named_twice_is_refused() -> None:
    world = World()
    told = alter(world, entry(ALICE, (PRODUCER, 1.0)), entry(ALICE, (PRODUCER, 2.0)))

    assert told == ["an entity is named more than once"] * 2
    assert world.ctx.image.quotas == {}


def test_request_that_only_asks_changes_nothing() -> None:
    world = World()

    assert alter(world, entry(ALICE, (PRODUCER, 1.0)), validate_only=True) == [ErrorCode.none]
    assert alter(world, entry(ALICE, ("x", 1.0)), validate_only=True) != [ErrorCode.none]
    assert world.ctx.image.quotas == {}


def test_quotas_survive_a_restart_and_a_snapshot() -> None:
    image = world_with_all().ctx.image
    world = world_with_all()

    assert world.restart().ctx.image.quotas == image.quotas
    assert MetadataImage.from_bytes(image.to_bytes()) == image
    assert image.quotas[QuotaEntity("alice", DEFAULT)] == {PRODUCER: 105.0}


def test_chain_says_what_became_of_quotas() -> None:
    world = World()
    alter(world, entry((("user", "alice"), ("client-id", None)), (PRODUCER, 1e6), (REQUEST, None)))
    change, _ = decode_change(world.raft.committed[-1])

    assert describe_change(change, {}) == (
        "quotas: user alice, client-id (default): producer_byte_rate=1000000,"
        " user alice, client-id (default): request_percentage removed"
    )
    assert is_in_effect(change, world.ctx.image)
    other = AlterQuotas(quotas=(QuotaChange(QuotaEntity("alice", DEFAULT), PRODUCER, None),))
    assert not is_in_effect(other, world.ctx.image)


def test_cluster_of_before_keeps_no_quotas() -> None:
    world = World(features=(FeatureRange(JOSEFINE_VERSION, 1, 6),))

    (told,) = alter(world, entry(ALICE, (PRODUCER, 1.0)))

    assert told == "quotas need josefine.version 7: finalize that level first"
    assert world.ctx.image.quotas == {}
    assert b'"version":3' in world.ctx.image.to_bytes()
