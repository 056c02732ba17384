/*
 * Files being written, under a temporary name until they are whole; declared in file.h.
 */
#include "base/file.h"
#include "base/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)256 * 1024)

struct oq_writer {
    char *path;      /* as the caller calls it */
    char *target;    /* final: `path` with links followed */
    char *temporary; /* NULL once there is nothing to remove */
    int file;        /* -1 when closed */
    int lock;        /* the same file, open as long as it is temporary; -1 when closed */
    int failure;     /* errno of the first call that failed, else 0 */
    uint64_t offset;
    size_t pending; /* bytes in buffer */
    uint8_t buffer[BUFFER_SIZE];
};

/* A rename would put a file in the place of a pipe or a device. */
static enum onnxptq_status check_target(const char *path, struct onnxptq_error *error) {
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) {
        return ONNXPTQ_OK;
    }
    if (S_ISDIR(info.st_mode)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO,
                       "cannot write '%s': it is a directory; give the name of a file", path);
    }
    return oq_fail(error, ONNXPTQ_ERROR_IO,
                   "cannot write '%s': it is no regular file, and would be replaced by one; give "
                   "another name",
                   path);
}

/* A link stays: the file that it leads to is written. One that leads nowhere is replaced. */
static char *follow(const char *path) {
    char *target = oq_path_resolve(path);
    return target != NULL ? target : strdup(path);
}

enum onnxptq_status oq_writer_create(const char *path, struct oq_writer **out,
                                     struct onnxptq_error *error) {
    OQ_TRY(check_target(path, error));
    struct oq_writer *writer = malloc(sizeof *writer);
    if (writer == NULL) {
        return oq_fail_memory(error, "a file buffer");
    }
    writer->path = strdup(path);
    writer->target = follow(path);
    writer->temporary = NULL;
    writer->file = -1;
    writer->lock = -1;
    writer->failure = 0;
    writer->offset = 0;
    writer->pending = 0;
    const enum onnxptq_status status =
        writer->path == NULL || writer->target == NULL
            ? oq_fail_memory(error, "a file name")
            : oq_temporary_open(writer->target, &writer->temporary, &writer->file, error);
    if (status != ONNXPTQ_OK) {
        oq_writer_destroy(writer);
        return status;
    }
    *out = writer;
    return ONNXPTQ_OK;
}

static void write_through(struct oq_writer *writer, const uint8_t *data, size_t size) {
    while (size > 0 && writer->failure == 0) {
        const ssize_t written = write(writer->file, data, size);
        if (written > 0) {
            data += written;
            size -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            writer->failure = written == 0 ? EIO : errno;
        }
    }
}

static void flush(struct oq_writer *writer) {
    write_through(writer, writer->buffer, writer->pending);
    writer->pending = 0;
}

void oq_writer_put(struct oq_writer *writer, const void *data, size_t size) {
    writer->offset += size;
    if (size == 0 || writer->failure != 0) {
        return;
    }
    if (size > BUFFER_SIZE - writer->pending) {
        flush(writer);
    }
    if (size >= BUFFER_SIZE) {
        write_through(writer, data, size);
        return;
    }
    memcpy(writer->buffer + writer->pending, data, size);
    writer->pending += size;
}

void oq_writer_align(struct oq_writer *writer, size_t alignment) {
    static const uint8_t zeros[64];
    size_t missing = (size_t)((alignment - writer->offset % alignment) % alignment);
    while (missing > 0) {
        const size_t step = missing < sizeof zeros ? missing : sizeof zeros;
        oq_writer_put(writer, zeros, step);
        missing -= step;
    }
}

uint64_t oq_writer_offset(const struct oq_writer *writer) {
    return writer->offset;
}

static enum onnxptq_status report(const struct oq_writer *writer, struct onnxptq_error *error) {
    return writer->failure == 0 ? ONNXPTQ_OK
                                : oq_fail_system(error, writer->failure, "write", writer->path);
}

enum onnxptq_status oq_writer_flush(struct oq_writer *writer, struct onnxptq_error *error) {
    flush(writer);
    return report(writer, error);
}

