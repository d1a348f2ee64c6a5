"""Batches of a sink on their way into its table by delta-rs: real tables and the real chain. What
Spark does, to write files, pyarrow does here.
"""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit, Tip, Verdict
from pipelines.model.direct_merge import Fold
from pipelines.sinks import direct_rows
from pipelines.sinks.commits import Attempts, Link, StoppedError
from pipelines.sinks.delta import OpenDelta
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.direct_rows import DirectRows
from pipelines.sinks.direct_table import (
    CAME_BETWEEN,
    CameBetweenError,
    DirectTable,
    FailedError,
    LocalFiles,
    NotDirectError,
)

FOLD = Fold(keys=("k",), functions={"n": "count"})
FIELDS = [
    {"name": "k", "type": "string", "nullable": True, "metadata": {}},
    {"name": "n", "type": "long", "nullable": True, "metadata": {}},
]
ARROW = pa.schema([("k", pa.string()), ("n", pa.int64())])
PARTITION = TopicPartition("t", 0)
ROWS: Any = SimpleNamespace(schema=SimpleNamespace(jsonValue=lambda: {"fields": FIELDS}))


class DiedError(BaseException):
    """No handler of an error may take it for one."""


def key_of(offset: int) -> str:
    return f"k{offset % 3}"


class Run:
    """One process of a pipeline over one table. Mutable: its chain."""

    def __init__(self, path: Path, name: str, fold: Fold | None, monkeypatch: Any) -> None:
        self._patch = monkeypatch
        link = Link(pipeline="p", sink="s", run=name)
        self.chain = DeltaChain(
            None,
            str(path),
            link,
            pause=lambda _: None,
            files=LocalFiles(),  # type: ignore[arg-type]
        )
        self.direct = DirectRows(str(path), fold)
        self.write: Callable[..., Any] = self.direct.write
        """Commits a batch."""
        if not self.chain.is_there():
            assert self.direct.create(FIELDS, {})
        self.chain.load()

    @property
    def end(self) -> int:
        tip = self.chain.tip
        return tip.reached.ends[PARTITION] if tip and tip.reached.ends else 0

    def batch(self, count: int, hit: Callable[..., None] = lambda *_: None) -> None:
        """The next records; `hit` may end the process at a failpoint."""
        first, tip = self.end, self.chain.tip
        counts = Counter(map(key_of, range(first, first + count)))

        def write_files(_: Any, folder: Path) -> None:
            folder.mkdir(parents=True)
            rows = [{"k": key, "n": n} for key, n in counts.items()]
            for at, part in enumerate((rows[:1], rows[1:], [])):
                pq.write_table(
                    pa.Table.from_pylist(part, ARROW), folder / f"{at}-{uuid4()}.parquet"
                )

        self._patch.setattr(direct_rows, "write_files", write_files)
        self._patch.setattr(direct_rows.failpoints, "hit", hit)
        commit = Commit(
            start={PARTITION: first} if first else {},
            end=TopicOffsets(ends={PARTITION: first + count}, topic_ids={}),
            txn_version=tip.txn_version + 1 if isinstance(tip, Tip) else 1,
        )
        self.write(self.chain, ROWS, commit, 0, {})


