/*
 * A folder of images as samples of the only input: one image is a row, in byte order of the names.
 */
#include "base/file.h"
#include "base/number.h"
#include "base/size.h"
#include "data/elements.h"
#include "data/layout.h"
#include "data/listing.h"
#include "data/preprocess.h"
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

struct image_reader {
    struct oq_reader base;
    char *path;
    struct oq_names names;
    const struct onnxptq_tensor *declared;
    struct oq_preprocess preprocess;
    struct oq_pixel_table table;
    bool nhwc;
    size_t batch_axes; /* dimensions in front of an image: 1, or 0 */
    struct oq_buffer buffer;
};

static void close_images(struct oq_reader *base) {
    struct image_reader *reader = (struct image_reader *)base;
    oq_buffer_reset(&reader->buffer);
    oq_names_reset(&reader->names);
    free(reader->path);
    free(reader);
}

/* ---- One file ---- */

/* What is done with the bytes of a file. */
typedef enum onnxptq_status file_function(struct image_reader *reader, struct oq_mapping mapping,
                                          void *user, struct onnxptq_error *error);

static enum onnxptq_status with_file(struct image_reader *reader, size_t sample, file_function *use,
                                     void *user, struct onnxptq_error *error) {
    struct oq_mapping mapping;
    char *path = oq_path_join(reader->path, reader->names.items[sample]);
    if (path == NULL) {
        return oq_fail_memory(error, "a path");
    }
    enum onnxptq_status status = oq_mapping_open(path, &mapping, error);
    if (status == ONNXPTQ_OK) {
        status =
            oq_prefix(error, use(reader, mapping, user, error), "cannot read image '%s': ", path);
        oq_mapping_close(&mapping);
    }
    free(path);
    return status;
}

/* Shape of one image as it is fed, behind the batch axis. */
static void shape_of(const struct image_reader *reader, size_t height, size_t width,
                     int64_t shape[3]) {
    int64_t channels = (int64_t)oq_preprocess_n_channels(&reader->preprocess);
    const int64_t nchw[3] = {channels, (int64_t)height, (int64_t)width};
    const int64_t nhwc[3] = {(int64_t)height, (int64_t)width, channels};
    memcpy(shape, reader->nhwc ? nhwc : nchw, sizeof nchw);
}

static enum onnxptq_status check_file(struct image_reader *reader, struct oq_mapping mapping,
                                      void *user, struct onnxptq_error *error) {
    char expected[OQ_DESCRIPTION_SIZE], found[OQ_DESCRIPTION_SIZE];
    size_t height = 0, width = 0;
    int64_t shape[ONNXPTQ_MAX_RANK] = {1};
    const struct onnxptq_tensor *t = reader->declared;
    (void)user;
    OQ_TRY(oq_image_measure(mapping.data, mapping.size, &width, &height, error));
    OQ_TRY(oq_preprocess_measure(&reader->preprocess, &height, &width, error));
    shape_of(reader, height, width, shape + reader->batch_axes);
    for (size_t i = reader->batch_axes; i < t->rank; i++) {
        if (!oq_dimension_fits(t->shape[i], shape[i])) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA,
                           "input '%s' takes %s, the image becomes %s; change --preprocess",
                           t->name, oq_describe_tensor(expected, (int)t->type, t->shape, t->rank),
                           oq_describe_tensor(found, (int)t->type, shape, t->rank));
        }
    }
    return ONNXPTQ_OK;
}

/* ---- Reading ---- */

/* Where the rows of a run go; all have the shape of the first. */
struct run {
    struct onnxptq_tensor *input;
    size_t n_rows, row;
};

static enum onnxptq_status start_run(struct image_reader *reader, struct run *run,
                                     const int64_t shape[3], struct onnxptq_error *error) {
    struct onnxptq_tensor *input = run->input;
    size_t n_elements = 0;
    input->type = reader->declared->type;
    input->rank = reader->batch_axes + 3;
    input->shape[0] = (int64_t)run->n_rows;
    memcpy(input->shape + reader->batch_axes, shape, 3 * sizeof *shape);
    if (!oq_shape_elements(input->shape, input->rank, &n_elements) ||
        !oq_size_mul(n_elements, reader->table.item_size, &input->size) ||
        !oq_buffer_reserve(&reader->buffer, input->size)) {
        return oq_fail_memory(error, "a calibration sample");
    }
    input->data = reader->buffer.data;
    return ONNXPTQ_OK;
}

static enum onnxptq_status add_row(struct image_reader *reader, struct run *run,
                                   struct oq_image *image, struct onnxptq_error *error) {
    char wanted[OQ_DESCRIPTION_SIZE], found[OQ_DESCRIPTION_SIZE];
    size_t height = image->height, width = image->width;
    int64_t shape[3];
    OQ_TRY(oq_preprocess_measure(&reader->preprocess, &height, &width, error));
    shape_of(reader, height, width, shape);
    if (run->row == 0) {
        OQ_TRY(start_run(reader, run, shape, error));
    }
    const int64_t *first = run->input->shape + reader->batch_axes;
    if (memcmp(first, shape, sizeof shape) != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "it becomes %s, the images before it in this run %s; give a crop, a "
                       "resize=HEIGHTxWIDTH or no batch size",
                       oq_describe_shape(found, shape, 3), oq_describe_shape(wanted, first, 3));
    }
    size_t row_size = run->input->size / run->n_rows;
    return oq_preprocess_apply(&reader->preprocess, &reader->table, reader->nhwc, image,
                               reader->buffer.data + run->row * row_size, error);
}

