/* A simulation in a step that takes for ever and calls nothing; its first dump is whole before. */
#include "wattio_hpcio.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    const int64_t shape[] = {1};
    int level;
    wattio_session *session;
    void *block;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (wattio_start(MPI_Comm_c2f(MPI_COMM_WORLD), argv[1], &session) ||
        wattio_allocate(session, "u", 1, shape, "f8", NULL, NULL, &block))
        MPI_Abort(MPI_COMM_WORLD, 1);
    *(double *)block = 1;
    if (wattio_end_dump(session, 0))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (;;)
        pause();
}
