/* Fields of Kafka's wire format in memory, for plain_produce.c and plain_fetch.c. No Python is
 * needed, and nothing of libc is called: bytes are copied in loops.
 */
#ifndef WIRE_BYTES_H
#define WIRE_BYTES_H
#include <stddef.h>
#include <stdint.h>

/* A name's compact length then fits one byte. */
enum { NAME_BYTES_MAX = 126, ID_BYTES = 16 };

static inline int get16(const uint8_t *at)
{
    return (int16_t)((uint16_t)at[0] << 8 | at[1]);
}

static inline uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int64_t get64(const uint8_t *at)
{
    return (int64_t)((uint64_t)get32(at) << 32 | get32(at + 4));
}

static inline uint8_t *put16(uint8_t *to, uint32_t n)
{
    to[0] = (uint8_t)(n >> 8);
    to[1] = (uint8_t)n;
    return to + 2;
}

static inline uint8_t *put32(uint8_t *to, uint32_t n)
{
    return put16(put16(to, n >> 16), n);
}

static inline uint8_t *put64(uint8_t *to, uint64_t n)
{
    return put32(put32(to, (uint32_t)(n >> 32)), (uint32_t)n);
}

/* The barriers keep the compiler from making a call of memcpy of this loop. */
static uint8_t *copy(uint8_t *to, const uint8_t *from, ptrdiff_t size)
{
    ptrdiff_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        __builtin_memcpy(&word, from + at, 8);
        __builtin_memcpy(to + at, &word, 8);
        __asm__ volatile("" ::: "memory");
    }
    for (; at < size; at++) {
        to[at] = from[at];
        __asm__ volatile("" ::: "memory");
    }
    return to + size;
}

/* Other names are valid, too, but only the general path decodes UTF-8. */
static int is_ascii(const uint8_t *at, ptrdiff_t size)
{
    uint8_t all = 0;
    for (ptrdiff_t n = 0; n < size; n++)
        all |= at[n];
    return all < 0x80;
}

#endif
