/* Damaris's calls by those of wattio_io. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* strdup, where the compiler keeps to C alone */
#endif
#include "wattio_damaris.h"
#include "wattio_io_mpi.h"

#include <stdlib.h>
#include <string.h>

static wattio_io *io;
static wattio_io_damaris *description;
static MPI_Comm world = MPI_COMM_NULL, clients = MPI_COMM_NULL;
static char *file_name;
static int iteration, begun, stopped;

/* What is wrong with a call that came at the wrong time; NULL where the library has the text. */
static const char *untimely;

static int told(int code, int as)
{
    if (code == WATTIO_IO_OK)
        return DAMARIS_OK;
    untimely = NULL;
    return as;
}

static int not_now(void)
{
    untimely = description == NULL ? "damaris_initialize comes first"
               : stopped           ? "the session has been closed by damaris_stop"
                                   : "damaris_start comes first";
    return DAMARIS_NOT_INITIALIZED;
}

/* An argument that has to be there is not. */
static int missing(const char *what)
{
    untimely = what;
    return DAMARIS_ERROR_UNKNOWN;
}

int damaris_initialize(const char *file, MPI_Comm comm)
{
    if (io != NULL) {
        untimely = "a session is open: damaris_stop comes first";
        return DAMARIS_INIT_ERROR;
    }
    wattio_io_damaris_free(description);
    description = NULL;
    free(file_name);
    file_name = file != NULL ? strdup(file) : NULL;
    world = comm;
    iteration = begun = stopped = 0;
    return told(wattio_io_damaris_read(file, &description), DAMARIS_INIT_ERROR);
}

int damaris_start(int *is_client)
{
    int writes = 0, code;
    if (is_client == NULL)
        return missing("is_client is NULL");
    *is_client = 0;
    if (description == NULL)
        return not_now();
    code = wattio_io_open_mpi(world, file_name, &io, &clients);
    if (code == WATTIO_IO_OK)
        code = wattio_io_is_writer(io, &writes);
    if (code != WATTIO_IO_OK)
        return told(code, DAMARIS_INIT_ERROR);
    *is_client = !writes;
    /* A rank that only writes does so now, and comes back at the end. */
    if (writes) {
        stopped = 1;
        return told(wattio_io_close(&io, NULL, 0, NULL), DAMARIS_ERROR_UNKNOWN);
    }
    return DAMARIS_OK;
}

int damaris_client_comm_get(MPI_Comm *comm)
{
    if (comm == NULL)
        return missing("comm is NULL");
    *comm = clients;
    return io != NULL ? DAMARIS_OK : not_now();
}

/* Whether the description has a variable, or a parameter, of that name. */
static int defined(const char *name, int parameter)
{
    if (description == NULL)
        return not_now();
    return told(wattio_io_damaris_defines(description, name, parameter),
                parameter ? DAMARIS_UNDEFINED_PARAMETER : DAMARIS_UNDEFINED_VARIABLE);
}

static int parameter(const char *name, void *buffer, unsigned int bytes, int set)
{
    int code = defined(name, 1);
    if (code != DAMARIS_OK)
        return code;
    return told(wattio_io_damaris_parameter(description, name, buffer, bytes, set),
                DAMARIS_ERROR_UNKNOWN);
}

int damaris_parameter_get(const char *name, void *buffer, unsigned int bytes)
{
    return parameter(name, buffer, bytes, 0);
}

int damaris_parameter_set(const char *name, const void *buffer, unsigned int bytes)
{
    /* Only read: the same call gets a parameter, which is not asked for here. */
    return parameter(name, (void *)buffer, bytes, 1);
}

int damaris_set_position(const char *variable, const int64_t *position)
{
    return damaris_set_block_position(variable, 0, position);
}

int damaris_set_block_position(const char *variable, int32_t block, const int64_t *position)
{
    int code = defined(variable, 0);
    if (code != DAMARIS_OK)
        return code;
    return told(wattio_io_damaris_position(description, variable, block, position),
                DAMARIS_ERROR_UNKNOWN);
}

/* The iteration begins with its first block. */
static int begin(void)
{
    int code = begun ? WATTIO_IO_OK : wattio_io_begin_step(io, iteration);
    if (code == WATTIO_IO_OK)
        begun = 1;
    return code;
}

/* Whether a block of a variable can be handed over. */
static int ready(const char *variable)
{
    int code = io == NULL ? not_now() : defined(variable, 0);
    return code != DAMARIS_OK ? code : told(begin(), DAMARIS_ERROR_UNKNOWN);
}

int damaris_write(const char *variable, const void *data)
{
    return damaris_write_block(variable, 0, data);
}

int damaris_write_block(const char *variable, int32_t block, const void *data)
{
    int code = ready(variable);
    if (code != DAMARIS_OK)
        return code;
    return told(wattio_io_damaris_write(description, io, variable, block, data),
                DAMARIS_ERROR_UNKNOWN);
}

int damaris_alloc(const char *variable, void **data)
{
    return damaris_alloc_block(variable, 0, data);
}

int damaris_alloc_block(const char *variable, int32_t block, void **data)
{
    int code;
    if (data == NULL)
        return missing("data is NULL");
    *data = NULL;
    code = ready(variable);
    if (code != DAMARIS_OK)
        return code;
    return told(wattio_io_damaris_allocate(description, io, variable, block, data),
                DAMARIS_ALLOCATION_ERROR);
}

int damaris_commit(const char *variable)
{
    return damaris_commit_block(variable, 0);
}

int damaris_commit_block(const char *variable, int32_t block)
{
    /* Complete at the iteration's end, as all that was allocated. */
    (void)block;
    return io != NULL ? defined(variable, 0) : not_now();
}

int damaris_clear(const char *variable)
{
    return io != NULL ? defined(variable, 0) : not_now();
}

int damaris_get_iteration(int *found)
{
    if (found == NULL)
        return missing("iteration is NULL");
    *found = iteration;
    return io != NULL ? DAMARIS_OK : not_now();
}

int damaris_end_iteration(void)
{
    int code;
    if (io == NULL)
        return not_now();
    /* One without data, too: all ranks have the same steps. */
    code = begin();
    if (code == WATTIO_IO_OK)
        code = wattio_io_end_step(io);
    begun = 0;
    iteration++;
    return told(code, DAMARIS_ERROR_UNKNOWN);
}

int damaris_signal(const char *name)
{
    (void)name;
    return io != NULL ? DAMARIS_OK : not_now();
}

int damaris_stop(void)
{
    int code;
    if (io == NULL)
        return stopped ? DAMARIS_OK : not_now();
    code = wattio_io_close(&io, NULL, 0, NULL);
    if (clients != MPI_COMM_NULL)
        MPI_Comm_free(&clients);
    stopped = 1;
    return told(code, DAMARIS_ERROR_UNKNOWN);
}

int damaris_finalize(void)
{
    int code = io != NULL ? damaris_stop() : DAMARIS_OK;
    wattio_io_damaris_free(description);
    description = NULL;
    free(file_name);
    file_name = NULL;
    return code;
}

const char *damaris_error(void)
{
    return untimely != NULL ? untimely : wattio_io_error();
}
