"""The numba kernels for JSON's numbers: integers with a power of ten, and doubles.

Every read is checked against the end of its value.
"""
# mypy: ignore-errors
# numba infers the types of these functions at the first call; Python annotations have no effect.

import math

import numpy as np
from numba import njit

from josefine_arrow.batches.memory_access import byte_at, word_at
from josefine_arrow.formats.json.bytes import MINUS, NINE, PLUS, POINT, ZERO

POWER_MIN, POWER_MAX = -300, 300
"""The powers of ten in the table of `double_of`."""


@njit(cache=True, nogil=True)
def number_end(data, pos, end):
    """(end of the number or -1, end of its digits, whether it has no exponent and no point)."""
    none = -1, -1, False
    if byte_at(data, pos) == MINUS:
        pos += 1
    first = pos
    pos = _behind_digits(data, pos, end)
    # RFC 8259 has no leading zeros and no empty integer part.
    if pos == first or (byte_at(data, first) == ZERO and pos - first > 1):
        return none
    is_whole = True
    if pos < end and byte_at(data, pos) == POINT:
        first = pos + 1
        pos = _behind_digits(data, first, end)
        is_whole = False
        # A point needs a digit after it.
        if pos == first:
            return none
    # The exponent is read apart: the mantissa's digits end here.
    digits_end = pos
    # `e` or `E`.
    if pos < end and (byte_at(data, pos) == 101 or byte_at(data, pos) == 69):
        pos += 1
        if pos < end and (byte_at(data, pos) == PLUS or byte_at(data, pos) == MINUS):
            pos += 1
        first = pos
        pos = _behind_digits(data, pos, end)
        is_whole = False
        if pos == first:
            return none
    return pos, digits_end, is_whole


@njit(cache=True, nogil=True)
def _behind_digits(data, pos, end):
    """The position after the digits."""
    while pos < end and ZERO <= byte_at(data, pos) <= NINE:
        pos += 1
    return pos


@njit(cache=True, nogil=True)
def mantissa_of(data, pos, end):
    """(all digits as one number, number of decimal places, whether there are at most 19 digits)."""
    mantissa = np.uint64(0)
    digits, behind, is_behind = 0, 0, False
    for at in range(pos, end):
        byte = byte_at(data, at)
        if byte == POINT:
            is_behind = True
        elif byte != MINUS:
            # Leading zeros do not count: 0.001 has one digit.
            digits += 1 if digits > 0 or byte != ZERO else 0
            # 19 digits always fit into 64 bits without a sign, 20 may not.
            if digits > 19:
                return np.uint64(0), 0, False
            mantissa = mantissa * np.uint64(10) + np.uint64(byte - ZERO)
            behind += 1 if is_behind else 0
    return mantissa, behind, True


@njit(cache=True, nogil=True)
def exponent_of(data, pos, end):
    """The number's exponent, 0 without one. Above 10,000 it is not exact, and out of range."""
    if pos == end:
        return 0
    pos += 1
    is_negative = byte_at(data, pos) == MINUS
    power = 0
    for at in range(pos, end):
        # Bounded instead of exact: no double has such an exponent, and the number must not
        # overflow.
        if byte_at(data, at) != MINUS and byte_at(data, at) != PLUS and power < 10_000:
            power = power * 10 + (byte_at(data, at) - ZERO)
    return -power if is_negative else power


@njit(cache=True, nogil=True)
def double_of(mantissa, exponent, powers):
    """(`mantissa` times ten to the `exponent`, rounded to nearest; whether the result is certain).

    Up to 2^53 and 10^22 both factors are exact doubles, and one operation rounds once (Clinger's
    fast path). Otherwise the 64-bit product is at most two units too small, and the rounding is
    certain unless that error can reach the middle between two doubles (as in Lemire's algorithm).
    """
    # Zero cannot be normalized below: the loop would not end.
    if mantissa == 0:
        return 0.0, True
    if mantissa <= np.uint64(1 << 53) and -22 <= exponent <= 22:
        # By multiplication, not from a table: each of these powers is exact.
        number, power = np.float64(mantissa), np.float64(1.0)
        for _ in range(abs(exponent)):
            power *= 10.0
        return (number / power if exponent < 0 else number * power), True
    if exponent < POWER_MIN or exponent > POWER_MAX:
        return 0.0, False
    # Normalized to 64 bits, the product has 53 digits and at least 10 more for the rounding.
    # Each shift halves the weight of the result: `scale` takes them back.
    zeros = 0
    while mantissa < np.uint64(1 << 63):
        mantissa = mantissa << np.uint64(1)
        zeros += 1
    at = exponent - POWER_MIN
    product = _upper_product(mantissa, np.uint64(word_at(powers, 2 * at)))
    # The product of two numbers with their top bit set has that bit or the one below it set.
    dropped = np.uint64(11) if product >= np.uint64(1 << 63) else np.uint64(10)
    rest = product & ((np.uint64(1) << dropped) - np.uint64(1))
    half = np.uint64(1) << (dropped - np.uint64(1))
    # At the middle, or close enough for the product's error to decide: only exact arithmetic knows.
    if rest == half or rest + np.uint64(1) == half:
        return 0.0, False
    digits = np.int64(product >> dropped) + (1 if rest > half else 0)
    # The table has shifts of powers of five; `exponent` adds the powers of two of the powers of
    # ten.
    scale = np.int64(dropped) + 64 - (word_at(powers, 2 * at + 1) - 1024) - zeros + exponent
    # Close to the limits a result may be subnormal or infinite, and `ldexp` would round once more.
    if scale < -950 or scale > 900:
        return 0.0, False
    return math.ldexp(np.float64(digits), scale), True


@njit(cache=True, nogil=True)
def _upper_product(one, other):
    """The upper 64 bits of a 128-bit product."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    # From four products of 32 bits: numba has no integer of 128.
    low = (one & mask) * (other & mask)
    cross = (one >> half) * (other & mask) + (low >> half)
    back = (one & mask) * (other >> half) + (cross & mask)
    return (one >> half) * (other >> half) + (cross >> half) + (back >> half)
