"""The reader of one section: it reads values by the section's keywords and collects problems.

A reader never raises. It records a Problem with file, line, column and path and returns a harmless
value, so that one run of `lint` shows every problem. The caller raises if the list is not empty.
An unknown value (an unset variable, a secret offline) is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from josefine_broker.base import durations
from josefine_broker.base.store_urls import malformed, without_password
from pipelines.base.errors import Place, Problem
from pipelines.config.keyword import ModeWords
from pipelines.config.keywords import EXACTLY_ONE, WORDS
from pipelines.config.loader import Items, Node, Scalar, Table
from pipelines.config.output_paths import folder
from pipelines.config.spelling import candidates, nearest_word, unknown_key
from pipelines.model.pipeline import Placed

NAME = re.compile(r"[a-z][a-z0-9_]*")
LONG_MAX = 2**63 - 1
"""The maximum of offsets, rows, bytes and milliseconds: a signed 64-bit integer."""
UNIT_MS = {unit: durations.UNIT_MS[unit] for unit in ("ms", "s", "m", "h")}


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` if a known name is similar, otherwise ""."""
    close = nearest_word(word, known)
    return f"; did you mean `{close}`?" if close else ""


def shown(node: Node) -> str:
    """The user's value, short enough for a message."""
    if isinstance(node, Table):
        return "a mapping"
    if isinstance(node, Items):
        return "a list"
    if node.is_secret:
        return "a secret"
    if node.value is None:
        return "nothing"
    text = node.text
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"


