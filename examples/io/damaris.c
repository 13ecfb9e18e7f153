/* A program written for Damaris: the same calls, and the same description of its data.
 *
 *     mpirun -n 4 ./damaris damaris.xml
 *
 * Of each node's ranks, one writes (damaris.xml); row y of the global field is y + 100 * iteration.
 */
#include "Damaris.h"

#include <stdio.h>
#include <stdlib.h>

enum { ITERATIONS = 4 };

/* End all ranks on a failure: one that only left would keep the others waiting. */
static void check(int code)
{
    if (code == DAMARIS_OK)
        return;
    fprintf(stderr, "damaris: %s\n", damaris_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void simulate(MPI_Comm comm)
{
    int rank, ranks, rows, columns;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    /* The layouts of damaris.xml depend on it. */
    check(damaris_parameter_set("ranks", &ranks, sizeof ranks));
    check(damaris_parameter_get("rows", &rows, sizeof rows));
    check(damaris_parameter_get("columns", &columns, sizeof columns));
    double *u = malloc((size_t)rows * columns * sizeof *u);
    int64_t position[] = {(int64_t)rank * rows, 0};
    check(damaris_set_position("wind/u", position));
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        for (int at = 0; at < rows * columns; at++)
            u[at] = (double)(position[0] + at / columns + 100 * iteration);
        check(damaris_write("wind/u", u));
        check(damaris_end_iteration());
    }
    free(u);
}

int main(int argc, char **argv)
{
    int is_client, level;
    MPI_Comm comm;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (argc != 2) {
        fprintf(stderr, "usage: damaris FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    check(damaris_initialize(argv[1], MPI_COMM_WORLD));
    check(damaris_start(&is_client));
    if (is_client) {
        check(damaris_client_comm_get(&comm));
        simulate(comm);
        check(damaris_stop());
    }
    check(damaris_finalize());
    MPI_Finalize();
    return 0;
}
