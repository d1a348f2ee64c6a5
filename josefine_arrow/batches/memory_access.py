"""Intrinsics that read and write memory by address, for numba kernels.

With addresses no array is passed, so no reference is counted: numba counts the references of each
array argument atomically, which took more than half of the time of a loop over single bytes.

Addresses and positions are 64-bit integers. Nothing is checked here.
"""
# mypy: ignore-errors
# numba infers the types of these functions; Python annotations have no effect.

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE, _HALF, _WORD, _DOUBLE = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()


def _at(builder, kind, address, position):
    """Pointer to the item of this type at `position`."""
    start = builder.inttoptr(address, ir.PointerType(kind))
    return builder.gep(start, [position])


@intrinsic
def byte_at(typing_context, address, position):
    """The byte at `position`, as an integer."""

    def generate(context, builder, signature, arguments):
        return builder.zext(builder.load(_at(builder, _BYTE, *arguments)), _WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def half_at(typing_context, address, position):
    """The 32-bit integer at `position`."""

    def generate(context, builder, signature, arguments):
        return builder.sext(builder.load(_at(builder, _HALF, *arguments)), _WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def word_at(typing_context, address, position):
    """The 64-bit integer at `position`."""

    def generate(context, builder, signature, arguments):
        return builder.load(_at(builder, _WORD, *arguments))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def put_byte(typing_context, address, position, value):
    """Write the lower eight bits of an integer."""

    def generate(context, builder, signature, arguments):
        address, position, value = arguments
        builder.store(builder.trunc(value, _BYTE), _at(builder, _BYTE, address, position))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def put_half(typing_context, address, position, value):
    """Write the lower 32 bits of an integer."""

    def generate(context, builder, signature, arguments):
        address, position, value = arguments
        builder.store(builder.trunc(value, _HALF), _at(builder, _HALF, address, position))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def put_word(typing_context, address, position, value):
    """Write a 64-bit integer."""

    def generate(context, builder, signature, arguments):
        address, position, value = arguments
        builder.store(value, _at(builder, _WORD, address, position))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def put_double(typing_context, address, position, value):
    """Write a double."""

    def generate(context, builder, signature, arguments):
        address, position, value = arguments
        builder.store(value, _at(builder, _DOUBLE, address, position))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64), generate


@intrinsic
def move_bytes(typing_context, target, target_position, source, position, size):
    """Copy bytes between places that do not overlap."""

    def generate(context, builder, signature, arguments):
        target, target_position, source, position, size = arguments
        cgutils.raw_memcpy(
            builder,
            _at(builder, _BYTE, target, target_position),
            _at(builder, _BYTE, source, position),
            size,
            ir.Constant(_WORD, 1),
        )
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


@intrinsic
def cell_at(typing_context, address, row, columns, column):
    """The 64-bit integer in a cell of a table with this many columns."""

    def generate(context, builder, signature, arguments):
        address, *place = arguments
        return builder.load(_at(builder, _WORD, address, _cell(builder, *place)))

    return types.int64(*[types.int64] * 4), generate


@intrinsic
def put_cell(typing_context, address, row, columns, column, value):
    """Write a cell."""

    def generate(context, builder, signature, arguments):
        address, *place, value = arguments
        builder.store(value, _at(builder, _WORD, address, _cell(builder, *place)))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


def _cell(builder, row, columns, column):
    return builder.add(builder.mul(row, columns), column)
