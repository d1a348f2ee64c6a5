"""The words of the language guide, over comments, docstrings and messages.

`LEFT` counts what older files still have, by folder: it may only shrink.
"""

import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.test_style import PACKAGES, ROOT

WORDS = {
    r"(?<!offsets )(?<!records )(?<!far )(?<!\bis )(?<!\bare )\bbehind\b(?! by)": "after, later",
    r"\bbesides?\b": "alongside, with, next to",
    r"\b(is|are|was|were|be|been|being) told\b|\btells?\b|(?<![.`])\btold\b": "reports, notified",
    r"\bsays?\b(?! why)": "reports, states, names, contains",
    r"\bis none of\b|\bof a [a-z]+ that there is not\b": "is not a valid ..., unknown ...",
    r"\bbegins? at\b": "starts at",
    r"(?<!in one )\bgo(es)? on\b|\bwent on\b|\bgoing on\b": "continues",
    r"\bstands?\b(?! for)(?! alone)(?!-)": "is",
    r"\bwhoever\b|\ba third who\b|\bwho leads\b": "the leader, the client, the member",
    r"\bwhat (is|was) (kept|gone)\b": "the cached rows, the lost range",
    r"(?<!dead )(?<!dead-)(?<!capital )(?<!of )(?<!small )"
    r"(?!(?<=[\"'`])letters[\"'`])\bletters\b": "dead letters",
    r"\bmend(ed|s|ing)?\b": "fix",
    r"\blives\b": "runs, histories",
    r"\banew\b": "again",
}
"""What we do not write → what we write instead."""

LEFT: dict[str, int] = {
    "josefine_broker/config": 1,
    "josefine_broker/host": 2,
    "josefine_cli": 10,
    "pipelines": 18,
}
"""Folder → hits that are left in it. A folder that is not named has none."""

FOUND = [(re.compile(word, re.IGNORECASE), instead) for word, instead in WORDS.items()]


class Hit(NamedTuple):
    """One use of a word that the guide drops."""

    file: str
    line: int
    word: str
    instead: str


@pytest.mark.parametrize("folder", sorted({*PACKAGES, *LEFT}))
def test_comments_docstrings_and_messages_use_the_words_of_the_guide(folder: str) -> None:
    hits = found()[folder]
    shown = "\n".join(f"{h.file}:{h.line}: '{h.word}': write: {h.instead}" for h in hits[:40])

    assert len(hits) <= LEFT.get(folder, 0), shown
    assert len(hits) == LEFT.get(folder, 0), f"lower LEFT[{folder!r}] to {len(hits)}"


def test_each_word_is_found() -> None:
    odd = [
        "comes behind the kill", "beside load", "is told", "the file says so", "is none of ours",
        "begins at 3", "goes on", "stands in the file", "whoever leads", "what is kept",
        "the letters", "mended", "lives of the simulator", "read anew",
    ]  # fmt: skip

    assert [len(list(hits_of(text))) for text in odd] == [1] * len(odd)
    right = "3 offsets behind, dead letters, a name that stands for it, all in one go on the loop, "
    right += "the key 'letters', {sink.told}"
    assert list(hits_of(right)) == []


@cache
def found() -> dict[str, list[Hit]]:
    """Folder → hits, by file and line. A file belongs to the longest folder of LEFT that has it."""
    hits: dict[str, list[Hit]] = {folder: [] for folder in {*PACKAGES, *LEFT}}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            folder = max((each for each in hits if name.startswith(f"{each}/")), key=len)
            hits[folder] += in_file(path, name)
    return hits


def in_file(path: Path, name: str) -> list[Hit]:
    """Hits in comments and strings; names and code are the business of reviews."""
    hits = []
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for word, instead, at in hits_of(token.string):
                line = token.start[0] + token.string.count("\n", 0, at)
                hits.append(Hit(name, line, word, instead))
    return hits


def hits_of(text: str) -> list[tuple[str, str, int]]:
    """(word, what to write instead, where) in one comment or string."""
    return [(m[0], instead, m.start()) for word, instead in FOUND for m in word.finditer(text)]


if __name__ == "__main__":  # python -m tests.unit.test_language [folder ...]: what is left there
    import sys

    for hit in (hit for hits in found().values() for hit in hits):
        if any(hit.file.startswith(each) for each in sys.argv[1:]):
            print(f"{hit.file}:{hit.line}: '{hit.word}': write: {hit.instead}")
    print({folder: len(hits) for folder, hits in sorted(found().items()) if hits})
