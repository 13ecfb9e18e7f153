/* What a rank that links libwattio_io is blocked for, and what it costs it: one line of numbers for each
 * dump, "copy memcpy-s copy-s place-s", after "open s private-kib". Then it waits for the end of its input
 * with its writer idle.
 *
 *     io_ranks CONFIG PATH MIB VARIABLES DUMPS
 */
#include "wattio_io.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void check(int code)
{
    if (code == WATTIO_IO_OK)
        return;
    fprintf(stderr, "io_ranks: %s\n", wattio_io_error());
    exit(code);
}

static double now(void)
{
    struct timespec found;
    clock_gettime(CLOCK_MONOTONIC, &found);
    return (double)found.tv_sec + 1e-9 * (double)found.tv_nsec;
}

/* Memory that is this process's alone. */
static long private_kib(void)
{
    char line[256];
    long found = 0, part;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Private_Clean: %ld", &part) == 1 ||
            sscanf(line, "Private_Dirty: %ld", &part) == 1)
            found += part;
    if (file != NULL)
        fclose(file);
    return found;
}

int main(int argc, char **argv)
{
    wattio_io *io;
    int64_t id[64];
    char name[32];

    if (argc != 6)
        return 2;
    size_t bytes = (size_t)atol(argv[3]) << 20;
    int variables = atoi(argv[4]), dumps = atoi(argv[5]);
    size_t each = bytes / (size_t)variables / sizeof(double);
    long before = private_kib();
    double began = now();
    check(wattio_io_open(argv[1], argv[2], 0, 1, &io));
    double opened = now() - began;
    /* The memory that is shared with the writer is none of its own. */
    printf("open %.6f %ld\n", opened, private_kib() - before);
    for (int at = 0; at < variables; at++) {
        int64_t count[] = {(int64_t)each};
        snprintf(name, sizeof name, "v%d", at);
        check(wattio_io_variable(io, name, WATTIO_IO_FLOAT64, 1, count, NULL, NULL, &id[at]));
    }
    double *field = malloc(bytes), *other = malloc(bytes);
    memset(other, 1, bytes);
    for (int dump = 0; dump < dumps; dump++) {
        for (size_t at = 0; at < bytes / sizeof *field; at++)
            field[at] = (double)(at + (size_t)dump);
        began = now();
        memcpy(other, field, bytes);
        double copied = now() - began;
        began = now();
        check(wattio_io_begin_step(io, 2 * dump));
        for (int at = 0; at < variables; at++)
            check(wattio_io_put(io, id[at], field + (size_t)at * each, WATTIO_IO_SYNC));
        check(wattio_io_end_step(io));
        double put = now() - began;
        check(wattio_io_flush(io));
        /* In place: what is timed are the calls, not what fills the memory. */
        double placed = 0;
        void *block;
        began = now();
        check(wattio_io_begin_step(io, 2 * dump + 1));
        for (int at = 0; at < variables; at++) {
            check(wattio_io_allocate(io, id[at], &block));
            placed += now() - began;
            memcpy(block, field + (size_t)at * each, each * sizeof *field);
            /* What it stores is on its way for a while, and the lock of the next call would wait for it. */
            atomic_thread_fence(memory_order_seq_cst);
            began = now();
            check(wattio_io_commit(io, id[at]));
        }
        check(wattio_io_end_step(io));
        placed += now() - began;
        check(wattio_io_flush(io));
        printf("dump %.9f %.9f %.9f\n", copied, put, placed);
    }
    fflush(stdout);
    while (getchar() != EOF)
        ;
    check(wattio_io_close(&io, NULL, 0, NULL));
    free(field);
    free(other);
    return 0;
}
