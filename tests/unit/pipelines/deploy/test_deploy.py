"""The parts of a deploy that need no Spark: what is refused, rollback, abort, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_cli.main import run
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import RunError, SetupError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.deploy.deploy import Deploy
from pipelines.deploy.examine import is_swapped
from pipelines.deploy.swap import Wanted, fence, swap
from pipelines.model.meaning import fingerprint
from pipelines.model.plan import compile_plan
from pipelines.sources.josefine import Topics
from tests.unit.pipelines.deploy.chained import IDS, P, append, committer, filled, log_at, rows
from tests.unit.pipelines.deploy.test_change import FILE


class Case:
    """Two files over one table; the topic has the offsets [earliest, latest)."""

    def __init__(self, folder: Path) -> None:
        self.live = folder / "lake"
        text = FILE.replace("/lake", str(self.live)).replace("/ck", str(folder / "ck"))
        text = text.replace("mode: upsert, keys: [id], order_by: n", "mode: append")
        self.old_file, self.new_file = folder / "old.yaml", folder / "new.yaml"
        self.old_file.write_text(text)
        self.new_file.write_text(text.replace("n > 0", "n > 1"))
        self.earliest, self.latest, self.ids = 0, 30, dict(IDS)
        self.is_down = False
        self.lines: list[str] = []
        filled(self.live, "old", 30)

    def look(self, source):
        if self.is_down:
            raise SetupError("source `raw` at localhost:9092: no answer")
        ends = TopicOffsets(ends={P: self.latest}, topic_ids=self.ids)
        return Topics(earliest={P: self.earliest}, latest=ends)

    def deploy(self, **more) -> Deploy:
        pipelines = (validate(load(f.read_text(), f.name, {})) for f in
                     (self.old_file, self.new_file))  # fmt: skip
        old, new = pipelines
        return Deploy(old=old, new=new, run="r", now_ms=lambda: 1, tell=self.lines.append,
                      look=self.look, **more)  # fmt: skip

    def swapped(self) -> Deploy:
        """After a swap by the command's own id, as a run with Spark leaves it."""
        made = self.deploy()
        shadow = Path(made.pairs[0].shadow)
        filled(shadow, "new", 30)
        by = committer(made.ident)
        fence(log_at(self.live), by)
        replaced = fingerprint(compile_plan(made.old), "lake")
        want = Wanted(end=None, facts={}, since=0, replaced=replaced)
        assert swap(log_at(self.live), log_at(shadow), want, by) is not None
        return made


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def kinds(case: Case) -> set[str]:
    return {kind for _, kind in rows(case.live)}


def test_records_that_the_topic_lost_are_reported_before_anything_is_done(case):
    case.earliest = 12

    with pytest.raises(RunError, match=r"source `raw`: orders-0 \[0, 12\): 12\nnothing was done"):
        case.deploy().examine()

    seen = case.deploy(accepts_missing=True).examine()
    assert seen.spans["raw"].begins == {P: 12}
    assert "warning: without the records" in case.lines[0]


def test_a_shadow_that_has_the_records_already_does_not_need_them(case):
    made = case.deploy()
    filled(Path(made.pairs[0].shadow), "new", 20)
    case.earliest = 15

    assert made.examine().spans["raw"].ends == {P: 30}


def test_rows_of_another_pipeline_and_changes_by_hand_are_seen(case):
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    DeltaTable(str(case.live)).delete("id = 3")
    case.deploy().examine()
    assert "changes of rows that no run made" in case.lines[0]
    assert "version 3 (DELETE)" in case.lines[0]
    said = json.dumps({"josefine": 1, "end": {"other": {"0": 1}}, "topic_ids": {"other": "x"}})
    properties = CommitProperties(
        custom_metadata={"userMetadata": said},
        app_transactions=[Transaction("josefine:sales:more", 1)],
    )
    table = DeltaTable(str(case.live)).to_pyarrow_table()
    write_deltalake(str(case.live), table, mode="append", commit_properties=properties)

    with pytest.raises(RunError, match="has rows of `more` of pipeline `sales`, too"):
        case.deploy().examine()


