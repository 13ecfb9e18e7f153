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
 * Calls return WATTIO_IO_OK or a code for what went wrong; `wattio_io_error` has the text. Several threads
 * may use a handle; their calls take effect one at a time, and go on while others wait for the writer: for
 * room (`allocate`, `put`, `end_step`), or until steps are written (`flush`, `wait_durable`, and `end_step`
 * with time partitioning). Nothing can be added to a step that a thread is ending. If the program does not
 * handle a failure, it must end all ranks (MPI_Abort). After WATTIO_IO_STEP_FAILED it may continue.
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
    WATTIO_IO_STEP_FAILED = 1, /* Steps did not reach their files; the program may continue. */
    WATTIO_IO_INPUT = 2,       /* An argument, the order of calls or the configuration is wrong. */
    WATTIO_IO_HOST = 3,        /* The machine lacks something, or a writer has died. */
    WATTIO_IO_TIMED_OUT = 4,   /* The time limit of a wait has expired. */
    WATTIO_IO_INTERNAL = 5     /* A fault in the library itself. */
};

/* The type of elements. */
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

/* When `put` reads the data. */
enum {
    WATTIO_IO_SYNC = 0,    /* At once: the data may change after the call returns. */
    WATTIO_IO_DEFERRED = 1 /* At the end of the step: keep the data, unchanged, until then. */
};

/* Used in place of a variable: the current step. */
#define WATTIO_IO_STEP (-1)

typedef struct wattio_io wattio_io;

/* Where a call gives something back (`io`, `yes`, `variable`, `data`, `kept`), NULL is refused with
 * WATTIO_IO_INPUT, except where a call says that it may be NULL.
 */

/* Open without MPI: the ranks of one node connect to their writer at the path of a socket. The first rank
 * starts the writer, unless a launcher has started it (`wattio-io-writer serve`). If the call fails, `*io`
 * is NULL, as with the other calls that open.
 */
int wattio_io_open(const char *config, const char *path, int64_t rank, int64_t ranks,
                   wattio_io **io);

/* Communication between the ranks, by MPI (see wattio_io_mpi.h) or something else. All functions except
 * send, receive and abort are collective. They return 0, or any other code if they fail. `abort` ends all
 * ranks, and may be called from another thread at any time; the others are only called from within
 * wattio_io's calls.
 */
typedef struct wattio_io_peers {
    void *context;
    int64_t rank;
    int64_t size;
    int64_t machine; /* The same number on all ranks of a machine, different on other machines. */
    int (*broadcast)(void *context, void *data, size_t bytes, int64_t root);
    int (*gather)(void *context, const void *own, size_t bytes, void *all); /* Result on all ranks. */
    int (*meet)(void *context); /* A barrier that sleeps. */
    int (*send)(void *context, const void *data, size_t bytes, int64_t to);
    int (*receive)(void *context, void *data, size_t bytes, int64_t from);
    void (*abort)(void *context);
} wattio_io_peers;

/* Open on all ranks. `config` is the path of a file; rank 0's is used. Collective. The functions must stay
 * valid until the session is closed; each has to be there.
 */
int wattio_io_open_peers(const wattio_io_peers *peers, const char *config, wattio_io **io);

/* Whether this rank only writes. Such a rank has only one thing to do: close, which returns at the end of
 * the job.
 */
int wattio_io_is_writer(wattio_io *io, int *yes);

/* Declare a variable. `count` has the extents of this rank's block, in row-major order; `global_shape` has
 * the extents of the global field, and `offset` the place where the block begins in it (both may be NULL).
 * Each of the three has `axes` elements; `axes` is 0 for a single value. To change a variable from the next
 * step on, declare it again under the same name; its number stays the same.
 */
int wattio_io_variable(wattio_io *io, const char *name, int64_t type, int64_t axes,
                       const int64_t *count, const int64_t *global_shape, const int64_t *offset,
                       int64_t *variable);

