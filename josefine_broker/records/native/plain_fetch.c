/* Plain fetch requests: a consumer's, without a session or incremental in one, of few partitions.
 *
 * `parse` reads a whole request frame, header and body, of versions 4 to 18; it returns None for
 * every request that is not plain, and for every one that is not valid: those take the general
 * path, which is the twin in Python and the oracle. `answer` encodes all of a response but its
 * records. Written against Python's stable ABI (3.11).
 *
 * Rules: every read is checked against the end of the frame; nothing is kept of it.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "wire_bytes.h"

enum { FETCH_KEY = 1, FIRST_VERSION = 4, LOG_START_SINCE = 5, SESSION_SINCE = 7, EPOCH_SINCE = 9,
       RACK_SINCE = 11, FLEXIBLE_SINCE = 12, ID_SINCE = 13, NO_REPLICA_SINCE = 15,
       LAST_VERSION = 18 };
/* A count of partitions, and one more, then fits one byte of a varint. */
enum { FRAME_BYTES_MAX = 4096, PARTS_MAX = 64, HEAD_BYTES_MAX = 32, PART_BYTES_MAX = 256,
       REQUEST_FIELDS = 10, PART_FIELDS = 6 };

typedef struct {
    const uint8_t *name;
    int name_bytes;
    int32_t index;
    int32_t leader_epoch;
    int64_t offset;
    int32_t max_bytes;
} Part;

typedef struct {
    int32_t correlation_id;
    int version;
    int32_t max_wait_ms;
    int32_t min_bytes;
    int32_t max_bytes;
    int isolation;
    int32_t session_id;
    int32_t session_epoch;
    int has_follower_fields;
    int count;
    Part parts[PARTS_MAX];
    /* Of these only name and index have a meaning. */
    int forgotten_count;
    Part forgotten[PARTS_MAX];
} Plain;

/* The rest of a frame. A field that does not fit leaves `at` NULL, and so do all later ones. */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Rest;

static const uint8_t *take(Rest *rest, ptrdiff_t size)
{
    static const uint8_t nothing[NAME_BYTES_MAX + 8];
    if (rest->at == NULL || size > rest->end - rest->at) {
        rest->at = NULL;
        return nothing;
    }
    rest->at += size;
    return rest->at - size;
}

static int32_t take32(Rest *rest)
{
    return (int32_t)get32(take(rest, 4));
}

/* Take a field that must have this value. */
static void must32(Rest *rest, int32_t wanted)
{
    if (take32(rest) != wanted)
        rest->at = NULL;
}

static void must8(Rest *rest, int wanted)
{
    if (*take(rest, 1) != wanted)
        rest->at = NULL;
}

/* A count of topics or partitions. */
static int take_count(Rest *rest, int is_flexible)
{
    int32_t count = is_flexible ? *take(rest, 1) - 1 : take32(rest);
    if (count < 0 || count > PARTS_MAX) {
        rest->at = NULL;
        return 0;
    }
    return count;
}

static void read_name(Rest *rest, const Plain *out, Part *part)
{
    if (out->version >= ID_SINCE)
        part->name_bytes = ID_BYTES;
    else if (out->version >= FLEXIBLE_SINCE)
        part->name_bytes = *take(rest, 1) - 1;
    else
        part->name_bytes = get16(take(rest, 2));
    if (part->name_bytes < 1 || part->name_bytes > NAME_BYTES_MAX) {
        rest->at = NULL;
        return;
    }
    part->name = take(rest, part->name_bytes);
    if (out->version < ID_SINCE && !is_ascii(part->name, part->name_bytes))
        rest->at = NULL;
}

static void read_partition(Rest *rest, Plain *out, Part *part)
{
    part->index = take32(rest);
    part->leader_epoch = out->version >= EPOCH_SINCE ? take32(rest) : -1;
    part->offset = get64(take(rest, 8));
    if (out->version >= FLEXIBLE_SINCE) /* last fetched epoch: for followers */
        out->has_follower_fields |= take32(rest) != -1;
    if (out->version >= LOG_START_SINCE) /* log start offset: for followers */
        out->has_follower_fields |= get64(take(rest, 8)) != -1;
    part->max_bytes = take32(rest);
    if (out->version >= FLEXIBLE_SINCE)
        must8(rest, 0); /* tags */
}

/* A partition that leaves the session (KIP-227). */
static void read_forgotten(Rest *rest, Plain *out, Part *part)
{
    (void)out;
    part->index = take32(rest);
}

