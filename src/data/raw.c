/*
 * The size of a file and the declared shape say together what it holds.
 */
#include "data/raw.h"

#include "base/file.h"
#include "base/number.h"
#include "base/size.h"
#include "data/declared.h"
#include "data/elements.h"
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

enum onnxptq_status oq_raw_shapes(const struct oq_data_spec *spec, struct onnxptq_tensor **out,
                                  struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = spec->options;
    struct onnxptq_tensor *shapes = calloc(spec->n_inputs > 0 ? spec->n_inputs : 1, sizeof *shapes);
    if (shapes == NULL) {
        return oq_fail_memory(error, "the shapes of the inputs");
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    for (size_t i = 0; i < spec->n_inputs; i++) {
        shapes[i] = spec->inputs[i];
    }
    for (size_t i = 0; i < options->n_input_shapes; i++) {
        const struct onnxptq_input_shape *given = &options->input_shapes[i];
        size_t input = oq_declared_find(spec->inputs, spec->n_inputs, given->name);
        if (input >= spec->n_inputs) {
            status = oq_declared_fail_name(spec, "shape", given->name, error);
            goto done;
        }
        OQ_TRY_DONE(oq_declared_set_shape(&shapes[input], given, error));
    }
    *out = shapes;
    shapes = NULL;
done:
    free(shapes);
    return status;
}

/* ---- One file ---- */

/* What is known of it so far. */
struct raw_file {
    const struct onnxptq_tensor *shape;
    const char *path;
    uint64_t size;
    size_t n_open, open; /* dimensions that are not known: how many, and the last of them */
    size_t sample;       /* bytes of all known dimensions */
    struct oq_npy *npy;
    struct onnxptq_error *error;
};

static enum onnxptq_status fail_size(const struct raw_file *file, const char *unit) {
    char expected[OQ_DESCRIPTION_SIZE];
    const struct onnxptq_tensor *t = file->shape;
    return oq_fail(file->error, ONNXPTQ_ERROR_DATA,
                   "cannot use '%s' for input '%s': expected %s%zu bytes of %s, found %llu bytes",
                   file->path, t->name, unit, file->sample,
                   oq_describe_tensor(expected, (int)t->type, t->shape, t->rank),
                   (unsigned long long)file->size);
}

static enum onnxptq_status fail_open(const struct raw_file *file) {
    char declared[OQ_DESCRIPTION_SIZE], example[OQ_DESCRIPTION_SIZE];
    const struct onnxptq_tensor *t = file->shape;
    return oq_fail(file->error, ONNXPTQ_ERROR_USAGE,
                   "cannot use '%s' for input '%s': raw elements do not say which shape they have, "
                   "and the model declares %s; give it, for example --input-shape %s:%s",
                   file->path, t->name,
                   oq_describe_tensor(declared, (int)t->type, t->shape, t->rank), t->name,
                   oq_declared_example(example, sizeof example, t));
}

static enum onnxptq_status measure(struct raw_file *file) {
    const struct onnxptq_tensor *t = file->shape;
    struct oq_file_id id;
    file->sample = oq_type_size((int)t->type);
    if (t->type == ONNXPTQ_TYPE_UNDEFINED || file->sample == 0) {
        return oq_fail(file->error, ONNXPTQ_ERROR_USAGE,
                       "cannot use '%s' for input '%s': its %s; save a .npz", file->path, t->name,
                       t->type == ONNXPTQ_TYPE_UNDEFINED ? "shape is not declared"
                                                         : "type is not numeric");
    }
    for (size_t i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0) {
            file->n_open++;
            file->open = i;
        } else if (!oq_size_mul(file->sample, (size_t)t->shape[i], &file->sample)) {
            return oq_fail(file->error, ONNXPTQ_ERROR_DATA,
                           "cannot use '%s' for input '%s': its shape has more elements than a "
                           "machine can address",
                           file->path, t->name);
        }
    }
    if (!oq_file_identify(file->path, &id)) {
        return oq_fail(file->error, ONNXPTQ_ERROR_IO,
                       "cannot read calibration data '%s': no such file", file->path);
    }
    file->size = id.size;
    return ONNXPTQ_OK;
}

