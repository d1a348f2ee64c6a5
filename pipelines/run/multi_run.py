"""Several pipelines on one Spark session: checks that their files agree, and a thread for each.

One pipeline's failure does not stop the others; `stop` ends all of them between batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from pipelines.base.errors import ConfigError, Place, Problem
from pipelines.model.pipeline import Pipeline

POLL_S = 0.2
"""The interval of the checks on the threads; a signal is handled between two of them."""


def refuse_strangers(pipelines: Sequence[Pipeline]) -> None:
    """Raise ConfigError for two files that cannot run together: at the later file, naming both."""
    found = [each for one, other in combinations(pipelines, 2) for each in _against(one, other)]
    if found:
        raise ConfigError(found)


def conf_of(pipelines: Sequence[Pipeline]) -> tuple[dict[str, str], str | None]:
    """The settings and the master of files that agree."""
    conf = {name: value for each in pipelines for name, value in each.conf.items()}
    return conf, next((each.master for each in pipelines if each.master is not None), None)


def _against(one: Pipeline, other: Pipeline) -> Iterator[Problem]:
    top = Place(file=other.file, line=1, column=1)
    if one.name == other.name:
        message = f"{one.file} has it, too: both would share one Delta txnAppId"
        yield Problem(place=top, path="name", message=message)
    if None not in (one.master, other.master) and one.master != other.master:
        message = f"{one.file} has another one: both are to run on one Spark"
        yield Problem(place=top, path="spark.master", message=message)
    for name in sorted(one.conf.keys() & other.conf.keys()):
        if one.conf[name] != other.conf[name]:
            # Not the values: they may be secrets.
            message = f"{one.file} has another value: both are to run on one Spark"
            place = other.conf_places.get(name, top)
            yield Problem(place=place, path=f"spark.conf.{name}", message=message)
    if one.metrics is not None and one.metrics == other.metrics and one.metrics.port:
        message = f"{one.file} has {one.metrics}, too: give each a port"
        yield Problem(place=top, path="metrics.prometheus", message=message)


def run_all(
    works: Mapping[str, Callable[[], None]],
    ended: Callable[[str, Exception | None], None],
) -> None:
    """Run each of `works` on a thread of its own; the thread calls `ended` with its exception."""

    def do(name: str, work: Callable[[], None]) -> None:
        failure: Exception | None = None
        try:
            work()
        except Exception as error:
            failure = error
        ended(name, failure)

    # Daemons: the second Ctrl-C ends the process at once.
    threads = [
        threading.Thread(target=do, args=each, name=each[0], daemon=True) for each in works.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(POLL_S)
