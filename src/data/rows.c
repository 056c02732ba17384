/*
 * Samples out of one .npz or .npy file, by the layout that layout.c finds.
 */
#include "base/number.h"
#include "base/size.h"
#include "data/elements.h"
#include "data/layout.h"
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

struct row_input {
    size_t array; /* of the archive */
    enum oq_array_use use;
    int type;            /* as fed */
    size_t row_elements; /* of one sample; of the whole array for OQ_ARRAY_WHOLE */
    struct oq_buffer buffer;
    bool loaded; /* OQ_ARRAY_WHOLE: the buffer holds it */
};

struct row_reader {
    struct oq_reader base;
    struct oq_archive *archive;
    const struct onnxptq_tensor *declared;
    size_t n_inputs;
    struct row_input *inputs;
    struct oq_buffer scratch;
};

static void close_rows(struct oq_reader *base) {
    struct row_reader *reader = (struct row_reader *)base;
    for (size_t i = 0; i < reader->n_inputs && reader->inputs != NULL; i++) {
        oq_buffer_reset(&reader->inputs[i].buffer);
    }
    oq_buffer_reset(&reader->scratch);
    oq_archive_close(reader->archive);
    free(reader->inputs);
    free(reader);
}

/* ---- Reading ---- */

static void describe_run(const struct row_input *input, const struct oq_npy *npy, size_t n,
                         struct onnxptq_tensor *out) {
    size_t skip = input->use == OQ_ARRAY_ENTRIES ? 1 : 0;
    out->type = (enum onnxptq_type)input->type;
    out->rank = npy->rank - skip;
    memcpy(out->shape, npy->shape + skip, out->rank * sizeof out->shape[0]);
    if (input->use == OQ_ARRAY_ROWS) {
        out->shape[0] = (int64_t)n;
    }
}

static enum onnxptq_status fetch(struct row_reader *reader, size_t index, size_t sample, size_t at,
                                 struct onnxptq_error *error) {
    struct row_input *input = &reader->inputs[index];
    size_t first = input->use == OQ_ARRAY_WHOLE ? 0 : sample * input->row_elements;
    struct oq_element_range range = {input->array, first, input->row_elements};
    uint8_t *out = input->buffer.data + at * input->row_elements * oq_type_size(input->type);
    return oq_reader_fetch(reader->archive, range, input->type, out, &reader->scratch,
                           reader->declared[index].name, sample, error);
}

static enum onnxptq_status read_input(struct row_reader *reader, size_t index,
                                      const size_t *samples, size_t n, struct onnxptq_tensor *out,
                                      struct onnxptq_error *error) {
    struct row_input *input = &reader->inputs[index];
    size_t count = input->use == OQ_ARRAY_ROWS ? n : 1, size = 0;
    if (!oq_size_mul(count, input->row_elements, &size) ||
        !oq_size_mul(size, oq_type_size(input->type), &size) ||
        !oq_buffer_reserve(&input->buffer, size)) {
        return oq_fail_memory(error, "a calibration sample");
    }
    for (size_t i = 0; i < count && !input->loaded; i++) {
        OQ_TRY(fetch(reader, index, samples[i], i, error));
    }
    input->loaded = input->use == OQ_ARRAY_WHOLE;
    describe_run(input, &oq_archive_array(reader->archive, input->array)->npy, n, out);
    out->data = input->buffer.data;
    out->size = size;
    return ONNXPTQ_OK;
}

static enum onnxptq_status read_rows(struct oq_reader *base, const size_t *samples, size_t n,
                                     struct onnxptq_tensor *inputs, struct onnxptq_error *error) {
    struct row_reader *reader = (struct row_reader *)base;
    for (size_t i = 0; i < reader->n_inputs; i++) {
        OQ_TRY(read_input(reader, i, samples, n, &inputs[i], error));
    }
    return ONNXPTQ_OK;
}

/* ---- Opening ---- */

