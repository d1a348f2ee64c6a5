"""States and commits of a Delta log as values: files, deletion vectors, protocols, refusals."""

from __future__ import annotations

import json

from pipelines.deploy.table_actions import (
    Replacement,
    TableState,
    files_to_copy,
    together,
    vector_file,
    why_not,
)
from pipelines.exactly_once.other_chains import ChainName

LEGACY = {"minReaderVersion": 1, "minWriterVersion": 2}
NAMED = {
    "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}  # fmt: skip
VECTOR = {
    "storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40,
    "cardinality": 6,
}  # fmt: skip


def add(path, **more):
    return {"add": {"path": path, "partitionValues": {}, "size": 1, **more}}


def state(*actions, version=0, **settings):
    metadata = {"id": "t1", "schemaString": "{}", "configuration": settings}
    start = [{"protocol": LEGACY}, {"metaData": metadata}]
    return TableState().with_actions(version, [*start, *actions])


def test_a_file_with_another_deletion_vector_is_another_file():
    one = state(add("a"), add("b%20c", deletionVector=VECTOR))
    two = one.with_actions(1, [{"remove": {"path": "a"}}, add("d")])

    assert files_to_copy(one) == ["a", "b c", vector_file(VECTOR["pathOrInlineDv"])]
    assert [path for path, _ in two.files] == ["b%20c", "d"]
    gone = two.with_actions(2, [{"remove": {"path": "b%20c"}}])
    assert len(gone.files) == 2  # without its vector it is not this file


def test_the_path_of_a_deletion_vector_is_that_of_deltas_protocol():
    # The example of PROTOCOL.md, "Deletion Vector Descriptor Schema".
    found = vector_file(VECTOR["pathOrInlineDv"])

    assert found == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def test_a_commit_has_every_action_that_turns_one_state_into_the_other():
    live = state(add("a"), add("b"), version=4, **{"delta.logRetentionDuration": "1 day",
                 "delta.constraints.old": "n > 0"})  # fmt: skip
    domain = {"domain": "delta.clustering", "configuration": "{}", "removed": False}
    shadow = state(add("b"), add("c", deletionVector=VECTOR), {"domainMetadata": domain},
                   **{"delta.constraints.new": "n > 1"})  # fmt: skip
    made = Replacement(name=ChainName(pipeline="p", sink="s"), txn_version=9, said={"x": 1},
                       operation="DEPLOY SWAP", now_ms=7, mark="run")  # fmt: skip

    actions = [json.loads(line) for line in made.lines(live, shadow).splitlines()]
    after = live.with_actions(5, actions)

    assert [next(iter(each)) for each in actions] == [
        "commitInfo", "metaData", "txn", "domainMetadata", "remove", "add"
    ]  # fmt: skip
    assert actions[2] == {"txn": {"appId": "josefine:p:s", "version": 9, "lastUpdated": 7}}
    assert after.files.keys() == shadow.files.keys()
    assert after.metadata["id"] == "t1"
    assert after.metadata["configuration"] == {
        "delta.logRetentionDuration": "1 day", "delta.constraints.new": "n > 1"
    }  # fmt: skip
    back = [json.loads(line) for line in made.lines(after, live).splitlines()]
    assert {"domainMetadata": {**domain, "removed": True}} in back
    assert after.with_actions(6, back).files.keys() == live.files.keys()


def test_the_protocol_has_the_features_of_both():
    assert together(LEGACY, LEGACY) == LEGACY
    assert together(LEGACY, {**LEGACY, "minWriterVersion": 4})["minWriterVersion"] == 4
    both = together({"minReaderVersion": 2, "minWriterVersion": 5}, NAMED)
    assert both["readerFeatures"] == ["columnMapping", "deletionVectors"]
    assert "generatedColumns" in both["writerFeatures"]
    assert together({}, NAMED) == NAMED


def test_a_table_that_a_swap_would_damage_is_refused():
    tracked = {**NAMED, "writerFeatures": ["rowTracking", "deletionVectors"]}

    assert why_not(state(add("a"))) is None
    assert why_not(TableState()) is None
    assert "rowTracking" in why_not(state().with_actions(1, [{"protocol": tracked}]))
    assert "append-only" in why_not(state(**{"delta.appendOnly": "true"}))
    assert "shallow clone" in why_not(state(add("file:///other/a")))
    identity = {"minReaderVersion": 1, "minWriterVersion": 6}
    assert "identityColumns" in why_not(state().with_actions(1, [{"protocol": identity}]))
