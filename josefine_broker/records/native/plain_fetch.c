/* Plain fetch requests: a consumer's, of one partition, without a session.
 *
 * `parse` reads a whole request frame, header and body, of versions 4 to 18; it returns None for
 * every request that is not plain, and for every one that is not valid: those take the general
 * path, which is the twin in Python and the oracle. `answer` encodes all of a response but its
 * records, and what follows those. Written against Python's stable ABI (3.11).
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
enum { FRAME_BYTES_MAX = 1024, ANSWER_BYTES_MAX = 256 };

typedef struct {
    int32_t correlation_id;
    int version;
    const uint8_t *name;
    int name_bytes;
    int32_t index;
    int32_t min_bytes;
    int32_t max_bytes;
    int isolation;
    int32_t leader_epoch;
    int64_t offset;
    int32_t partition_max_bytes;
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

static void read_topic(Rest *rest, Plain *out)
{
    if (out->version >= ID_SINCE)
        out->name_bytes = ID_BYTES;
    else if (out->version >= FLEXIBLE_SINCE)
        out->name_bytes = *take(rest, 1) - 1;
    else
        out->name_bytes = get16(take(rest, 2));
    if (out->name_bytes < 1 || out->name_bytes > NAME_BYTES_MAX) {
        rest->at = NULL;
        return;
    }
    out->name = take(rest, out->name_bytes);
    if (out->version < ID_SINCE && !is_ascii(out->name, out->name_bytes))
        rest->at = NULL;
}

static void read_partition(Rest *rest, Plain *out)
{
    out->index = take32(rest);
    out->leader_epoch = out->version >= EPOCH_SINCE ? take32(rest) : -1;
    out->offset = get64(take(rest, 8));
    if (out->version >= FLEXIBLE_SINCE)
        take(rest, 4); /* last fetched epoch: for followers */
    if (out->version >= LOG_START_SINCE)
        take(rest, 8); /* log start offset: for followers */
    out->partition_max_bytes = take32(rest);
}

/* 1 where the body is plain and fills the rest of the frame. */
static int read_body(Rest *rest, Plain *out)
{
    int is_flexible = out->version >= FLEXIBLE_SINCE;
    if (out->version < NO_REPLICA_SINCE)
        must32(rest, -1);
    take(rest, 4); /* the longest wait: what is found is not waited for */
    out->min_bytes = take32(rest);
    out->max_bytes = take32(rest);
    out->isolation = *take(rest, 1);
    if (out->version >= SESSION_SINCE) {
        must32(rest, 0);
        must32(rest, -1);
    }
    if (is_flexible)
        must8(rest, 2);
    else
        must32(rest, 1);
    read_topic(rest, out);
    if (is_flexible)
        must8(rest, 2);
    else
        must32(rest, 1);
    read_partition(rest, out);
    if (is_flexible) {
        must8(rest, 0); /* no tags of the partition, none of the topic */
        must8(rest, 0);
        must8(rest, 1); /* no forgotten topics, no rack, no tags */
        must8(rest, 1);
        must8(rest, 0);
    } else {
        if (out->version >= SESSION_SINCE)
            must32(rest, 0);
        if (out->version >= RACK_SINCE && get16(take(rest, 2)) != 0)
            rest->at = NULL;
    }
    return rest->at == rest->end && out->isolation <= 1;
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
    return read_body(&rest, out);
}

PyDoc_STRVAR(parse_doc,
"parse(frame) -> None | ((topic, index, by_id), correlation_id, version, min_bytes, max_bytes,\n"
"isolation, leader_epoch, offset, partition_max_bytes)\n\n"
"None: the request is not plain, or not valid. `topic` is a name or an id, as bytes.");

