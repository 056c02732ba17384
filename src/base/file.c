/*
 * Read-only mappings, names of files; see file.h.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum onnxptq_status check_kind(const struct stat *info, const char *path,
                                      struct onnxptq_error *error) {
    if (S_ISDIR(info->st_mode)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO, "cannot read '%s': it is a directory, not a file",
                       path);
    }
    if (!S_ISREG(info->st_mode)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO,
                       "cannot read '%s': it is not a regular file; save its content to a file "
                       "first",
                       path);
    }
    if ((uintmax_t)info->st_size > SIZE_MAX) {
        return oq_fail(error, ONNXPTQ_ERROR_IO, "cannot read '%s': it is too large", path);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status map(int file, const char *path, struct oq_mapping *out,
                               struct onnxptq_error *error) {
    struct stat info;
    if (fstat(file, &info) != 0) {
        return oq_fail_system(error, errno, "read", path);
    }
    OQ_TRY(check_kind(&info, path, error));
    struct oq_mapping mapping = {NULL, (size_t)info.st_size};
    if (mapping.size > 0) {
        void *data = mmap(NULL, mapping.size, PROT_READ, MAP_PRIVATE, file, 0);
        if (data == MAP_FAILED) {
            return oq_fail_system(error, errno, "read", path);
        }
        mapping.data = data;
    }
    *out = mapping;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_mapping_open(const char *path, struct oq_mapping *out,
                                    struct onnxptq_error *error) {
    /* O_NONBLOCK: opening a pipe must not wait for a writer. */
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return oq_fail_system(error, errno, "read", path);
    }
    const enum onnxptq_status status = map(file, path, out, error);
    close(file);
    return status;
}

void oq_mapping_close(struct oq_mapping *mapping) {
    if (mapping->data != NULL) {
        munmap((void *)(uintptr_t)mapping->data, mapping->size);
    }
    *mapping = (struct oq_mapping){NULL, 0};
}

bool oq_file_identify(const char *path, struct oq_file_id *out) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return false;
    }
    *out = (struct oq_file_id){(uint64_t)info.st_dev, (uint64_t)info.st_ino, (uint64_t)info.st_size,
                               (int64_t)info.st_mtim.tv_sec, (int64_t)info.st_mtim.tv_nsec};
    return true;
}

bool oq_file_id_equal(struct oq_file_id a, struct oq_file_id b) {
    return a.device == b.device && a.inode == b.inode && a.size == b.size &&
           a.seconds == b.seconds && a.nanoseconds == b.nanoseconds;
}

void oq_file_remove(const char *path) {
    (void)unlink(path);
}

enum onnxptq_status oq_file_rename(const char *from, const char *to, struct onnxptq_error *error) {
    return rename(from, to) == 0 ? ONNXPTQ_OK : oq_fail_system(error, errno, "write", to);
}

/* A link cannot replace a file, a rename can. */
bool oq_file_link_over(const char *path, const char *name) {
    const size_t size = strlen(path) + sizeof ".tmp";
    char *passing = malloc(size);
    bool done = false;
    if (passing != NULL) {
        snprintf(passing, size, "%s.tmp", path);
        done = link(path, passing) == 0 && rename(passing, name) == 0;
        if (!done) {
            (void)unlink(passing);
        }
    }
    free(passing);
    return done;
}
