/* Plain produce requests: small batches without a codec, one or several.
 *
 * `parse` reads a whole request frame, header and body, of versions 3 to 13, and checks its batch;
 * it returns None for every request that is not plain, and for every one that is not valid: those
 * take the general path, which has the error messages. `survey` sums up several parsed requests,
 * `assemble` copies their batches into the bytes that the log appends, with offsets and leader
 * epoch, and `answers` encodes the responses. `parse_parts` and `answer_parts` are for requests
 * with several batches, each of which is then like a request with one. The general path is the twin
 * in Python and the oracle.
 * Written against Python's stable ABI (3.11).
 *
 * Rules: every read is checked against the end of the frame; a frame is read only while its buffer
 * is held; the tuples of `parse` are checked again when they come back, since the caller may have
 * changed the frame's buffer. Bytes are copied in loops: nothing of libc is called here.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "produce_parts.h"

enum { FIELDS = 15 };
enum { KEY_AT, FRAME_AT, CORRELATION_AT, VERSION_AT, ACKS_AT, START_AT, SIZE_AT, COUNT_AT, BASE_AT,
       MAX_AT, KEYLESS_AT, TIMEOUT_AT, PRODUCER_AT };
enum { REQUESTS_MAX = 4096, ANSWER_BYTES_MAX = 256 };

static PyObject *name_of(const Plain *found)
{
    return PyBytes_FromStringAndSize((const char *)found->name, found->name_bytes);
}

/* The tuple of one batch. */
static PyObject *parsed(const Plain *found, PyObject *name, PyObject *frame)
{
    if (name == NULL)
        return NULL;
    return Py_BuildValue(
        "((OiO)OiiinnLLLOiLii)", name, (int)found->index,
        found->version >= ID_SINCE ? Py_True : Py_False, frame, (int)found->correlation_id,
        found->version, found->acks, found->start, found->size, (long long)found->count,
        (long long)found->base_ms, (long long)found->max_ms, found->keyless ? Py_True : Py_False,
        (int)found->timeout_ms, (long long)found->producer_id, found->producer_epoch,
        (int)found->sequence);
}

PyDoc_STRVAR(parse_doc,
"parse(frame) -> None | ((topic, index, by_id), frame, correlation_id, version, acks, start, size,\n"
"count, base_ms, max_ms, keyless, timeout_ms, producer_id, producer_epoch, sequence)\n\n"
"None: the request is not plain, or not valid. `topic` is a name or an id, as bytes.");

static PyObject *parse(PyObject *module, PyObject *frame)
{
    (void)module;
    Py_buffer view;
    Plain found;
    if (PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *result;
    if (read_frame((const uint8_t *)view.buf, view.len, &found)) {
        PyObject *name = name_of(&found);
        result = parsed(&found, name, frame);
        Py_XDECREF(name);
    } else {
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&view);
    return result;
}

PyDoc_STRVAR(parse_parts_doc,
"parse_parts(frame) -> None | [parsed, ...]\n\n"
"A request with batches for several partitions, as what `parse` returns for each. None: the\n"
"request is not plain, or not valid, or has one batch.");

static PyObject *parse_parts(PyObject *module, PyObject *frame)
{
    (void)module;
    Py_buffer view;
    Parts parts;
    if (PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *at = (const uint8_t *)view.buf;
    PyObject *result = NULL;
    int state = NOT_PLAIN, count = 0;
    /* First the structure, and codec and type of each batch: a request that is not plain shall not
     * have its checksums computed twice. */
    if (open_parts(&parts, at, view.len))
        while ((state = next_part(&parts)) == ONE_PART && ++count <= PARTS_MAX)
            if (get16(at + parts.part.start + 21) != 0)
                break;
    if (state == NO_PART && count > 1) {
        PyObject *name = NULL;
        result = PyList_New(0);
        open_parts(&parts, at, view.len);
        while (result != NULL && (state = next_part(&parts)) == ONE_PART) {
            if (!check_batch(at + parts.part.start, parts.part.size, &parts.part)) {
                Py_CLEAR(result);
                break;
            }
            /* All partitions of a topic share its name, whose hash is then known. */
            if (parts.partitions_left == parts.partitions - 1) {
                Py_XDECREF(name);
                name = name_of(&parts.part);
            }
            PyObject *one = parsed(&parts.part, name, frame);
            if (one == NULL || PyList_Append(result, one) < 0)
                Py_CLEAR(result);
            Py_XDECREF(one);
        }
        Py_XDECREF(name);
    }
    PyBuffer_Release(&view);
    if (result != NULL || PyErr_Occurred())
        return result;
    return Py_NewRef(Py_None);
}

/* The requests of a list, one after the other. */
typedef struct {
    PyObject *list;
    Py_ssize_t count;
} Requests;

static int take_list(PyObject *list, Requests *out)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "a list of parsed requests is needed");
        return 0;
    }
    out->list = list;
    out->count = PyList_Size(list);
    if (out->count < 1 || out->count > REQUESTS_MAX) {
        PyErr_SetString(PyExc_ValueError, "no requests, or too many");
        return 0;
    }
    return 1;
}

