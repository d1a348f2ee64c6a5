"""What a broker makes of candidate config values: accepted or which error code, and the value as
DescribeConfigs prints it. Recorded of Apache Kafka in a table that the daily suite replays here.

`python -m tests.compat.config_verdicts` starts an Apache Kafka and writes the table again.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from josefine_broker.wire import codec
from josefine_broker.wire.entities import alter_configs as a
from josefine_broker.wire.entities import create_topics as c
from josefine_broker.wire.entities import describe_configs as d
from josefine_broker.wire.entities import incremental_alter_configs as i
from tests.compat.config_candidates import (
    INT,
    SET,
    UNDESCRIBED,
    UNKNOWN,
    broker_edits,
    candidates,
    creations,
    edits,
    replacements,
)
from tests.integration.raw import connect, read_exactly
from tests.support.apache_kafka import NAME, POM, ApacheKafka
from tests.support.maven import jars_of
from tests.support.waiting import wait_until

TABLE = Path(__file__).parent / "recorded/topic_configs.json"
COMMAND = ".venv/bin/python -m tests.compat.config_verdicts"

TOPIC, BROKER = 2, 4
CREATE_TOPICS, DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 19, 32, 33, 44
VERSIONS = {CREATE_TOPICS: 7, DESCRIBE_CONFIGS: 4, ALTER_CONFIGS: 2, INCREMENTAL_ALTER_CONFIGS: 1}
OWN_SOURCE, DEFAULT_SOURCE = 1, 5
"""`config_source` of a value that was set on the topic, and of a default."""
ALONE = "min.compaction.lag.ms"
"""Not set together with the others: it must not exceed max.compaction.lag.ms."""

Ask = Callable[[int, Any], Any]
"""(API key, request) → response."""
Verdict = int | str | None
"""The error code, or the described value (None: accepted, and never described)."""
Verdicts = dict[str, Any]


def collect(ask: Ask, names: Iterable[str] | None = None) -> Verdicts:
    """The whole table; `names` are the configs to try, all that are described by default."""
    created(ask, {"plain": ()})
    _await_topic(ask, "plain")
    plain = described(ask, ["plain"])["plain"]
    kinds = {each.name: each.config_type for each in plain.values()}
    kinds |= dict.fromkeys(UNDESCRIBED, INT)
    tried = sorted(kinds) if names is None else sorted(names)
    pairs = [(name, text) for name in tried for text in candidates(name, kinds.get(name, 2))]
    pairs += [(name, "1") for name in UNKNOWN]
    new_codes = _created_codes(ask, pairs)
    codes = {pair: _set_code(ask, pair) for pair in pairs}
    values = _described_values(ask, [pair for pair in pairs if not codes[pair]])
    table: dict[str, dict[str, Verdict]] = {}
    for name, text in pairs:
        code = codes[name, text]
        table.setdefault(name, {})[text] = code or values.get((name, text))
    return {
        "types": {name: kinds[name] for name in tried if name in kinds},
        "defaults": {name: plain[name].value for name in tried if name in plain},
        "broker_names": {
            name: [each.name for each in plain[name].synonyms] for name in tried if name in plain
        },
        "broker_configs": _broker_configs(ask),
        "set": table,
        "created_unlike_set": {
            f"{name}={text}": code
            for (name, text), code in new_codes.items()
            if code != codes[name, text]
        },
        "creations": [_creation(ask, configs) for configs in creations()],
        "edits": _edited(ask),
        "replacements": [_replaced(ask, configs) for configs in replacements()],
        "broker_edits": [_broker_edited(ask, *each) for each in broker_edits()],
    }


def recorded() -> Verdicts:
    """The committed table."""
    found: Verdicts = json.loads(TABLE.read_text())
    return found


def socket_ask(bootstrap: str) -> Ask:
    """Requests over one connection."""
    connection = connect(bootstrap)

    def ask(api_key: int, request: Any) -> Any:
        version = VERSIONS[api_key]
        connection.sendall(b"".join(codec.encode_request(api_key, version, 1, "verdicts", request)))
        size = int.from_bytes(read_exactly(connection, 4), "big")
        frame = memoryview(read_exactly(connection, size))
        return codec.decode_response(api_key, version, frame)[1]

    return ask


def _created_codes(ask: Ask, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """What CreateTopics says of each, without creating anything."""
    codes = {}
    for part in _chunks(list(enumerate(pairs)), 200):
        wanted = {f"v{at}": (pair,) for at, pair in part}
        answer = created(ask, wanted, validate_only=True)
        codes |= {pair: answer[f"v{at}"] for at, pair in part}
    return codes


def _creation(ask: Ask, configs: tuple[tuple[str, str | None], ...]) -> Any:
    code = created(ask, {"together": configs}, validate_only=True)["together"]
    return [list(map(list, configs)), code]


def _set_code(ask: Ask, pair: tuple[str, str]) -> int:
    name, text = pair
    return altered(ask, {"plain": ((name, SET, text),)}, validate_only=True)["plain"]


def _described_values(ask: Ask, accepted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """How each is printed: topics are created with the n-th accepted value of every config."""
    topics: dict[str, dict[str, str]] = {}
    counts: dict[str, int] = {}
    for name, text in accepted:
        counts[name] = counts.get(name, 0) + 1
        topic = f"{'alone' if name == ALONE else 'with'}-{counts[name]}"
        topics.setdefault(topic, {})[name] = text
    for part in _chunks(list(topics), 20):
        wanted = {topic: tuple(topics[topic].items()) for topic in part}
        assert not any(created(ask, wanted).values()), wanted
    _await_topic(ask, list(topics)[-1])
    found = described(ask, list(topics))
    return {
        (name, text): found[topic][name].value
        for topic, configs in topics.items()
        for name, text in configs.items()
        if name in found[topic] and name not in UNDESCRIBED
    }


def _edited(ask: Ask) -> list[Any]:
    """Each edit with its error code, or what the topic then has of its own."""
    wanted = {f"edit-{at}": edit for at, edit in enumerate(edits())}
    for part in _chunks(list(wanted), 20):
        assert not any(created(ask, {each: wanted[each].before for each in part}).values())
    codes = {each: altered(ask, {each: wanted[each].changes})[each] for each in wanted}
    created(ask, {"last": ()})
    _await_topic(ask, "last")
    found = described(ask, list(wanted))
    rows = []
    for topic, edit in wanted.items():
        own = {
            name: each.value
            for name, each in sorted(found[topic].items())
            if each.config_source == OWN_SOURCE
        }
        rows.append([list(map(list, edit.before)), list(map(list, edit.changes)),
                     codes[topic] or own])  # fmt: skip
    return rows


def _replaced(ask: Ask, configs: tuple[tuple[str, str | None], ...]) -> Any:
    """What AlterConfigs, which replaces all that a topic has, says of these."""
    resource = a.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="plain",
        configs=tuple(a.AlterableConfig(name=name, value=value) for name, value in configs),
    )
    request = a.AlterConfigsRequest(resources=(resource,), validate_only=True)
    (answer,) = ask(ALTER_CONFIGS, request).responses
    return [list(map(list, configs)), int(answer.error_code)]


def _broker_edited(ask: Ask, broker: str, name: str, operation: int, value: str | None) -> Any:
    resource = i.AlterConfigsResource(
        resource_type=BROKER,
        resource_name=broker,
        configs=(i.AlterableConfig(name=name, config_operation=operation, value=value),),
    )
    request = i.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
    (answer,) = ask(INCREMENTAL_ALTER_CONFIGS, request).responses
    return [broker, name, operation, value, int(answer.error_code)]


def _broker_configs(ask: Ask) -> dict[str, Any]:
    """Type of each config of a broker, whether it may change while the broker runs, and its
    default, where that is in effect."""
    resource = d.DescribeConfigsResource(
        resource_type=BROKER, resource_name="1", configuration_keys=None
    )
    (found,) = ask(DESCRIBE_CONFIGS, d.DescribeConfigsRequest(resources=(resource,))).results
    return {
        each.name: [
            each.config_type,
            not each.read_only,
            *([each.value] if each.config_source == DEFAULT_SOURCE else ()),
        ]
        for each in sorted(found.configs, key=lambda config: config.name)
    }


def created(
    ask: Ask,
    topics: Mapping[str, tuple[tuple[str, str | None], ...]],
    *,
    validate_only: bool = False,
) -> dict[str, int]:
    request = c.CreateTopicsRequest(
        topics=tuple(
            c.CreatableTopic(
                name=topic,
                num_partitions=1,
                replication_factor=1,
                assignments=(),
                configs=tuple(c.CreatableTopicConfig(name=n, value=v) for n, v in configs),
            )
            for topic, configs in topics.items()
        ),
        validate_only=validate_only,
    )
    return {each.name: int(each.error_code) for each in ask(CREATE_TOPICS, request).topics}


def altered(
    ask: Ask,
    topics: Mapping[str, tuple[tuple[str, int, str | None], ...]],
    *,
    validate_only: bool = False,
) -> dict[str, int]:
    request = i.IncrementalAlterConfigsRequest(
        resources=tuple(
            i.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=topic,
                configs=tuple(
                    i.AlterableConfig(name=name, config_operation=operation, value=value)
                    for name, operation, value in changes
                ),
            )
            for topic, changes in topics.items()
        ),
        validate_only=validate_only,
    )
    answer = ask(INCREMENTAL_ALTER_CONFIGS, request)
    return {each.resource_name: int(each.error_code) for each in answer.responses}


def described(
    ask: Ask, topics: Sequence[str]
) -> dict[str, dict[str, d.DescribeConfigsResourceResult]]:
    request = d.DescribeConfigsRequest(
        resources=tuple(
            d.DescribeConfigsResource(
                resource_type=TOPIC, resource_name=topic, configuration_keys=None
            )
            for topic in topics
        ),
        include_synonyms=True,
    )
    results = ask(DESCRIBE_CONFIGS, request).results
    return {each.resource_name: {one.name: one for one in each.configs} for each in results}


def _await_topic(ask: Ask, topic: str) -> None:
    """Kafka's broker learns of what its controller did in order, a moment later."""
    wait_until(lambda: described(ask, [topic])[topic], 30, f"topic {topic} to be described")


