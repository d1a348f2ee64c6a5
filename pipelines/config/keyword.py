"""What a word of a pipeline file is: its kind of value, what is told of it. No word itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What a word's value is."""

    VERSION = auto()
    TEXT = auto()
    TEXTS = auto()  # a list of texts, at least one, none twice
    COLUMNS = auto()  # one column, or a list as with TEXTS
    CHOICE = auto()  # one of `choices`, or a table with the words of section `of`
    FLAG = auto()
    COUNT = auto()  # a whole number above 0
    NUMBER = auto()  # a whole number from 0 on
    RATIO = auto()  # a number from 0 to 1
    ANY = auto()  # whatever YAML has
    DURATION = auto()  # 500ms, 5s, 2m, 1h
    BATCHES = auto()  # 1 batch, 100 batches
    PAUSES = auto()  # 5s, or 1s..60s
    SETTINGS = auto()  # a table of name: text, number or flag
    AGGREGATES = auto()  # a table of column: count(*), sum(x), ...
    OFFSETS = auto()  # a table of topic: a table of partition: a whole number from 0 on
    PARTITIONS = auto()  # a table of topic: a list of whole numbers from 0 on
    SECTION = auto()  # a table with the words of section `of`
    NAMED = auto()  # a table of name: a table with the words of section `of`
    TABLES = auto()  # a list of tables with the words of section `of`; of any words without `of`
    NAMED_TABLES = auto()  # a table of name: such a list
    ENVIRONMENTS = auto()  # a table of name: what differs there, in the words of section `of`


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word: what is told to a user who wrote something else, and how its value is read."""

    expected: str
    kind: Kind
    of: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeWords:
    """Words of a sink that its mode asks for, and those that it allows."""

    required: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
