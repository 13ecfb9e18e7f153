/* The MPI calls of advect_f.f90, for an MPI without a Fortran module, as the one of PyPI is. A program
 * whose MPI has one says `use mpi` and does without this.
 */
#include <mpi.h>

int ring_begin(void);
void ring_place(int comm, int *rank, int *ranks);
void ring_pass_on(int comm, int to, int from, const double *out, double *in, int count);
void ring_abort(int code);
void ring_end(void);

int ring_begin(void)
{
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    return MPI_Comm_c2f(MPI_COMM_WORLD);
}

void ring_place(int comm, int *rank, int *ranks)
{
    MPI_Comm_rank(MPI_Comm_f2c(comm), rank);
    MPI_Comm_size(MPI_Comm_f2c(comm), ranks);
}

void ring_pass_on(int comm, int to, int from, const double *out, double *in, int count)
{
    MPI_Sendrecv(out, count, MPI_DOUBLE, to, 0, in, count, MPI_DOUBLE, from, 0, MPI_Comm_f2c(comm),
                 MPI_STATUS_IGNORE);
}

void ring_abort(int code)
{
    MPI_Abort(MPI_COMM_WORLD, code);
}

void ring_end(void)
{
    MPI_Finalize();
}
