/* A field carried around a ring of ranks, one row each step, and written by wattio_io.
 *
 *     mpirun -n 4 ./advect_c hpcio.toml 30 10
 *
 * After `step` steps, row y of the global field is row y - step of the first one.
 */
#include "wattio_io_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NY = 37, NX = 20 };

/* End all ranks on a failure: one that only left would keep the others waiting. */
static void check(int code)
{
    if (code == WATTIO_IO_OK)
        return;
    fprintf(stderr, "advect_c: %s\n", wattio_io_error());
    MPI_Abort(MPI_COMM_WORLD, code);
}

/* Carry this rank's rows on; row 0 of `u` is the last one of the rank before. */
static void simulate(wattio_io *io, MPI_Comm comm, int steps, int every)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int first = NY * rank / size, rows = NY * (rank + 1) / size - first;
    double *u = malloc((size_t)(rows + 1) * NX * sizeof *u);
    for (int at = 0; at < rows * NX; at++)
        u[NX + at] = 0.5 * (first * NX + at);

    int64_t count[] = {rows, NX}, whole[] = {NY, NX}, offset[] = {first, 0}, id;
    check(wattio_io_variable(io, "u", WATTIO_IO_FLOAT64, 2, count, whole, offset, &id));
    check(wattio_io_attribute_text(io, id, "units", "m/s"));
    for (int step = 0; step <= steps; step++) {
        if (step % every == 0) {
            check(wattio_io_begin_step(io, step));
            check(wattio_io_attribute_number(io, WATTIO_IO_STEP, "time", 0.1 * step));
            check(wattio_io_put(io, id, u + NX, WATTIO_IO_SYNC));
            check(wattio_io_end_step(io));
        }
        MPI_Sendrecv(u + rows * NX, NX, MPI_DOUBLE, (rank + 1) % size, 0, u, NX, MPI_DOUBLE,
                     (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        memmove(u + NX, u, (size_t)rows * NX * sizeof *u);
    }
    free(u);
}

int main(int argc, char **argv)
{
    wattio_io *io;
    MPI_Comm comm;
    int rank, writes, level, code;
    char report[4096];

    /* MPI_Init does, too; with this, a writer that dies ends the job by MPI_Abort. */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 4) {
        fprintf(stderr, "usage: advect_c CONFIG STEPS EVERY\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    code = wattio_io_open_mpi(MPI_COMM_WORLD, argv[1], &io, &comm);
    if (code != WATTIO_IO_OK) {
        /* All ranks know, and leave in order: launchers may lose what is printed before MPI_Abort. */
        if (rank == 0)
            fprintf(stderr, "advect_c: %s\n", wattio_io_error());
        MPI_Finalize();
        return code;
    }
    check(wattio_io_is_writer(io, &writes));
    if (!writes) {
        simulate(io, comm, atoi(argv[2]), atoi(argv[3]));
        MPI_Comm_free(&comm);
    }
    check(wattio_io_close(&io, report, sizeof report, NULL));
    if (rank == 0)
        printf("%s\n", report);
    MPI_Finalize();
    return 0;
}
