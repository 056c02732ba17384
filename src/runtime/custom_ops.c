/*
 * Loading and registering the custom-op libraries. Sessions get them through
 * oq_ort_options_create().
 */
#include "runtime/custom_ops.h"

#include "runtime/library.h"
#include "runtime/ort.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_ENTRY "RegisterCustomOps"

/* Where "PATH@FUNCTION" is split; NULL: the whole is a path. A file whose name holds an '@' wins.
 */
static const char *find_split(const char *name) {
    if (oq_path_exists(name)) {
        return NULL;
    }
    const char *at = strrchr(name, '@');
    if (at == NULL || at == name || at[1] == '\0' || strchr(at, '/') != NULL) {
        return NULL;
    }
    return at;
}

static enum onnxptq_status parse_name(const char *name, struct oq_custom_op_library *library,
                                      struct onnxptq_error *error) {
    const char *at = find_split(name);
    char *path = at != NULL ? strndup(name, (size_t)(at - name)) : strdup(name);
    library->name = strdup(name);
    library->function = strdup(at != NULL ? at + 1 : DEFAULT_ENTRY);
    library->path = path != NULL && path[0] != '\0' ? oq_path_absolute(path) : NULL;
    bool empty = path != NULL && path[0] == '\0';
    free(path);
    if (empty) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot load custom operator library '': the name is empty; pass the path of a "
            "shared library with --custom-op-lib");
    }
    if (library->name == NULL || library->function == NULL || library->path == NULL) {
        return oq_fail_memory(error, "the name of a custom operator library");
    }
    return ONNXPTQ_OK;
}

static void reset_library(struct oq_custom_op_library *library) {
    free(library->name);
    free(library->path);
    free(library->function);
    *library = (struct oq_custom_op_library){0};
}

static enum onnxptq_status load_library(struct oq_custom_op_library *library,
                                        struct onnxptq_error *error) {
    char reason[OQ_LIBRARY_REASON_SIZE];
    void *handle = oq_library_load(library->path, reason);
    if (handle == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_LIBRARY,
                       "cannot load custom operator library '%s': %s; check --custom-op-lib",
                       library->name, reason);
    }
    void *symbol = oq_library_symbol(handle, library->function);
    if (symbol == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_LIBRARY,
                       "cannot use custom operator library '%s': it has no entry point '%s'; name "
                       "another one with --custom-op-lib LIB@FUNCTION",
                       library->name, library->function);
    }
    /* ISO C has no conversion from object to function pointer; POSIX promises that the bits fit. */
    memcpy(&library->entry, &symbol, sizeof library->entry);
    return ONNXPTQ_OK;
}

static bool is_duplicate(const struct oq_custom_ops *ops, const struct oq_custom_op_library *next) {
    for (size_t i = 0; i < ops->n; i++) {
        if (strcmp(ops->libraries[i].function, next->function) == 0 &&
            oq_path_same_file(ops->libraries[i].path, next->path)) {
            return true;
        }
    }
    return false;
}

enum onnxptq_status oq_custom_ops_load(struct oq_custom_ops *ops, const char *const *names,
                                       size_t n, struct oq_activity *activity,
                                       struct onnxptq_error *error) {
    *ops = (struct oq_custom_ops){.activity = activity};
    if (n == 0) {
        return ONNXPTQ_OK;
    }
    ops->libraries = calloc(n, sizeof *ops->libraries);
    if (ops->libraries == NULL) {
        return oq_fail_memory(error, "the custom operator libraries");
    }
    for (size_t i = 0; i < n; i++) {
        struct oq_custom_op_library next = {0};
        enum onnxptq_status status = parse_name(names[i], &next, error);
        bool keep = status == ONNXPTQ_OK && !is_duplicate(ops, &next);
        if (keep) {
            oq_activity_tell_load(activity, next.name);
            status = load_library(&next, error);
        }
        if (keep && status == ONNXPTQ_OK) {
            ops->libraries[ops->n++] = next;
        } else {
            reset_library(&next);
        }
        OQ_TRY(status);
    }
    return ONNXPTQ_OK;
}

void oq_custom_ops_reset(struct oq_custom_ops *ops) {
    for (size_t i = 0; i < ops->n; i++) {
        reset_library(&ops->libraries[i]);
    }
    free(ops->libraries);
    *ops = (struct oq_custom_ops){0};
}

enum onnxptq_status oq_custom_op_register(const struct oq_custom_ops *ops, size_t index,
                                          const OrtApiBase *base, const OrtApi *api,
                                          OrtSessionOptions *options, struct onnxptq_error *error) {
    const struct oq_custom_op_library *library = &ops->libraries[index];
    const struct onnxptq_activity before = ops->activity->now;
    oq_activity_tell_load(ops->activity, library->name);
    OrtStatus *ort = library->entry(options, base);
    oq_activity_tell_again(ops->activity, &before);
    return oq_ort_check(api, ort, ONNXPTQ_ERROR_LIBRARY, error,
                        "cannot register custom operator library '%s': %s failed", library->name,
                        library->function);
}

enum onnxptq_status oq_custom_ops_register(const struct oq_custom_ops *ops, const OrtApiBase *base,
                                           const OrtApi *api, OrtSessionOptions *options,
                                           struct onnxptq_error *error) {
    for (size_t i = 0; i < ops->n; i++) {
        OQ_TRY(oq_custom_op_register(ops, i, base, api, options, error));
    }
    return ONNXPTQ_OK;
}
