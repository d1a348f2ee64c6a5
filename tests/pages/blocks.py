"""The blocks of a page: commands, what they print, and the files that the page shows.

A page shows a file of the repository as a fenced block under a comment `<!-- file: PATH -->`;
`./build.sh docs` writes the block from the file. Commands are blocks of `sh`; a block of `text`
after one has lines of its output, with `…` for any text. A page with `<!-- broker -->` runs next to
a broker on 127.0.0.1:9092; settings may follow: `<!-- broker: JOSEFINE__TEXT__PORT=9392 -->`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.compile(r"(<!-- file: (\S+) -->\n```\w*\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BROKER = re.compile(r"^<!-- broker(?:: (.*))? -->$", re.MULTILINE)


class Step(NamedTuple):
    """Commands that are typed together, and lines that they print."""

    commands: str
    printed: tuple[str, ...]


def with_files(text: str) -> str:
    """The page with each shown file as it is now."""
    return SHOWN.sub(lambda found: found[1] + (ROOT / found[2]).read_text() + found[4], text)


def files(text: str) -> list[str]:
    """The files that a page shows, each once."""
    return list(dict.fromkeys(found[1] for found in SHOWN.findall(text)))


def steps(text: str) -> Iterator[Step]:
    """The commands of a page in order, each block with the output that the page shows for it."""
    blocks = BLOCK.findall(text)
    for at, (language, info, content) in enumerate(blocks):
        if language == "sh" and not info.strip():
            following = blocks[at + 1] if at + 1 < len(blocks) else ("", "", "")
            shown = following[2].splitlines() if following[0] == "text" else []
            yield Step(content, tuple(line for line in shown if line.strip()))


def missing(step: Step, output: str) -> list[str]:
    """The lines that the page shows and the commands did not print."""
    printed = [" ".join(line.split()) for line in output.splitlines()]
    wanted = (" ".join(line.split()) for line in step.printed)
    return [line for line in wanted if not any(_pattern(line).fullmatch(p) for p in printed)]


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in line.split("…")))