def _chunks(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def versions() -> dict[str, str]:
    """Of the Apache Kafka that answers, and of its Java, which prints the decimals."""
    jar = next(path for path in jars_of(POM, NAME) if "/kafka-clients-" in path)
    kafka = re.search(r"kafka-clients-(.+)\.jar", jar)
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    java = re.search(r'version "(\d+)', told)
    assert kafka
    assert java
    return {"kafka": kafka[1], "java": java[1]}


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="apache-kafka-") as scratch,
        ApacheKafka(Path(scratch)) as broker,
    ):
        found = {"written_by": COMMAND, **versions(), **collect(socket_ask(broker.bootstrap))}
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(as_text(found))


def as_text(table: Mapping[str, Any]) -> str:
    """One line per config, so that a change shows where it is."""
    lines = []
    for key, value in table.items():
        items: list[str] = []
        if isinstance(value, dict):
            items = [f"{_json(name)}:{_json(each)}" for name, each in value.items()]
        elif isinstance(value, list):
            items = [_json(each) for each in value]
        if items:
            opening, closing = "{}" if isinstance(value, dict) else "[]"
            inner = ",\n  ".join(items)
            lines.append(f" {_json(key)}: {opening}\n  {inner}\n {closing}")
        else:
            lines.append(f" {_json(key)}: {_json(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