enum onnxptq_status oq_writer_finish(struct oq_writer *writer, struct onnxptq_error *error) {
    if (writer->file >= 0) {
        flush(writer);
        /* A file that will be replaced hands on its permissions. */
        struct stat old;
        if (stat(writer->target, &old) == 0 && fchmod(writer->file, old.st_mode & 0777) != 0 &&
            writer->failure == 0) {
            writer->failure = errno;
        }
        /* The lock outlives this descriptor, whose closing tells of late errors. */
        writer->lock = fcntl(writer->file, F_DUPFD_CLOEXEC, 0);
        if (close(writer->file) != 0 && writer->failure == 0) {
            writer->failure = errno;
        }
        writer->file = -1;
    }
    return report(writer, error);
}

const char *oq_writer_path(const struct oq_writer *writer) {
    return writer->temporary;
}

static enum onnxptq_status check_finished(const struct oq_writer *writer,
                                          struct onnxptq_error *error) {
    OQ_TRY(report(writer, error));
    if (writer->file >= 0 || writer->temporary == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot write '%s': committed before it was finished, or twice",
                       writer->path);
    }
    return ONNXPTQ_OK;
}

static void unlock(struct oq_writer *writer) {
    if (writer->lock >= 0) {
        close(writer->lock);
    }
    writer->lock = -1;
}

static void forget_temporary(struct oq_writer *writer) {
    free(writer->temporary);
    writer->temporary = NULL;
    unlock(writer);
}

enum onnxptq_status oq_writer_commit(struct oq_writer *writer, struct onnxptq_error *error) {
    OQ_TRY(check_finished(writer, error));
    if (rename(writer->temporary, writer->target) != 0) {
        return oq_fail_system(error, errno, "write", writer->path);
    }
    forget_temporary(writer);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_writer_commit_as(struct oq_writer *writer, const char *path,
                                        struct onnxptq_error *error) {
    OQ_TRY(check_finished(writer, error));
    OQ_TRY(oq_file_rename(writer->temporary, path, error));
    forget_temporary(writer);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_writer_commit_new(struct oq_writer *writer, struct onnxptq_error *error) {
    OQ_TRY(check_finished(writer, error));
    /* Unlike a rename, a link fails where a file has come in between. */
    if (link(writer->temporary, writer->target) == 0) {
        (void)unlink(writer->temporary);
        forget_temporary(writer);
        return ONNXPTQ_OK;
    }
    if (errno == EEXIST || oq_path_is_taken(writer->target)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO,
                       "cannot write '%s': somebody else has written it meanwhile; choose another "
                       "name",
                       writer->path);
    }
    return oq_writer_commit(writer, error); /* a file system without links */
}

void oq_writer_destroy(struct oq_writer *writer) {
    if (writer == NULL) {
        return;
    }
    if (writer->file >= 0) {
        close(writer->file);
    }
    if (writer->temporary != NULL) {
        unlink(writer->temporary);
    }
    unlock(writer);
    free(writer->temporary);
    free(writer->target);
    free(writer->path);
    free(writer);
}

enum onnxptq_status oq_writer_map(struct oq_writer *writer, struct oq_mapping *out,
                                  struct onnxptq_error *error) {
    if (writer->file < 0) {
        OQ_TRY(report(writer, error));
        if (writer->temporary == NULL) {
            return oq_mapping_open(writer->target, out, error);
        }
        return oq_mapping_open(writer->temporary, out, error);
    }
    OQ_TRY(oq_writer_flush(writer, error));
    struct oq_mapping mapping = {NULL, 0};
    if (writer->offset > 0) {
        if (writer->offset > SIZE_MAX) {
            return oq_fail_system(error, EFBIG, "read", writer->temporary);
        }
        mapping.size = (size_t)writer->offset;
        void *data = mmap(NULL, mapping.size, PROT_READ, MAP_SHARED, writer->file, 0);
        if (data == MAP_FAILED) {
            return oq_fail_system(error, errno, "read", writer->temporary);
        }
        mapping.data = data;
    }
    *out = mapping;
    return ONNXPTQ_OK;
}