/* A borrowed tuple, or NULL with an error. */
static PyObject *request_at(const Requests *requests, Py_ssize_t at)
{
    PyObject *request = PyList_GetItem(requests->list, at);
    if (request == NULL)
        return NULL;
    if (!PyTuple_Check(request) || PyTuple_Size(request) != FIELDS) {
        PyErr_SetString(PyExc_TypeError, "not a parsed request");
        return NULL;
    }
    return request;
}

static int64_t number_at(PyObject *request, int field)
{
    return PyLong_AsLongLong(PyTuple_GetItem(request, field));
}

PyDoc_STRVAR(survey_doc,
"survey(requests) -> (records, bytes, low_ms, high_ms, keyless, acks_all, has_producers)\n\n"
"low_ms: the smallest base timestamp that is not -1; the largest number if there is none.");

static PyObject *survey(PyObject *module, PyObject *list)
{
    (void)module;
    Requests requests;
    int64_t records = 0, size = 0, low = INT64_MAX, high = INT64_MIN;
    int keyless = 0, acks_all = 0, has_producers = 0;
    if (!take_list(list, &requests))
        return NULL;
    for (Py_ssize_t n = 0; n < requests.count; n++) {
        PyObject *request = request_at(&requests, n);
        if (request == NULL)
            return NULL;
        int64_t base = number_at(request, BASE_AT), most = number_at(request, MAX_AT);
        records += number_at(request, COUNT_AT) & 0x7fffffff;
        size += number_at(request, SIZE_AT) & 0x7fffffff;
        acks_all |= number_at(request, ACKS_AT) == -1;
        keyless |= PyTuple_GetItem(request, KEYLESS_AT) == Py_True;
        has_producers |= number_at(request, PRODUCER_AT) != NO_PRODUCER_ID;
        if (PyErr_Occurred())
            return NULL;
        low = base < low && base != NO_TIMESTAMP ? base : low;
        high = most > high ? most : high;
    }
    return Py_BuildValue("LLLLOOO", (long long)records, (long long)size, (long long)low,
                         (long long)high, keyless ? Py_True : Py_False,
                         acks_all ? Py_True : Py_False, has_producers ? Py_True : Py_False);
}

/* What `assemble` knows of the log, and has found. */
typedef struct {
    int64_t offset;
    int64_t leader_epoch;
    int64_t position;
    int64_t index_position;
    int64_t interval;
    int64_t max_ms;
    int64_t max_offset;
    PyObject *marks;
} Assembly;

