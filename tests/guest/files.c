/* Work on files, and what has to be left of it.
 *
 *   files work FOLDER MANIFEST SEED COUNT   changes files until COUNT changes or an error; both
 *                                           numbers are below 256 and 65536
 *   files look FOLDER MANIFEST              compares them with what the manifest knows
 *
 * The manifest lies elsewhere and outlives the storage. Its last line on a file counts:
 *
 *   sure FILE VERSION SIZE       durable: fsync of the file, and of the folder, has answered
 *   either FILE V1 S1 V2 S2      one of two, whole: renamed over or removed, not yet durable
 *   any FILE                     overwritten in place and not yet durable; it can be read
 *
 * Version 0 is a file that is not there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 96, BYTES_MAX = 1 << 20, HOLE = 4096 };
enum kind { SURE, EITHER, ANY };

struct file {
    enum kind known;
    /* The first two are what the manifest says; `now` is what the kernel says. */
    struct state {
        unsigned version, size;
    } old, new, now;
};

static struct file files[FILES];
static unsigned char bytes[BYTES_MAX], found[BYTES_MAX + 1];
static uint64_t seed;

static unsigned below(unsigned limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((seed >> 33) % limit);
}

/* A quarter of every fourth version is a hole. */
static int is_hole(unsigned version, unsigned size)
{
    return version % 4 == 0 && size >= 8 * HOLE;
}

/* The content of a version: no two have a word in common, of whatever seeds. */
static void fill(unsigned number, struct state state)
{
    for (unsigned at = 0; at < state.size; at += 8) {
        uint64_t word = ((uint64_t)state.version << 40 | (uint64_t)number << 32 | at) + 1;
        word *= 0x9e3779b97f4a7c15u;
        memcpy(bytes + at, &word, 8);
    }
    if (is_hole(state.version, state.size))
        memset(bytes + HOLE, 0, state.size / 4 / HOLE * HOLE);
}

/* Gives up: with a dead disk, which is how work may end, with 3. */
static void failed(const char *what)
{
    int is_disk = errno == EIO || errno == EROFS || errno == EUCLEAN || errno == ESHUTDOWN;
    fprintf(is_disk ? stdout : stderr, "ended %s: %s\n", what, strerror(errno));
    exit(is_disk ? 3 : 1);
}

static void name(char *text, unsigned number, const char *suffix)
{
    sprintf(text, "d%u/f%u%s", number % 4, number, suffix);
}

/* Writes a version and has it on the disk, if asked for. */
static void put(const char *path, unsigned number, struct state state, int is_synced)
{
    int file = open(path, O_WRONLY | O_CREAT, 0644);
    if (file < 0)
        failed("open");
    fill(number, state);
    for (unsigned at = 0; at < state.size;) {
        ssize_t count = write(file, bytes + at, state.size - at);
        if (count < 0)
            failed("write");
        at += count;
    }
    if (ftruncate(file, state.size))
        failed("ftruncate");
    unsigned hole = state.size / 4 / HOLE * HOLE;
    if (is_hole(state.version, state.size) &&
        fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HOLE, hole))
        failed("fallocate");
    if (is_synced && fsync(file))
        failed("fsync");
    close(file);
}

static void sync_path(const char *path)
{
    int file = open(path, O_RDONLY);
    if (file < 0)
        failed("open");
    if (fsync(file))
        failed("fsync");
    close(file);
}

static void tell(int manifest, unsigned number)
{
    char line[80];
    struct file *file = &files[number];
    struct state a = file->old, b = file->new;
    int length = file->known == SURE ? sprintf(line, "sure %u %u %u\n", number, a.version, a.size)
        : file->known == EITHER
            ? sprintf(line, "either %u %u %u %u %u\n", number, a.version, a.size, b.version, b.size)
            : sprintf(line, "any %u\n", number);
    if (write(manifest, line, length) != length)
        exit(1);
}

/* What may be there from now on, before it is changed. */
static void change(int manifest, unsigned number, struct state to, int is_whole)
{
    struct file *file = &files[number];
    file->known = is_whole && file->known == SURE ? EITHER : ANY;
    file->new = file->now = to;
    tell(manifest, number);
}

static void settle(int manifest, unsigned number)
{
    files[number].known = SURE;
    files[number].old = files[number].now;
    tell(manifest, number);
}