static enum onnxptq_status read_file(struct image_reader *reader, struct oq_mapping mapping,
                                     void *user, struct onnxptq_error *error) {
    struct oq_image image = {0};
    OQ_TRY(oq_image_decode(mapping.data, mapping.size, &image, error));
    enum onnxptq_status status = add_row(reader, user, &image, error);
    oq_image_reset(&image);
    return status;
}

static enum onnxptq_status read_images(struct oq_reader *base, const size_t *samples, size_t n,
                                       struct onnxptq_tensor *inputs, struct onnxptq_error *error) {
    struct image_reader *reader = (struct image_reader *)base;
    struct run run = {.input = &inputs[0], .n_rows = n};
    for (run.row = 0; run.row < n; run.row++) {
        OQ_TRY(with_file(reader, samples[run.row], read_file, &run, error));
    }
    return ONNXPTQ_OK;
}

/* ---- Opening ---- */

static bool is_image_name(const char *name) {
    return oq_name_ends(name, ".png") || oq_name_ends(name, ".jpg") || oq_name_ends(name, ".jpeg");
}

static enum onnxptq_status check_input(const struct oq_data_spec *spec,
                                       struct onnxptq_error *error) {
    char text[OQ_DESCRIPTION_SIZE];
    const char *folder = spec->options->images_path;
    if (spec->n_inputs != 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_DATA,
            "cannot use images '%s': they feed one input, the model has %zu (%s); save a "
            ".npz with an array for each",
            folder, spec->n_inputs, oq_describe_inputs(text, spec->inputs, spec->n_inputs));
    }
    const struct onnxptq_tensor *t = &spec->inputs[0];
    bool good = t->type == ONNXPTQ_TYPE_UINT8 || oq_type_is_float((int)t->type);
    if (!good || (t->rank != 3 && t->rank != 4)) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot use images '%s': input '%s' takes %s; images feed inputs of a float "
                       "type or uint8 with 3 or 4 dimensions",
                       folder, t->name, oq_describe_tensor(text, (int)t->type, t->shape, t->rank));
    }
    return ONNXPTQ_OK;
}

/* Where the channels are, told by the declared shape when the user does not. */
static enum onnxptq_status choose_layout(struct image_reader *reader, struct onnxptq_error *error) {
    char declared[OQ_DESCRIPTION_SIZE];
    const struct onnxptq_tensor *t = reader->declared;
    int64_t channels = (int64_t)oq_preprocess_n_channels(&reader->preprocess);
    bool nchw = t->shape[t->rank - 3] == channels, nhwc = t->shape[t->rank - 1] == channels;
    reader->nhwc = reader->preprocess.layout == OQ_LAYOUT_NHWC;
    if (reader->preprocess.layout != OQ_LAYOUT_AUTO) {
        return ONNXPTQ_OK;
    }
    if (nchw == nhwc) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use images for input '%s': its shape, %s, does not tell which "
                       "dimension is that of the %d channels; add layout=nchw or layout=nhwc to "
                       "--preprocess (channels=gray for one channel)",
                       t->name, oq_describe_tensor(declared, (int)t->type, t->shape, t->rank),
                       (int)channels);
    }
    reader->nhwc = nhwc;
    return ONNXPTQ_OK;
}

static enum onnxptq_status set_batch(struct image_reader *reader, size_t wanted,
                                     struct onnxptq_error *error) {
    struct oq_reader *base = &reader->base;
    int64_t declared = reader->batch_axes == 1 ? reader->declared->shape[0] : 1;
    base->batch_fixed = declared >= 0;
    base->batch = declared >= 0 ? (size_t)declared : wanted > 0 ? wanted : 1;
    if (wanted > 0 && wanted != base->batch) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot run %zu images at once: the model takes exactly %zu a run; leave the "
            "batch size out",
            wanted, base->batch);
    }
    if (base->batch == 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "cannot use images for input '%s': it takes none",
                       reader->declared->name);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status list_images(struct image_reader *reader, struct onnxptq_error *error) {
    OQ_TRY(oq_names_list(reader->path, is_image_name, &reader->names, error));
    reader->base.n_samples = reader->names.n;
    reader->base.names = &reader->names;
    if (reader->names.n == 0) {
        return oq_fail(
            error, ONNXPTQ_ERROR_DATA,
            "cannot read images '%s': the folder holds no .png, .jpg or .jpeg file (its subfolders "
            "are not searched)",
            reader->path);
    }
    for (size_t i = 0; i < reader->names.n; i++) {
        OQ_TRY(with_file(reader, i, check_file, NULL, error));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status open_images(struct image_reader *reader, const struct oq_data_spec *spec,
                                       struct onnxptq_error *error) {
    OQ_TRY(check_input(spec, error));
    reader->path = strdup(spec->options->images_path);
    reader->declared = &spec->inputs[0];
    reader->batch_axes = spec->inputs[0].rank - 3;
    if (reader->path == NULL) {
        return oq_fail_memory(error, "a path");
    }
    OQ_TRY(choose_layout(reader, error));
    OQ_TRY(oq_pixel_table_make(&reader->preprocess, (int)reader->declared->type, &reader->table,
                               error));
    OQ_TRY(set_batch(reader, spec->options->batch, error));
    return list_images(reader, error);
}

enum onnxptq_status oq_reader_open_images(const struct oq_data_spec *spec, struct oq_reader **out,
                                          struct onnxptq_error *error) {
    struct image_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    reader->base = (struct oq_reader){.read = read_images, .close = close_images};
    enum onnxptq_status status =
        oq_preprocess_parse(spec->options->preprocess, &reader->preprocess, error);
    if (status == ONNXPTQ_OK) {
        status = open_images(reader, spec, error);
    }
    if (status != ONNXPTQ_OK) {
        close_images(&reader->base);
        return status;
    }
    *out = &reader->base;
    return ONNXPTQ_OK;
}
