/*
 * Samples from the caller's own function, each checked before the runtime sees it.
 */
#include "base/number.h"
#include "base/size.h"
#include "data/elements.h"
#include "data/layout.h"
#include "data/reader.h"

#include <stdlib.h>

struct callback_reader {
    struct oq_reader base;
    struct onnxptq_data_source source;
    const struct onnxptq_tensor *declared;
    size_t n_inputs;
};

static enum onnxptq_status fail_tensor(const struct onnxptq_tensor *declared,
                                       const struct onnxptq_tensor *found, size_t sample,
                                       const char *fact, struct onnxptq_error *error) {
    char expected[OQ_DESCRIPTION_SIZE], got[OQ_DESCRIPTION_SIZE];
    size_t rank = found->rank <= ONNXPTQ_MAX_RANK ? found->rank : 0;
    return oq_fail(
        error, ONNXPTQ_ERROR_DATA,
        "cannot use sample %zu of the data callback for input '%s': expected %s, found %s%s",
        sample, declared->name,
        oq_describe_tensor(expected, (int)declared->type, declared->shape, declared->rank),
        oq_describe_tensor(got, (int)found->type, found->shape, rank), fact);
}

static bool shape_fits(const struct onnxptq_tensor *declared, const struct onnxptq_tensor *found) {
    if (declared->type == ONNXPTQ_TYPE_UNDEFINED) {
        return true; /* its rank is open */
    }
    if (found->type != declared->type || found->rank != declared->rank) {
        return false;
    }
    for (size_t i = 0; i < found->rank; i++) {
        if (!oq_dimension_fits(declared->shape[i], found->shape[i])) {
            return false;
        }
    }
    return true;
}

static enum onnxptq_status check_tensor(const struct onnxptq_tensor *declared,
                                        const struct onnxptq_tensor *found, size_t sample,
                                        struct onnxptq_error *error) {
    size_t size = 0, item = oq_type_size((int)found->type);
    if (found->rank > ONNXPTQ_MAX_RANK) {
        return fail_tensor(declared, found, sample, " with too many dimensions", error);
    }
    if (!shape_fits(declared, found)) {
        return fail_tensor(declared, found, sample, "", error);
    }
    if (item == 0) {
        return fail_tensor(declared, found, sample, ", a type that data callbacks cannot give",
                           error);
    }
    if (!oq_shape_elements(found->shape, found->rank, &size) || !oq_size_mul(size, item, &size)) {
        return fail_tensor(declared, found, sample, ", which is no valid shape", error);
    }
    if (found->size != size) {
        return fail_tensor(declared, found, sample, " with another number of bytes", error);
    }
    if (size > 0 && found->data == NULL) {
        return fail_tensor(declared, found, sample, " without data", error);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status call(struct callback_reader *reader, size_t sample,
                                struct onnxptq_tensor *inputs, struct onnxptq_error *error) {
    struct onnxptq_error own;
    struct onnxptq_error *target = error != NULL ? error : &own;
    target->message[0] = '\0';
    enum onnxptq_status status =
        reader->source.read(reader->source.user, sample, inputs, reader->n_inputs, target);
    if (status == ONNXPTQ_OK) {
        return ONNXPTQ_OK;
    }
    if (target->message[0] != '\0') {
        target->status = status;
        return oq_prefix(target, status, "cannot read sample %zu: ", sample);
    }
    return oq_fail(target, status, "cannot read sample %zu: the data callback failed (%s)", sample,
                   onnxptq_status_name(status));
}

static enum onnxptq_status read_callback(struct oq_reader *base, const size_t *samples, size_t n,
                                         struct onnxptq_tensor *inputs,
                                         struct onnxptq_error *error) {
    struct callback_reader *reader = (struct callback_reader *)base;
    (void)n; /* the batch is 1 */
    for (size_t i = 0; i < reader->n_inputs; i++) {
        inputs[i] = reader->declared[i];
    }
    OQ_TRY(call(reader, samples[0], inputs, error));
    for (size_t i = 0; i < reader->n_inputs; i++) {
        inputs[i].name = reader->declared[i].name;
        OQ_TRY(check_tensor(&reader->declared[i], &inputs[i], samples[0], error));
    }
    return ONNXPTQ_OK;
}

static void close_callback(struct oq_reader *base) {
    free(base);
}

enum onnxptq_status oq_reader_open_callback(const struct oq_data_spec *spec, struct oq_reader **out,
                                            struct onnxptq_error *error) {
    const struct onnxptq_data_source *source = spec->options->data;
    if (source->read == NULL || source->n_samples == 0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use the data callback: %s; set both read and n_samples",
                       source->read == NULL ? "it has no read function" : "it has no sample");
    }
    if (spec->options->batch > 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot run %zu samples of the data callback at once: each of its samples is a "
            "run; join the rows in the callback and leave the batch size out",
            spec->options->batch);
    }
    struct callback_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    reader->base = (struct oq_reader){
        .n_samples = source->n_samples, .batch = 1, .read = read_callback, .close = close_callback};
    reader->source = *source;
    reader->declared = spec->inputs;
    reader->n_inputs = spec->n_inputs;
    *out = &reader->base;
    return ONNXPTQ_OK;
}
