/*
 * onnxptq::ObserveReduced: its inputs are a few numbers, put together for the hook.
 */
#include "base/number.h"
#include "base/size.h"
#include "runtime/observe.h"

#include <stdio.h>
#include <stdlib.h>

enum { INPUT_SHAPE, INPUT_EXTREMES, INPUT_COUNTS, N_INPUTS };
enum { EXTREME_MIN, EXTREME_MAX, NEAR_MIN, NEAR_MAX, FAR_LEAST, N_EXTREMES };
enum { COUNT_FINITE, COUNT_NEAR, COUNT_NUMBERS, N_COUNTS };

struct numbers {
    int type;
    size_t n;
    const void *data;
};

static OrtStatus *read_numbers(const struct oq_observe_kernel *kernel,
                               const OrtKernelContext *context, size_t index, struct numbers *out) {
    const OrtApi *api = kernel->api;
    const OrtValue *value = NULL;
    int64_t shape[OQ_OBSERVED_RANK];
    struct oq_observed tensor = {0};
    void *data = NULL;
    OrtStatus *ort = api->KernelContext_GetInput(context, index, &value);
    if (ort == NULL) {
        ort = oq_observe_read_shape(api, value, &tensor, shape);
    }
    if (ort == NULL) {
        /* Only read; the C API has no accessor for constant data in this version. */
        ort = api->GetTensorMutableData((OrtValue *)(uintptr_t)value, &data);
    }
    *out = (struct numbers){tensor.type, tensor.n_elements, data};
    return ort;
}

/* Adding 0.0 turns -0.0 into 0.0. */
static struct oq_reduction make_reduction(const struct numbers *extremes,
                                          const struct numbers *counts) {
    double e[N_EXTREMES];
    int64_t c[N_COUNTS];
    oq_convert_to_double(extremes->type, extremes->data, N_EXTREMES, e);
    memcpy(c, counts->data, sizeof c);
    return (struct oq_reduction){.min = e[EXTREME_MIN] + 0.0,
                                 .max = e[EXTREME_MAX] + 0.0,
                                 .near_min = e[NEAR_MIN] + 0.0,
                                 .near_max = e[NEAR_MAX] + 0.0,
                                 .far_least = e[FAR_LEAST],
                                 .n_finite = (uint64_t)c[COUNT_FINITE],
                                 .n_near = (uint64_t)c[COUNT_NEAR],
                                 .n_numbers = (uint64_t)c[COUNT_NUMBERS]};
}

static OrtStatus *refuse(const struct oq_observe_kernel *kernel,
                         const struct numbers inputs[N_INPUTS]) {
    char message[256];
    (void)snprintf(message, sizeof message,
                   "the observer is given %zu %s, %zu %s, %zu %s, and takes at most %d int64, %d "
                   "float, %d int64",
                   inputs[INPUT_SHAPE].n, oq_type_name(inputs[INPUT_SHAPE].type),
                   inputs[INPUT_EXTREMES].n, oq_type_name(inputs[INPUT_EXTREMES].type),
                   inputs[INPUT_COUNTS].n, oq_type_name(inputs[INPUT_COUNTS].type),
                   OQ_OBSERVED_RANK, N_EXTREMES, N_COUNTS);
    return kernel->api->CreateStatus(ORT_INVALID_ARGUMENT, message);
}

OrtStatus *oq_observe_reduced_create(const struct oq_own_op *op, const OrtKernelInfo *info,
                                     void **out) {
    OrtStatus *ort = oq_observe_create(op, info, out);
    if (ort != NULL) {
        return ort;
    }
    struct oq_observe_kernel *kernel = *out;
    ort = op->api->KernelInfoGetAttribute_int64(info, "type", &kernel->type);
    if (ort != NULL) {
        free(kernel);
    }
    return ort;
}

OrtStatus *ORT_API_CALL oq_observe_reduced_compute(void *op_kernel, OrtKernelContext *context) {
    const struct oq_observe_kernel *kernel = op_kernel;
    struct numbers inputs[N_INPUTS];
    for (size_t i = 0; i < N_INPUTS; i++) {
        OrtStatus *ort = read_numbers(kernel, context, i, &inputs[i]);
        if (ort != NULL) {
            return ort;
        }
    }
    const struct numbers *shape = &inputs[INPUT_SHAPE];
    int64_t dims[OQ_OBSERVED_RANK];
    struct oq_observed tensor = {
        .slot = kernel->slot, .type = (int)kernel->type, .rank = shape->n, .shape = dims};
    if (shape->n > OQ_OBSERVED_RANK || shape->type != ONNXPTQ_TYPE_INT64 ||
        inputs[INPUT_EXTREMES].n != N_EXTREMES || !oq_type_is_float(inputs[INPUT_EXTREMES].type) ||
        inputs[INPUT_COUNTS].n != N_COUNTS || inputs[INPUT_COUNTS].type != ONNXPTQ_TYPE_INT64) {
        return refuse(kernel, inputs);
    }
    if (shape->n > 0) {
        memcpy(dims, shape->data, shape->n * sizeof dims[0]);
    }
    if (!oq_shape_elements(dims, shape->n, &tensor.n_elements)) {
        return kernel->api->CreateStatus(ORT_INVALID_ARGUMENT, "no shape");
    }
    struct oq_reduction reduction = make_reduction(&inputs[INPUT_EXTREMES], &inputs[INPUT_COUNTS]);
    tensor.reduction = &reduction;
    return kernel->hook->observe(kernel->hook->user, &tensor)
               ? NULL
               : kernel->api->CreateStatus(ORT_FAIL, "stopped by the observer");
}
