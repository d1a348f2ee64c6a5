"""The differential fuzzer itself (tests/oracle), without a broker: what it sends, what it sees."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.api.declined import REASONS
from josefine_broker.wire.apis import APIS
from tests.oracle.author import Author, Step
from tests.oracle.compare import differences
from tests.oracle.episodes import episode, every_pair
from tests.oracle.known import KNOWN
from tests.oracle.normalise import normalise
from tests.oracle.pools import Names
from tests.oracle.records import Batch, batches
from tests.oracle.row import Known
from tests.oracle.run import STANDARD
from tests.oracle.shapes import (
    ZERO_ID,
    MalformedError,
    Tree,
    decode,
    encode,
    request_shape,
    response_shape,
)
from tests.oracle.symbols import Learned, Ref, learn_from
from tests.support.apache_kafka import POM, VERSION

NAMES = Names(1)
ONE, OTHER = UUID(int=11), UUID(int=12)


@cache
def all_steps() -> list[Step]:
    """Of a whole run."""
    return [step for number in range(STANDARD) for step in episode(number)]


def metadata(topics: list[tuple[str, UUID, str]]) -> Tree:
    return {
        "throttle_time_ms": 0,
        "topics": [
            {"error_code": code, "name": name, "topic_id": identity, "partitions": []}
            for name, identity, code in topics
        ],
    }


def plain(tree: Tree, learned: Learned | None = None) -> Tree:
    return normalise("Metadata", tree, learned or Learned(), NAMES)


def test_whole_run_sends_every_version_of_every_api_that_is_not_declined() -> None:
    sent = {(step.key, step.version) for step in all_steps()}

    assert sent == set(every_pair())
    assert {key for key, _ in sent} == set(APIS) - set(REASONS)


def test_number_of_an_episode_gives_the_same_requests_again() -> None:
    assert repr(episode(17)) == repr(episode(17))
    assert repr(episode(17)) != repr(episode(29))


def test_episodes_name_only_their_own_topics_and_groups() -> None:
    named = [str(step.tree) for step in episode(7)]

    assert any("'e7-" in text for text in named)
    assert not any(f"'e{other}-" in text for text in named for other in (6, 8, 17))


def test_every_generated_request_is_one_that_its_version_can_carry() -> None:
    seen: dict[tuple[int, int], list[Step]] = {}
    for step in all_steps():
        seen.setdefault((step.key, step.version), []).append(step)
    for (key, version), steps in seen.items():
        shape = request_shape(key, version)
        for step in steps[:6]:
            body = encode(shape, Learned().resolve(step.tree))
            assert encode(shape, decode(shape, body)) == body, step


def test_requests_hold_unusual_values_of_every_kind() -> None:
    values = [value for step in all_steps() for value in leaves(step.tree)]

    assert {None, "", -1, 0, 2**31 - 1, -(2**31)} <= {v for v in values if not isinstance(v, list)}
    assert ZERO_ID in values
    assert any(isinstance(value, Ref) for value in values)
    assert any(isinstance(value, Batch) for value in values)


@pytest.mark.parametrize("kind", ["request", "response"])
def test_bytes_after_a_message_are_malformed(kind: str) -> None:
    shape = (request_shape if kind == "request" else response_shape)(12, 4)
    tree = Author(Random(1), NAMES).request(12, 4, mutations=0).tree
    data = encode(shape, Learned().resolve(tree)) if kind == "request" else b"\0\0\0\0\0\0\0"

    assert decode(shape, data)
    with pytest.raises(MalformedError, match="1 bytes too many"):
        decode(shape, data + b"\0")
    with pytest.raises(MalformedError, match="ends early"):
        decode(shape, data[:-2])


def test_comparer_finds_a_change_of_any_value_and_names_its_place() -> None:
    tree = {
        "topics": [
            {"name": "a", "partitions": [{"partition_index": 0, "offset": 3, "isr": [1, 2]}]},
            {"name": "b", "partitions": []},
        ],
        "controller_id": 1,
    }

    for changed, where in every_change(tree):
        found = list(differences(tree, changed))
        assert len(found) in (1, 2), where  # an item's name or number: one is gone, one is new
        assert all(each.ours != each.theirs for each in found)
    changed = copy.deepcopy(tree)
    changed["topics"][0]["partitions"][0]["offset"] = 4
    (found,) = differences(tree, changed)
    assert str(found) == "topics[a].partitions[0].offset: here 3, Apache Kafka 4"
    assert found.path == "topics[].partitions[].offset"
    assert list(differences(tree, copy.deepcopy(tree))) == []


def test_null_and_empty_and_false_and_zero_differ() -> None:
    for ours, theirs in ((None, []), (None, ""), (False, 0), ([], {})):
        assert list(differences({"x": ours}, {"x": theirs}))


def test_fields_beside_two_error_codes_are_left_out() -> None:
    ours = {"error_code": "NONE", "offset": 3, "name": "a"}
    theirs = {"error_code": "UNKNOWN_SERVER_ERROR", "offset": -1, "name": "a"}

    assert [each.path for each in differences(ours, theirs)] == ["error_code"]


def test_ids_that_brokers_make_up_compare_by_their_first_appearance() -> None:
    here, there = Learned(), Learned()
    first = plain(metadata([("e1-a", ONE, "NONE")]), here)
    assert first == plain(metadata([("e1-a", OTHER, "NONE")]), there)

    both = [("e1-b", UUID(int=99), "NONE"), ("e1-a", ONE, "NONE")]
    swapped = [("e1-b", OTHER, "NONE"), ("e1-a", UUID(int=98), "NONE")]

    assert plain(metadata(both), here) != plain(metadata(swapped), there)


def test_order_of_a_list_does_not_count() -> None:
    topics = [("e1-b", ONE, "NONE"), ("e1-a", OTHER, "NONE")]

    assert plain(metadata(topics)) == plain(metadata(topics[::-1]))


def test_results_that_nothing_identifies_keep_their_order() -> None:
    """Those of CreateAcls are in the order of the request."""
    results = [{"error_code": "NONE"}, {"error_code": "INVALID_REQUEST"}, {"error_code": "NONE"}]

    assert plain({"results": results}) == {"results": results}


def test_other_episodes_are_not_compared() -> None:
    both = [("e1-a", ONE, "NONE"), ("e2-a", OTHER, "NONE"), ("none", ZERO_ID, "NONE")]

    assert [each["name"] for each in plain(metadata(both))["topics"]] == ["e1-a", "none"]


def test_values_of_an_answer_are_in_the_next_request() -> None:
    learned = Learned()
    ref = Ref("generation_id", "g", -1, plus=1)
    assert learned.resolve([ref]) == [-1 + 1]

    learn_from(
        learned, ("g", "m"), {}, {"error_code": "NONE", "generation_id": 4, "member_id": "x"}
    )

    assert learned.resolve({"a": [ref, Ref("member", ("g", "m"), "")]}) == {"a": [5, "x"]}


def test_batch_that_is_cut_at_the_limit_is_left_out() -> None:
    whole = Batch(number=1).build(-1, -1)

    assert len(batches(whole + whole) or ()) == 2
    assert batches(whole + whole[:-1]) == batches(whole)
    assert batches(b"") == []


def test_known_difference_explains_its_place_and_values_alone() -> None:
    row = Known(apis="Fetch, Produce", path="a[].b", ours="NO*", theirs="X | Y", why="because")
    (fits,) = differences({"a": [{"b": "NONE"}]}, {"a": [{"b": "Y"}]})
    (other_value,) = differences({"a": [{"b": "NONE"}]}, {"a": [{"b": "Z"}]})
    (other_place,) = differences({"b": "NONE"}, {"b": "X"})

    assert row.explains("Fetch", {}, fits)
    assert row.explains("Produce", {}, fits)
    assert not row.explains("Metadata", {}, fits)
    assert not row.explains("Fetch", {}, other_value)
    assert not row.explains("Fetch", {}, other_place)


def test_known_difference_of_what_is_named_twice_explains_no_other_request() -> None:
    row = Known(apis="Fetch", path="*", is_named_twice=True, why="because")
    (found,) = differences({"a": 1}, {"a": 2})
    once: Tree = {"topics": [{"topic": "a", "partitions": [0, 1]}, {"topic": "b"}]}

    assert not row.explains("Fetch", once, found)
    assert row.explains("Fetch", {"topics": [{"topic": "a", "partitions": [1, 1]}]}, found)
    assert row.explains("Fetch", {"topics": [{"topic": "a"}, {"topic": "a"}]}, found)


def test_every_known_difference_has_a_reason_and_apis_that_are_there() -> None:
    names = {spec.name for spec in APIS.values()} | {"*"}

    assert [row for row in KNOWN if not row.why or not set(row.apis.split(", ")) <= names] == []


def test_version_of_apache_kafka_that_is_named_is_that_of_its_jars() -> None:
    versions = {
        line.strip().removeprefix("<version>").removesuffix("</version>")
        for line in POM.read_text().splitlines()
        if line.startswith("      <version>")
    }

    assert VERSION in versions
    assert len(versions) == 2  # and that of slf4j


def leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        for each in tree.values():
            yield from leaves(each)
    elif isinstance(tree, list):
        for each in tree:
            yield from leaves(each)
    else:
        yield tree


def every_change(tree: Any) -> Iterator[tuple[Any, str]]:
    """Copies of `tree` with one value changed, one item more, or one less."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            for changed, where in every_change(value):
                yield {**tree, name: changed}, f".{name}{where}"
    elif isinstance(tree, list):
        yield [*tree, "more"], "[more]"
        for at, value in enumerate(tree):
            yield tree[:at] + tree[at + 1 :], f"[{at} less]"
            for changed, where in every_change(value):
                yield [*tree[:at], changed, *tree[at + 1 :]], f"[{at}]{where}"
    else:
        yield f"{tree} changed", ""
