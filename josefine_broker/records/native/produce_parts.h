/* The walk over the partitions of a produce request's frame, for plain_produce.c. It needs no
 * Python.
 *
 * Rules: every read is checked against the end of the frame; nothing is kept of it but positions.
 */
#ifndef PRODUCE_PARTS_H
#define PRODUCE_PARTS_H
#include "produce_frame.h"

/* A frame has at least one topic, and a topic at least one partition. */
enum { PARTS_MAX = 1024, PARTS_FRAME_BYTES_MAX = 1 << 18 };

typedef struct {
    const uint8_t *frame;
    const uint8_t *at;
    const uint8_t *end;
    int64_t topics;
    int64_t topics_left;
    int64_t partitions;
    int64_t partitions_left;
    /* The fields of the request, of the current topic and of the current partition. */
    Plain part;
} Parts;

static int is_flexible(const Parts *parts)
{
    return parts->part.version >= FLEXIBLE_SINCE;
}

/* The number of an array's elements; 0 where it is not within 1 and PARTS_MAX. */
static int64_t read_count(Parts *parts)
{
    uint64_t count = 0;
    if (is_flexible(parts)) {
        parts->at = slow_varint(parts->at, parts->end, 32, &count);
        if (parts->at == NULL || count == 0)
            return 0;
        count--;
    } else {
        if (parts->end - parts->at < 4)
            return 0;
        count = get32(parts->at);
        parts->at += 4;
    }
    return count <= PARTS_MAX ? (int64_t)count : 0;
}

/* An empty section of tags, where there are any; 0 where it is not empty. */
static int skip_tags(Parts *parts)
{
    if (!is_flexible(parts))
        return 1;
    return parts->at < parts->end && *parts->at++ == 0;
}

/* Before the first topic; 0 where the request is not plain. */
static int open_parts(Parts *parts, const uint8_t *frame, ptrdiff_t size)
{
    Plain *part = &parts->part;
    parts->frame = frame;
    parts->end = frame + size;
    parts->at = read_header(frame, size, PARTS_FRAME_BYTES_MAX, part);
    if (parts->at == NULL || parts->end - parts->at < 8)
        return 0;
    /* No transactional id. */
    if (is_flexible(parts)) {
        if (*parts->at++ != 0)
            return 0;
    } else {
        if (get16(parts->at) != -1)
            return 0;
        parts->at += 2;
    }
    part->acks = get16(parts->at);
    part->timeout_ms = (int32_t)get32(parts->at + 2);
    parts->at += 6;
    if (part->acks != 1 && part->acks != -1)
        return 0;
    parts->topics = parts->topics_left = read_count(parts);
    parts->partitions = parts->partitions_left = 0;
    return parts->topics > 0;
}

static int open_topic(Parts *parts)
{
    Plain *part = &parts->part;
    if (part->version >= ID_SINCE) {
        part->name_bytes = ID_BYTES;
    } else if (is_flexible(parts)) {
        if (parts->end - parts->at < 1)
            return 0;
        part->name_bytes = *parts->at++ - 1;
    } else {
        if (parts->end - parts->at < 2)
            return 0;
        part->name_bytes = get16(parts->at);
        parts->at += 2;
    }
    if (part->name_bytes < 1 || part->name_bytes > NAME_BYTES_MAX ||
        part->name_bytes > parts->end - parts->at)
        return 0;
    part->name = parts->at;
    if (part->version < ID_SINCE && !is_ascii(parts->at, part->name_bytes))
        return 0;
    parts->at += part->name_bytes;
    parts->partitions = parts->partitions_left = read_count(parts);
    return parts->partitions > 0;
}

enum { NO_PART, ONE_PART, NOT_PLAIN };

/* The next partition: where its batch is, unchecked. NO_PART: the frame ends after the last one. */
static int next_part(Parts *parts)
{
    Plain *part = &parts->part;
    int64_t size;
    if (parts->partitions_left == 0) {
        if (parts->topics_left != parts->topics && !skip_tags(parts)) /* of the last topic */
            return NOT_PLAIN;
        if (parts->topics_left == 0)
            return skip_tags(parts) && parts->at == parts->end ? NO_PART : NOT_PLAIN;
        parts->topics_left--;
        if (!open_topic(parts))
            return NOT_PLAIN;
    }
    parts->partitions_left--;
    if (parts->end - parts->at < 4)
        return NOT_PLAIN;
    part->index = (int32_t)get32(parts->at);
    parts->at += 4;
    if (is_flexible(parts)) {
        uint64_t n = 0;
        parts->at = slow_varint(parts->at, parts->end, 32, &n);
        if (parts->at == NULL)
            return NOT_PLAIN;
        size = (int64_t)n - 1;
    } else {
        if (parts->end - parts->at < 4)
            return NOT_PLAIN;
        size = (int32_t)get32(parts->at);
        parts->at += 4;
    }
    if (size <= BATCH_HEADER_BYTES || size > FRAME_BYTES_MAX || size > parts->end - parts->at)
        return NOT_PLAIN;
    part->start = parts->at - parts->frame;
    part->size = (ptrdiff_t)size;
    parts->at += size;
    return skip_tags(parts) ? ONE_PART : NOT_PLAIN;
}

#endif
