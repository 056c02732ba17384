/*
 * Random samples. One sample is one run of the shapes that the model declares; where the first
 * dimension is free a sample has one row, and the rows of up to `batch` samples are joined.
 */
#include "base/number.h"
#include "base/size.h"
#include "data/declared.h"
#include "data/elements.h"
#include "data/random.h"
#include "data/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Integers of ranges are computed in double. */
#define MAX_INTEGER 9007199254740992.0 /* 2^53 */

struct random_input {
    struct onnxptq_tensor shape; /* of one sample, all dimensions known */
    bool joins;                  /* samples are rows: the first dimension is free */
    size_t elements;             /* of one sample */
    bool has_range;
    double low, high;
    struct oq_buffer buffer;
};

struct random_reader {
    struct oq_reader base;
    uint64_t seed;
    size_t n_inputs;
    struct random_input *inputs;
};

static void close_random(struct oq_reader *base) {
    struct random_reader *reader = (struct random_reader *)base;
    for (size_t i = 0; i < reader->n_inputs && reader->inputs != NULL; i++) {
        oq_buffer_reset(&reader->inputs[i].buffer);
    }
    free(reader->inputs);
    free(reader);
}

/* ---- Filling ---- */

static double draw_float(const struct random_input *input, struct oq_random *random) {
    if (!input->has_range) {
        return oq_random_normal(random);
    }
    double u = oq_random_unit(random);
    /* Not low + u * (high - low), which overflows for the widest ranges. */
    return fmin(fmax(input->low * (1 - u) + input->high * u, input->low), input->high);
}

static void fill(const struct random_input *input, struct oq_random *random, uint8_t *out) {
    int type = (int)input->shape.type;
    size_t size = oq_type_size(type);
    bool is_float = oq_type_is_float(type);
    int64_t low = input->has_range && !is_float ? (int64_t)ceil(input->low) : 0;
    int64_t high = input->has_range && !is_float ? (int64_t)floor(input->high) : 1;
    for (size_t i = 0; i < input->elements; i++) {
        if (is_float) {
            /* Through float whatever the type: one value for all of them. */
            double value = (double)oq_double_to_float(draw_float(input, random));
            oq_store_float(type, value, out + i * size);
        } else {
            /* Little-endian: the low bytes are the narrower integer. */
            int64_t value = oq_random_integer(random, low, high);
            memcpy(out + i * size, &value, size);
        }
    }
}

static enum onnxptq_status read_random(struct oq_reader *base, const size_t *samples, size_t n,
                                       struct onnxptq_tensor *inputs, struct onnxptq_error *error) {
    struct random_reader *reader = (struct random_reader *)base;
    for (size_t i = 0; i < reader->n_inputs; i++) {
        struct random_input *input = &reader->inputs[i];
        size_t count = input->joins ? n : 1, stride = 0, size = 0;
        if (!oq_size_mul(input->elements, oq_type_size((int)input->shape.type), &stride) ||
            !oq_size_mul(stride, count, &size) || !oq_buffer_reserve(&input->buffer, size)) {
            return oq_fail(
                error, ONNXPTQ_ERROR_MEMORY,
                "cannot make random data for input '%s': there is not the memory for "
                "%zu elements; give it a smaller --batch, or a model with a smaller input",
                input->shape.name, input->elements);
        }
        for (size_t k = 0; k < count; k++) {
            struct oq_random random;
            oq_random_init(&random, reader->seed, samples[k], input->shape.name);
            fill(input, &random, input->buffer.data + k * stride);
        }
        inputs[i] = input->shape;
        if (input->joins) {
            inputs[i].shape[0] = (int64_t)count;
        }
        inputs[i].data = input->buffer.data;
        inputs[i].size = size;
    }
    return ONNXPTQ_OK;
}

/* ---- Options ---- */

