"""How much of our own Python a micro-batch runs on the driver: calls and files, counted."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from deltalake import DeltaTable

from pipelines.run.sink_handle import SinkHandle
from tests.spark.pipelines.conftest import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

CALLS_MAX, FILES_MAX = 250, 25
DIRECT_CALLS_MAX, DIRECT_FILES_MAX = 32, 7
"""More if delta-rs commits: calls for each column of each file, whose footer has its bounds;
files."""
REPOSITORY = Path(__file__).resolve().parents[3]
COUNTED = tuple(f"{REPOSITORY / name}/" for name in ("pipelines", "josefine_spark"))
"""What is run below these folders counts, a comprehension and a generator's step as calls, too."""


class Calls:
    """Of one thread, while `run` runs. Mutable: the counts."""

    def __init__(self) -> None:
        self.by_function: Counter[tuple[str, str]] = Counter()
        self.by_caller: Counter[str] = Counter()

    def run(self, function: Any, *arguments: Any) -> None:
        sys.setprofile(self._on_event)
        try:
            function(*arguments)
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        code, above = frame.f_code, frame.f_back
        if event == "call" and code.co_filename.startswith(COUNTED):
            self.by_function[_file(frame), code.co_qualname] += 1
            if above is not None and above.f_code.co_filename.startswith(COUNTED):
                self.by_caller[f"{_file(above)}:{above.f_code.co_qualname}"] += 1

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.by_function}

    def __str__(self) -> str:
        """What to look at first."""
        lines = [f"{self.by_function.total()} calls over {len(self.files)} files"]
        lines += [f"{n:5} from {name}" for name, n in self.by_caller.most_common(12)]
        lines += [f"{n:5} of {':'.join(name)}" for name, n in self.by_function.most_common(20)]
        return "\n".join([*lines, f"files: {', '.join(sorted(self.files))}"])


def _file(frame: FrameType) -> str:
    return str(Path(frame.f_code.co_filename).relative_to(REPOSITORY))


def test_a_micro_batch_of_two_records_makes_few_calls_over_few_files(lab, monkeypatch):
    """A file's graph is read when a run begins, not again in each batch. Of two batches the second
    is counted: the first one also makes what all others share."""
    lab.apps = (("rows", "rows"), ("dead", "dead_letter.events"))
    lab.write_file(on_error="dead_letter", sinks=ROWS)
    process = SinkHandle.process
    batches: list[Calls] = []

    def counted(handle: SinkHandle, *arguments: Any) -> None:
        batches.append(Calls())
        batches[-1].run(process, handle, *arguments)

    lab.produce(4)
    monkeypatch.setattr(SinkHandle, "process", counted)
    lab.run(rows=2)

    assert [batch.rows for batch in lab.reporter.batches] == [2, 2]
    calls, calls_max, files_max = batches[1], CALLS_MAX, FILES_MAX
    table = DeltaTable(lab.table("rows"))
    (commit,) = table.history(1)
    if commit["engineInfo"].startswith("delta-rs"):
        columns = len(table.schema().fields) * int(commit["operationMetrics"]["numFiles"])
        calls_max += DIRECT_CALLS_MAX * columns
        files_max += DIRECT_FILES_MAX
    assert calls.by_function.total() <= calls_max, str(calls)
    assert len(calls.files) <= files_max, str(calls)
