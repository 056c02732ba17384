/*
 * Merging ranges files.
 */
#include "api/ranges.h"

static enum onnxptq_status check_merge_paths(const char *const *paths, size_t n,
                                             const char *output_path, bool overwrite,
                                             struct onnxptq_error *error) {
    if (n == 0 || output_path == NULL || output_path[0] == '\0') {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot merge ranges: name the files, and the output with -o");
    }
    if (oq_ranges_is_cache_path(output_path)) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot merge ranges into '%s': a calibration cache holds chosen scales, not "
            "what they were chosen from; merge into a ranges file",
            output_path);
    }
    if (!overwrite && oq_path_is_taken(output_path)) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot write output '%s': it exists; choose another name, or pass --force to "
            "replace it",
            output_path);
    }
    (void)paths;
    return ONNXPTQ_OK;
}

static enum onnxptq_status merge_all(const char *const *paths, size_t n, struct oq_ranges *merged,
                                     struct onnxptq_error *error) {
    for (size_t i = 1; i < n; i++) {
        struct oq_ranges *next = NULL;
        OQ_TRY(oq_ranges_read(paths[i], &next, error));
        enum onnxptq_status status = oq_ranges_merge(merged, next, paths[i], error);
        oq_ranges_destroy(next);
        OQ_TRY(status);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status onnxptq_merge_ranges(const char *const *paths, size_t n,
                                         const char *output_path, bool overwrite,
                                         struct onnxptq_error *error) {
    struct oq_ranges *merged = NULL;
    OQ_TRY(check_merge_paths(paths, n, output_path, overwrite, error));
    OQ_TRY(oq_ranges_read(paths[0], &merged, error));
    enum onnxptq_status status = merge_all(paths, n, merged, error);
    if (status == ONNXPTQ_OK) {
        /* Of files of unfinished calibrations it becomes one of a finished one. */
        merged->state_key = NULL;
        status = oq_ranges_save(merged, output_path, error);
    }
    oq_ranges_destroy(merged);
    return status;
}