static enum onnxptq_status apply_shape(struct random_input *input,
                                       const struct onnxptq_input_shape *shape,
                                       struct onnxptq_error *error) {
    struct onnxptq_tensor *t = &input->shape;
    bool free_first = t->rank > 0 && t->shape[0] < 0;
    OQ_TRY(oq_declared_set_shape(t, shape, error));
    /* One row given for a free first dimension leaves it free: rows may still be joined. */
    input->joins = free_first && shape->shape[0] == 1;
    return ONNXPTQ_OK;
}

/* Largest finite value of a type; `*low` is the least. */
static double type_limits(int type, double *low) {
    double high = 0;
    bool is_signed = true;
    switch (type) {
    case ONNXPTQ_TYPE_FLOAT16: high = (double)OQ_HALF_MAX; break;
    case ONNXPTQ_TYPE_BFLOAT16: high = (double)OQ_BFLOAT16_MAX; break;
    case ONNXPTQ_TYPE_INT8: high = INT8_MAX; break;
    case ONNXPTQ_TYPE_INT16: high = INT16_MAX; break;
    case ONNXPTQ_TYPE_INT32: high = INT32_MAX; break;
    case ONNXPTQ_TYPE_INT64: high = MAX_INTEGER; break;
    case ONNXPTQ_TYPE_BOOL: high = 1, is_signed = false; break;
    case ONNXPTQ_TYPE_UINT8: high = UINT8_MAX, is_signed = false; break;
    case ONNXPTQ_TYPE_UINT16: high = UINT16_MAX, is_signed = false; break;
    case ONNXPTQ_TYPE_UINT32: high = UINT32_MAX, is_signed = false; break;
    case ONNXPTQ_TYPE_UINT64: high = MAX_INTEGER, is_signed = false; break;
    default: high = (double)FLT_MAX; break;
    }
    bool is_integer = !oq_type_is_float(type);
    *low = is_signed ? (is_integer && high < MAX_INTEGER ? -high - 1 : -high) : 0;
    return high;
}

static enum onnxptq_status apply_range(struct random_input *input,
                                       const struct onnxptq_input_range *range,
                                       struct onnxptq_error *error) {
    int type = (int)input->shape.type;
    double least = 0, most = type_limits(type, &least);
    const char *fact = NULL;
    if (!isfinite(range->low) || !isfinite(range->high)) {
        fact = "both ends must be finite";
    } else if (range->low > range->high) {
        fact = "its low end is above its high end";
    } else if (range->low < least || range->high > most) {
        fact = "its type cannot hold the ends";
    } else if (!oq_type_is_float(type) && ceil(range->low) > floor(range->high)) {
        fact = "no integer lies in it";
    }
    if (fact != NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot give input '%s' (%s) the range %g to %g: %s", range->name,
                       oq_type_name(type), range->low, range->high, fact);
    }
    input->has_range = true;
    input->low = range->low;
    input->high = range->high;
    return ONNXPTQ_OK;
}

static enum onnxptq_status apply_options(struct random_reader *reader,
                                         const struct oq_data_spec *spec,
                                         struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = spec->options;
    for (size_t i = 0; i < options->n_input_shapes; i++) {
        const struct onnxptq_input_shape *shape = &options->input_shapes[i];
        size_t input = oq_declared_find(spec->inputs, spec->n_inputs, shape->name);
        if (input >= spec->n_inputs) {
            return oq_declared_fail_name(spec, "shape", shape->name, error);
        }
        OQ_TRY(apply_shape(&reader->inputs[input], shape, error));
    }
    for (size_t i = 0; i < options->n_input_ranges; i++) {
        const struct onnxptq_input_range *range = &options->input_ranges[i];
        size_t input = oq_declared_find(spec->inputs, spec->n_inputs, range->name);
        if (input >= spec->n_inputs) {
            return oq_declared_fail_name(spec, "range", range->name, error);
        }
        OQ_TRY(apply_range(&reader->inputs[input], range, error));
    }
    return ONNXPTQ_OK;
}

