"""The numba kernels for JSON's strings: grammar, UTF-8, escapes, and strings with a date or a
timestamp.

Every read is checked against the end of its value.
"""
# mypy: ignore-errors
# numba infers the types of these functions at the first call; Python annotations have no effect.

import numpy as np
from numba import njit

from josefine_arrow.batches.memory_access import byte_at, move_bytes, put_byte, put_half, word_at
from josefine_arrow.formats.json.bytes import (
    BACKSLASH,
    COLON,
    MINUS,
    NINE,
    PLUS,
    POINT,
    QUOTE,
    ZERO,
)


@njit(cache=True, nogil=True)
def text(data, pos, end):
    """Read a string: (position after its closing quote or -1, whether it has escapes)."""
    if pos >= end or byte_at(data, pos) != QUOTE:
        return -1, False
    pos += 1
    escaped = False
    while pos < end:
        byte = byte_at(data, pos)
        if byte == QUOTE:
            return pos + 1, escaped
        # Control characters have to be escaped (RFC 8259, section 7).
        if byte < 32:
            return -1, False
        if byte == BACKSLASH:
            escaped = True
            # Only validated here; `gather` resolves escapes of the rows that are kept.
            size = _escape_size(data, pos, end)
        # ASCII is most of all text: one comparison a byte.
        elif byte < 128:
            pos += 1
            continue
        else:
            size = _utf8_size(data, pos, end)
        if size < 0:
            return -1, False
        pos += size
    return -1, False


@njit(cache=True, nogil=True)
def _escape_size(data, pos, end):
    """Size of the escape at `pos`, of both halves of a surrogate pair; -1 if it is not valid."""
    if end - pos < 2:
        return -1
    byte = byte_at(data, pos + 1)
    # Not `u`: a two-byte escape.
    if byte != 117:
        return 2 if _plain_escape(byte) >= 0 else -1
    code = _hex4(data, pos + 2, end)
    # A low surrogate without a high one before it is no character.
    if code < 0 or 0xDC00 <= code <= 0xDFFF:
        return -1
    # A character of the basic plane: backslash, `u` and four digits.
    if code < 0xD800 or code > 0xDBFF:
        return 6
    # A high surrogate needs a low one, as a second escape.
    if end - pos < 12 or byte_at(data, pos + 6) != BACKSLASH or byte_at(data, pos + 7) != 117:
        return -1
    low = _hex4(data, pos + 8, end)
    return 12 if 0xDC00 <= low <= 0xDFFF else -1


@njit(cache=True, nogil=True)
def _plain_escape(byte):
    """The byte of a two-byte escape, -1 if it is not valid."""
    # 47 is `/`, which may be escaped and need not.
    if byte in (QUOTE, BACKSLASH, 47):
        return byte
    if byte == 110:
        return 10
    if byte == 116:
        return 9
    if byte == 114:
        return 13
    if byte == 98:
        return 8
    if byte == 102:
        return 12
    return -1


@njit(cache=True, nogil=True)
def _hex4(data, pos, end):
    """The number of four hexadecimal digits of either case, -1 if one of them is not a digit."""
    if end - pos < 4:
        return -1
    code = 0
    for index in range(4):
        byte = byte_at(data, pos + index)
        if ZERO <= byte <= NINE:
            digit = byte - ZERO
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        else:
            return -1
        code = code * 16 + digit
    return code


@njit(cache=True, nogil=True)
def _utf8_size(data, pos, end):
    """Size of the character at `pos`, -1 if it is not valid UTF-8 (table 3-7 of Unicode)."""
    first = byte_at(data, pos)
    # The range of the second byte excludes overlong forms, surrogates and what is above U+10FFFF;
    # the other bytes are always in the full range.
    low, high = 0x80, 0xBF
    if 0xC2 <= first <= 0xDF:
        size = 2
    elif 0xE0 <= first <= 0xEF:
        size = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        size = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    else:
        return -1
    if end - pos < size or not low <= byte_at(data, pos + 1) <= high:
        return -1
    for index in range(2, size):
        if not 0x80 <= byte_at(data, pos + index) <= 0xBF:
            return -1
    return size


@njit(cache=True, nogil=True)
def gather(data, spans, rows, ends, texts):
    """Copy each row's string to `texts`, with escapes resolved. All arguments except `rows` are
    addresses. `spans` has the start in `data` of each row's string, then the sizes, then whether
    they have escapes; `ends` (32 bits) starts with an entry 0."""
    at = np.int64(0)
    for row in range(rows):
        start, size = word_at(spans, row), word_at(spans, rows + row)
        if size > 0:
            # Most strings have no escape: they are copied at once.
            if word_at(spans, 2 * rows + row):
                at = _unescape(data, start, start + size, texts, at)
            else:
                move_bytes(texts, at, data, start, size)
                at += size
        # A null and an empty string both end where the last one did: `taken` has the difference.
        put_half(ends, row + 1, at)
    return at


@njit(cache=True, nogil=True)
def _unescape(data, pos, end, texts, at):
    """Resolve the escapes; returns the next position. The result is never longer than the input."""
    while pos < end:
        byte = byte_at(data, pos)
        if byte != BACKSLASH:
            put_byte(texts, at, byte)
            at += 1
            pos += 1
            continue
        size = _escape_size(data, pos, end)
        # Cannot happen: `text` has accepted every escape. It keeps the loop from running backward.
        if size < 0:
            return at
        if size == 2:
            put_byte(texts, at, _plain_escape(byte_at(data, pos + 1)))
            at += 1
        else:
            code = _hex4(data, pos + 2, end)
            if size == 12:
                # The pair's ten upper and ten lower bits above U+FFFF.
                code = 0x10000 + ((code - 0xD800) << 10) + (_hex4(data, pos + 8, end) - 0xDC00)
            at = _put_utf8(code, texts, at)
        pos += size
    return at


