/* The five calls of wattio's I/O middleware for C: start, allocate, end_dump, close, and the
 * communicator of the ranks that compute. Python runs inside the program; see docs/hpcio.md.
 *
 * Calls that can fail return WATTIO_OK or why not; `wattio_error` has the text. One thread at a time
 * may call. A failure that the program does not handle has to end all ranks: MPI_Abort.
 */
#ifndef WATTIO_HPCIO_H
#define WATTIO_HPCIO_H

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WATTIO_OK = 0,
    WATTIO_DUMP_FAILED = 1, /* Dumps did not reach their files; the program may go on. */
    WATTIO_INPUT = 2,       /* An argument or the configuration cannot be used. */
    WATTIO_HOST = 3,        /* The machine or the environment lacks something. */
    WATTIO_OTHER = 4        /* Anything else that Python raised; its traceback is on stderr. */
};

typedef struct wattio_session wattio_session;

/* Start on all ranks of a communicator, after MPI_Init_thread with MPI_THREAD_MULTIPLE; collective.
 * `config` is the path of a hpcio.toml. On ranks that only write, this returns when the simulation
 * has closed its session. Where it fails, `*session` is NULL.
 */
int wattio_start(MPI_Fint comm, const char *config, wattio_session **session);

/* Whether this rank only writes: it has nothing to do then but to close the session. */
int wattio_is_writer(const wattio_session *session);

/* The communicator of the ranks that compute, for MPI_Comm_f2c; MPI_COMM_NULL on the others. */
MPI_Fint wattio_compute_comm(const wattio_session *session);

/* Memory for one variable of the next dump, to be filled until `wattio_end_dump`; row-major.
 * `type` is NumPy's text: "f4", "f8", "i4", "i8". `global_shape` and `offset`, in elements, place the
 * block in the global field; both may be NULL. All three have `ndim` extents.
 */
int wattio_allocate(wattio_session *session, const char *name, int ndim, const int64_t *shape,
                    const char *type, const int64_t *global_shape, const int64_t *offset,
                    void **data);

/* Hand over what was allocated since the last dump; no pointer to it may be used any more. Called by
 * all ranks that compute, with the same rising steps.
 */
int wattio_end_dump(wattio_session *session, int64_t step);

/* Wait until all dumps are written, and free the session, whatever is returned; collective. Dumps
 * that failed and of which no call has told yet are told here, on all ranks alike. The account is
 * JSON text: of all ranks on rank 0, else of this one, valid until the next `wattio_close`. `account`
 * may be NULL.
 */
int wattio_close(wattio_session *session, const char **account);

/* What went wrong in the call that failed last. */
const char *wattio_error(void);

#ifdef __cplusplus
}
#endif

#endif