/* ---- Shapes ---- */

static enum onnxptq_status resolve_shape(struct random_input *input, struct onnxptq_error *error) {
    char declared[OQ_DESCRIPTION_SIZE], example[OQ_DESCRIPTION_SIZE];
    struct onnxptq_tensor *t = &input->shape;
    if (oq_type_size((int)t->type) == 0) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot make random data for input '%s': its %s; give data of your own", t->name,
            t->type == ONNXPTQ_TYPE_UNDEFINED ? "shape is not declared" : "type is not numeric");
    }
    for (size_t i = 1; i < t->rank; i++) {
        if (t->shape[i] >= 0) {
            continue;
        }
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot make random data for input '%s': dimension %zu of %s is not known; give "
            "its shape, for example --input-shape %s:%s",
            t->name, i + 1, oq_describe_tensor(declared, (int)t->type, t->shape, t->rank), t->name,
            oq_declared_example(example, sizeof example, t));
    }
    if (t->rank > 0 && t->shape[0] < 0) {
        input->joins = true;
        t->shape[0] = 1;
    }
    size_t bytes = 0;
    if (!oq_shape_elements(t->shape, t->rank, &input->elements) ||
        !oq_size_mul(input->elements, oq_type_size((int)t->type), &bytes)) {
        return oq_fail(
            error, ONNXPTQ_ERROR_DATA,
            "cannot make random data for input '%s': %s has more elements than a machine can "
            "address",
            t->name, oq_describe_tensor(declared, (int)t->type, t->shape, t->rank));
    }
    return ONNXPTQ_OK;
}

/* Samples are joined along free first dimensions only. A batch that the shapes themselves have is
 * no contradiction. */
static enum onnxptq_status set_batch(struct random_reader *reader, size_t wanted,
                                     struct onnxptq_error *error) {
    bool joins = false, has_wanted = false;
    for (size_t i = 0; i < reader->n_inputs; i++) {
        const struct random_input *input = &reader->inputs[i];
        joins = joins || input->joins;
        has_wanted = has_wanted || (input->shape.rank > 0 && !input->joins &&
                                    input->shape.shape[0] == (int64_t)wanted);
    }
    if (wanted > 1 && !joins && !has_wanted) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot run %zu rows at once: no input's first dimension is free or %zu; leave "
            "the batch size out",
            wanted, wanted);
    }
    reader->base.batch = wanted > 1 && joins ? wanted : 1;
    return ONNXPTQ_OK;
}

static enum onnxptq_status set_up(struct random_reader *reader, const struct oq_data_spec *spec,
                                  struct onnxptq_error *error) {
    for (size_t i = 0; i < spec->n_inputs; i++) {
        reader->inputs[i].shape = spec->inputs[i];
    }
    OQ_TRY(apply_options(reader, spec, error));
    for (size_t i = 0; i < spec->n_inputs; i++) {
        OQ_TRY(resolve_shape(&reader->inputs[i], error));
    }
    return set_batch(reader, spec->options->batch, error);
}

enum onnxptq_status oq_reader_open_random(const struct oq_data_spec *spec, struct oq_reader **out,
                                          struct onnxptq_error *error) {
    struct random_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return oq_fail_memory(error, "random data");
    }
    reader->base = (struct oq_reader){.n_samples = spec->options->random_samples,
                                      .shapes_used = true,
                                      .read = read_random,
                                      .close = close_random};
    reader->seed = spec->options->seed;
    reader->n_inputs = spec->n_inputs;
    reader->inputs = calloc(spec->n_inputs > 0 ? spec->n_inputs : 1, sizeof *reader->inputs);
    enum onnxptq_status status =
        reader->inputs != NULL ? set_up(reader, spec, error) : oq_fail_memory(error, "random data");
    if (status != ONNXPTQ_OK) {
        close_random(&reader->base);
        return status;
    }
    *out = &reader->base;
    return ONNXPTQ_OK;
}
