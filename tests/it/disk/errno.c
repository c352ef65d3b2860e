// Loaded into the program with LD_PRELOAD by `errno.rs`: makes system calls on the files below
// FAULTY_FOLDER fail, as disks and file systems do. The file FAULTS has lines with a call, the
// number of an error and perhaps a text that the file's path contains, such as `write 5` or
// `write 5 .sst`; a text that ends in `$` is the path's end. It is read at each call. Calls that it
// does not name, and files elsewhere, are left alone. The file STRUCK gets a byte for each call that
// failed.

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

static void leave_mark(void) {
    const char *struck = getenv("STRUCK");
    if (!struck) return;
    long file = syscall(SYS_openat, AT_FDCWD, struck, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) return;
    syscall(SYS_write, file, "x", 1);
    syscall(SYS_close, file);
}

static int has(const char *path, const char *text, size_t length) {
    size_t whole = strlen(path);
    if (length > 0 && text[length - 1] == '$') {
        length -= 1;
        return whole >= length && memcmp(path + whole - length, text, length) == 0;
    }
    return length == 0 || memmem(path, whole, text, length) != NULL;
}

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
    for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, call, named) != 0 || line[named] != ' ') continue;
        char *end;
        long error = strtol(line + named, &end, 10);
        end += *end == ' ';
        if (has(path, end, strcspn(end, "\n"))) {
            leave_mark();
            return (int)error;
        }
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

int fallocate(int file, int mode, off_t from, off_t length) {
    FAIL(fault_of_file("allocate", file));
    return NEXT(fallocate)(file, mode, from, length);
}

int ftruncate(int file, off_t length) {
    FAIL(fault_of_file("truncate", file));
    return NEXT(ftruncate)(file, length);
}

int ftruncate64(int file, off64_t length) {
    FAIL(fault_of_file("truncate", file));
    return NEXT(ftruncate64)(file, length);
}

int rename(const char *from, const char *to) {
    FAIL(fault("rename", from));
    return NEXT(rename)(from, to);
}

int unlink(const char *path) {
    FAIL(fault("unlink", path));
    return NEXT(unlink)(path);
}

int mkdir(const char *path, mode_t mode) {
    FAIL(fault("mkdir", path));
    return NEXT(mkdir)(path, mode);
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
