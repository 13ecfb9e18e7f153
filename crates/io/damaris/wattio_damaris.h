/* The calls of Damaris that simulations use, by wattio_io: a program that is described for Damaris hands
 * its data over to our writers. Build wattio_damaris.c and wattio_io_mpi.c with it, and include this file
 * in place of Damaris.h; or put its folder first on the include path, where Damaris.h is this file.
 *
 * Calls return DAMARIS_OK or below 0; `damaris_error` has the text. Names of variables have their groups
 * before them, "group/name". Iterations are counted from 0 and become steps.
 */
#ifndef WATTIO_DAMARIS_H
#define WATTIO_DAMARIS_H

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DAMARIS_OK = 0,
    DAMARIS_ERROR_UNKNOWN = -1,
    DAMARIS_INIT_ERROR = -2,
    DAMARIS_NOT_INITIALIZED = -3,
    DAMARIS_UNDEFINED_PARAMETER = -4,
    DAMARIS_UNDEFINED_VARIABLE = -5,
    DAMARIS_ALLOCATION_ERROR = -6,
    DAMARIS_CORE_IS_SERVER = -7,
    DAMARIS_NO_SERVER = -8 /* Time partitioning; is_client is true then. Never returned here. */
};

int damaris_initialize(const char *file, MPI_Comm comm);

/* Ranks that only write come back at the end of the job, with `is_client` 0. Collective. */
int damaris_start(int *is_client);
int damaris_client_comm_get(MPI_Comm *comm);

int damaris_parameter_get(const char *name, void *buffer, unsigned int bytes);
int damaris_parameter_set(const char *name, const void *buffer, unsigned int bytes);

/* Where a block begins in the global field, in elements: as many numbers as the layout has extents. */
int damaris_set_position(const char *variable, const int64_t *position);
int damaris_set_block_position(const char *variable, int32_t block, const int64_t *position);

int damaris_write(const char *variable, const void *data);
int damaris_write_block(const char *variable, int32_t block, const void *data);

/* Memory to be filled in place, complete when it is committed; NULL for a variable that is not enabled, and
 * memory that is not written for one of no store, where others have one.
 * Not for layouts with ghost zones, which `damaris_write` leaves out.
 */
int damaris_alloc(const char *variable, void **data);
int damaris_alloc_block(const char *variable, int32_t block, void **data);
int damaris_commit(const char *variable);
int damaris_commit_block(const char *variable, int32_t block);
int damaris_clear(const char *variable);

int damaris_get_iteration(int *iteration);
int damaris_end_iteration(void);

/* Signals are for plugins of Damaris's servers: accepted, and of no effect. */
int damaris_signal(const char *name);

int damaris_stop(void);
int damaris_finalize(void);

/* What went wrong in the call that failed last. */
const char *damaris_error(void);

#ifdef __cplusplus
}
#endif

#endif
