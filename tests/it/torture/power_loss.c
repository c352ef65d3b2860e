// Loaded into the program with LD_PRELOAD by `power_loss.rs`: keeps a journal of what a disk has to
// keep.
//
// Written bytes are first in the machine's memory. They are on the disk when a sync of the file has
// returned; a name in a folder is on the disk when a sync of the folder has returned. Each sync and
// each change of a name becomes a line of the journal before the call returns:
//
//     made <number> <path>       a file was made under a name (number: its inode)
//     emptied <number>           an existing file was opened and truncated
//     folder <path>              a folder was made
//     linked <number> <path>     a file got a further name
//     renamed <path> <path>
//     removed <path>
//     bytes <number> <length>    a file was synced when it had this length
//     names <path>               a folder was synced
//
// with a tab between words. A new file gets a second name, `kept/<number>`, so removed files are
// still available and no inode number is used twice.
//
// When a process is killed between a change of a name and its line, the journal does not have the
// change. The daemon did not acknowledge anything that depends on it, so it may be lost.
//
// sync_file_range is not recorded: it starts to write and guarantees nothing. Calls that the program
// does not make (msync, syncfs, renameat, O_SYNC) are not recorded either: what they make durable
// would count as lost, and tests would fail.
//
// POWER_LOSS_FOLDER             contains `disk` (the simulated disk), `kept` and `journal`
// POWER_LOSS_UNSYNCED_ENDING    files with this ending are not synced, although the call succeeds
// POWER_LOSS_AT                 the process kills itself at this line, counted from 1

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char disk[PATH_MAX], kept[PATH_MAX];
static const char *unsynced_ending;
static int journal = -1;
static long lines_left;
// Held while a name changes or a folder is synced, so that the lines have the order of the calls.
static pthread_mutex_t names = PTHREAD_MUTEX_INITIALIZER;

static void give_up(const char *what) {
    perror(what);
    abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("POWER_LOSS_FOLDER"), *at = getenv("POWER_LOSS_AT");
    if (folder == NULL || strlen(folder) + 100 > PATH_MAX) give_up("POWER_LOSS_FOLDER");
    char path[PATH_MAX + 10];
    snprintf(disk, sizeof disk, "%s/disk/", folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    snprintf(path, sizeof path, "%s/journal", folder);
    unsynced_ending = getenv("POWER_LOSS_UNSYNCED_ENDING");
    lines_left = at == NULL ? 0 : atol(at);
    journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (journal < 0) give_up("the journal");
}

// Writes a line with one call, so that lines do not mix and are not cut off.
static void note(const char *format, ...) {
    char line[2 * PATH_MAX + 64];
    va_list words;
    va_start(words, format);
    int length = vsnprintf(line, sizeof line, format, words);
    va_end(words);
    if (length >= (int)sizeof line || syscall(SYS_write, journal, line, length) != length) give_up("the journal");
    if (lines_left > 0 && __atomic_sub_fetch(&lines_left, 1, __ATOMIC_SEQ_CST) == 0) kill(getpid(), SIGKILL);
}

// Whether a path is on the simulated disk. `full` becomes the path joined with its folder.
static int is_ours(int folder, const char *path, char full[PATH_MAX]) {
    if (journal < 0) return 0;
    if (path[0] == '/' || folder == AT_FDCWD) {
        snprintf(full, PATH_MAX, "%s", path);
    } else {
        char link[64], parent[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, parent, sizeof parent - 1);
        if (length < 0) return 0;
        parent[length] = 0;
        if (snprintf(full, PATH_MAX, "%s%s%s", parent, *path ? "/" : "", path) >= PATH_MAX) give_up("a long path");
    }
    // With a slash, so that the folder of the disk itself counts too.
    size_t length = strlen(disk);
    return strncmp(full, disk, length) == 0 || (strlen(full) == length - 1 && strncmp(full, disk, length - 1) == 0);
}

static int ends_with(const char *path, const char *ending) {
    size_t length = strlen(path), end = strlen(ending);
    return length >= end && strcmp(path + length - end, ending) == 0;
}

static int sync_of(long call, int file) {
    char path[PATH_MAX];
    struct stat before;
    if (!is_ours(file, "", path) || fstat(file, &before) != 0) return (int)syscall(call, file);
    if (S_ISDIR(before.st_mode)) {
        pthread_mutex_lock(&names);
        int result = (int)syscall(call, file);
        if (result == 0) note("names\t%s\n", path);
        pthread_mutex_unlock(&names);
        return result;
    }
    if (unsynced_ending != NULL && ends_with(path, unsynced_ending)) return 0;
    // The length when the call began.
    int result = (int)syscall(call, file);
    if (result == 0) note("bytes\t%lu\t%lld\n", (unsigned long)before.st_ino, (long long)before.st_size);
    return result;
}

int fsync(int file) { return sync_of(SYS_fsync, file); }

int fdatasync(int file) { return sync_of(SYS_fdatasync, file); }

static void was_opened(int file, const char *path, int flags) {
    struct stat opened;
    char second[PATH_MAX + 32];
    if (fstat(file, &opened) != 0) give_up(path);
    snprintf(second, sizeof second, "%s/%lu", kept, (unsigned long)opened.st_ino);
    if (access(second, F_OK) != 0) {
        note("made\t%lu\t%s\n", (unsigned long)opened.st_ino, path);
        if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, second, 0) != 0) give_up(second);
    } else if (flags & O_TRUNC) {
        note("emptied\t%lu\n", (unsigned long)opened.st_ino);
    }
}

