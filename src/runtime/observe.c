/*
 * Registered by own_ops.c; the hook comes from the calibration.
 */
#include "runtime/observe.h"

#include "runtime/ort.h"

#include <stdlib.h>

/* What parallel_for needs of the running kernel. */
struct parallel {
    const OrtApi *api;
    const OrtKernelContext *context;
    OrtStatus *failure;
};

static void parallel_for(const struct oq_observed *self, size_t n, void (*fn)(void *, size_t),
                         void *arg) {
    struct parallel *parallel = self->parallel_context;
    OrtStatus *failure = parallel->api->KernelContext_ParallelFor(parallel->context, fn, n, 0, arg);
    if (parallel->failure == NULL) {
        parallel->failure = failure;
    } else if (failure != NULL) {
        parallel->api->ReleaseStatus(failure);
    }
}

OrtStatus *oq_observe_read_shape(const OrtApi *api, const OrtValue *value,
                                 struct oq_observed *tensor, int64_t shape[OQ_OBSERVED_RANK]) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    OrtStatus *ort = api->GetTensorTypeAndShape(value, &info);
    if (ort != NULL) {
        return ort;
    }
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    ort = api->GetTensorElementType(info, &type);
    if (ort == NULL) {
        ort = api->GetDimensionsCount(info, &tensor->rank);
    }
    if (ort == NULL && tensor->rank > OQ_OBSERVED_RANK) {
        ort = api->CreateStatus(ORT_NOT_IMPLEMENTED, "the tensor has more than 64 dimensions");
    }
    if (ort == NULL) {
        ort = api->GetDimensions(info, shape, tensor->rank);
    }
    if (ort == NULL) {
        ort = api->GetTensorShapeElementCount(info, &tensor->n_elements);
    }
    api->ReleaseTensorTypeAndShapeInfo(info);
    tensor->type = (int)type;
    tensor->shape = shape;
    return ort;
}

static OrtStatus *read_data(const OrtApi *api, const OrtValue *value, struct oq_observed *tensor) {
    if (tensor->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
        return NULL;
    }
    const OrtMemoryInfo *memory = NULL;
    OrtStatus *ort = api->GetTensorMemoryInfo(value, &memory);
    if (ort != NULL) {
        return ort;
    }
    OrtMemoryInfoDeviceType device = OrtMemoryInfoDeviceType_CPU;
    api->MemoryInfoGetDeviceType(memory, &device);
    if (device != OrtMemoryInfoDeviceType_CPU) {
        return NULL;
    }
    /* Only read; the C API has no accessor for constant data in this version. */
    void *data = NULL;
    ort = api->GetTensorMutableData((OrtValue *)(uintptr_t)value, &data);
    tensor->data = data;
    return ort;
}

static OrtStatus *observe_value(const struct oq_observe_kernel *kernel,
                                const OrtKernelContext *context, const OrtValue *value) {
    int64_t shape[OQ_OBSERVED_RANK] = {0};
    struct parallel parallel = {.api = kernel->api, .context = context};
    struct oq_observed tensor = {
        .slot = kernel->slot, .parallel_for = parallel_for, .parallel_context = &parallel};
    OrtStatus *ort = oq_observe_read_shape(kernel->api, value, &tensor, shape);
    if (ort == NULL) {
        ort = read_data(kernel->api, value, &tensor);
    }
    if (ort != NULL) {
        return ort;
    }
    bool going_on = kernel->hook->observe(kernel->hook->user, &tensor);
    if (parallel.failure != NULL) {
        return parallel.failure;
    }
    return going_on ? NULL : kernel->api->CreateStatus(ORT_FAIL, "stopped by the observer");
}

OrtStatus *ORT_API_CALL oq_observe_compute(void *op_kernel, OrtKernelContext *context) {
    const struct oq_observe_kernel *kernel = op_kernel;
    const OrtValue *value = NULL;
    OrtStatus *ort = kernel->api->KernelContext_GetInput(context, 0, &value);
    if (ort != NULL || value == NULL) {
        return ort;
    }
    int is_tensor = 0;
    ort = kernel->api->IsTensor(value, &is_tensor);
    return ort != NULL || !is_tensor ? ort : observe_value(kernel, context, value);
}

OrtStatus *oq_observe_create(const struct oq_own_op *op, const OrtKernelInfo *info, void **out) {
    struct oq_observe_kernel *kernel = malloc(sizeof *kernel);
    if (kernel == NULL) {
        return op->api->CreateStatus(ORT_FAIL, "out of memory");
    }
    *kernel = (struct oq_observe_kernel){.api = op->api, .hook = op->user};
    OrtStatus *ort = op->api->KernelInfoGetAttribute_int64(info, "slot", &kernel->slot);
    if (ort != NULL) {
        free(kernel);
        return ort;
    }
    *out = kernel;
    return NULL;
}