static PyObject *parse(PyObject *module, PyObject *frame)
{
    (void)module;
    Py_buffer view;
    Plain found;
    if (PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *result;
    if (read_frame((const uint8_t *)view.buf, view.len, &found))
        result = Py_BuildValue("((y#iO)iiiiiiLi)", (const char *)found.name,
                               (Py_ssize_t)found.name_bytes, (int)found.index,
                               found.version >= ID_SINCE ? Py_True : Py_False,
                               (int)found.correlation_id, found.version, (int)found.min_bytes,
                               (int)found.max_bytes, found.isolation, (int)found.leader_epoch,
                               (long long)found.offset, (int)found.partition_max_bytes);
    else
        result = Py_NewRef(Py_None);
    PyBuffer_Release(&view);
    return result;
}

/* The response up to its records, of `records_bytes`; the size of it. */
static ptrdiff_t write_answer(uint8_t *to, const Plain *request, int64_t high_watermark,
                              int64_t last_stable, int64_t log_start, int64_t records_bytes)
{
    int version = request->version, is_flexible = version >= FLEXIBLE_SINCE;
    uint8_t *at = put32(to + 4, (uint32_t)request->correlation_id);
    if (is_flexible)
        *at++ = 0;
    at = put32(at, 0); /* throttle time */
    if (version >= SESSION_SINCE)
        at = put32(put16(at, 0), 0); /* error, session */
    if (is_flexible) {
        *at++ = 2;
        if (version < ID_SINCE)
            *at++ = (uint8_t)(request->name_bytes + 1);
        at = copy(at, request->name, request->name_bytes);
        *at++ = 2;
    } else {
        at = put16(put32(at, 1), (uint32_t)request->name_bytes);
        at = put32(copy(at, request->name, request->name_bytes), 1);
    }
    at = put16(put32(at, (uint32_t)request->index), 0);
    at = put64(put64(at, (uint64_t)high_watermark), (uint64_t)last_stable);
    if (version >= LOG_START_SINCE)
        at = put64(at, (uint64_t)log_start);
    /* Aborted transactions: null for read_uncommitted, none for read_committed. */
    if (is_flexible)
        *at++ = request->isolation ? 1 : 0;
    else
        at = put32(at, request->isolation ? 0 : (uint32_t)-1);
    if (version >= RACK_SINCE)
        at = put32(at, (uint32_t)-1); /* preferred replica */
    if (is_flexible) {
        uint64_t left = (uint64_t)records_bytes + 1;
        for (; left >= 0x80; left >>= 7)
            *at++ = (uint8_t)(left | 0x80);
        *at++ = (uint8_t)left;
    } else {
        at = put32(at, (uint32_t)records_bytes);
    }
    int64_t tail = is_flexible ? 3 : 0;
    put32(to, (uint32_t)(at - to - 4 + records_bytes + tail));
    return at - to;
}

PyDoc_STRVAR(answer_doc,
"answer(request, high_watermark, last_stable_offset, log_start_offset, records_bytes)\n"
"-> (before, after)\n\n"
"What precedes the records in the whole response frame, and what follows them.");

static PyObject *answer(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 5 || !PyTuple_Check(args[0]) || PyTuple_Size(args[0]) != 9) {
        PyErr_SetString(PyExc_TypeError, "a parsed request and 4 numbers are needed");
        return NULL;
    }
    PyObject *key = PyTuple_GetItem(args[0], 0);
    if (!PyTuple_Check(key) || PyTuple_Size(key) != 3) {
        PyErr_SetString(PyExc_TypeError, "not the key of a parsed request");
        return NULL;
    }
    char *name;
    Py_ssize_t name_bytes;
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(key, 0), &name, &name_bytes) < 0)
        return NULL;
    Plain request = {
        .index = (int32_t)PyLong_AsLongLong(PyTuple_GetItem(key, 1)),
        .name = (const uint8_t *)name,
        .correlation_id = (int32_t)PyLong_AsLongLong(PyTuple_GetItem(args[0], 1)),
    };
    int64_t version = PyLong_AsLongLong(PyTuple_GetItem(args[0], 2));
    request.isolation = PyLong_AsLongLong(PyTuple_GetItem(args[0], 5)) == 1;
    int64_t high_watermark = PyLong_AsLongLong(args[1]), stable = PyLong_AsLongLong(args[2]);
    int64_t log_start = PyLong_AsLongLong(args[3]), records_bytes = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred())
        return NULL;
    if (name_bytes > NAME_BYTES_MAX || version < FIRST_VERSION || version > LAST_VERSION ||
        records_bytes < 0 || records_bytes > INT32_MAX - ANSWER_BYTES_MAX) {
        PyErr_SetString(PyExc_ValueError, "a name, version or size is out of range");
        return NULL;
    }
    request.version = (int)version;
    request.name_bytes = (int)name_bytes;
    uint8_t out[ANSWER_BYTES_MAX];
    ptrdiff_t size = write_answer(out, &request, high_watermark, stable, log_start, records_bytes);
    return Py_BuildValue("(y#y#)", (const char *)out, (Py_ssize_t)size, "\0\0\0",
                         (Py_ssize_t)(version >= FLEXIBLE_SINCE ? 3 : 0));
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
