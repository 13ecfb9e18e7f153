/* wattio_io: output of parallel simulations by time partitioning, dedicated cores or dedicated nodes.
 *
 *     wattio_io *io;
 *     check(wattio_io_open_mpi(MPI_COMM_WORLD, "hpcio.toml", &io, &comm));   (wattio_io_mpi.h)
 *     check(wattio_io_variable(io, "u", WATTIO_IO_FLOAT64, 2, count, whole, offset, &u));
 *     for (...) {
 *         check(wattio_io_begin_step(io, step));
 *         check(wattio_io_put(io, u, field, WATTIO_IO_SYNC));
 *         check(wattio_io_end_step(io));
 *     }
 *     check(wattio_io_close(&io, NULL, 0, NULL));
 *
 * Calls return WATTIO_IO_OK or why not; `wattio_io_error` has the text. A handle may be used by several
 * threads, one call at a time takes effect. A failure that the program does not handle has to end all
 * ranks: MPI_Abort. After WATTIO_IO_STEP_FAILED it may go on.
 */
#ifndef WATTIO_IO_H
#define WATTIO_IO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WATTIO_IO_OK = 0,
    WATTIO_IO_STEP_FAILED = 1, /* Steps did not reach their files; the program may go on. */
    WATTIO_IO_INPUT = 2,       /* An argument, the order of calls or the configuration is wrong. */
    WATTIO_IO_HOST = 3,        /* The machine lacks something, or a writer has died. */
    WATTIO_IO_TIMED_OUT = 4,   /* A wait has ended before what was waited for came. */
    WATTIO_IO_INTERNAL = 5     /* A fault within the library. */
};

/* What elements are. */
enum {
    WATTIO_IO_INT8 = 1,
    WATTIO_IO_INT16 = 2,
    WATTIO_IO_INT32 = 3,
    WATTIO_IO_INT64 = 4,
    WATTIO_IO_UINT8 = 5,
    WATTIO_IO_UINT16 = 6,
    WATTIO_IO_UINT32 = 7,
    WATTIO_IO_UINT64 = 8,
    WATTIO_IO_FLOAT32 = 9,
    WATTIO_IO_FLOAT64 = 10
};

/* When data that are put are read. */
enum {
    WATTIO_IO_SYNC = 0,    /* At once: they may change when the call is back. */
    WATTIO_IO_DEFERRED = 1 /* When the step ends: they must be there, unchanged, until then. */
};

/* In place of a variable: the step that has begun. */
#define WATTIO_IO_STEP (-1)

typedef struct wattio_io wattio_io;

/* Open without MPI: the ranks of one node meet their writer at the path of a socket. The first one
 * starts the writer, where a launcher has not (`wattio-io-writer serve`). Where it fails, `*io` is
 * NULL; so with the other ways to open.
 */
int wattio_io_open(const char *config, const char *path, int64_t rank, int64_t ranks,
                   wattio_io **io);

/* The ranks' own communication, for MPI (see wattio_io_mpi.h) or something else. All but send, receive
 * and abort are collective; they return 0, or any code where they failed. `abort` ends all ranks, and
 * may be called by another thread at any time; the others are called within wattio_io's calls only.
 */
typedef struct wattio_io_peers {
    void *context;
    int64_t rank;
    int64_t size;
    int64_t machine; /* The same number on all ranks of a machine, another one on others. */
    int (*broadcast)(void *context, void *data, size_t bytes, int64_t root);
    int (*gather)(void *context, const void *own, size_t bytes, void *all); /* On all ranks. */
    int (*meet)(void *context); /* A barrier that sleeps. */
    int (*send)(void *context, const void *data, size_t bytes, int64_t to);
    int (*receive)(void *context, void *data, size_t bytes, int64_t from);
    void (*abort)(void *context);
} wattio_io_peers;

/* Open on all ranks; the configuration is the path of a file, and rank 0's counts. Collective. The
 * functions must be there until the session is closed.
 */
int wattio_io_open_peers(const wattio_io_peers *peers, const char *config, wattio_io **io);

/* Whether this rank only writes: all it does then is to close, which comes back at the end of the job. */
int wattio_io_is_writer(wattio_io *io, int *yes);

/* Declare a variable: the extents of this rank's block, row-major; the extents of the global field and
 * where the block begins in it (both may be NULL). All three have `axes` extents, 0 for a single value.
 * Declared again under its name, it changes from the next step on, and its number stays.
 */
