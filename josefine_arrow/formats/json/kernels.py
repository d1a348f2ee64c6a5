"""The numba kernels that decode JSON objects into Arrow buffers.

They take plain values: an object of RFC 8259's grammar to its last byte, in UTF-8, whose fields fit
their types. A field of a type that they do not have is left as its text. In all other cases, also
where the check would be expensive (a key with an escape, a duplicate field, a number that is
rounded at a tie), the row is left null, and `value_reader` decodes it.

Rules: addresses and integers in, memory filled; every read is checked against the end of its value,
because nothing else checks it. Import this module through `decoder.py`.
"""
# mypy: ignore-errors
# numba infers the types of these functions at the first call; Python annotations have no effect.

import numpy as np
from numba import njit

from josefine_arrow.batches.memory_access import (
    byte_at,
    cell_at,
    half_at,
    put_byte,
    put_cell,
    put_double,
    put_word,
    word_at,
)
from josefine_arrow.formats.json.bytes import (
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    MINUS,
    NINE,
    OPEN,
    OPEN_LIST,
    QUOTE,
    ZERO,
)
from josefine_arrow.formats.json.nested_kernels import ADDED_BYTES as ADDED_BYTES
from josefine_arrow.formats.json.nested_kernels import count as count
from josefine_arrow.formats.json.nested_kernels import split as split
from josefine_arrow.formats.json.number_kernels import POWER_MAX as POWER_MAX
from josefine_arrow.formats.json.number_kernels import POWER_MIN as POWER_MIN
from josefine_arrow.formats.json.number_kernels import (
    double_of,
    exponent_of,
    mantissa_of,
    number_end,
)
from josefine_arrow.formats.json.text_kernels import date_of, text, timestamp_of
from josefine_arrow.formats.json.text_kernels import gather as gather

# Kinds of a field. LOCAL: a time without a zone. RAW: any value, as its text.
STRUCT, STRING, INTEGER, DOUBLE, FLOAT, BOOLEAN, TIMESTAMP, LOCAL, DATE, DECIMAL, RAW = range(11)

# Columns of the table of fields. Its first row is the object itself; children are adjacent. Kind,
# first child, number of children; position and size of the name; output slot; limits and decimal
# places of a number, for a TIMESTAMP whether texts without a zone are certain and their offset in
# minutes; whether an unknown key in this struct makes the row uncertain. State of the
# kernel: the expected next child, the last row with this field.
KIND, CHILD, CHILDREN, NAME, NAME_SIZE, SLOT, LOW, HIGH, SCALE, STRICT, EXPECTED, SEEN = range(12)
FIELD_COLUMNS = 12
"""All are int64. The table belongs to one thread: EXPECTED and SEEN change while it decodes."""

# Rows of a string's span: its start in the values, its size there, whether it has escapes.
START, SIZE, ESCAPED = range(3)
SPAN_ROWS = 3
"""Each with a word per row of the batch, so that a column is contiguous."""

DEPTH_MAX = 64
VALUE_BYTES_MAX = 1_000_000
"""Beyond these limits a row is not certain."""
NUMBER_BYTES_MAX = 300
"""Longer numbers exist, such as 0.000…1, but not in data whose speed matters."""
NAME_BYTES_MAX = 10_000
"""A longer name is compared by the decoder in Python."""
FLOAT_MIN, FLOAT_MAX = 1.2e-38, 3.4e38
"""Between these a double is certain to be a normal float."""

_NULL, _TRUE, _FALSE = (int.from_bytes(word, "little") for word in (b"null", b"true", b"false"))

_ANY, _LIST = -1, -2
"""An open object or array that belongs to no field of the schema."""
_RAW = -3
"""From here down: an object or array whose text is a field's value, `_RAW - 2 * field`, one less
for an array."""
_FRESH, _BEHIND = 0, 1
"""The parser's state: a first member or the end may follow; a comma or the end may follow."""


@njit(cache=True, nogil=True)
def parse(data, ends, given, rows, schema, stack, out):
    """Decode each value that is `given` (not null); returns the number of decoded rows.

    All arguments except `rows` are addresses. `data`, `ends` (32 bits): the values, each from one
    end to the next. `schema`: the table of fields, their number, the names and the powers for
    doubles. `out` is (words, spans, taken). `taken` has a byte per field and row: 1 where the field
    is not null, for the first field where the row is decoded. `words` has an integer or a double by
    slot and row, `spans` the position of a string. Both are zero at the start; `stack` has room for
    DEPTH_MAX.
    """
    # Rows are independent: one that is not certain costs only itself.
    count = 0
    for row in range(rows):
        # The shortest object is `{}`.
        start, end = half_at(ends, row), half_at(ends, row + 1)
        if byte_at(given, row) == 0 or end - start < 2 or end - start > VALUE_BYTES_MAX:
            continue
        if _object(data, start, end, row, rows, schema, stack, out):
            # The first field is the object itself: this marks the whole row as decoded.
            put_byte(out[2], row, 1)
            count += 1
        else:
            _forget(row, rows, schema, out)
    return count


