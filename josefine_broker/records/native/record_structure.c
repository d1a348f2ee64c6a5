/* The structure check of a record batch's records (format v2, KIP-98), without a copy of any byte.
 *
 * One function, `check`, for the produce path; josefine_broker/records/structure_twin.py is the same
 * in Python and its oracle. Written against Python's stable ABI (3.11), so one binary serves every
 * later version. It uses nothing of libc: the same binary loads under glibc and musl.
 *
 * Rules: every read is checked against the end of its record; a varint has at most 5 bytes (32
 * bits) or 10 (64 bits) and no bits beyond; all lengths but -1 (null) are at least 0.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include "record_walk.h"

/* A shorter run is done before another thread could take the interpreter and give it back. */
#define BYTES_WITH_GIL (1024 * 1024)

PyDoc_STRVAR(check_doc,
"check(body, start, count, base_ms, max_ms, needs_key) -> None | (fault, index, low_ms, high_ms)\n\n"
"None: `count` well-formed records fill `body` from `start`, and base_ms and max_ms are their\n"
"smallest and largest timestamp.");

static PyObject *check(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 6) {
        PyErr_SetString(PyExc_TypeError, "check takes 6 arguments");
        return NULL;
    }
    int64_t start = PyLong_AsLongLong(args[1]), count = PyLong_AsLongLong(args[2]);
    int64_t base_ms = PyLong_AsLongLong(args[3]), max_ms = PyLong_AsLongLong(args[4]);
    int needs_key = PyObject_IsTrue(args[5]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer body;
    if (PyObject_GetBuffer(args[0], &body, PyBUF_SIMPLE) < 0)
        return NULL;
    if (start < 0 || start > body.len || count < 1) {
        PyBuffer_Release(&body);
        PyErr_SetString(PyExc_ValueError, "start outside of the body, or no records");
        return NULL;
    }
    const uint8_t *first = (const uint8_t *)body.buf + start;
    const uint8_t *end = (const uint8_t *)body.buf + body.len;
    Found found;
    if (end - first > BYTES_WITH_GIL) {
        Py_BEGIN_ALLOW_THREADS
        run(first, end, count, base_ms, needs_key, &found);
        Py_END_ALLOW_THREADS
    } else {
        run(first, end, count, base_ms, needs_key, &found);
    }
    PyBuffer_Release(&body);
    int is_none = base_ms == NO_TIMESTAMP && found.low_ms == INT64_MAX;
    if (!found.fault && found.high_ms == max_ms && (found.low_ms == base_ms || is_none))
        Py_RETURN_NONE;
    return Py_BuildValue("(iLLL)", found.fault, (long long)found.index, (long long)found.low_ms,
                         (long long)found.high_ms);
}

static PyMethodDef methods[] = {
    {"check", (PyCFunction)(void (*)(void))check, METH_FASTCALL, check_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "record_structure",
    .m_doc = "The structure check of a record batch's records.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_record_structure(void)
{
    return PyModuleDef_Init(&definition);
}
