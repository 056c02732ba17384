/*
 * Reasons that a user understands, before the loader's.
 */
#include "runtime/library.h"

#include <stdio.h>
#include <string.h>

static const char *obvious_reason(const char *path) {
    if (!oq_path_exists(path)) {
        return "there is no such file";
    }
    if (oq_path_is_folder(path)) {
        return "it is a directory, not a shared library";
    }
    struct oq_mapping file;
    if (!oq_path_is_regular(path)) {
        return "it is not a regular file"; /* of a pipe, the loader would wait for a writer */
    }
    if (oq_mapping_open(path, &file, NULL) != ONNXPTQ_OK) {
        return NULL; /* the loader says more */
    }
    bool empty = file.size == 0;
    oq_mapping_close(&file);
    return empty ? "the file is empty" : NULL;
}

/* The loader puts the path, which our message holds already, in front of its reason; and of a file
 * of another kind it says what only experts understand. */
static void explain(char *reason, const char *path) {
    char theirs[OQ_LIBRARY_REASON_SIZE];
    size_t n = strlen(path);
    bool has_path = strncmp(reason, path, n) == 0 && strncmp(reason + n, ": ", 2) == 0;
    (void)snprintf(theirs, sizeof theirs, "%s", has_path ? reason + n + 2 : reason);
    bool other_kind =
        strstr(theirs, "file too short") != NULL || strstr(theirs, "invalid ELF header") != NULL;
    (void)snprintf(reason, OQ_LIBRARY_REASON_SIZE,
                   other_kind ? "it is no shared library (%.900s)" : "%.1000s", theirs);
}

void *oq_library_load(const char *path, char reason[OQ_LIBRARY_REASON_SIZE]) {
    const char *obvious = obvious_reason(path);
    if (obvious != NULL) {
        (void)snprintf(reason, OQ_LIBRARY_REASON_SIZE, "%s", obvious);
        return NULL;
    }
    reason[0] = '\0';
    void *handle = oq_library_open(path, false, reason, OQ_LIBRARY_REASON_SIZE);
    if (handle == NULL) {
        explain(reason, path);
    }
    return handle;
}