int wattio_io_variable(wattio_io *io, const char *name, int64_t type, int64_t axes,
                       const int64_t *count, const int64_t *global_shape, const int64_t *offset,
                       int64_t *variable);

/* Set an attribute of a variable (before its block of a step), as "units"; or of the step that has
 * begun, as "time" (WATTIO_IO_STEP). Text is UTF-8.
 */
int wattio_io_attribute_text(wattio_io *io, int64_t variable, const char *name, const char *value);
int wattio_io_attribute_number(wattio_io *io, int64_t variable, const char *name, double value);

/* Begin a step. All ranks that compute have the same rising steps. */
int wattio_io_begin_step(wattio_io *io, int64_t step);

/* Give the step that has begun another number, before any of its data has gone to the writer: for a
 * program that learns the number of a step with its data.
 */
int wattio_io_number_step(wattio_io *io, int64_t step);

/* Hand over a variable's block by copying it; `data` may be NULL where the block has no elements. */
int wattio_io_put(wattio_io *io, int64_t variable, const void *data, int mode);

/* Memory for a variable's block, which the writer sees: nothing is copied. It is complete when it is
 * committed, at the latest by the step's end, and must not be touched from then on. May sleep while the
 * buffer is full.
 */
int wattio_io_allocate(wattio_io *io, int64_t variable, void **data);
int wattio_io_commit(wattio_io *io, int64_t variable);

/* Keep the memory that blocks are allocated in where it is, beyond the session's end, until it is freed:
 * for languages in which a block may still be looked at then. NULL where blocks are sent to another node.
 */
typedef struct wattio_io_memory wattio_io_memory;
int wattio_io_keep_memory(wattio_io *io, wattio_io_memory **kept);
void wattio_io_free_memory(wattio_io_memory *kept);

/* End the step. WATTIO_IO_STEP_FAILED tells of a step, mostly one before, that did not reach its file
 * and of which no call has told; this one is handed over all the same.
 */
int wattio_io_end_step(wattio_io *io);

/* Wait until all steps that were handed over are written. */
int wattio_io_flush(wattio_io *io);

/* Whether a step is whole on all ranks and visible; with `sync = true`, on the disk. WATTIO_IO_STEP_FAILED
 * where it never will be. To wait for it: so many seconds, or below 0 as long as it takes.
 */
int wattio_io_is_durable(wattio_io *io, int64_t step, int *yes);
int wattio_io_wait_durable(wattio_io *io, int64_t step, double seconds);

/* Wait until all is written, and end; `*io` is NULL then, whatever is returned. Collective. Steps that
 * failed and of which no call has told are told here, on all ranks alike. The report, JSON text, goes to
 * `report` as far as `bytes` allow; `needed` bytes hold all of it. Both may be NULL. A step that has begun,
 * and into which something was put, has failed if it was not ended.
 */
int wattio_io_close(wattio_io **io, char *report, size_t bytes, size_t *needed);

/* Close every session that this process has open, as a program does that ends early; no other thread uses
 * one meanwhile. Collective. MPI_Finalize does it for sessions of wattio_io_open_mpi that were not closed.
 */
int wattio_io_close_all(void);

/* Descriptions for Damaris, for wattio_damaris.c: the calls of wattio_damaris.h are what programs use. */
typedef struct wattio_io_damaris wattio_io_damaris;
int wattio_io_damaris_read(const char *file, wattio_io_damaris **damaris);
void wattio_io_damaris_free(wattio_io_damaris *damaris);
int wattio_io_damaris_defines(wattio_io_damaris *damaris, const char *name, int parameter);
int wattio_io_damaris_parameter(wattio_io_damaris *damaris, const char *name, void *buffer,
                                size_t bytes, int set);
int wattio_io_damaris_position(wattio_io_damaris *damaris, const char *name, int32_t block,
                               const int64_t *position);
int wattio_io_damaris_write(wattio_io_damaris *damaris, wattio_io *io, const char *name,
                            int32_t block, const void *data);
int wattio_io_damaris_allocate(wattio_io_damaris *damaris, wattio_io *io, const char *name,
                               int32_t block, void **data);

/* What went wrong in this thread's call that failed last; valid until the next that fails. */
const char *wattio_io_error(void);

/* All of the report of this thread's close that was last; valid until the next. */
const char *wattio_io_report(void);

const char *wattio_io_version(void);

#ifdef __cplusplus
}
#endif

#endif
