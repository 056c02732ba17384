/*
 * Registered by session.c; the hook comes from the calibration.
 */
#include "runtime/observe.h"

#include "runtime/ort.h"

#include <stdlib.h>

#define MAX_OBSERVED_RANK 64

struct kernel {
    const OrtApi *api;
    const struct oq_observer_hook *hook;
    int64_t slot;
};

/* What parallel_for needs of the running kernel. */
struct parallel {
    const OrtApi *api;
    const OrtKernelContext *context;
    OrtStatus *failure;
};

static const struct oq_observe_op *as_observe(const OrtCustomOp *op) {
    return (const struct oq_observe_op *)(const void *)op;
}

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

static OrtStatus *read_shape(const OrtApi *api, const OrtValue *value, struct oq_observed *tensor,
                             int64_t shape[MAX_OBSERVED_RANK]) {
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
    if (ort == NULL && tensor->rank > MAX_OBSERVED_RANK) {
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

static OrtStatus *observe_value(const struct kernel *kernel, const OrtKernelContext *context,
                                const OrtValue *value) {
    int64_t shape[MAX_OBSERVED_RANK] = {0};
    struct parallel parallel = {.api = kernel->api, .context = context};
    struct oq_observed tensor = {
        .slot = kernel->slot, .parallel_for = parallel_for, .parallel_context = &parallel};
    OrtStatus *ort = read_shape(kernel->api, value, &tensor, shape);
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

static OrtStatus *compute(void *op_kernel, OrtKernelContext *context) {
    const struct kernel *kernel = op_kernel;
    const OrtValue *value = NULL;
    OrtStatus *ort = kernel->api->KernelContext_GetInput(context, 0, &value);
    if (ort != NULL || value == NULL) {
        return ort;
    }
    int is_tensor = 0;
    ort = kernel->api->IsTensor(value, &is_tensor);
    return ort != NULL || !is_tensor ? ort : observe_value(kernel, context, value);
}

/* `api` is the table of the newest version; the version that was asked for is a prefix of it. */
static OrtStatus *create_kernel(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info,
                                void **out) {
    struct kernel *kernel = malloc(sizeof *kernel);
    if (kernel == NULL) {
        return api->CreateStatus(ORT_FAIL, "out of memory");
    }
    *kernel = (struct kernel){.api = as_observe(op)->api, .hook = as_observe(op)->hook};
    OrtStatus *ort = api->KernelInfoGetAttribute_int64(info, "slot", &kernel->slot);
    if (ort != NULL) {
        free(kernel);
        return ort;
    }
    *out = kernel;
    return NULL;
}

static const char *get_name(const OrtCustomOp *op) {
    (void)op;
    return OQ_OBSERVE_TYPE;
}

/* NULL is CPU: tensors of other devices are copied to the host first. */
static const char *get_provider(const OrtCustomOp *op) {
    (void)op;
    return NULL;
}

static size_t get_input_count(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

static size_t get_output_count(const OrtCustomOp *op) {
    (void)op;
    return 0;
}

/* UNDEFINED takes every tensor type. */
static ONNXTensorElementDataType get_type(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

static OrtCustomOpInputOutputCharacteristic get_characteristic(const OrtCustomOp *op,
                                                               size_t index) {
    (void)op;
    (void)index;
    return INPUT_OUTPUT_REQUIRED;
}

static OrtMemType get_memory_type(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return OrtMemTypeDefault;
}

static int get_start_version(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

static int get_end_version(const OrtCustomOp *op) {
    (void)op;
    return INT32_MAX;
}

enum onnxptq_status oq_observe_register(struct oq_observe_op *op, const OrtApi *api,
                                        const struct oq_observer_hook *hook,
                                        OrtSessionOptions *options, struct onnxptq_error *error) {
    *op = (struct oq_observe_op){
        .base = {.version = OQ_ORT_API_VERSION,
                 .GetName = get_name,
                 .GetExecutionProviderType = get_provider,
                 .GetInputType = get_type,
                 .GetInputTypeCount = get_input_count,
                 .GetOutputType = get_type,
                 .GetOutputTypeCount = get_output_count,
                 .KernelDestroy = free,
                 .GetInputCharacteristic = get_characteristic,
                 .GetOutputCharacteristic = get_characteristic,
                 .GetInputMemoryType = get_memory_type,
                 .CreateKernelV2 = create_kernel,
                 .KernelComputeV2 = compute,
                 .GetStartVersion = get_start_version,
                 .GetEndVersion = get_end_version},
        .api = api,
        .hook = hook,
    };
    OrtStatus *ort = api->CreateCustomOpDomain(OQ_OBSERVE_DOMAIN, &op->domain);
    if (ort == NULL) {
        ort = api->CustomOpDomain_Add(op->domain, &op->base);
    }
    if (ort == NULL) {
        ort = api->AddCustomOpDomain(options, op->domain);
    }
    return oq_ort_check(api, ort, ONNXPTQ_ERROR_RUNTIME, error,
                        "cannot register the observer operator");
}

void oq_observe_reset(struct oq_observe_op *op) {
    if (op->domain != NULL) {
        op->api->ReleaseCustomOpDomain(op->domain);
    }
    op->domain = NULL;
}
