/*
 * Writing the result's files; see output.h. Putting them in place is in output_commit.c.
 */
#include "api/output_files.h"

#include "base/size.h"
#include "base/temporary.h"
#include "model/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NAMES 1000

/* ---- Names ---- */

/* `path` with ".data" or ".<number>.data" behind; NULL when out of memory. */
static char *make_data_path(const char *path, unsigned number) {
    size_t size;
    if (!oq_size_add(strlen(path), sizeof ".1234567890.data", &size)) {
        return NULL;
    }
    char *data_path = malloc(size);
    if (data_path != NULL && number == 0) {
        snprintf(data_path, size, "%s.data", path);
    } else if (data_path != NULL) {
        snprintf(data_path, size, "%s.%u.data", path, number);
    }
    return data_path;
}

/* A file that the input needs is replaced together with the input only. */
static bool is_needed(const struct onnxptq_quantize_options *options,
                      const struct oq_model *original, const char *path) {
    const bool in_place = oq_path_same_file(options->model_path, options->output_path);
    return (!in_place && oq_model_keeps_data_in(original, path)) ||
           oq_path_same_file(options->model_path, path);
}

/* NULL when out of memory, or of names. */
static char *choose_data_path(const struct onnxptq_quantize_options *options,
                              const struct oq_model *original) {
    char *path = NULL;
    for (unsigned i = 0; i < MOST_NAMES; i++) {
        path = make_data_path(options->output_path, i);
        if (path == NULL || !is_needed(options, original, path)) {
            return path;
        }
        free(path);
    }
    return NULL;
}

static enum onnxptq_status check_data_path(const struct onnxptq_quantize_options *options,
                                           const char *path, struct onnxptq_error *error) {
    if (oq_path_is_folder(path) || oq_path_is_link(path)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO,
                       "cannot write the output's weights to '%s': it is a %s; choose another name "
                       "for the output",
                       path, oq_path_is_link(path) ? "link" : "directory");
    }
    if (!options->overwrite && oq_path_exists(path)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot write the output's weights to '%s': it exists and another model may "
                       "need it; choose another name for the output, or pass --force to replace it",
                       path);
    }
    return ONNXPTQ_OK;
}

static bool is_surely_external(const struct onnxptq_quantize_options *options,
                               const struct oq_model *original) {
    return options->external_data == ONNXPTQ_EXTERNAL_DATA_ALWAYS ||
           (options->external_data == ONNXPTQ_EXTERNAL_DATA_AUTO && oq_model_is_external(original));
}

enum onnxptq_status oq_output_check(const struct onnxptq_quantize_options *options,
                                    const struct oq_model *original, struct onnxptq_error *error) {
    if (oq_model_keeps_data_in(original, options->output_path)) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot write output '%s': model '%s' keeps its weights there; choose another "
            "name",
            options->output_path, options->model_path);
    }
    char *path = choose_data_path(options, original);
    if (path == NULL) {
        return oq_fail_memory(error, "a file name");
    }
    oq_temporary_remove_stale(path);
    const enum onnxptq_status status =
        is_surely_external(options, original) ? check_data_path(options, path, error) : ONNXPTQ_OK;
    free(path);
    return status;
}

/* ---- Writing ---- */

