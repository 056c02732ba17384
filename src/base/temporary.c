/*
 * Temporary files; see temporary.h.
 */
#include "base/temporary.h"

#include "base/file.h"
#include "base/size.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST_BASE 200 /* of the final name, so that the system accepts the temporary one */
#define LONGEST_SUFFIX ".0123456789.12345678.tmp"
#define NAME_TRIES 64

/* ---- Names ---- */

static char *make_name(const char *path) {
    uint32_t random;
    if (getentropy(&random, sizeof random) != 0) {
        return NULL;
    }
    const char *base = oq_path_base(path);
    const size_t folder = (size_t)(base - path);
    const size_t kept = strnlen(base, LONGEST_BASE);
    size_t size;
    if (!oq_size_add(folder + kept, sizeof LONGEST_SUFFIX, &size)) {
        return NULL;
    }
    char *name = malloc(size);
    if (name != NULL) {
        memcpy(name, path, folder + kept);
        snprintf(name + folder + kept, size - folder - kept, ".%d.%08x.tmp", (int)getpid(), random);
    }
    return name;
}

/* Is `name` one that make_name() gives for a path with that base? */
static bool is_name_of(const char *name, const char *base) {
    const size_t kept = strnlen(base, LONGEST_BASE);
    if (strncmp(name, base, kept) != 0 || name[kept] != '.') {
        return false;
    }
    const char *process = name + kept + 1;
    const size_t digits = strspn(process, "0123456789");
    return digits > 0 && process[digits] == '.' &&
           strspn(process + digits + 1, "0123456789abcdef") == 8 &&
           strcmp(process + digits + 9, ".tmp") == 0;
}

/* ---- Locks ---- */

static bool is_gone(int file) {
    struct stat info;
    return fstat(file, &info) == 0 && info.st_nlink == 0;
}

/* Whoever clears up may have come between creating and locking: then the file is theirs. Where the
 * file system knows no locks nothing is cleared up either. */
static bool take(int file) {
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return false;
    }
    return !is_gone(file);
}

enum onnxptq_status oq_temporary_open(const char *path, char **name, int *file,
                                      struct onnxptq_error *error) {
    for (int i = 0; i < NAME_TRIES; i++) {
        char *candidate = make_name(path);
        if (candidate == NULL) {
            return oq_fail_memory(error, "a file name");
        }
        /* The system applies the user's umask to 0666. */
        const int opened = open(candidate, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        const int code = opened >= 0 ? EEXIST : errno;
        if (opened >= 0 && take(opened)) {
            *name = candidate;
            *file = opened;
            return ONNXPTQ_OK;
        }
        if (opened >= 0) {
            close(opened);
        }
        free(candidate);
        if (code != EEXIST) {
            return oq_fail_system(error, code, "write", path);
        }
    }
    return oq_fail_system(error, EEXIST, "write", path);
}

/* ---- Left behind ---- */

static void remove_unlocked(DIR *entries, const char *name) {
    const int folder = dirfd(entries);
    const int file =
        folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info;
    if (file < 0) {
        return;
    }
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && flock(file, LOCK_EX | LOCK_NB) == 0) {
        unlinkat(folder, name, 0);
    }
    close(file);
}

static void remove_beside(const char *path) {
    char *folder = oq_path_folder(path);
    DIR *entries = folder == NULL ? NULL : opendir(folder);
    const struct dirent *entry = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (is_name_of(entry->d_name, oq_path_base(path))) {
            remove_unlocked(entries, entry->d_name);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    free(folder);
}

void oq_temporary_remove_stale(const char *path) {
    char *target = oq_path_resolve(path);
    remove_beside(target != NULL ? target : path);
    free(target);
}
