/*
 * Reasons that a user understands, before the loader's.
 */
#include "runtime/library.h"

#include <stdio.h>
#include <string.h>

static const char *obvious_reason(const char *path) {
    if (!oq_path_exists(path)) return "there is no such file";
    if (oq_path_is_folder(path)) return "it is a folder, not a shared library";
    struct oq_mapping file;
    if (oq_mapping_open(path, &file, NULL) != ONNXPTQ_OK) return NULL; /* the loader says more */
    bool empty = file.size == 0;
    oq_mapping_close(&file);
    return empty ? "the file is empty" : NULL;
}

/* The loader puts the path, which our message holds already, in front of its reason. */
static void drop_path(char *reason, const char *path) {
    size_t n = strlen(path);
    if (strncmp(reason, path, n) == 0 && strncmp(reason + n, ": ", 2) == 0) {
        memmove(reason, reason + n + 2, strlen(reason + n + 2) + 1);
    }
}

void *oq_library_load(const char *path, char reason[OQ_LIBRARY_REASON_SIZE]) {
    const char *obvious = obvious_reason(path);
    if (obvious != NULL) {
        (void)snprintf(reason, OQ_LIBRARY_REASON_SIZE, "%s", obvious);
        return NULL;
    }
    reason[0] = '\0';
    void *handle = oq_library_open(path, false, reason, OQ_LIBRARY_REASON_SIZE);
    if (handle == NULL) drop_path(reason, path);
    return handle;
}