/* The topics of a list, of whose partitions `read` reads the fields; returns how many there are. */
static int read_topics(Rest *rest, Plain *out, Part *parts,
                       void (*read)(Rest *rest, Plain *out, Part *part))
{
    int is_flexible = out->version >= FLEXIBLE_SINCE, found = 0;
    int topics = take_count(rest, is_flexible);
    for (int topic = 0; topic < topics && rest->at != NULL; topic++) {
        Part named = {0};
        read_name(rest, out, &named);
        int count = take_count(rest, is_flexible);
        if (count < 1 || count > PARTS_MAX - found) {
            rest->at = NULL;
            break;
        }
        for (int n = 0; n < count; n++) {
            parts[found] = named;
            read(rest, out, &parts[found++]);
        }
        if (is_flexible)
            must8(rest, 0);
    }
    return found;
}

/* 1 where the body is plain and fills the rest of the frame. */
static int read_body(Rest *rest, Plain *out)
{
    int is_flexible = out->version >= FLEXIBLE_SINCE;
    if (out->version < NO_REPLICA_SINCE)
        must32(rest, -1);
    out->max_wait_ms = take32(rest);
    out->min_bytes = take32(rest);
    out->max_bytes = take32(rest);
    out->isolation = *take(rest, 1);
    out->session_id = out->version >= SESSION_SINCE ? take32(rest) : 0;
    out->session_epoch = out->version >= SESSION_SINCE ? take32(rest) : -1;
    out->count = read_topics(rest, out, out->parts, read_partition);
    out->forgotten_count = 0;
    if (out->version >= SESSION_SINCE)
        out->forgotten_count = read_topics(rest, out, out->forgotten, read_forgotten);
    if (is_flexible) {
        must8(rest, 1); /* no rack, no tags */
        must8(rest, 0);
    } else if (out->version >= RACK_SINCE && get16(take(rest, 2)) != 0) {
        rest->at = NULL;
    }
    if (rest->at != rest->end || out->isolation > 1)
        return 0;
    if (out->session_id == 0)
        return out->session_epoch == -1 && out->count > 0 && out->forgotten_count == 0;
    /* A session remembers all fields of a partition, and only these are passed on. */
    return out->session_epoch > 0 && !out->has_follower_fields;
}

static int read_frame(const uint8_t *frame, ptrdiff_t size, Plain *out)
{
    Rest rest = {frame, frame + size};
    if (size < 10 || size > FRAME_BYTES_MAX || get16(take(&rest, 2)) != FETCH_KEY)
        return 0;
    out->version = get16(take(&rest, 2));
    if (out->version < FIRST_VERSION || out->version > LAST_VERSION)
        return 0;
    out->correlation_id = take32(&rest);
    int client_bytes = get16(take(&rest, 2));
    if (client_bytes < -1 || client_bytes > NAME_BYTES_MAX)
        return 0;
    if (client_bytes > 0 && !is_ascii(take(&rest, client_bytes), client_bytes))
        return 0;
    if (out->version >= FLEXIBLE_SINCE)
        must8(&rest, 0); /* tagged fields */
    out->has_follower_fields = 0;
    return read_body(&rest, out);
}

PyDoc_STRVAR(parse_doc,
"parse(frame) -> None | (parts, correlation_id, version, max_wait_ms, min_bytes, max_bytes,\n"
"isolation, session_id, session_epoch, forgotten)\n\n"
"None: the request is not plain, or not valid. Each part is (topic, index, leader_epoch, offset,\n"
"max_bytes); `topic` is a name or, since version 13, an id, as bytes. Each of forgotten\n"
"is (topic, index).");

/* The name of parts[n]. The partitions of a topic share one object, which is then compared fast. */
static PyObject *name_of(const Part *parts, int n, PyObject *last)
{
    if (n > 0 && parts[n].name == parts[n - 1].name)
        return Py_NewRef(last);
    return PyBytes_FromStringAndSize((const char *)parts[n].name, parts[n].name_bytes);
}

static PyObject *parts_of(const Part *parts, int count, int is_forgotten)
{
    PyObject *found = PyTuple_New(count), *last = NULL;
    for (int n = 0; found != NULL && n < count; n++) {
        const Part *part = &parts[n];
        PyObject *each = NULL, *name = name_of(parts, n, last);
        Py_XDECREF(last);
        last = name;
        if (name != NULL && is_forgotten)
            each = Py_BuildValue("(Oi)", name, (int)part->index);
        else if (name != NULL)
            each = Py_BuildValue("(OiiLi)", name, (int)part->index, (int)part->leader_epoch,
                                 (long long)part->offset, (int)part->max_bytes);
        if (each == NULL || PyTuple_SetItem(found, n, each) < 0)
            Py_CLEAR(found);
    }
    Py_XDECREF(last);
    return found;
}

