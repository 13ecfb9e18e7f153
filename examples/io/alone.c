/* Ranks of one node that know nothing of MPI: processes that meet their writer at a path.
 *
 *     for rank in 0 1 2; do ./alone hpcio.toml /tmp/job.sock $rank 3 & done; wait
 */
#include "wattio_io.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 10, COLUMNS = 20 };

static void check(int code)
{
    if (code == WATTIO_IO_OK)
        return;
    fprintf(stderr, "alone: %s\n", wattio_io_error());
    exit(code);
}

int main(int argc, char **argv)
{
    wattio_io *io;
    int64_t rank, ranks, id;

    if (argc != 5) {
        fprintf(stderr, "usage: alone CONFIG PATH RANK RANKS\n");
        return 2;
    }
    rank = atoll(argv[3]);
    ranks = atoll(argv[4]);
    check(wattio_io_open(argv[1], argv[2], rank, ranks, &io));
    int64_t count[] = {ROWS, COLUMNS}, whole[] = {ROWS * ranks, COLUMNS};
    int64_t offset[] = {ROWS * rank, 0};
    check(wattio_io_variable(io, "u", WATTIO_IO_FLOAT64, 2, count, whole, offset, &id));
    for (int step = 0; step < 3; step++) {
        void *block; /* In the memory that the writer sees: nothing is copied. */
        check(wattio_io_begin_step(io, step));
        check(wattio_io_allocate(io, id, &block));
        for (int at = 0; at < ROWS * COLUMNS; at++)
            ((double *)block)[at] = (double)(step * 1000 + rank * ROWS * COLUMNS + at);
        check(wattio_io_commit(io, id));
        check(wattio_io_end_step(io));
    }
    check(wattio_io_wait_durable(io, 2, -1));
    check(wattio_io_close(&io, NULL, 0, NULL));
    return 0;
}