@njit(cache=True, nogil=True)
def _put_utf8(code, texts, at):
    """Write a character in UTF-8; returns the next position."""
    if code < 0x80:
        put_byte(texts, at, code)
        return at + 1
    if code < 0x800:
        put_byte(texts, at, 0xC0 | (code >> 6))
        put_byte(texts, at + 1, 0x80 | (code & 0x3F))
        return at + 2
    if code < 0x10000:
        put_byte(texts, at, 0xE0 | (code >> 12))
        put_byte(texts, at + 1, 0x80 | ((code >> 6) & 0x3F))
        put_byte(texts, at + 2, 0x80 | (code & 0x3F))
        return at + 3
    put_byte(texts, at, 0xF0 | (code >> 18))
    put_byte(texts, at + 1, 0x80 | ((code >> 12) & 0x3F))
    put_byte(texts, at + 2, 0x80 | ((code >> 6) & 0x3F))
    put_byte(texts, at + 3, 0x80 | (code & 0x3F))
    return at + 4


@njit(cache=True, nogil=True)
def _two(data, pos):
    """The number of two digits, -1 if one of them is not a digit."""
    tens, ones = byte_at(data, pos) - ZERO, byte_at(data, pos + 1) - ZERO
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else -1


@njit(cache=True, nogil=True)
def date_of(data, pos, size):
    """(days since 1970, True) of `YYYY-MM-DD` from the year 1000 on, otherwise (0, False)."""
    if size != 10:
        return 0, False
    century, of_century = _two(data, pos), _two(data, pos + 2)
    month, day = _two(data, pos + 5), _two(data, pos + 8)
    if byte_at(data, pos + 4) != MINUS or byte_at(data, pos + 7) != MINUS:
        return 0, False
    # A year of fewer digits, and all that follows, is left to `value_reader`.
    if century < 10 or of_century < 0 or month < 1 or month > 12 or day < 1:
        return 0, False
    year = century * 100 + of_century
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 31
    if month == 2:
        length = 29 if leap else 28
    elif month == 4 or month == 6 or month == 9 or month == 11:
        length = 30
    # No such day: never rolled over into the next month.
    if day > length:
        return 0, False
    # A year starts in March here, so that the leap day is its last day.
    # Days of the proleptic Gregorian calendar, counted from 1 March of year 0; 719,468 is
    # 1970-01-01.
    years = year if month > 2 else year - 1
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + of_year - 719_468, True


@njit(cache=True, nogil=True)
def timestamp_of(data, pos, size, has_zone, is_local, offset):
    """(microseconds, True) of `YYYY-MM-DDTHH:MM:SS`, or a space for the T, with at most six decimal
    places, and perhaps a zone, `Z` or an offset of up to 17:59; otherwise (0, False).

    With `has_zone` the microseconds are since 1970 in UTC; a text without a zone is then certain
    only if `is_local`, and `offset` minutes ahead of UTC. Without it, no zone may be there.
    """
    none = 0, False
    if (
        size < 19
        or (byte_at(data, pos + 10) != 84 and byte_at(data, pos + 10) != 32)
        or byte_at(data, pos + 13) != COLON
        or byte_at(data, pos + 16) != COLON
    ):
        return none
    days, is_date = date_of(data, pos, np.int64(10))
    hour, minute = _two(data, pos + 11), _two(data, pos + 14)
    second = _two(data, pos + 17)
    if not is_date or hour < 0 or hour > 23 or minute < 0 or minute > 59:
        return none
    if second < 0 or second > 59:
        return none
    at, end = pos + 19, pos + size
    # Each decimal place counts a tenth of the one before, so shorter fractions need no padding.
    micros, unit = 0, 100_000
    if at < end and byte_at(data, at) == POINT:
        at += 1
        first = at
        while at < end and ZERO <= byte_at(data, at) <= NINE and at - first < 6:
            micros += (byte_at(data, at) - ZERO) * unit
            unit //= 10
            at += 1
        if at == first:
            return none
    # What follows is the zone, or nothing: a seventh decimal place is neither.
    zone, is_certain = _zone(data, at, end, has_zone, is_local, offset)
    if not is_certain:
        return none
    # The zone is subtracted, because the text has local time.
    seconds = days * 86_400 + hour * 3600 + (minute - zone) * 60 + second
    return seconds * 1_000_000 + micros, True


@njit(cache=True, nogil=True)
def _zone(data, at, end, has_zone, is_local, offset):
    """(minutes ahead of UTC, whether the rest of the text is a zone of this meaning)."""
    if at == end:
        return (offset if has_zone else 0), (is_local or not has_zone)
    if not has_zone:
        return 0, False
    if byte_at(data, at) == PLUS or byte_at(data, at) == MINUS:
        if end - at != 6 or byte_at(data, at + 3) != COLON:
            return 0, False
        hours, minutes = _two(data, at + 1), _two(data, at + 4)
        # Spark accepts offsets up to 18:00: at the limit Python decides.
        if hours < 0 or hours > 17 or minutes < 0 or minutes > 59:
            return 0, False
        zone = hours * 60 + minutes
        return (zone if byte_at(data, at) == PLUS else -zone), True
    # 90 is `Z`.
    return 0, byte_at(data, at) == 90 and end - at == 1