static PyObject *parse(PyObject *module, PyObject *frame)
{
    (void)module;
    Py_buffer view;
    Plain found;
    if (PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *result;
    if (read_frame((const uint8_t *)view.buf, view.len, &found)) {
        PyObject *parts = parts_of(found.parts, found.count, 0);
        PyObject *forgotten = parts_of(found.forgotten, found.forgotten_count, 1);
        result = parts == NULL || forgotten == NULL ? NULL : Py_BuildValue(
            "(OiiiiiiiiO)", parts, (int)found.correlation_id, found.version,
            (int)found.max_wait_ms, (int)found.min_bytes, (int)found.max_bytes, found.isolation,
            (int)found.session_id, (int)found.session_epoch, forgotten);
        Py_XDECREF(parts);
        Py_XDECREF(forgotten);
    } else {
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&view);
    return result;
}

/* What `answer` encodes, and where it writes. */
typedef struct {
    int version;
    int isolation;
    uint8_t *at;
} Writer;

typedef struct {
    const uint8_t *name;
    Py_ssize_t name_bytes;
    int32_t index;
    int64_t high_watermark;
    int64_t last_stable;
    int64_t log_start;
    int64_t records_bytes;
} Told;

static int is_same_topic(const Told *one, const Told *other)
{
    uint8_t differs = one->name_bytes != other->name_bytes;
    for (Py_ssize_t n = 0; !differs && n < one->name_bytes; n++)
        differs = one->name[n] != other->name[n];
    return !differs;
}

static void write_count(Writer *to, int count)
{
    if (to->version >= FLEXIBLE_SINCE)
        *to->at++ = (uint8_t)(count + 1);
    else
        to->at = put32(to->at, (uint32_t)count);
}

static void write_topic(Writer *to, const Told *told, int partitions)
{
    if (to->version < FLEXIBLE_SINCE)
        to->at = put16(to->at, (uint32_t)told->name_bytes);
    else if (to->version < ID_SINCE)
        *to->at++ = (uint8_t)(told->name_bytes + 1);
    to->at = copy(to->at, told->name, told->name_bytes);
    write_count(to, partitions);
}

static void write_partition(Writer *to, const Told *told)
{
    int is_flexible = to->version >= FLEXIBLE_SINCE;
    uint8_t *at = put16(put32(to->at, (uint32_t)told->index), 0);
    at = put64(put64(at, (uint64_t)told->high_watermark), (uint64_t)told->last_stable);
    if (to->version >= LOG_START_SINCE)
        at = put64(at, (uint64_t)told->log_start);
    /* Aborted transactions: null for read_uncommitted, none for read_committed. */
    if (is_flexible)
        *at++ = to->isolation ? 1 : 0;
    else
        at = put32(at, to->isolation ? 0 : (uint32_t)-1);
    if (to->version >= RACK_SINCE)
        at = put32(at, (uint32_t)-1); /* preferred replica */
    if (is_flexible) {
        uint64_t left = (uint64_t)told->records_bytes + 1;
        for (; left >= 0x80; left >>= 7)
            *at++ = (uint8_t)(left | 0x80);
        *at++ = (uint8_t)left;
    } else {
        at = put32(at, (uint32_t)told->records_bytes);
    }
    to->at = at;
}

/* Writes the response but its records; `ends` gets where the records of each part belong. */
static void write_answer(uint8_t *out, Writer *to, const Told *told, int count, int32_t session_id,
                         int32_t correlation_id, const uint8_t **ends)
{
    int is_flexible = to->version >= FLEXIBLE_SINCE, topics = 0;
    int64_t records_bytes = 0;
    for (int n = 0; n < count; n++)
        topics += n == 0 || !is_same_topic(&told[n - 1], &told[n]);
    to->at = put32(out + 4, (uint32_t)correlation_id);
    if (is_flexible)
        *to->at++ = 0;
    to->at = put32(to->at, 0); /* throttle time */
    if (to->version >= SESSION_SINCE)
        to->at = put32(put16(to->at, 0), (uint32_t)session_id); /* after the error */
    write_count(to, topics);
    for (int n = 0; n < count;) {
        int partitions = 1;
        while (n + partitions < count && is_same_topic(&told[n], &told[n + partitions]))
            partitions++;
        write_topic(to, &told[n], partitions);
        for (; partitions > 0; partitions--, n++) {
            write_partition(to, &told[n]);
            records_bytes += told[n].records_bytes;
            ends[n] = to->at;
            if (is_flexible)
                *to->at++ = 0;
        }
        if (is_flexible)
            *to->at++ = 0;
    }
    if (is_flexible)
        *to->at++ = 0;
    put32(out, (uint32_t)(to->at - out - 4 + records_bytes));
}

static int read_told(PyObject *from, Told *to)
{
    char *name;
    if (!PyTuple_Check(from) || PyTuple_Size(from) != PART_FIELDS) {
        PyErr_SetString(PyExc_TypeError, "a part is a tuple of 6");
        return -1;
    }
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(from, 0), &name, &to->name_bytes) < 0)
        return -1;
    to->name = (const uint8_t *)name;
    to->index = (int32_t)PyLong_AsLongLong(PyTuple_GetItem(from, 1));
    to->high_watermark = PyLong_AsLongLong(PyTuple_GetItem(from, 2));
    to->last_stable = PyLong_AsLongLong(PyTuple_GetItem(from, 3));
    to->log_start = PyLong_AsLongLong(PyTuple_GetItem(from, 4));
    to->records_bytes = PyLong_AsLongLong(PyTuple_GetItem(from, 5));
    if (PyErr_Occurred())
        return -1;
    if (to->name_bytes > NAME_BYTES_MAX || to->records_bytes < 0 ||
        to->records_bytes > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a name or size is out of range");
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(answer_doc,
"answer(request, session_id, parts) -> list of bytes\n\n"
"The pieces of the whole response frame: what precedes the records of each part, and what follows\n"
"the last ones. Each part is (topic, index, high_watermark, last_stable_offset, log_start_offset,\n"
"records_bytes); parts of a topic follow each other.");

static PyObject *pieces_of(const uint8_t *out, const Writer *to, const uint8_t **ends, int count)
{
    PyObject *pieces = PyList_New(0);
    const uint8_t *from = out;
    for (int n = 0; pieces != NULL && n <= count; n++) {
        const uint8_t *end = n < count ? ends[n] : to->at;
        PyObject *piece = PyBytes_FromStringAndSize((const char *)from, end - from);
        if (piece == NULL || PyList_Append(pieces, piece) < 0)
            Py_CLEAR(pieces);
        Py_XDECREF(piece);
        from = end;
    }
    return pieces;
}

static PyObject *answer(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 3 || !PyTuple_Check(args[0]) || PyTuple_Size(args[0]) != REQUEST_FIELDS ||
        !PyList_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "a parsed request, a session id and parts are needed");
        return NULL;
    }
    int64_t correlation_id = PyLong_AsLongLong(PyTuple_GetItem(args[0], 1));
    int64_t version = PyLong_AsLongLong(PyTuple_GetItem(args[0], 2));
    int isolation = PyLong_AsLongLong(PyTuple_GetItem(args[0], 6)) == 1;
    int64_t session_id = PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    Py_ssize_t count = PyList_Size(args[2]);
    if (version < FIRST_VERSION || version > LAST_VERSION || count > PARTS_MAX) {
        PyErr_SetString(PyExc_ValueError, "a version or a number of parts is out of range");
        return NULL;
    }
    Told told[PARTS_MAX];
    const uint8_t *ends[PARTS_MAX];
    uint8_t out[HEAD_BYTES_MAX + PARTS_MAX * PART_BYTES_MAX];
    int64_t size = sizeof(out);
    for (Py_ssize_t n = 0; n < count; n++) {
        if (read_told(PyList_GetItem(args[2], n), &told[n]) < 0)
            return NULL;
        size += told[n].records_bytes;
    }
    if (size > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "the size of all records is out of range");
        return NULL;
    }
    Writer to = {.version = (int)version, .isolation = isolation};
    write_answer(out, &to, told, (int)count, (int32_t)session_id, (int32_t)correlation_id, ends);
    return pieces_of(out, &to, ends, (int)count);
}

static PyMethodDef methods[] = {
    {"parse", parse, METH_O, parse_doc},
    {"answer", (PyCFunction)(void (*)(void))answer, METH_FASTCALL, answer_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "plain_fetch",
    .m_doc = "Plain fetch requests: parsed, answered.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_plain_fetch(void)
{
    return PyModuleDef_Init(&definition);
}
