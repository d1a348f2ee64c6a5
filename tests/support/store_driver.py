"""Spark's driver whose sink dies in place and is run again, on one JVM: of the daily share of the
kills into a failing store, where a second start would be most of the time.

`python -m tests.support.store_driver PLACE FOLDER`: runs the `lab.yaml` of the folder to its death
at the place, prints `died`, waits for a line, and runs to the end. Either may end with an error of
the store first, and is then repeated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from pipelines.base.errors import RunError
from pipelines.config.validate import read_pipeline
from pipelines.run.run import run_pipeline
from pipelines.run.session import start_session
from tests.spark.pipelines.conftest import Quiet, dying

RUNS_MAX = 4


def until(is_end: Callable[[RunError | None], bool], run: Callable[[], object]) -> None:
    said = []
    for _ in range(RUNS_MAX):
        error = None
        try:
            run()
        except RunError as raised:
            error = raised
        if is_end(error):
            return
        said.append(str(error))
    sys.exit("\n".join(said))


def main(place: str, folder: str) -> None:
    pipeline = read_pipeline(f"{folder}/lab.yaml", os.environ)
    spark = start_session(pipeline)

    def run() -> None:
        run_pipeline(spark, pipeline, Quiet())

    with dying(place):
        until(lambda error: "it died at" in str(error), run)
    print("died", flush=True)
    sys.stdin.readline()
    until(lambda error: error is None, run)


if __name__ == "__main__":
    main(*sys.argv[1:])