class Reader:
    """One mapping of the file, read by the keywords of one section."""

    def __init__(self, table: Table, section: str, problems: list[Problem]) -> None:
        self.table = table
        self.section = section
        self.problems = problems
        self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        words = WORDS[self.section]
        there = {*self.table.nodes}
        said = {key: _text(node) for key, node in self.table.nodes.items()}
        known = ""
        for key, node in self.table.nodes.items():
            if key in words:
                known = key
                continue
            misplaced = self.section == "" and key in WORDS["spark"]
            meant = candidates(self.section, there, said) | (there & {*words})
            close = None if misplaced else nearest_word(key, meant)
            message = unknown_key(key, close, words)
            if misplaced:
                message += f" (`{key}` belongs below `spark`)"
            elif known and self._is_cut_off(known, key, node):
                message = (
                    f"a comma ends a text without quotes in {{ }}: put that of `{known}` in quotes"
                )
            self.problem(self.table.key_places[key], self.path_of(key), message)

    def _is_cut_off(self, known: str, key: str, node: Node) -> bool:
        """Whether a key is the rest of the text of a known one, as in `{ sql: select a, b }`."""
        places = self.table.key_places
        is_beside = places[key].line == places[known].line
        return is_beside and isinstance(node, Scalar) and node.value is None and not node.written

    def has(self, key: str) -> bool:
        return key in self.table.nodes

    def text(self, key: str, *, required: bool = False) -> str | None:
        """A text; a number is taken as its written text. An empty text is refused."""
        node = self._known(key, required)
        if isinstance(node, Scalar) and node.value is not None and node.text:
            return node.text
        self._wrong(key, node)
        return None

    def folder(self, key: str, *, required: bool = False) -> str | None:
        """A path, absolute, or a URL that is not malformed."""
        text = self.text(key, required=required)
        if text is None:
            return None
        if wrong := malformed(text):
            node = self.table.nodes[key]
            is_secret = isinstance(node, Scalar) and node.is_secret
            self.wrong_at(key, f"{'it' if is_secret else f'`{without_password(text)}`'} {wrong}")
        return folder(text)

    def placed(self, key: str) -> Placed:
        """A text that only Spark can judge, with its place."""
        node = self.table.nodes.get(key)
        return Placed(
            text=self.text(key) or "",
            place=self.place_of(key),
            path=self.path_of(key),
            written=node.written if isinstance(node, Scalar) else "",
            raw=node.raw if isinstance(node, Scalar) else "",
        )

    def choice(self, key: str) -> str | None:
        node = self._known(key)
        if node is None:
            return None
        choices = WORDS[self.section][key].choices
        value = _text(node)
        if value in choices:
            return value
        self._wrong(key, node, nearest(value, choices) if value else "")
        return None

    def flag(self, key: str) -> bool:
        node = self._known(key)
        if node is not None and not (isinstance(node, Scalar) and isinstance(node.value, bool)):
            self._wrong(key, node, _unquote(node) if _text(node) in ("true", "false") else "")
        return isinstance(node, Scalar) and node.value is True

    def positive(self, key: str, *, required: bool = False) -> int | None:
        node = self._known(key, required)
        if node is None:
            return None
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return self._within_long(key, node, value)
        is_number = re.fullmatch(r"0*[1-9]\d*", _text(node)) is not None
        hint = _unquote(node) if is_number else ""
        self._wrong(key, node, hint or "; it must be a whole number above 0")
        return None

    def number(self, key: str) -> int | None:
        """A whole number, 0 or more."""
        node = self._known(key)
        if node is None:
            return None
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return self._within_long(key, node, value)
        self._wrong(key, node)
        return None

    def ratio(self, key: str) -> float | None:
        """A number from 0 to 1."""
        node = self._known(key)
        if node is None:
            return None
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
        is_number = re.fullmatch(r"0(\.\d+)?|1(\.0+)?", _text(node)) is not None
        self._wrong(key, node, _unquote(node) if is_number else "")
        return None

    def tables(self, key: str) -> list[Table]:
        """The mappings of a list."""
        node = self._known(key)
        if node is None:
            return []
        if not isinstance(node, Items):
            self._wrong(key, node)
            return []
        return self._tables_of(node)

    def named_lists(self, key: str) -> dict[str, list[Table]]:
        """The mappings of a list, below each name."""
        found: dict[str, list[Table]] = {}
        table = self.table_of(key)
        for name, node in (table.nodes if table else {}).items():
            if isinstance(node, Items):
                found[name] = self._tables_of(node)
            else:
                self.problem(node.place, node.path, f"expected a list; found {shown(node)}")
        return found

    def _tables_of(self, items: Items) -> list[Table]:
        for node in items.nodes:
            if not isinstance(node, Table):
                self.problem(node.place, node.path, f"expected a mapping; found {shown(node)}")
        return [node for node in items.nodes if isinstance(node, Table)]

    def duration_ms(self, key: str) -> int | None:
        node = self._known(key)
        if node is None:
            return None
        found = durations.duration_ms(_text(node), UNIT_MS)
        if not found:
            self._wrong(key, node)
            return None
        return self._within_long(key, node, found)

    def _within_long(self, key: str, node: Node, value: int) -> int | None:
        """The value, if Kafka, Spark and Delta can hold it."""
        if value <= LONG_MAX:
            return value
        self._wrong(key, node, f", which is more than {LONG_MAX}")
        return None

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of texts, not empty, no duplicates. `required`: also if the keyword is not."""
        node = self._known(key, required)
        if node is None:
            return ()
        if not isinstance(node, Items) or not node.nodes:
            self._wrong(key, node)
            return ()
        values: list[str] = []
        for item in node.nodes:
            if isinstance(item, Scalar) and item.is_unknown:
                continue
            if not isinstance(item, Scalar) or item.value in (None, ""):
                self.problem(item.place, item.path, f"expected a text, found {shown(item)}")
            elif item.text in values:
                self.problem(item.place, item.path, f"`{item.text}` is listed twice")
            else:
                values.append(item.text)
        return tuple(values)

    def columns(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """One text, or a list of them."""
        node = self._known(key, required)
        if isinstance(node, Scalar) and node.value not in (None, ""):
            return (node.text,)
        return () if node is None else self.texts(key)

    def section_of(self, key: str) -> Reader | None:
        """The reader of the mapping below `key`, with the keywords of its section."""
        table = self.table_of(key)
        section = WORDS[self.section][key].of
        return None if table is None else Reader(table, section, self.problems)

    def table_of(self, key: str, *, required: bool = False) -> Table | None:
        node = self._known(key, required)
        if node is None:
            return None
        if not isinstance(node, Table):
            self._wrong(key, node)
            return None
        return node

    def named_tables(self, key: str) -> dict[str, Reader]:
        """The readers below a mapping of user-chosen names."""
        table = self.table_of(key)
        word = WORDS[self.section][key]
        section = word.of
        readers: dict[str, Reader] = {}
        for name, node in (table.nodes if table else {}).items():
            assert table is not None
            if not NAME.fullmatch(name):
                message = f"`{name}` is not a name: expected a-z, 0-9 and _"
                self.problem(table.key_places[name], node.path, message)
            if isinstance(node, Table):
                readers[name] = Reader(node, section, self.problems)
            else:
                message = (
                    f"expected a mapping with {', '.join(WORDS[section])}; found {shown(node)}"
                )
                self.problem(node.place, node.path, message)
        if word.required and table is not None and not table.nodes:
            self.problem(table.place, table.path, "expected at least one")
        return readers

    def plain_texts(self, key: str) -> dict[str, str]:
        """A mapping of text: text, as Spark's own settings are written."""
        table = self.table_of(key)
        values: dict[str, str] = {}
        for name, node in (table.nodes if table else {}).items():
            if isinstance(node, Scalar) and node.is_unknown:
                continue
            if isinstance(node, Scalar) and node.value is not None:
                values[name] = as_setting(node)
            else:
                self.problem(node.place, node.path, f"expected a text, found {shown(node)}")
        return values

    def chosen(self, word: str, of: Mapping[str, ModeWords], default: str) -> str:
        """The value of a choice that decides which keywords the section has. Where it is not
        readable, the one whose own keywords the section has most of, so that they are read."""
        said = self.choice(word)
        if said is not None:
            self.refuse_others(word, said, of)
            return said
        # The default wins a tie, because max() returns the first of the best.
        names = [default, *(name for name in of if name != default)]
        return max(names, key=lambda name: self._fit(of[name]))

    def _fit(self, words: ModeWords) -> int:
        own = {*words.required, *words.allowed}
        return sum(1 if key in own else -1 for key in self.table.nodes)

    def refuse_others(self, word: str, said: str, of: Mapping[str, ModeWords]) -> None:
        """Record the keywords that belong to another value of `word` than `said`."""
        own = of[said]
        theirs: dict[str, list[str]] = {}
        for name, words in of.items():
            for each in (*words.required, *words.allowed):
                theirs.setdefault(each, []).append(name)
        for each, names in theirs.items():
            if self.has(each) and each not in (*own.required, *own.allowed):
                message = f"`{each}` is for {word} {' or '.join(names)}; this {self.section}'s"
                self.wrong_at(each, f"{message} {word} is {said}")

    def exactly_one(self) -> None:
        """Record a problem unless exactly one of the section's exclusive keywords is present."""
        words = EXACTLY_ONE[self.section]
        if sum(map(self.has, words)) != 1:
            *others, last = (f"`{each}`" for each in words)
            message = f"expected exactly one of {', '.join(others)} and {last}"
            if self.section == "trigger":
                message = f"expected {WORDS['']['trigger'].expected}"
            self.problem(self.table.place, self.table.path, message, self._below(words[0]))

    def place_of(self, key: str) -> Place:
        node = self.table.nodes.get(key)
        return node.place if node else self.table.place

    def item_places(self, key: str) -> tuple[Place, ...]:
        """The places of a list's items, or of the single text that replaces the list."""
        node = self.table.nodes.get(key)
        if isinstance(node, Scalar):
            return (node.place,)
        return tuple(item.place for item in node.nodes) if isinstance(node, Items) else ()

    def path_of(self, key: str) -> str:
        """The path of a value; a value from an environment has the environment's path."""
        node = self.table.nodes.get(key)
        return node.path if node else self._below(key)

    def problem(self, place: Place, path: str, message: str, about: str = "") -> None:
        self.problems.append(Problem(place=place, path=path, message=message, about=about))

    def wrong_at(self, key: str, message: str) -> None:
        """Record a problem with the value of a key."""
        self.problem(self.place_of(key), self.path_of(key), message)

    def _known(self, key: str, required: bool = False) -> Node | None:
        """The value, or None if there is none to check; a missing required one is recorded."""
        node = self.table.nodes.get(key)
        if node is None and (required or WORDS[self.section][key].required):
            self.missing(key)
        is_unknown = isinstance(node, Scalar) and node.is_unknown
        return None if is_unknown else node

    def _below(self, key: str) -> str:
        return f"{self.table.path}.{key}" if self.table.path else key

    def missing(self, key: str) -> None:
        """Record a missing key."""
        message = f"`{key}` is missing; expected {WORDS[self.section][key].expected}"
        self.problem(self.table.place, self.table.path, message, self._below(key))

    def _wrong(self, key: str, node: Node | None, hint: str = "") -> None:
        if node is None:
            return
        expected = WORDS[self.section][key].expected
        message = f"expected {expected}; found {shown(node)}{hint}"
        self.problem(node.place, node.path, message)


def as_setting(node: Scalar) -> str:
    """A value as Spark writes it: YAML's yes, On, TRUE become true; all others are unchanged."""
    return str(node.value).lower() if isinstance(node.value, bool) else node.text


def _text(node: Node) -> str:
    return node.text if isinstance(node, Scalar) else ""


def _unquote(node: Node) -> str:
    """The advice for a number or flag that would be valid without its quotes."""
    is_quoted = isinstance(node, Scalar) and node.is_quoted
    return ", which is a text because of its quotes: leave them out" if is_quoted else ""
