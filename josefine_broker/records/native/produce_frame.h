/* The parser of a plain produce request's frame, for plain_produce.c. It needs no Python.
 *
 * Rules: every read is checked against the end of the frame; nothing is kept of it but positions.
 */
#ifndef PRODUCE_FRAME_H
#define PRODUCE_FRAME_H
#include "record_walk.h"
#include "wire_bytes.h"

enum { FIRST_VERSION = 3, ERRORS_SINCE = 8, FLEXIBLE_SINCE = 9, ID_SINCE = 13, LAST_VERSION = 13 };
enum { LOG_START_SINCE = 5 };
enum { NO_PRODUCER_ID = -1 };
enum { BATCH_HEADER_BYTES = 61, LENGTH_OVERHEAD = 12, CRC_START = 21 };
/* Larger requests gain nothing here, and their checksum needs the processor's instruction. */
enum { FRAME_BYTES_MAX = 4096 };

typedef struct {
    int32_t correlation_id;
    int version;
    int acks;
    int32_t timeout_ms;
    const uint8_t *name;
    int name_bytes;
    int32_t index;
    ptrdiff_t start;
    ptrdiff_t size;
    int64_t count;
    int64_t base_ms;
    int64_t max_ms;
    int keyless;
    int64_t producer_id;
    int producer_epoch;
    int32_t sequence;
} Plain;

static uint32_t crc_table[8][256];

/* CRC32C (Castagnoli), reflected. Eight tables: eight bytes a step. */
static void fill_crc_table(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        crc_table[0][n] = crc;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++)
            crc_table[k][n] = crc_table[k - 1][n] >> 8 ^ crc_table[0][crc_table[k - 1][n] & 0xff];
}

static uint32_t crc32c(const uint8_t *at, ptrdiff_t size)
{
    uint32_t crc = 0xffffffffu;
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                              (uint32_t)at[3] << 24);
        crc = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff] ^
              crc_table[5][low >> 16 & 0xff] ^ crc_table[4][low >> 24] ^ crc_table[3][at[4]] ^
              crc_table[2][at[5]] ^ crc_table[1][at[6]] ^ crc_table[0][at[7]];
    }
    for (; size > 0; size--, at++)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *at) & 0xff];
    return ~crc;
}

/* The fields before the batch; 0 where the request is not plain. */
static int read_body(const uint8_t *frame, const uint8_t *at, const uint8_t *end, Plain *out)
{
    int is_flexible = out->version >= FLEXIBLE_SINCE;
    int64_t size;
    if (end - at < 14)
        return 0;
    if (is_flexible) {
        if (at[0] != 0 || at[7] != 2) /* no transactional id; one topic */
            return 0;
        out->acks = get16(at + 1);
        out->timeout_ms = (int32_t)get32(at + 3);
        at += 8;
    } else {
        if (get16(at) != -1 || get32(at + 8) != 1)
            return 0;
        out->acks = get16(at + 2);
        out->timeout_ms = (int32_t)get32(at + 4);
        at += 12;
    }
    if (out->version >= ID_SINCE) {
        out->name_bytes = ID_BYTES;
    } else if (is_flexible) {
        out->name_bytes = *at - 1;
        at += 1;
    } else {
        out->name_bytes = get16(at);
        at += 2;
    }
    if (out->name_bytes < 1 || out->name_bytes > NAME_BYTES_MAX || out->name_bytes > end - at)
        return 0;
    out->name = at;
    if (out->version < ID_SINCE && !is_ascii(at, out->name_bytes))
        return 0;
    at += out->name_bytes;
    if (is_flexible) {
        uint64_t n = 0;
        if (end - at < 6 || *at != 2) /* one partition */
            return 0;
        out->index = (int32_t)get32(at + 1);
        at = slow_varint(at + 5, end, 32, &n);
        /* Partition, topic and request each close with an empty section of tags. */
        if (at == NULL || n == 0 || end - at < 3 || end[-1] || end[-2] || end[-3])
            return 0;
        size = (int64_t)n - 1;
        end -= 3;
    } else {
        if (end - at < 12 || get32(at) != 1)
            return 0;
        out->index = (int32_t)get32(at + 4);
        size = (int32_t)get32(at + 8);
        at += 12;
    }
    if (size != end - at)
        return 0;
    out->start = at - frame;
    out->size = (ptrdiff_t)size;
    return out->acks == 1 || out->acks == -1;
}

/* The batch's header, checksum and records; 0 where the general path must judge. */
static int check_batch(const uint8_t *batch, ptrdiff_t size, Plain *out)
{
    Found found;
    if (size <= BATCH_HEADER_BYTES)
        return 0;
    int64_t last_delta = (int32_t)get32(batch + 23);
    out->base_ms = get64(batch + 27);
    out->max_ms = get64(batch + 35);
    out->producer_id = get64(batch + 43);
    out->producer_epoch = get16(batch + 51);
    out->sequence = (int32_t)get32(batch + 53);
    out->count = (int32_t)get32(batch + 57);
    if (get64(batch) != 0 || (int64_t)(int32_t)get32(batch + 8) + LENGTH_OVERHEAD != size ||
        batch[16] != 2 || get16(batch + 21) != 0 || last_delta < 0 ||
        last_delta != out->count - 1)
        return 0;
    /* The partition checks epoch and sequence; no producer id: they have no meaning. */
    if (out->producer_id != NO_PRODUCER_ID &&
        (out->producer_id < 0 || out->producer_epoch < 0 || out->sequence < 0))
        return 0;
    if (crc32c(batch + CRC_START, size - CRC_START) != get32(batch + 17))
        return 0;
    run(batch + BATCH_HEADER_BYTES, batch + size, out->count, out->base_ms, 1, &found);
    if (found.fault != SOUND && found.fault != NO_KEY)
        return 0;
    out->keyless = found.fault == NO_KEY;
    if (found.high_ms != out->max_ms)
        return 0;
    return found.low_ms == out->base_ms ||
           (out->base_ms == NO_TIMESTAMP && found.low_ms == INT64_MAX);
}

/* The fields of a request's header; the place of its body, or NULL where it is not plain. */
static const uint8_t *read_header(const uint8_t *frame, ptrdiff_t size, ptrdiff_t size_max,
                                  Plain *out)
{
    const uint8_t *at = frame + 10, *end = frame + size;
    if (size < 10 || size > size_max || get16(frame) != 0)
        return NULL;
    out->version = get16(frame + 2);
    if (out->version < FIRST_VERSION || out->version > LAST_VERSION)
        return NULL;
    out->correlation_id = (int32_t)get32(frame + 4);
    int client_bytes = get16(frame + 8);
    if (client_bytes < -1 || client_bytes > end - at)
        return NULL;
    if (client_bytes > 0) {
        if (!is_ascii(at, client_bytes))
            return NULL;
        at += client_bytes;
    }
    if (out->version >= FLEXIBLE_SINCE) {
        if (at == end || *at != 0) /* tagged fields */
            return NULL;
        at++;
    }
    return at;
}

static int read_frame(const uint8_t *frame, ptrdiff_t size, Plain *out)
{
    const uint8_t *at = read_header(frame, size, FRAME_BYTES_MAX, out);
    return at != NULL && read_body(frame, at, frame + size, out) &&
           check_batch(frame + out->start, out->size, out);
}

#endif
