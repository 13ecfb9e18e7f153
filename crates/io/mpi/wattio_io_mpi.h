/* wattio_io for MPI. This part comes as source: build wattio_io_mpi.c with your program, using the compiler
 * of your MPI.
 */
#ifndef WATTIO_IO_MPI_H
#define WATTIO_IO_MPI_H

#include "wattio_io.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Open on all ranks of a communicator, after MPI_Init. Collective. `config` is the path of a file; rank 0's
 * is used. `compute` becomes the communicator of the ranks that compute, or MPI_COMM_NULL on ranks that only
 * write; the program has to free it.
 */
int wattio_io_open_mpi(MPI_Comm comm, const char *config, wattio_io **io, MPI_Comm *compute);

/* The same with Fortran handles. */
int wattio_io_open_mpi_f(MPI_Fint comm, const char *config, wattio_io **io, MPI_Fint *compute);

#ifdef __cplusplus
}
#endif

#endif