static void change_one(int manifest, unsigned version)
{
    char path[32], other[32], folder[8];
    unsigned number = below(FILES), what = below(10), is_large = below(16) == 0;
    struct file *file = &files[number];
    struct state to = {version, 1 + below(is_large ? BYTES_MAX : 48 << 10)};
    int is_there = file->now.version != 0;
    name(path, number, "");
    name(other, number, "new");
    sprintf(folder, "d%u", number % 4);
    if (what < 4) {
        put(other, number, to, 1);
        change(manifest, number, to, 1);
        if (rename(other, path))
            failed("rename");
    } else if (what < 8 || !is_there) {
        change(manifest, number, to, 0);
        put(path, number, to, 0);
    } else {
        change(manifest, number, (struct state){0, 0}, 1);
        if (unlink(path))
            failed("unlink");
    }
    if (below(3) == 0)
        return;
    if (file->now.version != 0)
        sync_path(path);
    sync_path(folder);
    settle(manifest, number);
}

static void work(int manifest, unsigned count)
{
    unsigned first = (unsigned)seed << 16;
    for (unsigned at = 0; at < 4; at++) {
        char folder[8];
        sprintf(folder, "d%u", at);
        if (mkdir(folder, 0755))
            failed("mkdir");
        sync_path(folder);
    }
    sync_path(".");
    sync_path("..");
    for (unsigned version = 1; version <= count; version++)
        change_one(manifest, first + version);
    /* It goes on to an orderly unmount: then all is durable. */
    for (unsigned number = 0; number < FILES; number++)
        settle(manifest, number);
}

static int is_state(unsigned number, struct state state, int is_there, unsigned size)
{
    if (state.version == 0 || !is_there)
        return state.version == 0 && !is_there;
    fill(number, state);
    return size == state.size && memcmp(bytes, found, size) == 0;
}

/* Whether a file is what it may be. */
static int look_at(unsigned number)
{
    char path[32];
    struct file *file = &files[number];
    name(path, number, "");
    int descriptor = open(path, O_RDONLY);
    int is_there = descriptor >= 0;
    if (!is_there && errno != ENOENT)
        return 0;
    ssize_t size = is_there ? read(descriptor, found, sizeof found) : 0;
    if (is_there)
        close(descriptor);
    if (size < 0)
        return 0;
    return file->known == ANY || is_state(number, file->old, is_there, size) ||
        (file->known == EITHER && is_state(number, file->new, is_there, size));
}

static void look(FILE *manifest)
{
    char line[80];
    unsigned number, counts[3] = {0, 0, 0}, lost = 0;
    struct state a, b;
    while (fgets(line, sizeof line, manifest)) {
        int sure = sscanf(line, "sure %u %u %u", &number, &a.version, &a.size) == 3;
        int either = !sure && sscanf(line, "either %u %u %u %u %u", &number, &a.version, &a.size,
                                  &b.version, &b.size) == 5;
        if ((!sure && !either && sscanf(line, "any %u", &number) != 1) || number >= FILES)
            exit(1);
        files[number].known = sure ? SURE : either ? EITHER : ANY;
        files[number].old = a;
        files[number].new = b;
    }
    for (number = 0; number < FILES; number++) {
        counts[files[number].known] += files[number].old.version != 0;
        if (!look_at(number)) {
            lost++;
            printf("lost f%u: %s\n", number, strerror(errno));
        }
    }
    printf("looked sure %u either %u any %u lost %u\n", counts[SURE], counts[EITHER], counts[ANY],
        lost);
    exit(lost != 0);
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 6 && strcmp(arguments[1], "work") == 0) {
        int manifest = open(arguments[3], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
        seed = strtoull(arguments[4], NULL, 10);
        if (manifest < 0)
            return 1;
        if ((mkdir(arguments[2], 0755) && errno != EEXIST) || chdir(arguments[2]))
            failed("folder");
        work(manifest, (unsigned)strtoul(arguments[5], NULL, 10));
        return 0;
    }
    if (count == 4 && strcmp(arguments[1], "look") == 0) {
        FILE *manifest = fopen(arguments[3], "r");
        if (manifest == NULL)
            return 1;
        /* A folder that was not durable may be missing, and so may all its files. */
        if (chdir(arguments[2]) && (errno != ENOENT || chdir("/")))
            return 1;
        look(manifest);
    }
    fprintf(stderr, "files work FOLDER MANIFEST SEED COUNT | files look FOLDER MANIFEST\n");
    return 2;
}
