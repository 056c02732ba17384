/*
 * The files that options name.
 */
#include "api/options.h"
#include "base/file.h"
#include "base/temporary.h"

#include <stdlib.h>
#include <string.h>

static enum onnxptq_status check_folder(const char *output, struct onnxptq_error *error) {
    char *folder = oq_path_folder(output);
    if (folder == NULL) {
        return oq_fail_memory(error, "a path");
    }
    enum onnxptq_status status =
        oq_path_is_folder(folder)
            ? ONNXPTQ_OK
            : oq_fail(error, ONNXPTQ_ERROR_IO,
                      "cannot write output '%s': there is no folder '%s'; create it first", output,
                      folder);
    free(folder);
    return status;
}

/* What the run reads besides the model, or NULL. */
static const char *find_twin(const struct oq_options *options, const char *path) {
    const struct onnxptq_quantize_options *q = &options->quantize;
    for (size_t i = 0; i < options->runtime.n_custom_op_libraries; i++) {
        if (oq_path_same_file(path, options->runtime.custom_op_libraries[i])) {
            return "a custom operator library";
        }
    }
    if (q->ranges_path != NULL && oq_path_same_file(path, q->ranges_path)) {
        return "the ranges file";
    }
    return q->data_path != NULL && oq_path_same_file(path, q->data_path) ? "the calibration data"
                                                                         : NULL;
}

/* The model may be replaced by its result when asked for; replacing what else is read is a slip. */
static enum onnxptq_status check_twins(const struct oq_options *options, const char *path,
                                       struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *q = &options->quantize;
    const char *twin = find_twin(options, path);
    if (path == q->save_ranges_path && oq_path_same_file(path, q->model_path)) {
        twin = "the model";
    }
    return twin == NULL
               ? ONNXPTQ_OK
               : oq_fail(error, ONNXPTQ_ERROR_USAGE,
                         "cannot write output '%s': it is %s of this run; choose another name",
                         path, twin);
}

static enum onnxptq_status check_output(const struct oq_options *options, const char *path,
                                        struct onnxptq_error *error) {
    if (oq_path_is_folder(path)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO,
                       "cannot write output '%s': it is a directory; name a file", path);
    }
    if (!options->quantize.overwrite && oq_path_is_taken(path)) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot write output '%s': it exists; choose another name, or pass --force to "
            "replace it",
            path);
    }
    OQ_TRY(check_twins(options, path, error));
    OQ_TRY(check_folder(path, error));
    oq_temporary_remove_stale(path); /* of killed runs */
    struct oq_writer *probe = NULL;
    OQ_TRY(oq_writer_create(path, &probe, error));
    oq_writer_destroy(probe);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_options_check_files(const struct oq_options *options,
                                           struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *q = &options->quantize;
    if (!oq_path_exists(q->model_path)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO, "cannot read model '%s': no such file",
                       q->model_path);
    }
    if (q->ranges_path != NULL && !oq_path_exists(q->ranges_path)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO, "cannot read ranges '%s': no such file",
                       q->ranges_path);
    }
    if (q->output_path != NULL) {
        OQ_TRY(check_output(options, q->output_path, error));
    }
    if (q->save_ranges_path == NULL) {
        return ONNXPTQ_OK;
    }
    if (q->output_path != NULL && strcmp(q->output_path, q->save_ranges_path) == 0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot write ranges '%s': that is the model's output; choose another name",
                       q->save_ranges_path);
    }
    return check_output(options, q->save_ranges_path, error);
}
