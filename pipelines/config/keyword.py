"""The type of a pipeline file's keyword: its kind of value and the text that describes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """The kind of a keyword's value."""

    VERSION = auto()
    TEXT = auto()
    TEXTS = auto()  # a list of texts, at least one, no duplicates
    COLUMNS = auto()  # one column, or a list as with TEXTS
    CHOICE = auto()  # one of `choices`, or a mapping with the keywords of section `of`
    FLAG = auto()
    COUNT = auto()  # a whole number above 0
    NUMBER = auto()  # a whole number, 0 or more
    RATIO = auto()  # a number from 0 to 1
    ANY = auto()  # any YAML value
    DURATION = auto()  # 500ms, 5s, 2m, 1h
    BATCHES = auto()  # 1 batch, 100 batches
    PAUSES = auto()  # 5s, or 1s..60s
    SETTINGS = auto()  # a mapping of name: text, number or flag
    AGGREGATES = auto()  # a mapping of column: count(*), sum(x), ...
    OFFSETS = auto()  # a mapping of topic: a mapping of partition: a whole number from 0 on
    PARTITIONS = auto()  # a mapping of topic: a list of whole numbers from 0 on
    SECTION = auto()  # a mapping with the keywords of section `of`
    NAMED = auto()  # a mapping of name: a mapping with the keywords of section `of`
    TABLES = (
        auto()
    )  # a list of mappings with the keywords of section `of`; of any keys without `of`
    NAMED_TABLES = auto()  # a mapping of name: such a list
    ENVIRONMENTS = auto()  # a mapping of name: differences, in the keywords of section `of`


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One keyword: the text for a user who wrote something else, and how its value is read."""

    expected: str
    kind: Kind
    of: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeWords:
    """The keywords of a sink that its mode requires, and those that it allows."""

    required: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
