"""`josefine journal snapshot`: without a broker, but for a purge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import Done, josefine

STATES = {1: {"payload": {"balance": 100}}, 2: {"text": "ü"}, 3: {"payload_base64": "AP8="}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for number, payload in STATES.items():
        line = json.dumps({"seq_nr": number, **payload})
        done = snapshot("save", tmp_path, stdin=line)
        assert (done.code, done.out) == (
            0,
            f"saved the state of alice after event {number}\n",
        ), done
    return tmp_path


def snapshot(verb: str, store: Path, *more: str, stdin: str = "") -> Done:
    arguments = ("journal", "snapshot", verb, "accounts", "alice", "--store", str(store), *more)
    return josefine("localhost:1", *arguments, stdin=stdin)


def test_states_are_saved_loaded_listed_and_deleted(store: Path) -> None:
    """Checklist rows 84 and 92."""
    assert snapshot("load", store).out == "3\t\\x00\\xff\n"
    assert snapshot("load", store, "--to", "2").out == "2\tü\n"
    assert snapshot("list", store, "--from", "2").out == "3\t\\x00\\xff\n2\tü\n"
    for line in snapshot("list", store, "--json").out.splitlines():
        found = json.loads(line)
        number = found["seq_nr"]
        assert {"seq_nr": number, **STATES[number]}.items() <= found.items()
        again = snapshot("save", store, stdin=line)  # what is printed can be saved elsewhere
        assert again.code == 0, again.err

    deleted = snapshot("delete", store, "--to", "1", "--yes")
    assert (deleted.code, deleted.out) == (0, "deleted 1 snapshot of alice\n")
    assert snapshot("load", store, "--to", "1").err == "journal 'alice' has no such snapshot\n"
    assert snapshot("load", store, "--to", "1", "--json").out == "null\n"
    snapshot("save", store, "--keep", "1", stdin='{"seq_nr": 9}')
    assert snapshot("list", store).out == "9\t-\n"


def test_mistakes_are_one_sentence(store: Path) -> None:
    """Checklist row 92."""
    for verb, more, stdin, code, said in (
        ("save", (), '{"payload": 1}', 1, "the input must be one line: an object with seq_nr"),
        ("save", (), '{"seq_nr": 1, "tags": ["x"]}', 1, "no tags"),
        ("save", (), '{"seq_nr": 1}\n{"seq_nr": 2}', 1, "the input must be one line"),
        ("save", (), '{"seq_nr": 0}', 1, "line 1: sequence number 0"),
        ("delete", (), "", 2, "give either --to NUMBER or --all"),
        ("delete", ("--all",), "", 2, "--yes"),
    ):
        done = snapshot(verb, store, *more, stdin=stdin)
        assert (done.code, done.out) == (code, ""), done
        assert said in done.err
        assert len(done.err.splitlines()) == 1
    assert len(snapshot("list", store).out.splitlines()) == 3