def test_a_recreated_topic_and_a_table_without_commits_are_refused(case, tmp_path):
    case.ids = {"orders": "another"}
    with pytest.raises(RunError, match="topic orders was deleted and created again"):
        case.deploy().examine()
    (tmp_path / "empty").mkdir()
    other = Case(tmp_path / "empty")
    other.live.rename(tmp_path / "away")

    with pytest.raises(RunError, match=r"there is nothing to compare with; run new.yaml alone"):
        other.deploy().examine()


def test_a_rollback_needs_neither_spark_nor_the_brokers(case):
    made = case.swapped()
    append(case.live, range(30, 40), "new")
    assert made.is_done()
    case.is_down = True

    assert (made.take_back(), kinds(case)) == (1, {"old"})
    assert "whether all records are there is unknown" in case.lines[0]
    assert made.take_back() == 0
    assert not is_swapped(made.pairs[0], made.ident)


def test_a_rollback_names_the_changes_by_hand_that_it_takes_back(case):
    from deltalake import DeltaTable

    made = case.swapped()
    DeltaTable(str(case.live)).delete("id = 3")
    append(case.live, range(30, 40), "new")

    assert made.take_back() == 1
    (line,) = [each for each in case.lines if "takes them back" in each]
    assert "(DELETE)" in line
    assert len(case.lines) == 2  # and that of the table


def test_constraints_that_the_new_file_lacks_are_named(case):
    from deltalake import DeltaTable

    DeltaTable(str(case.live)).alter.add_constraint({"positive": "id >= 0"})
    case.deploy().examine()

    assert case.lines == [
        f"warning: the swap removes constraints of {case.live} that the new file does not have, "
        "because its rows were not checked: positive; add them to `constraints` of the sink"
    ]


def test_a_rollback_whose_records_are_gone_is_refused_unless_that_is_accepted(case):
    case.swapped()
    append(case.live, range(30, 40), "new")
    case.earliest, case.latest = 36, 40

    with pytest.raises(RunError, match=r"orders-0 \[30, 36\): 6\nnothing was done"):
        case.deploy().take_back()
    assert kinds(case) == {"new"}

    assert case.deploy(accepts_missing=True).take_back() == 1
    assert kinds(case) == {"old"}


def test_an_abort_removes_shadows_but_not_those_of_a_swap_that_is_not_finished(case):
    made = case.deploy()
    shadow = Path(made.pairs[0].shadow)
    filled(shadow, "new", 10)
    made.abort()
    assert not shadow.exists()

    case.swapped()
    with pytest.raises(RunError, match="the swap has begun: sink `lake`; --swap finishes it"):
        made.abort()
    made.take_back()
    made.abort()

    assert not shadow.exists()
    assert kinds(case) == {"old"}


def test_the_command_refuses_in_one_sentence_and_needs_no_spark_to_go_back(case, capsys):
    files = [str(case.new_file), "--against", str(case.old_file)]

    assert run(["pipeline", "deploy", *files, "--swap", "--abort"]) == 2
    assert "exclude each other" in capsys.readouterr().err
    assert run(["pipeline", "deploy", *files, "--rollback"]) == 0
    assert "nothing is swapped" in capsys.readouterr().out
    assert run(["pipeline", "deploy", *files, "--abort", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["aborted"] is True
    case.new_file.write_text(case.new_file.read_text().replace("name: orders", "name: sales"))
    assert run(["pipeline", "deploy", *files]) == 1
    assert "these files cannot be deployed by rows:" in capsys.readouterr().err


def test_partitions_of_a_topic_are_read_from_where_the_table_began(case):
    seen = case.deploy().examine()

    assert seen.spans["raw"].begins == {TopicPartition("orders", 0): 0}
    assert seen.spans["raw"].ends == {TopicPartition("orders", 0): 30}