static enum onnxptq_status choose_form(const struct onnxptq_quantize_options *options,
                                       const struct oq_model *original,
                                       const struct oq_model *model, bool *external,
                                       struct onnxptq_error *error) {
    uint64_t size = 0;
    *external = is_surely_external(options, original);
    if (!*external && options->external_data == ONNXPTQ_EXTERNAL_DATA_AUTO) {
        OQ_TRY(oq_model_whole_size(model, &size, error));
        *external = size > options->external_data_above || size > OQ_WIRE_MAX_SIZE;
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status write_inside(struct oq_output *output, const struct oq_model *model,
                                        struct onnxptq_error *error) {
    OQ_TRY(oq_model_write(model, output->model, error));
    return oq_writer_finish(output->model, error);
}

/* The temporary name without the ".tmp" that allows anyone to remove it. */
static bool name_passage(struct oq_output *output) {
    const char *temporary = oq_writer_path(oq_external_data_writer(output->data));
    output->passage_path = strndup(temporary, strlen(temporary) - strlen(".tmp"));
    return output->passage_path != NULL;
}

/* Where both files replace older ones, the model is also written with the name that its data have
 * in between: see output_commit.c. */
static enum onnxptq_status write_passage(struct oq_output *output, const struct oq_model *model,
                                         struct onnxptq_error *error) {
    if (!output->overwrite || !oq_path_exists(output->path) || !oq_path_exists(output->data_path)) {
        return ONNXPTQ_OK;
    }
    if (!name_passage(output)) {
        return oq_fail_memory(error, "a file name");
    }
    OQ_TRY(oq_writer_create(output->path, &output->passage, error));
    OQ_TRY(oq_model_write_external(model, output->passage, output->data,
                                   oq_path_base(output->passage_path), error));
    return oq_writer_finish(output->passage, error);
}

static enum onnxptq_status write_outside(struct oq_output *output,
                                         const struct onnxptq_quantize_options *options,
                                         const struct oq_model *model,
                                         struct onnxptq_error *error) {
    OQ_TRY(check_data_path(options, output->data_path, error));
    OQ_TRY(oq_external_data_create(output->data_path, options->external_data_threshold,
                                   &output->data, error));
    struct oq_writer *data = oq_external_data_writer(output->data);
    OQ_TRY(oq_model_write_external(model, output->model, output->data,
                                   oq_path_base(output->data_path), error));
    OQ_TRY(write_passage(output, model, error));
    OQ_TRY(oq_writer_finish(output->model, error));
    OQ_TRY(oq_writer_finish(data, error));
    if (oq_writer_offset(data) == 0) { /* every tensor is below the threshold */
        oq_external_data_destroy(output->data);
        output->data = NULL;
    }
    return ONNXPTQ_OK;
}

static bool find_left_data(const struct oq_output *output,
                           const struct onnxptq_quantize_options *options,
                           const struct oq_model *original) {
    if (oq_path_same_file(options->model_path, output->path) && oq_model_is_external(original)) {
        return output->data == NULL || !oq_model_keeps_data_in(original, output->data_path);
    }
    return oq_path_exists(output->path) && output->data == NULL &&
           oq_path_exists(output->data_path);
}

static enum onnxptq_status write_files(struct oq_output *output,
                                       const struct onnxptq_quantize_options *options,
                                       const struct oq_model *original,
                                       const struct oq_model *model, struct onnxptq_error *error) {
    bool external = false;
    output->path = strdup(options->output_path);
    output->data_path = choose_data_path(options, original);
    output->overwrite = options->overwrite;
    if (output->path == NULL || output->data_path == NULL) {
        return oq_fail_memory(error, "a file name");
    }
    OQ_TRY(choose_form(options, original, model, &external, error));
    OQ_TRY(oq_writer_create(output->path, &output->model, error));
    OQ_TRY(external ? write_outside(output, options, model, error)
                    : write_inside(output, model, error));
    output->leaves_data = find_left_data(output, options, original);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_output_write(const struct onnxptq_quantize_options *options,
                                    const struct oq_model *original, const struct oq_model *model,
                                    struct oq_output **out, struct onnxptq_error *error) {
    struct oq_output *output = calloc(1, sizeof *output);
    if (output == NULL) {
        return oq_fail_memory(error, "the output");
    }
    const enum onnxptq_status status = write_files(output, options, original, model, error);
    if (status != ONNXPTQ_OK) {
        oq_output_destroy(output);
        return status;
    }
    *out = output;
    return ONNXPTQ_OK;
}

/* ---- Access ---- */

uint64_t oq_output_bytes(const struct oq_output *output) {
    const uint64_t data =
        output->data == NULL ? 0 : oq_writer_offset(oq_external_data_writer(output->data));
    return oq_writer_offset(output->model) + data;
}

const char *oq_output_data_path(const struct oq_output *output) {
    return output->data == NULL ? NULL : output->data_path;
}

bool oq_output_leaves_data(const struct oq_output *output) {
    return output->leaves_data;
}

void oq_output_destroy(struct oq_output *output) {
    if (output == NULL) {
        return;
    }
    oq_writer_destroy(output->passage);
    oq_writer_destroy(output->model);
    oq_external_data_destroy(output->data);
    free(output->passage_path);
    free(output->data_path);
    free(output->path);
    free(output);
}
