"""Source positions: the place in the file of one character of a value, quoted, folded or a block.

The value and the written text are compared without white space. Where they still differ (an
escape, a replaced variable), the result is the place of the whole value.
"""

from __future__ import annotations

from pipelines.base.errors import Place
from pipelines.model.pipeline import Placed


def place_at(placed: Placed, index: int) -> Place:
    """The place of `placed.text[index]`."""
    written = placed.written
    begin, end = _body(written)
    if "".join(placed.text.split()) != "".join(written[begin:end].split()):
        return placed.place
    to_pass = len("".join(placed.text[:index].split()))
    for at in range(begin, end):
        if written[at].isspace():
            continue
        if to_pass == 0:
            return _moved(placed.place, written[:at])
        to_pass -= 1
    return placed.place


def _body(written: str) -> tuple[int, int]:
    """Where the value starts in the written text: after the quote, after the line of `|` or `>`."""
    if written[:1] in ("'", '"'):
        return 1, len(written) - 1
    if written[:1] in ("|", ">"):
        return written.find("\n") + 1 or len(written), len(written)
    return 0, len(written)


def _moved(place: Place, passed: str) -> Place:
    lines = passed.split("\n")
    column = len(lines[-1]) + (1 if len(lines) > 1 else place.column)
    return Place(file=place.file, line=place.line + len(lines) - 1, column=column)
