/*
 * Shared by the readers that make or cut samples by the declared shapes.
 */
#include "data/declared.h"

#include "data/elements.h"
#include "data/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t oq_declared_find(const struct onnxptq_tensor *inputs, size_t n, const char *name) {
    size_t i = 0;
    while (i < n && strcmp(inputs[i].name, name) != 0) {
        i++;
    }
    return i;
}

enum onnxptq_status oq_declared_fail_name(const struct oq_data_spec *spec, const char *what,
                                          const char *name, struct onnxptq_error *error) {
    char names[OQ_DESCRIPTION_SIZE];
    return oq_fail(
        error, ONNXPTQ_ERROR_USAGE,
        "cannot set the %s of input '%s': the model has no such input; its inputs are %s", what,
        name, oq_describe_inputs(names, spec->inputs, spec->n_inputs));
}

enum onnxptq_status oq_declared_set_shape(struct onnxptq_tensor *declared,
                                          const struct onnxptq_input_shape *shape,
                                          struct onnxptq_error *error) {
    char expected[OQ_DESCRIPTION_SIZE], given[OQ_DESCRIPTION_SIZE];
    bool fits = shape->rank == declared->rank;
    for (size_t i = 0; i < declared->rank && fits; i++) {
        fits = shape->shape[i] >= 0 && oq_dimension_fits(declared->shape[i], shape->shape[i]);
    }
    if (!fits) {
        size_t rank = shape->rank <= ONNXPTQ_MAX_RANK ? shape->rank : 0;
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot give input '%s' the shape %s: the model declares %s", declared->name,
            oq_describe_shape(given, shape->shape, rank),
            oq_describe_tensor(expected, (int)declared->type, declared->shape, declared->rank));
    }
    memcpy(declared->shape, shape->shape, declared->rank * sizeof declared->shape[0]);
    return ONNXPTQ_OK;
}

const char *oq_declared_example(char *text, size_t size, const struct onnxptq_tensor *declared) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < declared->rank && at < size; i++) {
        int64_t dim = declared->shape[i] >= 0 ? declared->shape[i] : i == 0 ? 1 : 8;
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, i > 0 ? "x" : "", dim);
    }
    return text;
}
