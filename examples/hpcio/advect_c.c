/* A field carried around a ring of ranks, one row each step, and written by wattio.
 *
 *     mpirun -n 4 ./advect_c hpcio.toml 30 10
 *
 * After `step` steps, row y of the global field is row y - step of the first one.
 */
#include "wattio_hpcio.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NY = 37, NX = 20 };

/* End all ranks on a failure: one that only left would keep the others waiting. */
static void check(int code)
{
    if (code != WATTIO_OK) {
        fprintf(stderr, "advect_c: %s\n", wattio_error());
        MPI_Abort(MPI_COMM_WORLD, code);
    }
}

static void dump(wattio_session *session, int step, const double *u, int64_t first, int64_t rows)
{
    const int64_t shape[] = {rows, NX}, whole[] = {NY, NX}, offset[] = {first, 0};
    void *block;
    check(wattio_allocate(session, "u", 2, shape, "f8", whole, offset, &block));
    memcpy(block, u, (size_t)rows * NX * sizeof *u);
    check(wattio_end_dump(session, step));
}

/* `u` has one row more than this rank owns, before the others: the last row of the rank before. */
static void advance(MPI_Comm comm, int rank, int size, double *u, int64_t rows)
{
    MPI_Sendrecv(u + rows * NX, NX, MPI_DOUBLE, (rank + 1) % size, 0, u, NX, MPI_DOUBLE,
                 (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
    memmove(u + NX, u, (size_t)rows * NX * sizeof *u);
}

static void simulate(wattio_session *session, int steps, int every)
{
    /* From here on, this one instead of MPI_COMM_WORLD. */
    MPI_Comm comm = MPI_Comm_f2c(wattio_compute_comm(session));
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int64_t first = (int64_t)NY * rank / size, rows = (int64_t)NY * (rank + 1) / size - first;
    double *u = malloc((size_t)(rows + 1) * NX * sizeof *u);
    if (u == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int64_t at = 0; at < rows * NX; at++)
        u[NX + at] = 0.5 * (double)(first * NX + at);
    for (int step = 0; step <= steps; step++) {
        if (step % every == 0)
            dump(session, step, u + NX, first, rows);
        advance(comm, rank, size, u, rows);
    }
    free(u);
}

int main(int argc, char **argv)
{
    int level, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 4) {
        fprintf(stderr, "usage: advect_c CONFIG STEPS EVERY\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    wattio_session *session;
    const char *account;
    check(wattio_start(MPI_Comm_c2f(MPI_COMM_WORLD), argv[1], &session));
    if (!wattio_is_writer(session))
        simulate(session, atoi(argv[2]), atoi(argv[3]));
    check(wattio_close(session, &account));
    if (rank == 0)
        printf("%s\n", account);
    MPI_Finalize();
    return 0;
}