def counts(path: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in DeltaTable(path).to_pyarrow_table().to_pylist():
        found[row["k"]] += row["n"]
    return found


@pytest.fixture(params=[None, FOLD], ids=["append", "merge"])
def begin(request: Any, tmp_path: Path, monkeypatch: Any) -> Callable[[str], Run]:
    return lambda name: Run(tmp_path / "t", name, request.param, monkeypatch)


def dies_at(place: tuple[str, int] | None) -> Callable[..., None]:
    def hit(name: str, index: int | None = None) -> None:
        if (name, index) == place:
            raise DiedError

    return hit


def lost_answer(patch: Any, method: str) -> None:
    """The next commit is made, but its answer is lost."""
    real = getattr(DirectTable, method)

    def made(self: Any, *arguments: Any) -> None:
        patch.setattr(DirectTable, method, real)
        real(self, *arguments)
        raise OSError("the answer is lost")

    patch.setattr(DirectTable, method, made)


@pytest.mark.parametrize("seed", range(4))
def test_no_record_is_lost_or_there_twice_wherever_a_run_dies(
    begin: Callable[[str], Run], tmp_path: Path, monkeypatch: Any, seed: int
) -> None:
    rng, run = Random(seed), begin("run 0")
    places = [("mid_direct", 1), ("mid_direct", 2), "answer", None]

    for number in range(1, 9):
        place = rng.choice(places)
        if place == "answer":
            lost_answer(monkeypatch, "add" if run.direct._fold is None else "merge")
            place = None
        try:
            run.batch(rng.randint(1, 9), dies_at(place))
        except DiedError:
            run = begin(f"run {number}")
        assert counts(tmp_path / "t") == Counter(map(key_of, range(run.end)))

    assert run.end > 0
    left = [*(tmp_path / "t" / "_josefine" / "staging").iterdir()]
    assert left == [], "a death that unwinds leaves nothing; a kill does, for a day"


def test_of_two_runs_one_stops(begin: Callable[[str], Run], tmp_path: Path) -> None:
    one, other = begin("one"), begin("other")
    one.batch(5)

    with pytest.raises(StoppedError):
        other.batch(3)

    assert counts(tmp_path / "t") == Counter(map(key_of, range(5)))


def test_a_run_that_pauses_after_its_commit_stops_if_another_has_continued(
    begin: Callable[[str], Run], tmp_path: Path, monkeypatch: Any
) -> None:
    """Its look at the log finds both commits, its own and the one after it."""
    run, called = begin("one"), DeltaTable.create_write_transaction

    def paused(*args: Any, **more: Any) -> None:
        monkeypatch.setattr(DeltaTable, "create_write_transaction", called)
        called(*args, **more)
        begin("other").batch(3)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", paused)
    run.batch(4)

    with pytest.raises(StoppedError):
        run.batch(2)
    assert counts(tmp_path / "t") == Counter(map(key_of, range(7)))


@pytest.mark.parametrize("is_late", [False, True])
def test_a_table_that_is_restored_meanwhile_stops_the_run(
    begin: Callable[[str], Run], tmp_path: Path, is_late: bool
) -> None:
    """The next start reads again what is missing, unless a later commit hides that."""
    run, path = begin("run"), tmp_path / "t"
    run.batch(4)
    run.batch(3)

    def restored(name: str = "", index: int | None = None) -> None:
        if index in (None, 2):
            DeltaTable(path).restore(1)

    if not is_late:
        restored()
    with pytest.raises(StoppedError) as stopped:
        run.batch(2, restored if is_late else lambda *_: None)

    assert stopped.value.stop.verdict is Verdict.TABLE_BEHIND
    assert counts(path) == Counter(map(key_of, range(4)))
    assert begin("next").end == 4


@pytest.mark.parametrize("is_just_started", [False, True])
@pytest.mark.parametrize("batches", [None, *range(6)])
def test_another_table_in_its_place_gets_nothing(
    begin: Callable[[str], Run],
    tmp_path: Path,
    monkeypatch: Any,
    batches: int | None,
    is_just_started: bool,
) -> None:
    """With fewer commits, as many or more; None: there is no table any more."""
    path, other = tmp_path / "t", tmp_path / "other"
    run = begin("run")
    for _ in range(3):
        run.batch(4)
    if is_just_started:
        run = begin("second")
    shutil.rmtree(path)
    if batches is not None:
        rival = Run(other, "of another time", run.direct._fold, monkeypatch)
        for _ in range(batches):
            rival.batch(1)
        shutil.copytree(other, path)
    before = sorted(path.glob("_delta_log/*"))

    def write(chain: DeltaChain, *batch: Any) -> None:
        try:
            run.direct.write(chain, *batch)
        except NotDirectError:
            chain.add(by_spark, *batch[1:])

    run.write = write
    with pytest.raises(StoppedError):
        run.batch(2)
    assert sorted(path.glob("_delta_log/*")) == before


def test_another_table_that_comes_while_an_attempt_waits_gets_nothing(
    begin: Callable[[str], Run], tmp_path: Path, monkeypatch: Any
) -> None:
    path, other = tmp_path / "t", tmp_path / "other"
    run = begin("run")
    rival = Run(other, "of another time", run.direct._fold, monkeypatch)
    for each in (run, rival):
        each.batch(4)
        each.batch(4)
    method = "add" if run.direct._fold is None else "merge"
    real = getattr(DirectTable, method)

    def late(*_: Any) -> None:
        monkeypatch.setattr(DirectTable, method, real)
        raise CameBetweenError(CAME_BETWEEN)

    def pause(_: float) -> None:
        shutil.rmtree(path)
        shutil.copytree(other, path)

    monkeypatch.setattr(DirectTable, method, late)
    run.chain._attempts = Attempts(lambda *_: None, pause)
    with pytest.raises(StoppedError):
        run.batch(2)
    assert len([*path.glob("_delta_log/*")]) == len([*other.glob("_delta_log/*")])


def by_spark(*_: Any) -> None:
    raise AssertionError("Spark is asked to commit")


def test_a_commit_of_others_does_not_stop_it_but_a_rule_of_theirs_is_for_spark(
    begin: Callable[[str], Run], tmp_path: Path
) -> None:
    run, path = begin("run"), tmp_path / "t"
    run.batch(4)
    DeltaTable(path).alter.set_table_properties({"owner": "somebody"}, raise_if_not_exists=False)
    run.batch(3)
    assert counts(path) == Counter(map(key_of, range(7)))

    DeltaTable(path).alter.add_constraint({"some": "n > 0"})
    with pytest.raises(NotDirectError):
        run.batch(3)
    assert counts(path) == Counter(map(key_of, range(7)))


def test_rows_that_may_have_nulls_from_some_batch_on_are_for_spark(
    begin: Callable[[str], Run], tmp_path: Path, monkeypatch: Any
) -> None:
    """A lookup's column lost its NOT NULL, the sink's has one."""
    key = Field("k", PrimitiveType("string"), nullable=False)
    DeltaTable.create(tmp_path / "t", Schema([key, Field("n", PrimitiveType("long"))]))
    run, schema = begin("run"), [{**FIELDS[0], "nullable": False}, FIELDS[1]]
    monkeypatch.setattr(ROWS.schema, "jsonValue", lambda: {"fields": schema})
    run.batch(4)

    monkeypatch.setattr(ROWS.schema, "jsonValue", lambda: {"fields": FIELDS})
    with pytest.raises(NotDirectError, match="k takes no null"):
        run.batch(3)
    assert run.end == 4


def test_files_that_only_spark_can_read_are_for_spark(
    begin: Callable[[str], Run], monkeypatch: Any
) -> None:
    """Such as encrypted ones."""
    run = begin("run")

    def encrypted(_: Any, path: Path) -> None:
        path.write_bytes(b"PARE" * 9)

    monkeypatch.setattr(pq, "write_table", encrypted)
    with pytest.raises(NotDirectError, match="cannot be read"):
        run.batch(2)
    assert run.end == 0


@pytest.mark.parametrize("kind", [ValueError, type("PanicException", (BaseException,), {})])
def test_a_failure_of_delta_rs_leaves_the_batch_to_spark(
    begin: Callable[[str], Run], monkeypatch: Any, kind: type[BaseException]
) -> None:
    run = begin("run")
    run.batch(4)

    def fails(*_: Any, **__: Any) -> None:
        raise kind("in Rust")

    for method in ("merge", "create_write_transaction"):
        monkeypatch.setattr(DeltaTable, method, fails)
    with pytest.raises(FailedError, match="in Rust"):
        run.batch(2)
    assert run.end == 4


def test_a_log_that_cannot_be_read_after_the_commit_ends_the_run(
    begin: Callable[[str], Run], tmp_path: Path, monkeypatch: Any
) -> None:
    """Spark would not get the number of a commit that is there, as if another run had made it."""
    run = begin("run")
    run.batch(4)
    method = "add" if run.direct._fold is None else "merge"
    real = getattr(DirectTable, method)

    def fails(*_: Any) -> str:
        raise OSError(errno.EMFILE, "too many open files")

    def made(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        monkeypatch.setattr(LocalFiles, "read_text", fails)

    monkeypatch.setattr(DirectTable, method, made)
    sink: Any = SimpleNamespace(name="s")
    opened = OpenDelta(sink, run.chain, None, direct=run.direct)  # type: ignore[arg-type]
    run.write = lambda chain, *batch: opened.commit(*batch, span=None)
    with pytest.raises(OSError, match="too many open files"):
        run.batch(3)

    monkeypatch.undo()
    assert counts(tmp_path / "t") == Counter(map(key_of, range(7)))


def test_a_hint_that_cannot_be_written_does_not_end_the_run(
    begin: Callable[[str], Run], tmp_path: Path, monkeypatch: Any
) -> None:
    run = begin("run")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(LocalFiles, "write_text", full)
    run.batch(4)
    run.batch(3)
    assert counts(tmp_path / "t") == Counter(map(key_of, range(7)))


def test_a_batch_without_rows_has_its_offsets(begin: Callable[[str], Run], tmp_path: Path) -> None:
    run = begin("run")
    run.batch(0)
    run.batch(2)

    files = DeltaTable(tmp_path / "t").get_add_actions(flatten=True)
    assert min(pa.table(files)["num_records"].to_pylist()) > 0, "a file without rows"
    assert begin("next").end == 2
