/* A thread that makes files durable and never takes Python's interpreter.
 *
 * `start(requests, results)` starts one; it owns both descriptors. It reads requests from a pipe,
 * calls fdatasync for each, writes an entry into another file once that has succeeded, and reports
 * through the second pipe. Several threads may share the pipes: a request and a result are written
 * by one call each, below PIPE_BUF, so none is torn. The thread ends when the pipe of requests
 * does; the end of the pipe of results is therefore the end of every thread.
 *
 * Rules: nothing of Python is touched after the start; a request holds its bytes, and whoever made
 * it keeps the descriptors open until the result; only an interrupted call is repeated.
 * Written against Python's stable ABI (3.11); of libc it uses calls that glibc and musl share.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { ENTRY_BYTES = 20 };

/* glibc's header would call it pwrite64, which musl has only for old binaries. */
extern ssize_t pwrite_at(int fd, const void *data, size_t size, int64_t at) __asm__("pwrite");

/* Both are as josefine_broker/host/disk/sync_pipes.py packs them. */
typedef struct {
    int64_t entry_at;
    int32_t number;
    int32_t fd;
    int32_t entry_fd; /* negative: there is no entry */
    uint8_t entry[ENTRY_BYTES];
} Request;

typedef struct {
    int64_t elapsed_ns;
    int32_t number;
    int32_t error; /* errno of the fdatasync; 0: the file is durable */
    int32_t has_entry; /* whether the whole entry was written */
    int32_t unused;
} Result;

_Static_assert(sizeof(Request) == 40 && sizeof(Result) == 24, "Python packs 40 and 24 bytes");

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static Result done(const Request *request)
{
    Result result = {.number = request->number};
    int64_t began_ns = now_ns();
    int failed;
    do
        failed = fdatasync(request->fd);
    while (failed && errno == EINTR);
    result.error = failed ? errno : 0;
    result.elapsed_ns = now_ns() - began_ns;
    if (!failed && request->entry_fd >= 0)
        result.has_entry = pwrite_at(request->entry_fd, request->entry, ENTRY_BYTES,
                                     request->entry_at) == ENTRY_BYTES;
    return result;
}

static void serve(void *pipes)
{
    int requests = (int)((uintptr_t)pipes >> 32), results = (int)(uint32_t)(uintptr_t)pipes;
    Request request;
    for (;;) {
        ssize_t size = read(requests, &request, sizeof request);
        if (size < 0 && errno == EINTR)
            continue;
        if (size != sizeof request)
            break;
        Result result = done(&request);
        do
            size = write(results, &result, sizeof result);
        while (size < 0 && errno == EINTR);
        if (size != sizeof result)
            break;
    }
    close(requests);
    close(results);
}

PyDoc_STRVAR(start_doc,
"start(requests, results) -> None\n\n"
"Start a thread that owns these ends of two pipes. Raises RuntimeError; then it owns nothing.");

static PyObject *start(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "start takes 2 descriptors");
        return NULL;
    }
    long requests = PyLong_AsLong(args[0]), results = PyLong_AsLong(args[1]);
    if (PyErr_Occurred())
        return NULL;
    if (requests < 0 || results < 0 || requests > INT32_MAX || results > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a descriptor is out of range");
        return NULL;
    }
    uintptr_t both = (uintptr_t)requests << 32 | (uintptr_t)results;
    if (PyThread_start_new_thread(serve, (void *)both) == (unsigned long)-1) {
        PyErr_SetString(PyExc_RuntimeError, "no thread could be started");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"start", (PyCFunction)(void (*)(void))start, METH_FASTCALL, start_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "sync_thread",
    .m_doc = "A thread that makes files durable and never takes Python's interpreter.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_sync_thread(void)
{
    return PyModuleDef_Init(&definition);
}