/* Copy one batch, stamped, and account for it as `Segment.account` does; 0 with an error. */
static int add_batch(PyObject *request, uint8_t **to, const uint8_t *to_end, Assembly *log)
{
    int64_t start = number_at(request, START_AT), size = number_at(request, SIZE_AT);
    int64_t count = number_at(request, COUNT_AT), most = number_at(request, MAX_AT);
    Py_buffer frame;
    if (PyErr_Occurred() || PyObject_GetBuffer(PyTuple_GetItem(request, FRAME_AT), &frame,
                                               PyBUF_SIMPLE) < 0)
        return 0;
    if (size < BATCH_HEADER_BYTES || start < 0 || start > frame.len || size > frame.len - start ||
        size > to_end - *to || count < 1 || count > INT32_MAX) {
        PyBuffer_Release(&frame);
        PyErr_SetString(PyExc_ValueError, "the batch is outside of its frame");
        return 0;
    }
    const uint8_t *batch = (const uint8_t *)frame.buf + start;
    uint8_t *at = put64(*to, (uint64_t)log->offset);
    at = copy(at, batch + 8, 4);
    at = put32(at, (uint32_t)log->leader_epoch);
    *to = copy(at, batch + 16, size - 16);
    PyBuffer_Release(&frame);
    if (log->index_position < 0 || log->position - log->index_position >= log->interval) {
        PyObject *mark = Py_BuildValue("LLL", (long long)log->offset, (long long)log->position,
                                       (long long)log->max_ms);
        if (mark == NULL || PyList_Append(log->marks, mark) < 0) {
            Py_XDECREF(mark);
            return 0;
        }
        Py_DECREF(mark);
        log->index_position = log->position;
    }
    if (most > log->max_ms) {
        log->max_ms = most;
        log->max_offset = log->offset;
    }
    log->position += size;
    log->offset += count;
    return 1;
}

PyDoc_STRVAR(assemble_doc,
"assemble(requests, size, base_offset, leader_epoch, position, index_position, interval, max_ms)\n"
"-> (data, end_offset, max_ms, max_offset, marks)\n\n"
"The batches back to back, stamped from `base_offset` on. `position` is where they will be in the\n"
"segment, `index_position` that of its last index entry (-1: none), `max_ms` its largest\n"
"timestamp. marks: (offset, position, largest timestamp before) of the new index entries;\n"
"max_offset: the batch that raised max_ms, or -1.");

static PyObject *assemble(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    Requests requests;
    if (nargs != 8) {
        PyErr_SetString(PyExc_TypeError, "assemble takes 8 arguments");
        return NULL;
    }
    int64_t size = PyLong_AsLongLong(args[1]);
    Assembly log = {
        .offset = PyLong_AsLongLong(args[2]), .leader_epoch = PyLong_AsLongLong(args[3]),
        .position = PyLong_AsLongLong(args[4]), .index_position = PyLong_AsLongLong(args[5]),
        .interval = PyLong_AsLongLong(args[6]), .max_ms = PyLong_AsLongLong(args[7]),
        .max_offset = -1, .marks = NULL,
    };
    if (PyErr_Occurred() || !take_list(args[0], &requests))
        return NULL;
    /* Offsets and positions stay far below the end of their type: sums cannot overflow. */
    if (size < 1 || size > (int64_t)REQUESTS_MAX * FRAME_BYTES_MAX || log.offset < 0 ||
        log.offset > INT64_MAX / 2 || log.position < 0 || log.position > INT64_MAX / 2 ||
        log.index_position > log.position) {
        PyErr_SetString(PyExc_ValueError, "a size, offset or position is out of range");
        return NULL;
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    log.marks = PyList_New(0);
    if (data != NULL && log.marks != NULL) {
        uint8_t *to = (uint8_t *)PyBytes_AsString(data);
        const uint8_t *to_end = to + size;
        Py_ssize_t n = 0;
        for (; n < requests.count; n++) {
            PyObject *request = request_at(&requests, n);
            if (request == NULL || !add_batch(request, &to, to_end, &log))
                break;
        }
        if (n == requests.count && to == to_end)
            return Py_BuildValue("NLLLN", data, (long long)log.offset, (long long)log.max_ms,
                                 (long long)log.max_offset, log.marks);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "the batches are smaller than their size");
    }
    Py_XDECREF(data);
    Py_XDECREF(log.marks);
    return NULL;
}

/* A partition of an answer, whose batch is stored. */
static uint8_t *write_part(uint8_t *at, int version, int32_t index, int64_t base_offset,
                           int64_t log_start)
{
    at = put16(put32(at, (uint32_t)index), 0);
    at = put64(put64(at, (uint64_t)base_offset), (uint64_t)-1); /* no log append time */
    if (version >= LOG_START_SINCE)
        at = put64(at, (uint64_t)log_start);
    if (version >= FLEXIBLE_SINCE) {
        *at++ = 1; /* no record errors */
        *at++ = 0; /* no message */
        *at++ = 0;
    } else if (version >= ERRORS_SINCE) {
        at = put16(put32(at, 0), (uint32_t)-1);
    }
    return at;
}

