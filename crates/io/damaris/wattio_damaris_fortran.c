/* Damaris's calls as Fortran programs make them: `call damaris_write_f("u", u, ierr)`. Names end in one
 * underscore and lengths of texts follow the arguments, as compilers on Linux have it; where yours does
 * otherwise, build this with -DWATTIO_FORTRAN(name)=... .
 */
#include "wattio_damaris.h"

#include <stdlib.h>
#include <string.h>

#ifndef WATTIO_FORTRAN
#define WATTIO_FORTRAN(name) name##_
#endif

/* A text of Fortran, without the blanks that fill it up; the caller's to free, NULL without memory. */
static char *copied(const char *text, size_t length)
{
    char *found;
    while (length > 0 && text[length - 1] == ' ')
        length--;
    found = malloc(length + 1);
    if (found != NULL) {
        memcpy(found, text, length);
        found[length] = '\0';
    }
    return found;
}

/* Run a call with a text in C's form. */
#define WITH(text, length, error, call)                                                            \
    do {                                                                                           \
        char *name = copied(text, length);                                                         \
        *(error) = name != NULL ? (call) : DAMARIS_ALLOCATION_ERROR;                               \
        free(name);                                                                                \
    } while (0)

void WATTIO_FORTRAN(damaris_initialize_f)(const char *file, const MPI_Fint *comm, int *error,
                                          size_t length)
{
    WITH(file, length, error, damaris_initialize(name, MPI_Comm_f2c(*comm)));
}

void WATTIO_FORTRAN(damaris_start_f)(int *is_client, int *error)
{
    *error = damaris_start(is_client);
}

void WATTIO_FORTRAN(damaris_client_comm_get_f)(MPI_Fint *comm, int *error)
{
    MPI_Comm found;
    *error = damaris_client_comm_get(&found);
    *comm = MPI_Comm_c2f(found);
}

void WATTIO_FORTRAN(damaris_parameter_get_f)(const char *parameter, void *buffer, const int *bytes,
                                             int *error, size_t length)
{
    WITH(parameter, length, error, damaris_parameter_get(name, buffer, (unsigned int)*bytes));
}

void WATTIO_FORTRAN(damaris_parameter_set_f)(const char *parameter, const void *buffer,
                                             const int *bytes, int *error, size_t length)
{
    WITH(parameter, length, error, damaris_parameter_set(name, buffer, (unsigned int)*bytes));
}

void WATTIO_FORTRAN(damaris_set_position_f)(const char *variable, const int64_t *position, int *error,
                                            size_t length)
{
    WITH(variable, length, error, damaris_set_position(name, position));
}

void WATTIO_FORTRAN(damaris_set_block_position_f)(const char *variable, const int32_t *block,
                                                  const int64_t *position, int *error, size_t length)
{
    WITH(variable, length, error, damaris_set_block_position(name, *block, position));
}

void WATTIO_FORTRAN(damaris_write_f)(const char *variable, const void *data, int *error, size_t length)
{
    WITH(variable, length, error, damaris_write(name, data));
}

void WATTIO_FORTRAN(damaris_write_block_f)(const char *variable, const int32_t *block, const void *data,
                                           int *error, size_t length)
{
    WITH(variable, length, error, damaris_write_block(name, *block, data));
}

/* A function, type(c_ptr), in Fortran. */
void *WATTIO_FORTRAN(damaris_alloc_f)(const char *variable, int *error, size_t length)
{
    void *data = NULL;
    WITH(variable, length, error, damaris_alloc(name, &data));
    return data;
}

void *WATTIO_FORTRAN(damaris_alloc_block_f)(const char *variable, const int32_t *block, int *error,
                                            size_t length)
{
    void *data = NULL;
    WITH(variable, length, error, damaris_alloc_block(name, *block, &data));
    return data;
}

void WATTIO_FORTRAN(damaris_commit_f)(const char *variable, int *error, size_t length)
{
    WITH(variable, length, error, damaris_commit(name));
}

void WATTIO_FORTRAN(damaris_commit_block_f)(const char *variable, const int32_t *block, int *error,
                                            size_t length)
{
    WITH(variable, length, error, damaris_commit_block(name, *block));
}

void WATTIO_FORTRAN(damaris_clear_f)(const char *variable, int *error, size_t length)
{
    WITH(variable, length, error, damaris_clear(name));
}

void WATTIO_FORTRAN(damaris_get_iteration_f)(int *iteration, int *error)
{
    *error = damaris_get_iteration(iteration);
}

void WATTIO_FORTRAN(damaris_end_iteration_f)(int *error)
{
    *error = damaris_end_iteration();
}

void WATTIO_FORTRAN(damaris_signal_f)(const char *signal, int *error, size_t length)
{
    WITH(signal, length, error, damaris_signal(name));
}

void WATTIO_FORTRAN(damaris_stop_f)(int *error)
{
    *error = damaris_stop();
}

void WATTIO_FORTRAN(damaris_finalize_f)(int *error)
{
    *error = damaris_finalize();
}
