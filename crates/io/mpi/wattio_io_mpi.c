/* The ranks' own communication, by MPI. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* nanosleep, where the compiler keeps to C alone */
#endif
#include "wattio_io_mpi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Waits of a rank that sleeps between looks, in nanoseconds: a part of what it has waited, so that it
   comes late by no more than that part. */
#define LOOK_MIN_NS 50000L
#define LOOK_MAX_NS 10000000L
#define LOOK_PART 8

/* Bytes of one message. */
#define PIECE (1 << 30)

static int broadcast(void *context, void *data, size_t bytes, int64_t root)
{
    MPI_Comm comm = *(MPI_Comm *)context;
    if (bytes > INT_MAX)
        return MPI_ERR_COUNT;
    return MPI_Bcast(data, (int)bytes, MPI_BYTE, (int)root, comm);
}

static int gather(void *context, const void *own, size_t bytes, void *all)
{
    MPI_Comm comm = *(MPI_Comm *)context;
    if (bytes > INT_MAX)
        return MPI_ERR_COUNT;
    return MPI_Allgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm);
}

/* MPI's own barrier takes a core while it waits, which may be as long as the job. */
static int meet(void *context)
{
    MPI_Comm comm = *(MPI_Comm *)context;
    MPI_Request request;
    struct timespec pause = {0, LOOK_MIN_NS};
    long waited_ns = 0;
    int done = 0;
    int code = MPI_Ibarrier(comm, &request);
    while (code == MPI_SUCCESS && !done) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && !done) {
            nanosleep(&pause, NULL);
            if (pause.tv_nsec < LOOK_MAX_NS)
                waited_ns += pause.tv_nsec;
            if (waited_ns / LOOK_PART > LOOK_MIN_NS)
                pause.tv_nsec = waited_ns / LOOK_PART < LOOK_MAX_NS ? waited_ns / LOOK_PART
                                                                   : LOOK_MAX_NS;
        }
    }
    return code;
}

static int send(void *context, const void *data, size_t bytes, int64_t to)
{
    MPI_Comm comm = *(MPI_Comm *)context;
    int code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && bytes > 0) {
        size_t piece = bytes < PIECE ? bytes : PIECE;
        code = MPI_Send(data, (int)piece, MPI_BYTE, (int)to, 0, comm);
        data = (const char *)data + piece;
        bytes -= piece;
    }
    return code;
}

static int receive(void *context, void *data, size_t bytes, int64_t from)
{
    MPI_Comm comm = *(MPI_Comm *)context;
    int code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && bytes > 0) {
        size_t piece = bytes < PIECE ? bytes : PIECE;
        code = MPI_Recv(data, (int)piece, MPI_BYTE, (int)from, 0, comm, MPI_STATUS_IGNORE);
        data = (char *)data + piece;
        bytes -= piece;
    }
    return code;
}

static void end_all(void *context)
{
    MPI_Comm comm = *(MPI_Comm *)context;
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level == MPI_THREAD_MULTIPLE)
        MPI_Abort(comm, 1);
    /* Elsewhere another thread may not call MPI: the launcher sees that this rank has ended. */
    _exit(1);
}

/* A number that ranks of one machine share: the lowest of their ranks. */
static int machine(MPI_Comm comm, int rank, int64_t *number)
{
    MPI_Comm here;
    int first = rank;
    int code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Bcast(&first, 1, MPI_INT, 0, here);
    MPI_Comm_free(&here);
    *number = first;
    return code;
}

/* A program that ends without closing would hang: ranks that write wait for those that compute, which wait
   for them within MPI_Finalize. It deletes this attribute first of all. */
static int close_left(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int code = wattio_io_close_all();
    (void)comm, (void)keyval, (void)value, (void)extra;
    if (code != WATTIO_IO_OK)
        fprintf(stderr, "wattio_io: at MPI_Finalize: %s\n", wattio_io_error());
    return MPI_SUCCESS;
}

static void close_at_finalize(void)
{
    static int keyval = MPI_KEYVAL_INVALID;
    if (keyval == MPI_KEYVAL_INVALID &&
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close_left, &keyval, NULL) == MPI_SUCCESS)
        MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
}

int wattio_io_open_mpi(MPI_Comm comm, const char *config, wattio_io **io, MPI_Comm *compute)
{
    wattio_io_peers peers = {NULL, 0, 0, 0, broadcast, gather, meet, send, receive, end_all};
    MPI_Comm *own;
    int rank, size, writes = 0, code, kept;

    /* Of the program itself, so on all ranks. */
    if (io == NULL)
        return wattio_io_fail(WATTIO_IO_INPUT, "io is NULL");
    *io = NULL;
    if (compute == NULL)
        return wattio_io_fail(WATTIO_IO_INPUT, "compute is NULL");
    *compute = MPI_COMM_NULL;
    /* Lives as long as the program: the library may end the job at any time. */
    own = malloc(sizeof *own);
    if (own == NULL || MPI_Comm_dup(comm, own) != MPI_SUCCESS)
        return wattio_io_fail(WATTIO_IO_HOST, "the communicator cannot be duplicated");
    MPI_Comm_rank(*own, &rank);
    MPI_Comm_size(*own, &size);
    peers.context = own;
    peers.rank = rank;
    peers.size = size;
    if (machine(*own, rank, &peers.machine) != MPI_SUCCESS)
        return wattio_io_fail(WATTIO_IO_HOST, "MPI does not say which ranks share a machine");
    close_at_finalize();
    code = wattio_io_open_peers(&peers, config, io);
    if (code == WATTIO_IO_OK)
        code = wattio_io_is_writer(*io, &writes);
    /* Errors of opening are the same on all ranks. */
    kept = code == WATTIO_IO_OK ? (writes ? MPI_UNDEFINED : 0) : MPI_UNDEFINED;
    if (MPI_Comm_split(*own, kept, rank, compute) != MPI_SUCCESS)
        return wattio_io_fail(WATTIO_IO_HOST, "no communicator of the ranks that compute");
    return code;
}

int wattio_io_open_mpi_f(MPI_Fint comm, const char *config, wattio_io **io, MPI_Fint *compute)
{
    MPI_Comm found;
    int code = wattio_io_open_mpi(MPI_Comm_f2c(comm), config, io, &found);
    *compute = MPI_Comm_c2f(found);
    return code;
}
