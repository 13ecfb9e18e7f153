/* wattio_io for ranks of MPI. This part is source: build wattio_io_mpi.c with your program, by the
 * compiler of the MPI in use.
 */
#ifndef WATTIO_IO_MPI_H
#define WATTIO_IO_MPI_H

#include "wattio_io.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Open on all ranks of a communicator, after MPI_Init; collective. `config` is the path of a file, and
 * rank 0's counts. `compute` becomes the communicator of the ranks that compute, MPI_COMM_NULL on those
 * that only write; it is the program's to free.
 */
int wattio_io_open_mpi(MPI_Comm comm, const char *config, wattio_io **io, MPI_Comm *compute);

/* The same for handles of Fortran. */
int wattio_io_open_mpi_f(MPI_Fint comm, const char *config, wattio_io **io, MPI_Fint *compute);

#ifdef __cplusplus
}
#endif

#endif
