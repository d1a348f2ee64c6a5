"""The parser of topic regular expressions: it builds an automaton whose states are left by a
character or by none.

The supported subset of RE2's syntax (github.com/google/re2/wiki/Syntax) is: literals, `.`, classes
with ranges, negation and \\d \\w \\s, groups with or without a name, `|`, `* + ? {n} {n,} {n,m}`
also lazy, `^ $ \\A \\z`. Everything else is refused (flags, \\b, POSIX classes, and what RE2 does
not support either).
"""

from dataclasses import dataclass, field
from string import ascii_letters, digits
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError

STEPS_MAX = 2_000
"""States of an automaton: enough for a few hundred characters, with repetitions expanded."""
DEPTH_MAX = 100
"""Nesting of groups."""

_CLASSES = {
    "d": frozenset(digits),
    "w": frozenset(ascii_letters + digits + "_"),
    "s": frozenset(" \t\n\r\f"),
}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Chars(NamedTuple):
    """A set of characters, or its complement."""

    chars: frozenset[str]
    is_negated: bool = False

    def has(self, char: str) -> bool:
        return (char in self.chars) is not self.is_negated


@dataclass(slots=True)
class Step:
    """One state: `then` follows after a character, or at once if there is none."""

    chars: Chars | None = None
    then: list[int] = field(default_factory=list)
    at_begin: bool = False
    at_end: bool = False


class Reader:
    """A recursive descent parser; each part becomes states between a first and a last one.
    Mutable: position and states so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self.steps: list[Step] = []

    def read(self) -> tuple[int, int]:
        """The first and the last state. Raises KafkaError(invalid_regular_expression)."""
        found = self._alternatives()
        if self._at < len(self._text):
            raise self._wrong("an unexpected ')'")
        return found

    # The automaton.

    def _step(self, **fields: object) -> int:
        if len(self.steps) >= STEPS_MAX:
            raise self._wrong(f"more than {STEPS_MAX} steps")
        self.steps.append(Step(**fields))  # type: ignore[arg-type]
        return len(self.steps) - 1

    def _lead(self, begin: int, *then: int) -> None:
        self.steps[begin].then += then

    def _single(self, **fields: object) -> tuple[int, int]:
        last = self._step()
        return self._step(then=[last], **fields), last

    # The grammar.

    @property
    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        is_there = self._text.startswith(text, self._at)
        if is_there:
            self._at += len(text)
        return is_there

    def _alternatives(self) -> tuple[int, int]:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        first, last = self._step(), self._step()
        for begin, end in parts:
            self._lead(first, begin)
            self._lead(end, last)
        return first, last

    def _sequence(self) -> tuple[int, int]:
        first = last = self._step()
        while self._next not in ("", "|", ")"):
            begin, end = self._repeated()
            self._lead(last, begin)
            last = end
        return first, last

    def _repeated(self) -> tuple[int, int]:
        begin_at = self._at
        part = self._atom()
        end_at = self._at
        bounds = self._bounds()
        if bounds is None:
            return part
        self._take("?")  # lazy: makes no difference where the whole name is matched
        after = self._at
        if self._bounds() is not None:
            raise self._wrong("a repetition of a repetition")
        least, most = bounds
        first = last = self._step()
        # Repetitions are expanded by parsing the part again, because states cannot be shared.
        copies = max(least, 1) if most is None else most
        for nth in range(copies):
            self._at = begin_at
            begin, end = self._atom()
            assert self._at == end_at
            if nth >= least:
                skip = self._step()
                self._lead(last, begin, skip)
                self._lead(end, skip)
                if most is None:
                    self._lead(end, begin)
                last = skip
            else:
                self._lead(last, begin)
                if most is None and nth == copies - 1:
                    self._lead(end, begin)
                last = end
        self._at = after
        return first, last

    def _bounds(self) -> tuple[int, int | None] | None:
        """The bounds of a repetition (None: unbounded), if one follows."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        if self._next != "{":
            return None
        inside, closing, _ = self._text[self._at + 1 :].partition("}")
        least, comma, most = inside.partition(",")
        numbers = [each for each in (least, most) if each]
        if not closing or not least or not all(each.isdecimal() for each in numbers):
            raise self._wrong("'{' that does not start a repetition")
        self._at += len(inside) + 2
        low = int(least[:6])
        high = low if not comma else int(most[:6]) if most else None
        if low > STEPS_MAX or (high is not None and not low <= high <= STEPS_MAX):
            raise self._wrong(f"a repetition of {{{inside}}}")
        return low, high

    def _atom(self) -> tuple[int, int]:
        char = self._next
        self._at += 1
        if char == "(":
            return self._group()
        if char == "[":
            return self._single(chars=self._class())
        if char == ".":
            return self._single(chars=Chars(frozenset("\n"), True))
        if char == "^":
            return self._single(at_begin=True)
        if char == "$":
            return self._single(at_end=True)
        if char == "\\":
            return self._escaped()
        if char in "*+?{":
            raise self._wrong(f"nothing before '{char}'")
        return self._single(chars=Chars(frozenset(char)))

    def _group(self) -> tuple[int, int]:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"more than {DEPTH_MAX} groups within each other")
        if self._take("?") and not self._take(":"):
            if not self._take("P<") and not self._take("<"):
                raise self._wrong("an unsupported kind of group")
            name, closing, _ = self._text[self._at :].partition(">")
            if not closing or not name.isidentifier():
                raise self._wrong("an invalid group name")
            self._at += len(name) + 1
        part = self._alternatives()
        if not self._take(")"):
            raise self._wrong("a group that is not closed")
        self._depth -= 1
        return part

    def _escaped(self) -> tuple[int, int]:
        if self._take("A"):
            return self._single(at_begin=True)
        if self._take("z"):
            return self._single(at_end=True)
        return self._single(chars=self._escape())

    def _escape(self) -> Chars:
        """The character or class after a backslash."""
        char = self._next
        self._at += 1
        if char.lower() in _CLASSES and char:
            return Chars(_CLASSES[char.lower()], char.isupper())
        if char in _ESCAPES:
            return Chars(frozenset(_ESCAPES[char]))
        if not char or char.isalnum():
            raise self._wrong(f"the unsupported escape '\\{char}'")
        return Chars(frozenset(char))

    def _class(self) -> Chars:
        is_negated = self._take("^")
        chars: set[str] = set()
        is_first = True
        while is_first or self._next != "]":
            low = self._of_class()
            if self._next == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._of_class()
                if len(low) != 1 or len(high) != 1 or min(low) > min(high):
                    raise self._wrong("an invalid range in a class")
                ends = ord(min(low)), ord(min(high))
                if ends[1] - ends[0] > STEPS_MAX:
                    raise self._wrong("a range in a class that is too long")
                chars.update(map(chr, range(ends[0], ends[1] + 1)))
            else:
                chars |= low
            is_first = False
        self._at += 1
        return Chars(frozenset(chars), is_negated)

    def _of_class(self) -> frozenset[str]:
        """One element of a class: a character, or a class of its own."""
        char = self._next
        if not char:
            raise self._wrong("a class that is not closed")
        if self._take("[:"):
            raise self._wrong("a POSIX class")
        self._at += 1
        if char != "\\":
            return frozenset(char)
        found = self._escape()
        if found.is_negated:
            raise self._wrong("a negated class within a class")
        return found.chars

    def _wrong(self, what: str) -> KafkaError:
        return KafkaError(
            ErrorCode.invalid_regular_expression,
            f"{what} at character {self._at} of '{self._text[:200]}'",
        )