/* Set an attribute of a variable, such as "units" (before its block of a step), or of the current step, such
 * as "time" (WATTIO_IO_STEP). Text is UTF-8.
 */
int wattio_io_attribute_text(wattio_io *io, int64_t variable, const char *name, const char *value);
int wattio_io_attribute_number(wattio_io *io, int64_t variable, const char *name, double value);

/* Begin a step. All ranks that compute use the same step numbers, in ascending order. */
int wattio_io_begin_step(wattio_io *io, int64_t step);

/* Give the current step another number, before any of its data has gone to the writer: for programs that
 * learn the number of a step only with its data.
 */
int wattio_io_number_step(wattio_io *io, int64_t step);

/* Hand over a variable's block by copying it. `data` may be NULL if the block has no elements. A block that
 * is larger than the rank's share of the buffer is refused, in either mode; the step goes on without it.
 */
int wattio_io_put(wattio_io *io, int64_t variable, const void *data, int mode);

/* Get memory for a variable's block that the writer shares, so that nothing is copied. Commit the block when
 * it is complete; the end of the step commits it at the latest. Do not touch the memory after that. The call
 * may sleep while the buffer is full.
 */
int wattio_io_allocate(wattio_io *io, int64_t variable, void **data);
int wattio_io_commit(wattio_io *io, int64_t variable);

/* Keep the memory of allocated blocks in place after the end of the session, until it is freed: for languages
 * in which a block may still be accessed then. `*kept` is NULL if blocks are sent to another node.
 */
typedef struct wattio_io_memory wattio_io_memory;
int wattio_io_keep_memory(wattio_io *io, wattio_io_memory **kept);
void wattio_io_free_memory(wattio_io_memory *kept);

/* End the step. WATTIO_IO_STEP_FAILED reports a step, usually an earlier one, that did not reach its file and
 * that no call has reported yet; the current step is handed over all the same. With WATTIO_IO_INPUT the step
 * has not ended, and has lost nothing: deferred data did not fit beside blocks that are not committed. Commit
 * them and call again; keep the deferred data until then.
 */
int wattio_io_end_step(wattio_io *io);

/* Wait until all steps handed over before the call are written. */
int wattio_io_flush(wattio_io *io);

/* Whether a step is complete on all ranks and visible and, with `sync = true`, on the disk.
 * WATTIO_IO_STEP_FAILED if it never will be. `wait_durable` waits for this: at most `seconds`, or without
 * limit if `seconds` is below 0 or infinite.
 */
int wattio_io_is_durable(wattio_io *io, int64_t step, int *yes);
int wattio_io_wait_durable(wattio_io *io, int64_t step, double seconds);

/* Wait until everything is written, and end the session; `*io` is then NULL, whatever the call returns.
 * Collective. Failed steps that no call has reported yet are reported here, the same on all ranks. The
 * report, JSON text, is written to `report`, up to `bytes`; the whole report needs `needed` bytes. Both may
 * be NULL. A step that was begun but not ended has failed if anything was put into it.
 */
int wattio_io_close(wattio_io **io, char *report, size_t bytes, size_t *needed);

/* Close every session that this process has open, for a program that ends early. No other thread may use a
 * session meanwhile. Collective. MPI_Finalize does this for sessions of wattio_io_open_mpi that are still
 * open.
 */
int wattio_io_close_all(void);

/* Damaris descriptions, for wattio_damaris.c only: programs use the calls in wattio_damaris.h. */
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

/* For parts that are built with the program, such as wattio_io_mpi.c: make this the text of this thread's
 * last failed call, and return the code that belongs to it, WATTIO_IO_INPUT or WATTIO_IO_HOST.
 */
int wattio_io_fail(int code, const char *text);

/* The error text of this thread's last failed call; valid until the next one fails. */
const char *wattio_io_error(void);

/* The whole report of this thread's last close; valid until the next close. */
const char *wattio_io_report(void);

const char *wattio_io_version(void);

#ifdef __cplusplus
}
#endif

#endif