@njit(cache=True, nogil=True)
def _forget(row, rows, schema, out):
    """Clear the output of a row that was partly filled and then found not certain."""
    for field in range(schema[1]):
        # Words of numbers stay: without `taken` nobody reads them. Sizes of strings are read by
        # `gather`.
        put_byte(out[2], field * rows + row, 0)
        if cell_at(schema[0], field, FIELD_COLUMNS, KIND) in (STRING, RAW):
            slot = cell_at(schema[0], field, FIELD_COLUMNS, SLOT)
            put_word(out[1], (slot * SPAN_ROWS + SIZE) * rows + row, 0)


# Notes on `_object`:
# - An explicit stack instead of recursion bounds the depth for hostile input. A stack entry is the
#   field of the open object, _ANY for an unknown one, _LIST, or an entry from _RAW down.
# - Nothing may follow the object, not even white space: Python's decoder has the rule for that.
# - After a comma a member must follow: the state is not _FRESH, so a bracket fails as a name.
# - Each object starts with its first field, whatever the previous row ended with.
@njit(cache=True, nogil=True)
def _object(data, pos, end, row, rows, schema, stack, out):
    """Decode one value; whether it is an object with a certain result, to its last byte."""
    fields = schema[0]
    if byte_at(data, pos) != OPEN:
        return False
    pos += 1
    # The stack's first entry is row 0 of the table of fields, which is the object itself.
    depth, state = 0, _FRESH
    put_word(stack, 0, 0)
    put_cell(fields, 0, FIELD_COLUMNS, EXPECTED, 0)
    while True:
        pos = _behind_space(data, pos, end)
        if pos >= end:
            return False
        # An entry from _RAW down encodes field and bracket in one word: see `_RAW`.
        inside = word_at(stack, depth)
        is_list = inside == _LIST or (inside <= _RAW and (_RAW - inside) % 2 == 1)
        if byte_at(data, pos) == (CLOSE_LIST if is_list else CLOSE):
            pos += 1
            if depth == 0:
                return pos == end
            if inside <= _RAW:
                _end_span(out, (_RAW - inside) // 2, row, rows, schema, pos)
            depth -= 1
            state = _BEHIND
            continue
        if state == _BEHIND:
            if byte_at(data, pos) != COMMA:
                return False
            pos = _behind_space(data, pos + 1, end)
        # Elements of an array have no name, and so no field.
        field = _ANY
        if not is_list:
            pos, field = _name(data, pos, end, inside, schema)
            # A duplicate field has no certain result. SEEN has the row, so nothing must be reset.
            if pos < 0 or (field >= 0 and cell_at(fields, field, FIELD_COLUMNS, SEEN) == row):
                return False
            if field >= 0:
                put_cell(fields, field, FIELD_COLUMNS, SEEN, row)
        if pos >= end:
            return False
        byte = byte_at(data, pos)
        if byte in (OPEN, OPEN_LIST):
            # Without a field the value is only checked: as an object of unknown names, or a list.
            entry = field if byte == OPEN else _LIST
            if field >= 0:
                kind = cell_at(fields, field, FIELD_COLUMNS, KIND)
                if kind in (STRING, RAW):
                    _start_span(out, field, row, rows, schema, pos)
                    entry = _RAW - 2 * field - (1 if byte == OPEN_LIST else 0)
                # A number or time takes no object, and a struct no array.
                elif kind != STRUCT or byte != OPEN:
                    return False
                put_byte(out[2], field * rows + row, 1)
                put_cell(fields, field, FIELD_COLUMNS, EXPECTED, 0)
            depth += 1
            if depth == DEPTH_MAX:
                return False
            put_word(stack, depth, entry)
            pos += 1
            state = _FRESH
            continue
        pos = _scalar(data, pos, end, row, rows, field, schema, out)
        if pos < 0:
            return False
        state = _BEHIND


@njit(cache=True, nogil=True)
def _start_span(out, field, row, rows, schema, start):
    """Store where a field's text starts."""
    span = cell_at(schema[0], field, FIELD_COLUMNS, SLOT) * SPAN_ROWS
    put_word(out[1], (span + START) * rows + row, start)


@njit(cache=True, nogil=True)
def _end_span(out, field, row, rows, schema, end):
    """Store a text's size. The text of a value has no escapes to resolve: it is JSON again."""
    span = cell_at(schema[0], field, FIELD_COLUMNS, SLOT) * SPAN_ROWS
    start = word_at(out[1], (span + START) * rows + row)
    put_word(out[1], (span + SIZE) * rows + row, end - start)
    put_word(out[1], (span + ESCAPED) * rows + row, 0)


@njit(cache=True, nogil=True)
def _token(data, pos, end, row, rows, field, schema, out):
    """Store the text of a scalar from `pos` to `end`; returns `end`."""
    _start_span(out, field, row, rows, schema, pos)
    _end_span(out, field, row, rows, schema, end)
    put_byte(out[2], field * rows + row, 1)
    return end


@njit(cache=True, nogil=True)
def _behind_space(data, pos, end):
    """The position after white space: only these four bytes are in JSON's grammar."""
    while pos < end and (
        byte_at(data, pos) == 32
        or byte_at(data, pos) == 10
        or byte_at(data, pos) == 13
        or byte_at(data, pos) == 9
    ):
        pos += 1
    return pos


@njit(cache=True, nogil=True)
def _name(data, pos, end, inside, schema):
    """Read a member's name: (start of its value or -1, its field in `inside` or `_ANY`).

    Members mostly come in the order of the fields, so the field after the last one is tried first.
    """
    fields, names = schema[0], schema[2]
    start = pos + 1
    pos, escaped = text(data, pos, end)
    size = pos - 1 - start
    # A name with an escape or over the limit may still be a field's. -1 gives the row up to the
    # decoder in Python, which can unescape it.
    if pos < 0 or escaped or size > NAME_BYTES_MAX:
        return -1, _ANY
    field = _ANY
    if inside >= 0:
        first, count = (
            cell_at(fields, inside, FIELD_COLUMNS, CHILD),
            cell_at(fields, inside, FIELD_COLUMNS, CHILDREN),
        )
        at = cell_at(fields, inside, FIELD_COLUMNS, EXPECTED)
        for _ in range(count):
            # Around once: after the last field comes the first.
            at = 0 if at >= count else at
            if _is_name(data, start, size, first + at, fields, names):
                field = first + at
                # A member that the schema does not have leaves the expectation as it was.
                put_cell(fields, inside, FIELD_COLUMNS, EXPECTED, at + 1)
                break
            at += 1
        if field == _ANY and cell_at(fields, inside, FIELD_COLUMNS, STRICT):
            return -1, _ANY
    pos = _behind_space(data, pos, end)
    if pos >= end or byte_at(data, pos) != COLON:
        return -1, field
    return _behind_space(data, pos + 1, end), field


@njit(cache=True, nogil=True)
def _is_name(data, start, size, field, fields, names):
    """Whether the name at `start` is the field's. The size is compared first: it differs mostly."""
    if cell_at(fields, field, FIELD_COLUMNS, NAME_SIZE) != size:
        return False
    name = cell_at(fields, field, FIELD_COLUMNS, NAME)
    index = 0
    while index < size and byte_at(data, start + index) == byte_at(names, name + index):
        index += 1
    return index == size


@njit(cache=True, nogil=True)
def _scalar(data, pos, end, row, rows, field, schema, out):
    """Read a string, number or literal; returns its end, -1 if the row is not certain."""
    byte = byte_at(data, pos)
    if byte == QUOTE:
        return _text_field(data, pos, end, row, rows, field, schema, out)
    if byte == MINUS or ZERO <= byte <= NINE:
        return _number_field(data, pos, end, row, rows, field, schema, out)
    # Any other byte fails in `_literal_end`, as it is not `f`.
    literal, size = _FALSE, 5
    if byte == _NULL & 0xFF:
        literal, size = _NULL, 4
    elif byte == _TRUE & 0xFF:
        literal, size = _TRUE, 4
    stop = _literal_end(data, pos, end, literal, size)
    # Null is the absence of the field: nothing is stored.
    if stop < 0 or field < 0 or literal == _NULL:
        return stop
    kind = cell_at(schema[0], field, FIELD_COLUMNS, KIND)
    if kind in (STRING, RAW):
        return _token(data, pos, stop, row, rows, field, schema, out)
    # A truth value in a column of another type: Python's decoder finds the reason.
    if kind != BOOLEAN:
        return -1
    put_word(
        out[0],
        cell_at(schema[0], field, FIELD_COLUMNS, SLOT) * rows + row,
        1 if literal == _TRUE else 0,
    )
    put_byte(out[2], field * rows + row, 1)
    return stop


@njit(cache=True, nogil=True)
def _literal_end(data, pos, end, literal, size):
    """End of a literal, given as an integer with its first byte lowest; -1 if it is not there."""
    if end - pos < size:
        return -1
    for index in range(size):
        if byte_at(data, pos + index) != (literal >> (8 * index)) & 0xFF:
            return -1
    return pos + size


@njit(cache=True, nogil=True)
def _text_field(data, pos, end, row, rows, field, schema, out):
    """Read a string into its field; returns its end, -1 if the row is not certain."""
    start = pos + 1
    stop, escaped = text(data, pos, end)
    # A text outside the schema only has to be valid JSON: nothing of it is stored.
    if stop < 0 or field < 0:
        return stop
    kind, slot = (
        cell_at(schema[0], field, FIELD_COLUMNS, KIND),
        cell_at(schema[0], field, FIELD_COLUMNS, SLOT),
    )
    size = stop - 1 - start
    # With its quotes: the text of a value, not its content.
    if kind == RAW:
        return _token(data, pos, stop, row, rows, field, schema, out)
    if kind == STRING:
        span = slot * SPAN_ROWS
        put_word(out[1], (span + START) * rows + row, start)
        put_word(out[1], (span + SIZE) * rows + row, size)
        put_word(out[1], (span + ESCAPED) * rows + row, 1 if escaped else 0)
    # `timestamp_of` and `date_of` compare bytes, so an escape is not theirs to resolve.
    elif escaped or kind not in (TIMESTAMP, LOCAL, DATE):
        return -1
    else:
        if kind != DATE:
            low, offset = (
                cell_at(schema[0], field, FIELD_COLUMNS, LOW),
                cell_at(schema[0], field, FIELD_COLUMNS, SCALE),
            )
            number, is_one = timestamp_of(data, start, size, kind == TIMESTAMP, low != 0, offset)
        else:
            number, is_one = date_of(data, start, size)
        if not is_one:
            return -1
        put_word(out[0], slot * rows + row, number)
    put_byte(out[2], field * rows + row, 1)
    return stop


@njit(cache=True, nogil=True)
def _number_field(data, pos, end, row, rows, field, schema, out):
    """Read a number into its field; returns its end, -1 if the row is not certain."""
    # A number is stored only if it is exact: a double that rounds at a tie, more than 19 digits, or
    # more decimal places than the type has are left to `value_reader`.
    # `is_whole`: without point and exponent. 1.0 in an integer column is left to `value_reader`.
    stop, digits_end, is_whole = number_end(data, pos, end)
    if stop < 0 or stop - pos > NUMBER_BYTES_MAX:
        return -1
    if field < 0:
        return stop
    kind, place = (
        cell_at(schema[0], field, FIELD_COLUMNS, KIND),
        cell_at(schema[0], field, FIELD_COLUMNS, SLOT) * rows + row,
    )
    if cell_at(schema[0], field, FIELD_COLUMNS, KIND) in (STRING, RAW):
        return _token(data, pos, stop, row, rows, field, schema, out)
    mantissa, behind, is_exact = mantissa_of(data, pos, digits_end)
    # The sign is applied last: limits of the type are checked with it.
    is_negative = byte_at(data, pos) == MINUS
    if not is_exact:
        return -1
    if kind in (DOUBLE, FLOAT):
        if mantissa == 0 and is_negative:  # -0 is 0.0 and -0.0 is not
            return -1
        exponent = exponent_of(data, digits_end, stop) - behind
        double, is_certain = double_of(mantissa, exponent, schema[3])
        if not is_certain or (
            kind == FLOAT and double != 0 and not FLOAT_MIN <= double <= FLOAT_MAX
        ):
            return -1
        put_double(out[0], place, -double if is_negative else double)
    elif (kind == INTEGER and is_whole) or (kind == DECIMAL and digits_end == stop):
        # A DECIMAL is stored unscaled: 1.5 with scale 2 is 150. An INTEGER has scale 0.
        more = cell_at(schema[0], field, FIELD_COLUMNS, SCALE) - behind
        low, high = (
            cell_at(schema[0], field, FIELD_COLUMNS, LOW),
            cell_at(schema[0], field, FIELD_COLUMNS, HIGH),
        )
        if more < 0 or mantissa > np.uint64(0x7FFFFFFFFFFFFFFF):
            return -1
        whole = np.int64(mantissa)
        for _ in range(more):
            # Before the multiplication: numba does not notice an overflow.
            if whole > high // 10:
                return -1
            whole *= 10
        whole = -whole if is_negative else whole
        if whole < low or whole > high:
            return -1
        put_word(out[0], place, whole)
    else:
        return -1
    put_byte(out[2], field * rows + row, 1)
    return stop