/* The answer to one stored batch, as a whole frame; its size. */
static Py_ssize_t write_answer(uint8_t *to, int version, int32_t correlation_id,
                               const uint8_t *name, Py_ssize_t name_bytes, int32_t index,
                               int64_t base_offset, int64_t log_start)
{
    int is_flexible = version >= FLEXIBLE_SINCE;
    uint8_t *at = put32(to + 4, (uint32_t)correlation_id);
    if (is_flexible) {
        *at++ = 0;
        *at++ = 2;
        if (version < ID_SINCE)
            *at++ = (uint8_t)(name_bytes + 1);
        at = copy(at, name, name_bytes);
        *at++ = 2;
    } else {
        at = put16(put32(at, 1), (uint32_t)name_bytes);
        at = put32(copy(at, name, name_bytes), 1);
    }
    at = write_part(at, version, index, base_offset, log_start);
    if (is_flexible)
        *at++ = 0;
    at = put32(at, 0); /* throttle time */
    if (is_flexible)
        *at++ = 0;
    put32(to, (uint32_t)(at - to - 4));
    return at - to;
}

static PyObject *answer(PyObject *request, int64_t base_offset, int64_t log_start)
{
    uint8_t out[ANSWER_BYTES_MAX];
    PyObject *key = PyTuple_GetItem(request, KEY_AT);
    int64_t version = number_at(request, VERSION_AT);
    int64_t correlation_id = number_at(request, CORRELATION_AT);
    if (PyErr_Occurred())
        return NULL;
    if (!PyTuple_Check(key) || PyTuple_Size(key) != 3) {
        PyErr_SetString(PyExc_TypeError, "not the key of a parsed request");
        return NULL;
    }
    char *name;
    Py_ssize_t name_bytes;
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(key, 0), &name, &name_bytes) < 0)
        return NULL;
    int64_t index = PyLong_AsLongLong(PyTuple_GetItem(key, 1));
    if (PyErr_Occurred())
        return NULL;
    if (name_bytes > NAME_BYTES_MAX || version < FIRST_VERSION || version > LAST_VERSION) {
        PyErr_SetString(PyExc_ValueError, "the name or the version is out of range");
        return NULL;
    }
    Py_ssize_t size = write_answer(out, (int)version, (int32_t)correlation_id,
                                   (const uint8_t *)name, name_bytes, (int32_t)index, base_offset,
                                   log_start);
    return PyBytes_FromStringAndSize((const char *)out, size);
}

PyDoc_STRVAR(answers_doc,
"answers(requests, base_offset, log_start_offset) -> [frame, ...]\n\n"
"The whole responses: the first batch is stored at base_offset, the others follow it.");

static PyObject *answers(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    Requests requests;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "answers takes 3 arguments");
        return NULL;
    }
    int64_t offset = PyLong_AsLongLong(args[1]), log_start = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred() || !take_list(args[0], &requests))
        return NULL;
    PyObject *result = PyList_New(0);
    for (Py_ssize_t n = 0; result != NULL && n < requests.count; n++) {
        PyObject *request = request_at(&requests, n);
        PyObject *one = request == NULL ? NULL : answer(request, offset, log_start);
        if (one == NULL || PyList_Append(result, one) < 0) {
            Py_XDECREF(one);
            Py_CLEAR(result);
            break;
        }
        Py_DECREF(one);
        offset = (int64_t)((uint64_t)offset + (uint64_t)number_at(request, COUNT_AT));
        if (PyErr_Occurred())
            Py_CLEAR(result);
    }
    return result;
}

static uint8_t *write_count(uint8_t *at, int is_compact, int64_t count)
{
    if (!is_compact)
        return put32(at, (uint32_t)count);
    uint32_t n = (uint32_t)count + 1;
    for (; n > 0x7f; n >>= 7)
        *at++ = (uint8_t)(n | 0x80);
    *at++ = (uint8_t)n;
    return at;
}