static void describe(const struct raw_file *file) {
    const struct onnxptq_tensor *t = file->shape;
    struct oq_npy *npy = file->npy;
    *npy = (struct oq_npy){.type = t->type,
                           .item_size = oq_type_size((int)t->type),
                           .rank = t->rank,
                           .n_bytes = (size_t)file->size};
    memcpy(npy->shape, t->shape, t->rank * sizeof t->shape[0]);
    npy->n_elements = npy->n_bytes / npy->item_size;
}

/* How many times the known dimensions go into the file. */
static enum onnxptq_status divide(const struct raw_file *file, const char *unit, int64_t *out) {
    if (file->sample == 0 || file->size % file->sample != 0) {
        return fail_size(file, unit);
    }
    *out = (int64_t)(file->size / file->sample);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_raw_describe_run(const struct onnxptq_tensor *shape, const char *path,
                                        struct oq_npy *out, struct onnxptq_error *error) {
    struct raw_file file = {.shape = shape, .path = path, .npy = out, .error = error};
    OQ_TRY(measure(&file));
    if (file.n_open > 1) {
        return fail_open(&file);
    }
    if (file.n_open == 0 && file.size != file.sample) {
        return fail_size(&file, "");
    }
    int64_t extent = 0;
    if (file.n_open == 1) {
        OQ_TRY(divide(&file, "a multiple of ", &extent));
    }
    describe(&file);
    if (file.n_open == 1) {
        out->shape[file.open] = extent;
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_raw_describe_all(const struct onnxptq_tensor *shape, const char *path,
                                        struct oq_npy *out, struct onnxptq_error *error) {
    struct raw_file file = {.shape = shape, .path = path, .npy = out, .error = error};
    int64_t n = 0;
    OQ_TRY(measure(&file));
    bool rows = file.n_open == 1 && file.open == 0;
    if (file.n_open > 0 && !rows) {
        return fail_open(&file);
    }
    OQ_TRY(divide(&file, "a multiple of ", &n));
    describe(&file);
    if (rows) {
        out->shape[0] = n;
        return ONNXPTQ_OK;
    }
    if (out->rank == ONNXPTQ_MAX_RANK) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "cannot use '%s' for input '%s': it has %d dimensions; save a .npz for each "
                       "run",
                       path, shape->name, ONNXPTQ_MAX_RANK);
    }
    memmove(out->shape + 1, out->shape, out->rank * sizeof out->shape[0]);
    out->shape[0] = n;
    out->rank++;
    return ONNXPTQ_OK;
}

/* ---- A file as the whole data ---- */

static enum onnxptq_status open_part(const struct oq_data_spec *spec,
                                     const struct onnxptq_tensor *shapes, struct oq_archive **out,
                                     struct onnxptq_error *error) {
    struct oq_npy npy;
    const char *path = spec->options->data_path;
    char names[OQ_DESCRIPTION_SIZE];
    if (spec->n_inputs != 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_DATA,
            "cannot use '%s': a raw file feeds one input, the model has %zu (%s); give a "
            "folder with a file for each, named like it",
            path, spec->n_inputs, oq_describe_inputs(names, spec->inputs, spec->n_inputs));
    }
    OQ_TRY(oq_raw_describe_all(&shapes[0], path, &npy, error));
    const struct oq_archive_part part = {"", path, OQ_ARRAY_FILE_RAW, &npy};
    return oq_archive_open_parts(path, &part, 1, out, error);
}

enum onnxptq_status oq_reader_open_raw(const struct oq_data_spec *spec, struct oq_reader **out,
                                       struct onnxptq_error *error) {
    struct onnxptq_tensor *shapes = NULL;
    struct oq_archive *archive = NULL;
    OQ_TRY(oq_raw_shapes(spec, &shapes, error));
    if (shapes == NULL) {
        return oq_fail_memory(error, "the shapes of the inputs");
    }
    enum onnxptq_status status = open_part(spec, shapes, &archive, error);
    free(shapes);
    if (status != ONNXPTQ_OK) {
        return status;
    }
    OQ_TRY(oq_reader_open_archive(spec, archive, out, error));
    (*out)->shapes_used = true;
    return ONNXPTQ_OK;
}
