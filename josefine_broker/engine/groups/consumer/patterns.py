"""Regular expressions over topic names and transactional ids (KIP-848, KIP-1152), matched by RE2.

A client chooses the expression (SubscribedTopicRegex), so nothing here may backtrack, and its
compiled size is limited. The whole name must match: Kafka uses RE2/J and its `matches()`.
"""

from functools import lru_cache
from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError

INSTRUCTIONS_MAX = 4_000
"""Of a compiled expression: a few hundred characters, repetitions written out. Where RE2's memory
does not suffice for an automaton, a match costs this times the length of the name: milliseconds."""
CHARS_MAX = 4_000
"""Of an expression: a longer one would have more instructions anyway."""
MEMORY_BYTES_MAX = 1 << 20
"""Of one compiled expression and the automaton that its matches build."""
COMPILED_MAX = 256
"""Number of cached compiled expressions."""


class Pattern:
    """A compiled expression."""

    __slots__ = ("_compiled",)

    def __init__(self, expression: str) -> None:
        """Raises KafkaError(invalid_regular_expression)."""
        if len(expression) > CHARS_MAX:
            raise _invalid(expression, f"it is longer than {CHARS_MAX} characters")
        self._compiled = _compiled_by_re2(expression)
        if self._compiled.programsize > INSTRUCTIONS_MAX:
            raise _invalid(expression, f"it compiles to more than {INSTRUCTIONS_MAX} instructions")

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        # Bytes: RE2 would translate the positions of a match in a str, which nobody asks for.
        return self._compiled.fullmatch(name.encode()) is not None


def _compiled_by_re2(expression: str) -> Any:
    # Loaded with the first expression: 3 MB that most brokers never need.
    import re2

    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.never_capture = True
    options.log_errors = False  # to standard error
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        (reason,) = error.args
        raise _invalid(expression, reason.decode(errors="replace")) from None


def _invalid(expression: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_regular_expression,
        f"'{expression[:200]}' is not a valid regular expression of RE2: {reason[:200]}",
    )


@lru_cache(maxsize=COMPILED_MAX)
def compiled(expression: str) -> Pattern:
    """Raises KafkaError(invalid_regular_expression)."""
    return Pattern(expression)


def matches(expression: str, name: str) -> bool:
    """Whether the whole name matches an expression that a member has. One that another version of
    the broker took, and this one would refuse, matches nothing, as in Kafka: the group
    continues."""
    pattern = _of_member(expression)
    return pattern is not None and pattern.matches(name)


@lru_cache(maxsize=COMPILED_MAX)
def _of_member(expression: str) -> Pattern | None:
    try:
        return compiled(expression)
    except KafkaError:
        return None
