"""An episode: from its number to a list of requests, without any I/O.

About half of an episode are steps of scenarios (scenarios.py), which have state: a group, a
transaction. Between them are requests of any API and version in turn, so that every one of them is
sent after some dozens of episodes, but for APIs that this broker declines. Any request may be
mutated: a value or two become unusual.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from josefine_broker.api.declined import REASONS
from josefine_broker.wire.apis import APIS, CREATE_TOPICS, METADATA, PRODUCE
from tests.oracle.author import Author, Step, versions_of
from tests.oracle.pools import Names
from tests.oracle.records import Batch
from tests.oracle.scenarios import SCENARIOS
from tests.oracle.shapes import ZERO_ID

STEPS = 24
"""Of an episode, after its prelude."""


def every_pair() -> list[tuple[int, int]]:
    """Each API key with each of its versions, without the keys that this broker declines.

    What those do in Kafka cannot be compared, and it lasts: the first request about a share group
    makes the topic `__share_group_state`, which every later answer about all topics has.
    """
    return [(key, version) for key in APIS if key not in REASONS for version in versions_of(key)]


def episode(number: int) -> list[Step]:
    """The requests of one episode: the same for the same number and code."""
    rng = Random(f"oracle {number}")
    names = Names(number)
    author = Author(rng, names)
    steps = list(prelude(author))
    main = SCENARIOS[number % len(SCENARIOS)](author)
    other = rng.choice(SCENARIOS)(author)
    pairs = every_pair()
    at = number * STEPS // 2
    for turn in range(STEPS):
        if rng.random() < 0.55:
            step = next(main, None) or next(other, None)
            if step is not None:
                steps.append(step)
                continue
        key, version = pairs[(at + turn) % len(pairs)]
        mutations = rng.choice((0, 1, 2))
        steps.append(author.request(key, version, mutations=mutations))
    return steps


def prelude(author: Author) -> Iterator[Step]:
    """Two topics with a few records, whose ids and epochs both sides know from then on."""
    one, three, *_ = author.names.topics
    for topic, count in ((one, 1), (three, 3)):
        fixed = {
            "name": topic, "num_partitions": count, "replication_factor": 1, "assignments": [],
            "configs": [], "validate_only": False, "timeout_ms": 10_000,
        }  # fmt: skip
        yield author.request(CREATE_TOPICS, 7, fixed, mutations=0)
    topics = [{"topic_id": ZERO_ID, "name": topic} for topic in (one, three)]
    fixed = {"topics": topics, "allow_auto_topic_creation": False}
    yield author.request(METADATA, 13, fixed, mutations=0)
    for number in range(2):
        fixed = {
            "name": one, "index": 0, "acks": -1, "transactional_id": None,
            "records": Batch(number=number),
        }  # fmt: skip
        yield author.request(PRODUCE, 9, fixed, mutations=0)