static int open_in(int folder, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC)) || !is_ours(folder, path, full)) {
        return (int)syscall(SYS_openat, folder, path, flags, mode);
    }
    pthread_mutex_lock(&names);
    int file = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (file >= 0) was_opened(file, full, flags);
    pthread_mutex_unlock(&names);
    return file;
}

static mode_t mode_of(int flags, va_list arguments) { return flags & O_CREAT ? va_arg(arguments, mode_t) : 0; }

#define OPEN(name)                                     \
    int name(const char *path, int flags, ...) {       \
        va_list arguments;                             \
        va_start(arguments, flags);                    \
        mode_t mode = mode_of(flags, arguments);       \
        va_end(arguments);                             \
        return open_in(AT_FDCWD, path, flags, mode);   \
    }

#define OPEN_AT(name)                                          \
    int name(int folder, const char *path, int flags, ...) {   \
        va_list arguments;                                     \
        va_start(arguments, flags);                            \
        mode_t mode = mode_of(flags, arguments);               \
        va_end(arguments);                                     \
        return open_in(folder, path, flags, mode);             \
    }

OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

int mkdir(const char *path, mode_t mode) {
    char full[PATH_MAX];
    int ours = is_ours(AT_FDCWD, path, full);
    pthread_mutex_lock(&names);
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0 && ours) note("folder\t%s\n", full);
    pthread_mutex_unlock(&names);
    return result;
}

int rename(const char *before, const char *after) {
    char from[PATH_MAX], to[PATH_MAX];
    int ours = is_ours(AT_FDCWD, before, from) && is_ours(AT_FDCWD, after, to);
    pthread_mutex_lock(&names);
    int result = (int)syscall(SYS_renameat2, AT_FDCWD, before, AT_FDCWD, after, 0);
    if (result == 0 && ours) note("renamed\t%s\t%s\n", from, to);
    pthread_mutex_unlock(&names);
    return result;
}

int linkat(int before, const char *path, int after, const char *name, int flags) {
    char full[PATH_MAX];
    struct stat linked;
    int ours = is_ours(after, name, full);
    pthread_mutex_lock(&names);
    int result = (int)syscall(SYS_linkat, before, path, after, name, flags);
    if (result == 0 && ours) {
        if (fstatat(after, name, &linked, AT_SYMLINK_NOFOLLOW) != 0) give_up(full);
        note("linked\t%lu\t%s\n", (unsigned long)linked.st_ino, full);
    }
    pthread_mutex_unlock(&names);
    return result;
}

int link(const char *path, const char *name) { return linkat(AT_FDCWD, path, AT_FDCWD, name, 0); }

int unlinkat(int folder, const char *path, int flags) {
    char full[PATH_MAX];
    int ours = is_ours(folder, path, full);
    pthread_mutex_lock(&names);
    int result = (int)syscall(SYS_unlinkat, folder, path, flags);
    if (result == 0 && ours) note("removed\t%s\n", full);
    pthread_mutex_unlock(&names);
    return result;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
