/* The walk over a record batch's records (format v2, KIP-98), for record_structure.c and
 * plain_produce.c. It needs no Python.
 */
#ifndef RECORD_WALK_H
#define RECORD_WALK_H
#include <stddef.h>
#include <stdint.h>

/* Where a record is wrong. The numbers are those of `Fault` in structure.py. */
enum {
    SOUND,
    LENGTH,
    TIMESTAMP,
    OFFSET,
    KEY,
    VALUE,
    HEADER_COUNT,
    HEADER_NAME,
    HEADER_VALUE,
    TOO_LONG,
    LEFT_OVER,
    NO_KEY
};

#define NO_TIMESTAMP (-1)

typedef struct {
    int fault;
    int64_t index;
    int64_t low_ms;
    int64_t high_ms;
} Found;

/* An unsigned varint of at most `bits` bits. NULL where it is cut off or too large. */
static const uint8_t *slow_varint(const uint8_t *at, const uint8_t *end, int bits, uint64_t *out)
{
    uint64_t n = 0;
    for (int shift = 0; shift < bits; shift += 7) {
        if (at >= end)
            return NULL;
        uint64_t byte = *at++;
        uint64_t low = byte & 0x7f;
        if (bits - shift < 7 && low >> (bits - shift))
            return NULL;
        n |= low << shift;
        if (byte < 0x80) {
            *out = n;
            return at;
        }
    }
    return NULL;
}

/* Varints of one and two bytes, nearly all of them, are read in place. */
static inline const uint8_t *varint(const uint8_t *at, const uint8_t *end, int bits, int64_t *out)
{
    uint64_t n;
    if (end - at >= 2) {
        n = at[0];
        if (n < 0x80) {
            at += 1;
        } else if (at[1] < 0x80) {
            n = (n & 0x7f) | (uint64_t)at[1] << 7;
            at += 2;
        } else {
            at = slow_varint(at, end, bits, &n);
            if (at == NULL)
                return NULL;
        }
    } else {
        at = slow_varint(at, end, bits, &n);
        if (at == NULL)
            return NULL;
    }
    *out = (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
    return at;
}

/* A length and its bytes, passed over; NULL where they do not fit. */
static inline const uint8_t *bytes(const uint8_t *at, const uint8_t *end, int64_t *size)
{
    at = varint(at, end, 32, size);
    if (at == NULL || *size < -1 || *size > end - at)
        return NULL;
    return *size < 0 ? at : at + *size;
}

static int headers(const uint8_t **pos, const uint8_t *end)
{
    int64_t count, size;
    const uint8_t *at = varint(*pos, end, 32, &count);
    if (at == NULL || count < 0 || count > end - at)
        return HEADER_COUNT;
    for (; count > 0; count--) {
        at = bytes(at, end, &size);
        if (at == NULL || size < 0)
            return HEADER_NAME;
        at = bytes(at, end, &size);
        if (at == NULL)
            return HEADER_VALUE;
    }
    *pos = at;
    return SOUND;
}

static void run(const uint8_t *at, const uint8_t *end, int64_t count, int64_t base_ms,
                int needs_key, Found *found)
{
    int64_t low = INT64_MAX, high = INT64_MIN, first_keyless = -1;
    int fault = SOUND;
    int64_t i = 0;
    for (; i < count; i++) {
        int64_t size, delta_ms, delta, key_size, value_size;
        at = varint(at, end, 32, &size);
        if (at == NULL || size < 1 || size > end - at) {
            fault = LENGTH;
            break;
        }
        const uint8_t *record_end = at + size;
        at = varint(at + 1, record_end, 64, &delta_ms);
        if (at == NULL) {
            fault = TIMESTAMP;
            break;
        }
        at = varint(at, record_end, 32, &delta);
        if (at == NULL || delta != i) {
            fault = OFFSET;
            break;
        }
        at = bytes(at, record_end, &key_size);
        if (at == NULL) {
            fault = KEY;
            break;
        }
        if (key_size < 0 && first_keyless < 0)
            first_keyless = i;
        at = bytes(at, record_end, &value_size);
        if (at == NULL) {
            fault = VALUE;
            break;
        }
        if (record_end - at == 1 && *at == 0) {
            at = record_end; /* no headers */
        } else {
            fault = headers(&at, record_end);
            if (fault)
                break;
            if (at != record_end) {
                fault = TOO_LONG;
                break;
            }
        }
        int64_t ms = (int64_t)((uint64_t)base_ms + (uint64_t)delta_ms);
        high = ms > high ? ms : high;
        if (ms < low && ms != NO_TIMESTAMP)
            low = ms;
    }
    if (!fault && at != end)
        fault = LEFT_OVER;
    if (!fault && needs_key && first_keyless >= 0) {
        fault = NO_KEY;
        i = first_keyless;
    }
    found->fault = fault;
    found->index = i;
    found->low_ms = low;
    found->high_ms = high;
}

#endif
