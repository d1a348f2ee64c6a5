"""One batch on its way into the tables of a family.

First each table is opened and decides what it lacks. Then one Spark job writes the files of all
tables that get direct appends. Last, each table commits: its files, or, by a Spark job of its own,
its rows. The commits run in parallel.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.base import failpoints
from pipelines.base.errors import PipelineError
from pipelines.exactly_once.family_chain import NUMBER, decide_for_table
from pipelines.exactly_once.offset_chain import Commit, Skip, Verdict
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.retry_policy import retry_of
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.direct_table import FailedError, NotDirectError
from pipelines.sinks.family.registry import FamilyChain
from pipelines.sinks.family.rows import NAME, PLACE, above, lacked
from pipelines.sinks.family.tables import FamilyTable, FamilyTables
from pipelines.sinks.staging import Staging, files_in, write_files
from pipelines.transforms.dataframes import stored
from pipelines.transforms.shared_batches import in_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")

WRITERS_MAX = 8
"""Tables committed at once. By Spark each is a job and a Delta commit, mostly of the driver."""
REASON_CHARACTERS_MAX = 300
"""Of the reason of a held table: the registry's commits repeat it."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A table of the batch and what is committed to it."""

    table: FamilyTable
    decision: Commit | Skip


class BatchWrite:
    """One batch. Mutable, under the lock: how many tables are committed."""

    def __init__(
        self,
        tables: FamilyTables,
        chain: FamilyChain,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
    ) -> None:
        """`chain`: the registry's; `rows`: cached; `commit`: the sink's."""
        self._tables, self._chain = tables, chain
        self._rows, self._commit = rows, commit
        self._batch_id, self._more = batch_id, more
        self._lock = threading.Lock()
        self._committed = 0

    def write(
        self, due: Mapping[str, Sequence[str]], counts: Mapping[str, int], staging: Staging
    ) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
        """({table: (transaction version, rows)}, {table that is held: why}). A failure that is not
        of one table is raised, after the running commits have ended. `due`: table → its topics;
        `counts`: table → the number of its rows."""
        names = [name for name in due if name not in self._chain.family.held]
        with ThreadPoolExecutor(writers(), "josefine-table") as pool, staging.batch() as folder:
            steps, failed = _all(pool, {name: self._opening(name, due[name]) for name in names})
            files = self._files({n: s for n, s in steps.items() if counts.get(n)}, folder)
            failpoints.hit("mid_tables", 0)
            commits = {
                name: self._committing(name, step, folder if name in files else None, counts)
                for name, step in steps.items()
            }
            written, others = _all(pool, commits)
        return written, {**failed, **others}

    def _files(self, steps: Mapping[str, _Step], folder: Path) -> set[str]:
        """Write the files of all tables that get direct appends; those tables."""
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        decisions = {
            name: step.decision
            for name, step in steps.items()
            if step.table.direct is not None and isinstance(step.decision, Commit)
        }
        if not decisions:
            return set()
        session = self._tables.lend()
        try:
            rows = lacked(in_session(self._rows, session), decisions).drop(*PLACE.values())
            self._chain.repeat(self._batch_id, lambda: write_files(rows, folder, NAME))
        except Py4JNetworkError:
            raise
        except (PySparkException, Py4JError) as error:
            # A failure that passes is the sink's. Any other may be one table's rows: each table is
            # then written alone, so that this one is found and held.
            if retry_of(error) is not None:
                raise
            return set()
        finally:
            self._tables.give_back(session)
        return {*decisions}

    def _opening(self, name: str, topics: Sequence[str]) -> Callable[[], _Step | str]:
        def opened() -> _Step:
            table = self._tables.open(name, self._commit.end.topic_ids)
            return _Step(table, decide_for_table(self._commit, table.chain.tip, topics or None))

        return lambda: _or_why(opened)

    def _committing(
        self, name: str, step: _Step, folder: Path | None, counts: Mapping[str, int]
    ) -> Callable[[], tuple[int, int] | str]:
        def committed() -> tuple[int, int]:
            done = self._commit_one(name, step, folder, has_rows=bool(counts.get(name)))
            with self._lock:
                self._committed += 1
                failpoints.hit("mid_tables", self._committed)
            return done

        return lambda: _or_why(committed)

    def _commit_one(
        self, name: str, step: _Step, folder: Path | None, *, has_rows: bool
    ) -> tuple[int, int]:
        """Commit a table; (its transaction version, its rows)."""
        table, decision = step.table, step.decision
        chain = table.chain
        if isinstance(decision, Skip):
            assert chain.tip is not None
            return chain.tip.txn_version, 0
        chain.link, chain.query_id = self._chain.link, self._chain.query_id
        number = decision.txn_version
        more = {**self._more, NUMBER: number}
        # Rows without files: the job that writes all of them has failed.
        if table.direct is not None and (folder is not None or not has_rows):
            direct = table.direct
            files = files_in(folder / f"{NAME}={name}") if folder is not None else []
            try:
                actions = direct.take(files)
                entry = chain.add(
                    lambda version, said: direct.add(actions, version, chain.link, number, said),
                    decision,
                    self._batch_id,
                    more,
                )
                return number, entry.metrics.get("numOutputRows", 0)
            except NotDirectError:
                pass  # others have changed the table since it was opened
        if table.by_spark is None:
            table = self._tables.open_by_spark(name, self._commit.end.topic_ids)
            assert table.by_spark is not None
        target, opened = table.by_spark
        session = self._tables.lend()
        try:
            mine = in_session(self._rows, session)
            rows = above(mine.where(mine[NAME] == name), decision)
            out = target.as_stored(stored(rows))
            done = opened.commit(out, decision, self._batch_id, more, None)
        finally:
            self._tables.give_back(session)
        return number, done.rows


def _all(
    pool: ThreadPoolExecutor, each: Mapping[str, Callable[[], T | str]]
) -> tuple[dict[str, T], dict[str, str]]:
    """({table: its result}, {table that is held: why})."""
    made = {name: pool.submit(do) for name, do in each.items()}
    try:
        found = {name: future.result() for name, future in made.items()}
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    done = {name: result for name, result in found.items() if not isinstance(result, str)}
    return done, {name: why for name, why in found.items() if isinstance(why, str)}


def _or_why(do: Callable[[], T]) -> T | str:
    """The result of a step of one table, or why the table is held."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        return do()
    except StoppedError as stopped:
        if stopped.stop.verdict is Verdict.LOST_RACE:
            raise
        stop = stopped.stop
        detail = f": {stop.detail}" if stop.detail else ""
        return _short(stop.verdict.value + detail)
    except Py4JNetworkError:
        raise
    except (PipelineError, PySparkException, Py4JError, FailedError, OSError) as error:
        # A failure that passes is the sink's, which then starts again.
        if retry_of(error) is not None:
            raise
        return _short(clear_reason(error))


def writers() -> int:
    """The number of tables that are committed at once."""
    return max(2, min(WRITERS_MAX, 2 * (os.cpu_count() or 1)))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 3] + "..."
