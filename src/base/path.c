/*
 * Paths; declared in file.h.
 */
#include "base/file.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *oq_path_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

char *oq_path_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return strdup(".");
    }
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

char *oq_path_join(const char *folder, const char *name) {
    const size_t first = strlen(folder), second = strlen(name);
    size_t size;
    if (!oq_size_add(first, second, &size) || !oq_size_add(size, 2, &size)) {
        return NULL;
    }
    char *path = malloc(size);
    if (path != NULL) {
        const bool slash = first > 0 && folder[first - 1] != '/';
        snprintf(path, size, "%s%s%s", folder, slash ? "/" : "", name);
    }
    return path;
}

static char *current_folder(void) {
    size_t size = 256;
    for (;;) {
        char *folder = malloc(size);
        if (folder == NULL || getcwd(folder, size) != NULL) {
            return folder;
        }
        free(folder);
        if (size > (size_t)1024 * 1024) {
            return NULL;
        }
        size *= 2;
    }
}

char *oq_path_absolute(const char *path) {
    if (path[0] == '/') {
        return strdup(path);
    }
    while (path[0] == '.' && path[1] == '/') {
        path += 1 + strspn(path + 1, "/");
    }
    char *folder = current_folder();
    /* Where the current folder is gone, using the path tells. */
    char *absolute = oq_path_join(folder == NULL ? "." : folder, path);
    free(folder);
    return absolute;
}

char *oq_path_resolve(const char *path) {
    return realpath(path, NULL);
}

bool oq_path_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool oq_path_is_taken(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

bool oq_path_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool oq_path_is_regular(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool oq_path_is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

bool oq_path_same_file(const char *a, const char *b) {
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

bool oq_path_is_inside(const char *relative) {
    const char *part = relative;
    for (;;) {
        const size_t length = strcspn(part, "/\\");
        if (length == 0 || (length == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        if (part[length] == '\0') {
            return true;
        }
        part += length + 1;
    }
}
