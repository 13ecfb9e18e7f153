/* The calls of wattio_hpcio.h, by a Python interpreter inside the program.
 *
 * Between calls no thread holds the interpreter: threads of the middleware, which watch the launcher
 * and the other ranks, run while the program computes.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "wattio_hpcio.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef WATTIO_PYTHON
#error "WATTIO_PYTHON has to be the path of the Python that holds wattio: see the Makefile"
#endif

/* MPI belongs to the program: mpi4py neither starts nor ends it, and leaves its error handlers. */
static const char GLUE[] =
    "import json\n"
    "from pathlib import Path\n"
    "import mpi4py\n"
    "mpi4py.rc(initialize=False, finalize=False, errors='default')\n"
    "from mpi4py import MPI\n"
    "from wattio import hpcio\n"
    "from wattio.errors import HostError\n"
    "def start(comm, config):\n"
    "    if not MPI.Is_initialized():\n"
    "        raise HostError('MPI is not initialized, or mpi4py uses another MPI library than'\n"
    "                        ' this program: build it with the MPI that mpi4py uses')\n"
    "    return hpcio.start(MPI.Comm.f2py(comm), hpcio.Config.read(Path(config)))\n"
    "def account(session):\n"
    "    return json.dumps(session.close().as_json())\n";

struct wattio_session {
    PyObject *session;
    PyObject *glue;
    PyObject *arrays; /* Those of the dump that is being filled; they keep its memory. */
};

static const struct {
    const char *name;
    int code;
} KNOWN[] = {
    {"DumpFailed", WATTIO_DUMP_FAILED},
    {"InputError", WATTIO_INPUT},
    {"HostError", WATTIO_HOST},
};

static char error_text[4096];
static char *account_text;

const char *wattio_error(void)
{
    return error_text;
}

/* The Python error that is set, which is then set no more. */
static PyObject *take_error(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL)
        PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
#endif
}

static int code_of(PyObject *error)
{
    int code = WATTIO_OTHER;
    PyObject *errors = PyImport_ImportModule("wattio.errors");
    for (size_t at = 0; errors != NULL && at < sizeof KNOWN / sizeof *KNOWN; at++) {
        PyObject *known = PyObject_GetAttrString(errors, KNOWN[at].name);
        if (known != NULL && PyErr_GivenExceptionMatches(error, known))
            code = KNOWN[at].code;
        Py_XDECREF(known);
    }
    Py_XDECREF(errors);
    PyErr_Clear();
    return code;
}

/* Turn the Python error that is set into a code and a text. */
static int tell(void)
{
    PyObject *error = take_error();
    int code = code_of(error);
    PyObject *words = PyObject_Str(error);
    const char *text = words == NULL ? NULL : PyUnicode_AsUTF8(words);
    if (text == NULL)
        text = "its text cannot be shown";
    if (code == WATTIO_OTHER) {
        snprintf(error_text, sizeof error_text, "%s: %s", Py_TYPE(error)->tp_name, text);
        PyObject *trace = PyException_GetTraceback(error);
        PyErr_Display((PyObject *)Py_TYPE(error), error, trace);
        Py_XDECREF(trace);
    } else {
        snprintf(error_text, sizeof error_text, "%s", text);
    }
    Py_XDECREF(words);
    Py_DECREF(error);
    PyErr_Clear();
    return code;
}

static int no_session(void)
{
    snprintf(error_text, sizeof error_text, "there is no session: wattio_start failed");
    return WATTIO_INPUT;
}

/* Without these signals, as in Python's own programs: a peer that is gone, or a file that may not
 * grow, is an error of a call and no reason to die. What the program handles stays.
 */
static void ignore(int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        signal(number, SIG_IGN);
}

static int start_python(void)
{
    if (Py_IsInitialized())
        return WATTIO_OK;
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    config.install_signal_handlers = 0;
    config.configure_c_stdio = 0;
    /* Its place tells Python which environment it is of. */
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, WATTIO_PYTHON);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        snprintf(error_text, sizeof error_text, "%s cannot be started: %s", WATTIO_PYTHON,
                 status.err_msg == NULL ? "no reason is given" : status.err_msg);
        return WATTIO_HOST;
    }
    ignore(SIGPIPE);
    ignore(SIGXFSZ);
    PyEval_SaveThread();
    return WATTIO_OK;
}

static PyObject *load_glue(void)
{
    PyObject *code = Py_CompileString(GLUE, "<wattio_hpcio>", Py_file_input);
    PyObject *glue = code == NULL ? NULL : PyImport_ExecCodeModule("wattio_hpcio_c", code);
    Py_XDECREF(code);
    return glue;
}

