"""Files that a reader opens before the one that answers his question, when he picks by path alone.

The reader knows the package, and has its list of paths and a few search words. He opens the path
with the most of his words first; of equal ones that with the most words in the file's own name,
then that with the fewest other words in its name. Among paths that are still equal he picks by
chance: the figure is the mean. A file whose path has none of the words is not found: that counts as
`LOOKS_MAX`, and so does every larger figure.

A path's word is the searched one when it starts with that, without a final `e` or `s`, or when the
searched one starts with it, from three letters on: `write` is in `writer`, `election` in `elect`.
Words of a path are what is between `/` and `_`. Search words are those of the question and of the
field (Spark calls the limit of a batch admission control), and `engine` for what the broker
decides, as ARCHITECTURE.md says; they are not taken from the file that answers today.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

LOOKS_MAX = 10.0


class Question(NamedTuple):
    """A question of a reader, the words that he searches with, and the file that answers."""

    asked: str
    words: str
    file: str


QUESTIONS = (
    Question("Where is a dead letter written?", "dead letter write",
    "pipelines/dead_letters/writer.py"), Question("How are versions of a row kept (SCD type 2)?",
    "scd2", "pipelines/transforms/scd2.py"), Question("How does a batch update an aggregate?",
    "aggregate", "pipelines/transforms/aggregate.py"), Question(
        "Where does a sink start whose checkpoint is lost?", "lost checkpoint start",
        "pipelines/exactly_once/checkpoint_start.py",
    ),
    Question(
        "Which offsets does a new query start at?", "start offsets",
        "josefine_spark/read/start_offsets.py"
    ),
    Question(
        "How does maxOffsetsPerTrigger limit a batch?", "admission max offsets trigger",
        "josefine_spark/read/admission.py",
    ),
    Question(
        "When does the high watermark of a partition move?",
        "engine partition replication high watermark",
        "josefine_broker/engine/partition/replication.py",
    ),
    Question(
        "How is the leader of a partition elected?", "engine partition leader election",
        "josefine_broker/engine/metadata/leader_election.py",
    ),
    Question(
        "What does a static member of a group find when it joins again?",
        "engine group static member join", "josefine_broker/engine/groups/joining.py",
    ),
    Question(
        "Which batch of a producer is a duplicate by its sequence?",
        "engine partition producer duplicate sequence",
        "josefine_broker/engine/partition/producers.py",
    ),
)  # fmt: skip
"""The ten of issue 34. Literal, so that a moved file is one line to change."""


def looks(words: str, file: str, paths: Iterable[str]) -> float:
    """Mean number of files that are opened until `file` is; `file` is one of `paths`."""
    wanted, package = words.split(), file.partition("/")[0]
    ranks = {path: _rank(wanted, path) for path in paths if path.startswith(f"{package}/")}
    rank = ranks[file]
    if rank[0] == 0:
        return LOOKS_MAX
    better = sum(other > rank for other in ranks.values())
    equal = sum(other == rank for other in ranks.values())
    return min(better + (equal + 1) / 2, LOOKS_MAX)


def _rank(wanted: list[str], path: str) -> tuple[int, int, int]:
    """(words in the path, words in the name, other words in the name as a negative number)."""
    folder, _, name = path.partition("/")[2].removesuffix(".py").rpartition("/")
    folders, names = _words(folder), _words(name)
    in_path = sum(any(is_same(word, each) for each in folders + names) for word in wanted)
    in_name = sum(any(is_same(word, each) for each in names) for word in wanted)
    others = sum(not any(is_same(word, each) for word in wanted) for each in names)
    return in_path, in_name, -others


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[/_]", text) if word]


def is_same(word: str, in_path: str) -> bool:
    """Whether a reader who searches with `word` sees it in a word of a path."""
    word, singular = word.lower(), in_path.rstrip("s")
    stem = word.rstrip("s").removesuffix("e")
    return (len(stem) >= 3 and in_path.startswith(stem)) or (
        len(singular) >= 3 and word.startswith(singular)
    )
