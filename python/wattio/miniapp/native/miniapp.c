/* The mini-app in C: the equations of wattio.miniapp (kernel.py, atmosphere.py), its blocks and its
 * dumps, handed over to libwattio_io. Operations are grouped as there, so that numbers are the same.
 *
 *     miniapp CONFIG NX NY NZ SPACING_M STEPS OUTPUT_EVERY VARIABLES TOLD
 *
 * Prints a line of JSON with what each computing rank measured, the library's report, and TOLD, which is
 * JSON text, as it was given. `z` is the fastest axis, as in NumPy.
 */
#define _POSIX_C_SOURCE 200809L
#include "wattio_io_mpi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { HALO = 3, R = 0, U, V, W, T, Q, COMPONENTS };

static const double GRAVITY = 9.81, THETA = 300.0, GAS = 287.04, HEAT = 1004.5;

static int nx, ny, nz, gnx, gny, x0, y0; /* The block, the domain, and where the block begins. */
static int sx, sy, sz;                   /* The block with its halo. */
static double spacing_m, *density0, *stiffness;
static double *value, *density, *pressure, *flux[3];
static MPI_Comm comm;
static int before[2], after[2], alone[2];

static void fail(const char *what)
{
    fprintf(stderr, "wattio: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int code)
{
    if (code != WATTIO_IO_OK && code != WATTIO_IO_STEP_FAILED)
        fail(wattio_io_error());
}

static double *room(size_t count)
{
    double *found = calloc(count ? count : 1, sizeof *found);
    if (found == NULL)
        fail("there is no memory");
    return found;
}

static size_t at(int x, int y, int z)
{
    return ((size_t)x * sy + y) * sz + z;
}

static size_t cells(void)
{
    return (size_t)sx * sy * sz;
}

/* Where cells are one apart along an axis. */
static size_t stride(int axis)
{
    return axis == 0 ? (size_t)sy * sz : axis == 1 ? (size_t)sz : 1;
}

static double monotonic_s(void)
{
    struct timespec found;
    clock_gettime(CLOCK_MONOTONIC, &found);
    return (double)found.tv_sec + 1e-9 * (double)found.tv_nsec;
}

static void instant(long long found[2])
{
    struct timespec one;
    clock_gettime(CLOCK_REALTIME, &one);
    found[0] = one.tv_sec * 1000000000LL + one.tv_nsec;
    clock_gettime(CLOCK_MONOTONIC, &one);
    found[1] = one.tv_sec * 1000000000LL + one.tv_nsec;
}

static double cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* The atmosphere at rest, with the halo's mirror images below and above (atmosphere.base). */
static void make_base(void)
{
    double gamma = HEAT / (HEAT - GAS);
    density0 = room((size_t)sz);
    stiffness = room((size_t)sz);
    for (int z = 0; z < nz; z++) {
        double exner = 1.0 - GRAVITY * ((z + 0.5) * spacing_m) / (HEAT * THETA);
        double p = 1e5 * pow(exner, HEAT / GAS);
        density0[z + HALO] = p / (GAS * THETA * exner);
        stiffness[z + HALO] = gamma * p / (density0[z + HALO] * THETA);
    }
    for (int depth = 0; depth < HALO; depth++) {
        density0[HALO - 1 - depth] = density0[HALO + depth];
        stiffness[HALO - 1 - depth] = stiffness[HALO + depth];
        density0[HALO + nz + depth] = density0[HALO + nz - 1 - depth];
        stiffness[HALO + nz + depth] = stiffness[HALO + nz - 1 - depth];
    }
}

/* The bubble at rest (model._put_bubble, atmosphere.bubble). */
static void put_bubble(double *state)
{
    double height = nz * spacing_m, radius = 0.2 * height;
    for (int x = 0; x < nx; x++)
        for (int y = 0; y < ny; y++)
            for (int z = 0; z < nz; z++) {
                double fx = (x0 + x + (0.5 - gnx / 2.0)) * spacing_m / radius;
                double fy = (y0 + y + (0.5 - gny / 2.0)) * spacing_m / radius;
                double fz = ((z + 0.5) * spacing_m - 0.25 * height) / radius;
                double inside = fmax(1.0 - ((fx * fx + fy * fy) + fz * fz), 0.0);
                double shape = inside * inside, excess = 2.0 * shape, rest = density0[z + HALO];
                double found = rest * (THETA / (THETA + excess));
                double vapour = 1e-2 * (1.0 - (z + 0.5) / nz) + 1e-3 * shape;
                size_t here = at(x + HALO, y + HALO, z + HALO);
                state[R * cells() + here] = found - rest;
                state[T * cells() + here] = found * excess;
                state[Q * cells() + here] = found * vapour;
            }
}

/* Columns at an edge of all components, into or out of a buffer; or from one edge to another. */
static void columns(double *state, int axis, int from, double *buffer, int out)
{
    int xs = axis == 0 ? from : 0, xe = axis == 0 ? from + HALO : sx;
    int ys = axis == 0 ? HALO : from, ye = axis == 0 ? sy - HALO : from + HALO;
    for (int c = 0; c < COMPONENTS; c++)
        for (int x = xs; x < xe; x++)
            for (int y = ys; y < ye; y++) {
                double *here = state + c * cells() + at(x, y, HALO);
                memcpy(out ? buffer : here, out ? here : buffer, (size_t)nz * sizeof *here);
                buffer += nz;
            }
}

/* What neighbours tell each other: first in x, then in y with what came in x (halo.Exchange). */
static void exchange(double *state)
{
    static double *buffer[2][4];
    for (int axis = 0; axis < 2; axis++) {
        int size = axis == 0 ? nx : ny;
        size_t count = (size_t)COMPONENTS * HALO * (axis == 0 ? ny : sx) * nz;
        if (buffer[axis][0] == NULL)
            for (int n = 0; n < 4; n++)
                buffer[axis][n] = room(count);
        double **held = buffer[axis];
        columns(state, axis, HALO, held[0], 1);
        columns(state, axis, size, held[1], 1);
        if (alone[axis]) {
            columns(state, axis, HALO + size, held[0], 0);
            columns(state, axis, 0, held[1], 0);
            continue;
        }
        MPI_Request requests[4];
        int backward = 2 * axis, forward = 2 * axis + 1;
        MPI_Irecv(held[2], (int)count, MPI_DOUBLE, after[axis], backward, comm, &requests[0]);
        MPI_Irecv(held[3], (int)count, MPI_DOUBLE, before[axis], forward, comm, &requests[1]);
        MPI_Isend(held[0], (int)count, MPI_DOUBLE, before[axis], backward, comm, &requests[2]);
        MPI_Isend(held[1], (int)count, MPI_DOUBLE, after[axis], forward, comm, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        columns(state, axis, HALO + size, held[2], 0);
        columns(state, axis, 0, held[3], 0);
    }
}

/* The halo, with the floor and the lid (kernel.mirror_at_ground_and_lid). */
static void fill_halo(double *state)
{
    int top = sz - HALO;
    exchange(state);
    for (int x = 0; x < sx; x++)
        for (int y = 0; y < sy; y++) {
            double *w = state + W * cells() + at(x, y, 0);
            w[HALO] = 0.0;
            w[top] = 0.0;
            for (int depth = 0; depth < HALO; depth++) {
                for (int c = 0; c < COMPONENTS; c++) {
                    double *one = state + c * cells() + at(x, y, 0);
                    if (c == W)
                        continue;
                    one[HALO - 1 - depth] = one[HALO + depth];
                    one[top + depth] = one[top - 1 - depth];
                }
                w[HALO - 1 - depth] = -w[HALO + 1 + depth];
                if (depth + 1 < HALO)
                    w[top + depth + 1] = -w[top - 1 - depth];
            }
        }
}

/* The flux of a value through a face (kernel._upwind); `a` to `d` are cells around it. */
static double upwind(double flow, double a, double b, double c, double d)
{
    double found = 7.0 * (b + c);
    found -= a + d;
    found *= flow;
    double slope = 3.0 * (c - b);
    slope = (d - a) - slope;
    slope *= fabs(flow);
    found += slope;
    return found * (1.0 / 12.0);
}

/* Fluxes through the faces of an axis; those of momentum `across` flow between two cells' mass. */
static void fluxes(const double *state, const double *carried, int axis, int across)
{
    const double *flow = state + (size_t)(U + axis) * cells();
    size_t one = stride(axis), shift = across < 0 ? 0 : stride(across);
    int ex = nx + (axis == 0), ey = ny + (axis == 1), ez = nz + (axis == 2);
    for (int x = 0; x < ex; x++)
        for (int y = 0; y < ey; y++)
            for (int z = 0; z < ez; z++) {
                size_t here = at(x + HALO, y + HALO, z + HALO);
                const double *v = carried + here;
                double m = across < 0 ? flow[here] : 0.5 * (flow[here - shift] + flow[here]);
                flux[axis][here] = upwind(m, v[-2 * (long)one], v[-(long)one], v[0], v[one]);
            }
}

static double convergence(const double *const found[3], size_t here)
{
    double sum = found[0][here] - found[0][here + stride(0)];
    sum += found[1][here] - found[1][here + stride(1)];
    return sum + (found[2][here] - found[2][here + stride(2)]);
}

/* `target` becomes `state` after a share of the time step, changing as `source` says. */
static void change(const double *state, double *source, double *target, double factor)
{
    size_t size = cells();
    double scale = 1.0 / spacing_m;
    fill_halo(source);
    for (size_t n = 0; n < size; n++) {
        int z = (int)(n % (size_t)sz);
        density[n] = source[R * size + n] + density0[z];
        pressure[n] = stiffness[z] * (source[T * size + n] + THETA * source[R * size + n]);
    }
    for (int c = 0; c < COMPONENTS; c++) {
        int across = c == U ? 0 : c == V ? 1 : c == W ? 2 : -1;
        const double *const mass[3] = {source + U * size, source + V * size, source + W * size};
        const double *const own[3] = {flux[0], flux[1], flux[2]};
        const double *const *entering = c == R ? mass : own;
        size_t back = across < 0 ? 0 : stride(across);
        if (across < 0 && c != R)
            for (size_t n = 0; n < size; n++)
                value[n] = source[(size_t)c * size + n] / density[n];
        for (size_t n = back; across >= 0 && n < size; n++)
            value[n] = source[(size_t)c * size + n] / (0.5 * (density[n - back] + density[n]));
        for (int axis = 0; axis < 3 && c != R; axis++)
            fluxes(source, value, axis, across);
        for (int x = 0; x < nx; x++)
            for (int y = 0; y < ny; y++)
                for (int z = 0; z < nz; z++) {
                    size_t here = at(x + HALO, y + HALO, z + HALO);
                    double found = convergence(entering, here);
                    if (across >= 0)
                        found -= pressure[here] - pressure[here - back];
                    found *= scale;
                    if (c == W) {
                        found -= GRAVITY * 0.5 * (source[here - 1] + source[here]);
                        found = z == 0 ? 0.0 : found;
                    }
                    size_t place = (size_t)c * size + here;
                    target[place] = state[place] + found * factor;
                }
    }
}

/* A variable of a dump, in single precision (fields.py). */
static void write_field(const double *state, const char *name, float *target)
{
    int axis = strcmp(name, "u") == 0 ? 0 : strcmp(name, "v") == 0 ? 1 : 2;
    int is_wind = strlen(name) == 1;
    const double *r = state, *t = state + T * cells(), *q = state + Q * cells();
    const double *m = state + (size_t)(U + axis) * cells();
    for (int x = 0; x < nx; x++)
        for (int y = 0; y < ny; y++)
            for (int z = 0; z < nz; z++) {
                size_t here = at(x + HALO, y + HALO, z + HALO);
                double rho = density0[z + HALO] + r[here], found;
                if (is_wind)
                    found = 0.5 * (m[here] + m[here + stride(axis)]) / rho;
                else if (strcmp(name, "theta") == 0)
                    found = t[here] / rho;
                else if (strcmp(name, "moisture") == 0)
                    found = q[here] / rho;
                else
                    found = stiffness[z + HALO] * (t[here] + THETA * r[here]);
                *target++ = (float)found;
            }
}

static unsigned long long mixed(unsigned long long word)
{
    word += 0x9E3779B97F4A7C15ULL;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
    return word ^ (word >> 31);
}

/* Sums over the block (checks.of_block), and its part of the state's fingerprint. */
static unsigned long long sums(const double *state, double found[6])
{
    double cell = spacing_m * spacing_m * spacing_m;
    unsigned long long mark = 0;
    memset(found, 0, 6 * sizeof *found);
    found[5] = -HUGE_VAL;
    for (int x = 0; x < nx; x++)
        for (int y = 0; y < ny; y++)
            for (int z = 0; z < nz; z++) {
                size_t here = at(x + HALO, y + HALO, z + HALO);
                double rho = density0[z + HALO] + state[here];
                double warmth = state[T * cells() + here] / rho;
                found[0] += cell * state[here];
                found[1] += cell * (rho - state[here]);
                found[2] += cell * warmth;
                found[3] += cell * warmth * ((z + 0.5) * spacing_m);
                found[4] += cell * state[Q * cells() + here];
                found[5] = fmax(found[5], state[W * cells() + here] / rho);
                for (int c = 0; c < COMPONENTS; c++) {
                    double plain = state[(size_t)c * cells() + here] + 0.0;
                    unsigned long long bits, place;
                    memcpy(&bits, &plain, sizeof bits);
                    place = ((unsigned long long)(x0 + x) * (unsigned)gny + (unsigned)(y0 + y)) *
                                (unsigned)nz + (unsigned)z;
                    place += (unsigned long long)c * (unsigned)gnx * (unsigned)gny * (unsigned)nz;
                    mark += mixed(bits ^ mixed(place));
                }
            }
    return mark;
}

/* Numbers of each rank, one list for each, from the first rank's gathered ones. */
static void print_lists(const char *key, const double *all, int ranks, int count, int each, int from)
{
    printf("\"%s\": [", key);
    for (int rank = 0; rank < ranks; rank++) {
        printf("%s[", rank ? ", " : "");
        for (int n = 0; n < count; n++)
            printf("%s%.9g", n ? ", " : "", all[(size_t)rank * each + from + n]);
        printf("]");
    }
    printf("], ");
}

static void print_sums(const char *key, const double *all, int ranks, int each, int from,
                       unsigned long long mark)
{
    static const char *const names[6] = {"mass_kg", "rest_mass_kg", "warmth_k_m3", "warmth_k_m4",
                                         "water_kg", "wind_m_s_max"};
    printf("\"%s\": {", key);
    for (int n = 0; n < 6; n++) {
        double sum = n < 5 ? 0.0 : -HUGE_VAL;
        for (int rank = 0; rank < ranks; rank++) {
            double part = all[(size_t)rank * each + from + n];
            sum = n < 5 ? sum + part : fmax(sum, part);
        }
        printf("\"%s\": %.17g, ", names[n], sum);
    }
    printf("\"fingerprint\": \"%016llx\"}, ", mark);
}

static char *report_of(const char *text)
{
    char *found = malloc(strlen(text) + 1);
    return found == NULL ? NULL : strcpy(found, text);
}

int main(int argc, char **argv)
{
    wattio_io *io;
    int given, writes, rank, ranks, along = 1;
    char boot[64] = "", library[MPI_MAX_LIBRARY_VERSION_STRING], host[256] = "";

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    if (argc != 10)
        fail("usage: miniapp CONFIG NX NY NZ SPACING_M STEPS OUTPUT_EVERY VARIABLES TOLD");
    gnx = atoi(argv[2]), gny = atoi(argv[3]), nz = atoi(argv[4]), spacing_m = atof(argv[5]);
    int steps = atoi(argv[6]), every = atoi(argv[7]), variables = 0;
    char *name[16];
    for (char *one = strtok(argv[8], ","); one != NULL && variables < 16; one = strtok(NULL, ","))
        name[variables++] = one;
    if (wattio_io_open_mpi(MPI_COMM_WORLD, argv[1], &io, &comm) != WATTIO_IO_OK) {
        /* All ranks know, and leave in order: launchers may lose what is printed before MPI_Abort. */
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (rank == 0)
            fprintf(stderr, "wattio: %s\n", wattio_io_error());
        MPI_Finalize();
        return 1;
    }
    check(wattio_io_is_writer(io, &writes));
    if (writes) {
        check(wattio_io_close(&io, NULL, 0, NULL));
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    /* The squarest arrangement, with more ranks in x (domain.arrange). */
    for (int n = 1; n * n <= ranks; n++)
        along = ranks % n == 0 ? n : along;
    int wide = ranks / along, column = rank / along, row = rank % along;
    x0 = (int)((long)gnx * column / wide), nx = (int)((long)gnx * (column + 1) / wide) - x0;
    y0 = (int)((long)gny * row / along), ny = (int)((long)gny * (row + 1) / along) - y0;
    alone[0] = wide == 1, alone[1] = along == 1;
    before[0] = (column + wide - 1) % wide * along + row, after[0] = (column + 1) % wide * along + row;
    before[1] = column * along + (row + along - 1) % along, after[1] = column * along + (row + 1) % along;
    sx = nx + 2 * HALO, sy = ny + 2 * HALO, sz = nz + 2 * HALO;

    size_t size = cells();
    double *state = room(COMPONENTS * size), *stage = room(COMPONENTS * size);
    double *next = room(COMPONENTS * size);
    value = room(size), density = room(size), pressure = room(size);
    for (int axis = 0; axis < 3; axis++)
        flux[axis] = room(size);
    make_base();
    put_bubble(state);
    double sound = pow(HEAT / (HEAT - GAS) * GAS * THETA, 0.5);
    double step_s = 0.8 * 0.5 * spacing_m / sound;

    int64_t id[16], count[] = {nx, ny, nz}, whole[] = {gnx, gny, nz}, offset[] = {x0, y0, 0};
    for (int n = 0; n < variables; n++)
        check(wattio_io_variable(io, name[n], WATTIO_IO_FLOAT32, 3, count, whole, offset, &id[n]));
    int dumps = every ? steps / every : 0, dumped = 0, each = steps + 2 * dumps + 13;
    double *own = room((size_t)each);
    unsigned long long marks[2], total[2];
    marks[0] = sums(state, own + steps + 2 * dumps);
    MPI_Barrier(comm);
    long long start[2], computed[2], end[2];
    double used = cpu_s(), told = monotonic_s();
    instant(start);
    for (int step = 1; step <= steps; step++) {
        double began = monotonic_s();
        change(state, state, stage, 1.0 / 3.0 * step_s);
        change(state, stage, next, 1.0 / 2.0 * step_s);
        change(state, next, stage, 1.0 * step_s);
        double *old = state;
        state = stage, stage = old;
        double done = monotonic_s();
        own[step - 1] = done - began;
        if (every && step % every == 0) {
            double blocked = 0.0;
            fill_halo(state);
            check(wattio_io_begin_step(io, step));
            for (int n = 0; n < variables; n++) {
                void *block;
                double asked = monotonic_s();
                check(wattio_io_allocate(io, id[n], &block));
                blocked += monotonic_s() - asked;
                write_field(state, name[n], block);
            }
            double asked = monotonic_s();
            check(wattio_io_end_step(io));
            own[steps + dumped] = monotonic_s() - done;
            own[steps + dumps + dumped++] = blocked + monotonic_s() - asked;
        }
        if (rank == 0 && monotonic_s() - told > 0.5) {
            told = monotonic_s();
            printf("wattio_step %d\n", step);
            fflush(stdout);
        }
    }
    instant(computed);
    check(wattio_io_close(&io, NULL, 0, NULL));
    instant(end);
    own[each - 1] = cpu_s() - used;
    marks[1] = sums(state, own + steps + 2 * dumps + 6);
    char *report = report_of(wattio_io_report());

    double *all = room((size_t)each * ranks);
    MPI_Gather(own, each, MPI_DOUBLE, all, each, MPI_DOUBLE, 0, comm);
    MPI_Reduce(marks, total, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, comm);
    if (rank == 0) {
        int length;
        MPI_Get_library_version(library, &length);
        library[strcspn(library, ",\n")] = '\0';
        gethostname(host, sizeof host - 1);
        FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
        if (file == NULL || fscanf(file, "%63s", boot) != 1)
            boot[0] = '\0';
        printf("{\"wattio_twin\": 1, \"host\": \"%s\", \"boot\": \"%s\", \"mpi\": \"%s\", ", host, boot,
               library);
        printf("\"arrangement\": [%d, %d], \"model_step_s\": %.17g, ", wide, along, step_s);
        printf("\"start\": [%lld, %lld], \"computed\": [%lld, %lld], \"end\": [%lld, %lld], ",
               start[0], start[1], computed[0], computed[1], end[0], end[1]);
        print_lists("step_s", all, ranks, steps, each, 0);
        print_lists("dump_s", all, ranks, dumps, each, steps);
        print_lists("blocked_s", all, ranks, dumps, each, steps + dumps);
        print_lists("cpu_s", all, ranks, 1, each, each - 1);
        print_sums("before", all, ranks, each, steps + 2 * dumps, total[0]);
        print_sums("after", all, ranks, each, steps + 2 * dumps + 6, total[1]);
        printf("\"report\": %s, \"told\": %s}\n", report ? report : "null", argv[9]);
    }
    MPI_Finalize();
    return 0;
}