int wattio_start(MPI_Fint comm, const char *config, wattio_session **session)
{
    *session = NULL;
    int code = start_python();
    if (code != WATTIO_OK)
        return code;
    PyGILState_STATE held = PyGILState_Ensure();
    wattio_session *begun = calloc(1, sizeof *begun);
    if (begun == NULL)
        PyErr_NoMemory();
    else if ((begun->glue = load_glue()) != NULL && (begun->arrays = PyList_New(0)) != NULL)
        begun->session = PyObject_CallMethod(begun->glue, "start", "is", (int)comm, config);
    if (begun != NULL && begun->session != NULL) {
        *session = begun;
    } else {
        code = tell();
        if (begun != NULL) {
            Py_XDECREF(begun->arrays);
            Py_XDECREF(begun->glue);
        }
        free(begun);
    }
    PyGILState_Release(held);
    return code;
}

int wattio_is_writer(const wattio_session *session)
{
    if (session == NULL)
        return 0;
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *answer = PyObject_GetAttrString(session->session, "is_writer");
    int writer = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    PyGILState_Release(held);
    return writer;
}

MPI_Fint wattio_compute_comm(const wattio_session *session)
{
    MPI_Fint found = MPI_Comm_c2f(MPI_COMM_NULL);
    if (session == NULL)
        return found;
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *comm = PyObject_GetAttrString(session->session, "compute_comm");
    PyObject *number = comm == NULL ? NULL : PyObject_CallMethod(comm, "py2f", NULL);
    if (number != NULL)
        found = (MPI_Fint)PyLong_AsLong(number);
    Py_XDECREF(number);
    Py_XDECREF(comm);
    PyErr_Clear();
    PyGILState_Release(held);
    return found;
}

/* A tuple of extents; None where there are none. */
static PyObject *extents(int ndim, const int64_t *values)
{
    if (values == NULL)
        return Py_NewRef(Py_None);
    PyObject *found = PyTuple_New(ndim);
    for (int at = 0; found != NULL && at < ndim; at++) {
        PyObject *value = PyLong_FromLongLong(values[at]);
        if (value == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, at, value);
    }
    return found;
}

/* Where an array's data begin, which last until the dump ends; NULL with a Python error. */
static void *keep(wattio_session *session, PyObject *array)
{
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0)
        return NULL;
    void *data = view.buf;
    PyBuffer_Release(&view);
    return PyList_Append(session->arrays, array) < 0 ? NULL : data;
}

int wattio_allocate(wattio_session *session, const char *name, int ndim, const int64_t *shape,
                    const char *type, const int64_t *global_shape, const int64_t *offset,
                    void **data)
{
    *data = NULL;
    if (session == NULL)
        return no_session();
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *own = extents(ndim, shape);
    PyObject *whole = extents(ndim, global_shape);
    PyObject *start = extents(ndim, offset);
    PyObject *array = NULL;
    if (own != NULL && whole != NULL && start != NULL)
        array = PyObject_CallMethod(session->session, "allocate", "sOsOO", name, own, type, whole,
                                    start);
    if (array != NULL)
        *data = keep(session, array);
    int code = PyErr_Occurred() == NULL ? WATTIO_OK : tell();
    Py_XDECREF(array);
    Py_XDECREF(start);
    Py_XDECREF(whole);
    Py_XDECREF(own);
    PyGILState_Release(held);
    return code;
}

int wattio_end_dump(wattio_session *session, int64_t step)
{
    if (session == NULL)
        return no_session();
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *done = PyObject_CallMethod(session->session, "end_dump", "L", (long long)step);
    int code = done == NULL ? tell() : WATTIO_OK;
    Py_XDECREF(done);
    if (PyList_SetSlice(session->arrays, 0, PyList_GET_SIZE(session->arrays), NULL) < 0)
        code = tell();
    PyGILState_Release(held);
    return code;
}

/* Keep the account's text; NULL where there is none. The session has closed: this only asks. */
static const char *keep_account(const wattio_session *session)
{
    PyObject *text = PyObject_CallMethod(session->glue, "account", "O", session->session);
    const char *shown = text == NULL ? NULL : PyUnicode_AsUTF8(text);
    free(account_text);
    account_text = shown == NULL ? NULL : strdup(shown);
    Py_XDECREF(text);
    PyErr_Clear();
    return account_text;
}

int wattio_close(wattio_session *session, const char **account)
{
    if (account != NULL)
        *account = NULL;
    if (session == NULL)
        return no_session();
    PyGILState_STATE held = PyGILState_Ensure();
    PyObject *done = PyObject_CallMethod(session->session, "close", NULL);
    int code = done == NULL ? tell() : WATTIO_OK;
    if (account != NULL && (code == WATTIO_OK || code == WATTIO_DUMP_FAILED))
        *account = keep_account(session);
    Py_XDECREF(done);
    Py_DECREF(session->arrays);
    Py_DECREF(session->session);
    Py_DECREF(session->glue);
    free(session);
    PyGILState_Release(held);
    return code;
}