/* Before a topic's partitions. */
static uint8_t *write_topic(uint8_t *at, const Parts *parts)
{
    const Plain *part = &parts->part;
    if (!is_flexible(parts))
        at = put16(at, (uint32_t)part->name_bytes);
    else if (part->version < ID_SINCE)
        *at++ = (uint8_t)(part->name_bytes + 1);
    at = copy(at, part->name, part->name_bytes);
    return write_count(at, is_flexible(parts), parts->partitions);
}

/* What is left of an answer's space after the partitions is never short: each of them, with its
 * topic, needs PART_BYTES_MAX and what is in the frame. */
enum { PART_BYTES_MAX = 64 };

/* The answer to a request, as a whole frame; its size, or -1 where the frame is another one. */
static Py_ssize_t write_parts(uint8_t *to, const uint8_t *frame, Py_ssize_t size,
                              PyObject *offsets, PyObject *log_starts)
{
    Parts parts;
    Py_ssize_t count = PyList_Size(offsets), n = 0;
    if (!open_parts(&parts, frame, size))
        return -1;
    int has_tags = is_flexible(&parts), state;
    uint8_t *at = put32(to + 4, (uint32_t)parts.part.correlation_id);
    if (has_tags)
        *at++ = 0;
    at = write_count(at, has_tags, parts.topics);
    while ((state = next_part(&parts)) == ONE_PART && n < count) {
        int64_t offset = PyLong_AsLongLong(PyList_GetItem(offsets, n));
        int64_t log_start = PyLong_AsLongLong(PyList_GetItem(log_starts, n));
        if (PyErr_Occurred())
            return -1;
        if (parts.partitions_left == parts.partitions - 1)
            at = write_topic(at, &parts);
        at = write_part(at, parts.part.version, parts.part.index, offset, log_start);
        if (has_tags && parts.partitions_left == 0)
            *at++ = 0;
        n++;
    }
    if (state != NO_PART || n != count)
        return -1;
    at = put32(at, 0); /* throttle time */
    if (has_tags)
        *at++ = 0;
    put32(to, (uint32_t)(at - to - 4));
    return at - to;
}

PyDoc_STRVAR(answer_parts_doc,
"answer_parts(frame, base_offsets, log_start_offsets) -> frame\n\n"
"The whole response to a request with several partitions, each of which has stored its batch.");

static PyObject *answer_parts(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    Py_buffer view;
    if (nargs != 3 || !PyList_Check(args[1]) || !PyList_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "answer_parts takes a frame and two lists");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(args[1]);
    if (count < 1 || count > PARTS_MAX || PyList_Size(args[2]) != count) {
        PyErr_SetString(PyExc_ValueError, "no offsets, too many, or not as many of both");
        return NULL;
    }
    if (PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *result = NULL;
    uint8_t *to = NULL;
    if (view.len <= PARTS_FRAME_BYTES_MAX)
        to = PyMem_Malloc((size_t)(view.len + (count + 1) * PART_BYTES_MAX));
    if (to != NULL) {
        Py_ssize_t size = write_parts(to, view.buf, view.len, args[1], args[2]);
        if (size >= 0)
            result = PyBytes_FromStringAndSize((const char *)to, size);
        PyMem_Free(to);
    }
    PyBuffer_Release(&view);
    if (result == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "not the frame of these offsets");
    return result;
}

static PyMethodDef methods[] = {
    {"parse", parse, METH_O, parse_doc},
    {"parse_parts", parse_parts, METH_O, parse_parts_doc},
    {"survey", survey, METH_O, survey_doc},
    {"assemble", (PyCFunction)(void (*)(void))assemble, METH_FASTCALL, assemble_doc},
    {"answers", (PyCFunction)(void (*)(void))answers, METH_FASTCALL, answers_doc},
    {"answer_parts", (PyCFunction)(void (*)(void))answer_parts, METH_FASTCALL, answer_parts_doc},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    (void)module;
    fill_crc_table();
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)prepare},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "plain_produce",
    .m_doc = "Plain produce requests: parsed, checked, assembled for the log, answered.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_plain_produce(void)
{
    return PyModuleDef_Init(&definition);
}
