"""The refusal of a client's line: a sentence, which is the reply."""


class TextError(Exception):
    """The line cannot be served. The message is one line, as the client reads it."""


GONE = "Error, there is no "
"""Prefix of replies about a missing subscription or topic."""
NOT_THE_LEADER = "This is not the leader"
"""The original's text, from a broker that does not forward commands."""


def error(reason: str) -> str:
    """An error line that names the problem; always a single line, whatever is quoted in it."""
    return "Error, " + " ".join(reason.split())


def shown(text: str, chars_max: int = 80) -> str:
    """A client's text inside an error line, printable and not too long."""
    cut = text if len(text) <= chars_max else f"{text[:chars_max]}…"
    return "".join(each if each.isprintable() else "�" for each in cut)
