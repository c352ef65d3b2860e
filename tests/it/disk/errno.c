// Loaded into the program with LD_PRELOAD by `errno.rs`: makes system calls on the files below
// FAULTY_FOLDER fail, as disks and file systems do. The file FAULTS has lines with a call and the
// number of an error, such as `write 5`; it is read at each call. Calls that it does not name, and
// files elsewhere, are left alone.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// The error for a call on a path; 0 when it has none. Opens FAULTS with bare system calls, because
// the functions of the library are those below.
static int fault(const char *call, const char *path) {
    const char *folder = getenv("FAULTY_FOLDER"), *faults = getenv("FAULTS");
    if (!folder || !faults || strncmp(path, folder, strlen(folder)) != 0) return 0;
    long file = syscall(SYS_openat, AT_FDCWD, faults, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    char text[256];
    long length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    text[length < 0 ? 0 : length] = 0;
    size_t named = strlen(call);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, call, named) == 0 && line[named] == ' ') return atoi(line + named);
    }
    return 0;
}

static int fault_of_file(const char *call, int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return fault(call, path);
}

#define FAIL(error)                                                                                                    \
    do {                                                                                                               \
        int failing = (error);                                                                                         \
        if (failing) {                                                                                                 \
            errno = failing;                                                                                           \
            return -1;                                                                                                 \
        }                                                                                                              \
    } while (0)

ssize_t write(int file, const void *bytes, size_t count) {
    FAIL(fault_of_file("write", file));
    return NEXT(write)(file, bytes, count);
}

int fsync(int file) {
    FAIL(fault_of_file("fsync", file));
    return NEXT(fsync)(file);
}

int fdatasync(int file) {
    FAIL(fault_of_file("fsync", file));
    return NEXT(fdatasync)(file);
}

// The mode of a file that is made; a call without O_CREAT passes none.
#define MODE(flags)                                                                                                    \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & O_CREAT) {                                                                                           \
        va_list arguments;                                                                                             \
        va_start(arguments, flags);                                                                                    \
        mode = va_arg(arguments, mode_t);                                                                              \
        va_end(arguments);                                                                                             \
        FAIL(fault("create", path));                                                                                   \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return NEXT(open64)(path, flags, mode);
}

int link(const char *from, const char *to) {
    FAIL(fault("link", from));
    return NEXT(link)(from, to);
}

int chmod(const char *path, mode_t mode) {
    FAIL(fault("chmod", path));
    return NEXT(chmod)(path, mode);
}

int bind(int file, const struct sockaddr *address, socklen_t length) {
    if (address->sa_family == AF_UNIX) FAIL(fault("bind", ((const struct sockaddr_un *)address)->sun_path));
    return NEXT(bind)(file, address, length);
}
