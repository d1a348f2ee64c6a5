"""The parser of a line into fields: separated by one space; a field with spaces is in double
quotes, in which a double quote is written twice (RFC 4180).

A field that does not start with a quote is taken as it is, so JSON without spaces needs no quotes.
"""

from josefine_broker.text.errors import TextError

QUOTE = '"'


def split_fields(line: bytes) -> list[str]:
    """The fields; at least one, perhaps empty. Raises TextError naming the invalid field."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise TextError(f"Error, the line is not UTF-8 at byte {error.start}") from None
    fields: list[str] = []
    at = 0
    while True:
        if text.startswith(QUOTE, at):
            field, at = _quoted(text, at + 1, len(fields) + 1)
        else:
            end = text.find(" ", at)
            end = len(text) if end < 0 else end
            field, at = text[at:end], end
        fields.append(field)
        if at == len(text):
            return fields
        at += 1


def _quoted(text: str, at: int, number: int) -> tuple[str, int]:
    """The field whose content starts at `at`, and its end."""
    parts = []
    while True:
        end = text.find(QUOTE, at)
        if end < 0:
            raise TextError(f"Error, the quotes of field {number} are not closed")
        parts.append(text[at:end])
        at = end + 1
        if not text.startswith(QUOTE, at):
            break
        parts.append(QUOTE)
        at += 1
    if at < len(text) and text[at] != " ":
        raise TextError(
            f"Error, field {number} continues after its closing quote: a field with spaces is put "
            "in double quotes, and its own are written twice"
        )
    return "".join(parts), at