static enum onnxptq_status set_batch(struct row_reader *reader, const struct oq_layout *layout,
                                     size_t wanted, struct onnxptq_error *error) {
    struct oq_reader *base = &reader->base;
    const char *path = oq_archive_path(reader->archive);
    base->batch = layout->fixed_rows > 0 ? layout->fixed_rows : wanted > 0 ? wanted : 1;
    base->batch_fixed = layout->fixed_rows > 0;
    if (!layout->joinable) {
        base->batch = 1;
        base->batch_fixed = false;
        if (wanted > 1) {
            return oq_fail(
                error, ONNXPTQ_ERROR_USAGE,
                "cannot run %zu samples of '%s' at once: each entry of its arrays is a whole "
                "run; leave the batch size out",
                wanted, path);
        }
    } else if (wanted > 0 && wanted != base->batch) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot run %zu samples of '%s' at once: the model takes exactly %zu a run; leave "
            "the batch size out",
            wanted, path, base->batch);
    }
    return ONNXPTQ_OK;
}

static void set_input(struct row_input *input, const struct onnxptq_tensor *declared,
                      const struct oq_npy *npy, size_t n_samples) {
    bool open = declared->type == ONNXPTQ_TYPE_UNDEFINED;
    input->type = open ? (int)npy->type : (int)declared->type;
    input->row_elements =
        input->use == OQ_ARRAY_WHOLE ? npy->n_elements : npy->n_elements / n_samples;
}

static enum onnxptq_status lay_out(struct row_reader *reader, const struct oq_data_spec *spec,
                                   size_t *indices, enum oq_array_use *uses,
                                   struct onnxptq_error *error) {
    struct oq_layout layout;
    OQ_TRY(oq_layout_match(spec->inputs, spec->n_inputs, reader->archive, indices, error));
    OQ_TRY(oq_layout_find(spec->inputs, spec->n_inputs, reader->archive, indices, spec->log, uses,
                          &layout, error));
    reader->base.n_samples = layout.n_samples;
    for (size_t i = 0; i < spec->n_inputs; i++) {
        reader->inputs[i].array = indices[i];
        reader->inputs[i].use = uses[i];
        set_input(&reader->inputs[i], &spec->inputs[i],
                  &oq_archive_array(reader->archive, indices[i])->npy, layout.n_samples);
    }
    return set_batch(reader, &layout, spec->options->batch, error);
}

enum onnxptq_status oq_reader_open_archive(const struct oq_data_spec *spec,
                                           struct oq_archive *archive, struct oq_reader **out,
                                           struct onnxptq_error *error) {
    size_t n = spec->n_inputs > 0 ? spec->n_inputs : 1;
    struct row_reader *reader = calloc(1, sizeof *reader);
    size_t *indices = calloc(n, sizeof *indices);
    enum oq_array_use *uses = calloc(n, sizeof *uses);
    enum onnxptq_status status = ONNXPTQ_OK;
    if (reader == NULL) {
        oq_archive_close(archive);
    }
    if (reader != NULL) {
        reader->base = (struct oq_reader){.read = read_rows, .close = close_rows};
        reader->archive = archive;
        reader->declared = spec->inputs;
        reader->n_inputs = spec->n_inputs;
        reader->inputs = calloc(n, sizeof *reader->inputs);
    }
    if (reader == NULL || reader->inputs == NULL || indices == NULL || uses == NULL) {
        status = oq_fail_memory(error, "calibration data");
    } else {
        status = lay_out(reader, spec, indices, uses, error);
    }
    free(indices);
    free(uses);
    if (status == ONNXPTQ_OK) {
        status = oq_archive_verify(archive, error);
    }
    if (status == ONNXPTQ_OK) {
        *out = &reader->base;
    } else if (reader != NULL) {
        close_rows(&reader->base);
    }
    return status;
}

enum onnxptq_status oq_reader_open_file(const struct oq_data_spec *spec, struct oq_reader **out,
                                        struct onnxptq_error *error) {
    struct oq_archive *archive = NULL;
    OQ_TRY(oq_archive_open(spec->options->data_path, &archive, error));
    return oq_reader_open_archive(spec, archive, out, error);
}
