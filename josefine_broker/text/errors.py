"""What a line of a client is refused with: a sentence, which is the reply."""


class TextError(Exception):
    """The line cannot be served. The message is one line, as the client reads it."""


GONE = "Error, there is no "
"""Begins what is said of a subscription, or its topic, that is not there."""
NOT_THE_LEADER = "This is not the leader"
"""The original's words, of a broker that does not pass commands on."""


def error(reason: str) -> str:
    """An error line that names what is wrong; never more than a line, whatever is quoted in it."""
    return "Error, " + " ".join(reason.split())


def shown(text: str, chars_max: int = 80) -> str:
    """A client's own words inside an error line, printable and not too long."""
    cut = text if len(text) <= chars_max else f"{text[:chars_max]}…"
    return "".join(each if each.isprintable() else "�" for each in cut)
