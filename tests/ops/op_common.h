/* What the test operator libraries share: one struct per operator, its OrtCustomOp callbacks, and
 * registration.
 *
 * An operator file fills a `struct test_op` per operator and calls `register_ops` from its entry
 * point. No operator implements shape inference, as most operators in the wild do not. Libraries
 * live as long as the process, so their domains are never released. */
#ifndef ONNXPTQ_TESTS_OP_COMMON_H
#define ONNXPTQ_TESTS_OP_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <onnxruntime_c_api.h>

enum { MAX_EDGES = 4, MAX_RANK = 8 };

#define OP_EXPORT __attribute__((visibility("default")))

#define TRY(call)                                                                                  \
    do {                                                                                           \
        OrtStatus *try_status = (call);                                                            \
        if (try_status) {                                                                          \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

struct kernel {
    const struct test_op *op;
    const OrtApi *api;
    float alpha;     /* attribute `alpha`, or the operator's default */
    int64_t counter; /* number of runs before this one */
};

struct edge {
    ONNXTensorElementDataType type;
    bool optional;
};

struct test_op {
    OrtCustomOp base; /* first member: ONNX Runtime hands its address back to every callback */
    const char *name;
    struct edge inputs[MAX_EDGES];
    size_t input_count;
    struct edge outputs[MAX_EDGES];
    size_t output_count;
    float alpha;
    OrtStatus *(*compute)(struct kernel *kernel, OrtKernelContext *context);
};

#define FLOAT_EDGE {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, false}
#define OPTIONAL_FLOAT_EDGE {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, true}
#define INT64_EDGE {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, false}
#define OPTIONAL_INT64_EDGE {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, true}

/* A borrowed view of a tensor; `data` is NULL where an optional input is left empty. */
struct view {
    const void *data;
    int64_t dims[MAX_RANK];
    size_t rank;
    size_t count;
};

static inline OrtStatus *read_input(const struct kernel *kernel, const OrtKernelContext *context,
                                    size_t index, struct view *out) {
    const OrtApi *api = kernel->api;
    const OrtValue *value = NULL;
    *out = (struct view){0};
    TRY(api->KernelContext_GetInput(context, index, &value));
    if (!value) {
        return NULL;
    }

    OrtTensorTypeAndShapeInfo *info = NULL;
    TRY(api->GetTensorTypeAndShape(value, &info));
    OrtStatus *status = api->GetDimensionsCount(info, &out->rank);
    if (!status && out->rank > MAX_RANK) {
        status = api->CreateStatus(ORT_INVALID_ARGUMENT, "rank above 8");
    }
    if (!status) {
        status = api->GetDimensions(info, out->dims, out->rank);
    }
    if (!status) {
        status = api->GetTensorShapeElementCount(info, &out->count);
    }
    api->ReleaseTensorTypeAndShapeInfo(info);
    if (status) {
        return status;
    }

    void *data = NULL;
    /* The data is only read; the C API of 1.21 has no const accessor for an input. */
    TRY(api->GetTensorMutableData((OrtValue *)(uintptr_t)value, &data));
    out->data = data;
    return NULL;
}

/* Gives NULL in `data` where nobody asked for the output. */
static inline OrtStatus *make_output(const struct kernel *kernel, OrtKernelContext *context,
                                     size_t index, const int64_t *dims, size_t rank, void **data) {
    OrtValue *value = NULL;
    *data = NULL;
    TRY(kernel->api->KernelContext_GetOutput(context, index, dims, rank, &value));
    return value ? kernel->api->GetTensorMutableData(value, data) : NULL;
}

/* OrtCustomOp callbacks */

static inline const struct test_op *as_test_op(const OrtCustomOp *op) {
    return (const struct test_op *)(const void *)op;
}

static inline const char *op_name(const OrtCustomOp *op) {
    return as_test_op(op)->name;
}

static inline const char *op_provider(const OrtCustomOp *op) {
    (void)op;
    return NULL;
}

static inline size_t op_input_count(const OrtCustomOp *op) {
    return as_test_op(op)->input_count;
}

static inline size_t op_output_count(const OrtCustomOp *op) {
    return as_test_op(op)->output_count;
}

static inline ONNXTensorElementDataType op_input_type(const OrtCustomOp *op, size_t index) {
    return as_test_op(op)->inputs[index].type;
}

static inline ONNXTensorElementDataType op_output_type(const OrtCustomOp *op, size_t index) {
    return as_test_op(op)->outputs[index].type;
}

static inline OrtCustomOpInputOutputCharacteristic op_input_kind(const OrtCustomOp *op,
                                                                 size_t index) {
    return as_test_op(op)->inputs[index].optional ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
}

static inline OrtCustomOpInputOutputCharacteristic op_output_kind(const OrtCustomOp *op,
                                                                  size_t index) {
    return as_test_op(op)->outputs[index].optional ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
}

static inline OrtMemType op_memory_type(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return OrtMemTypeDefault;
}

static inline OrtStatus *op_create_kernel(const OrtCustomOp *op, const OrtApi *api,
                                          const OrtKernelInfo *info, void **out) {
    struct kernel *kernel = malloc(sizeof *kernel);
    if (!kernel) {
        return api->CreateStatus(ORT_FAIL, "out of memory");
    }
    *kernel = (struct kernel){.op = as_test_op(op), .api = api};
    OrtStatus *status = api->KernelInfoGetAttribute_float(info, "alpha", &kernel->alpha);
    if (status) { /* the attribute is optional */
        api->ReleaseStatus(status);
        kernel->alpha = kernel->op->alpha;
    }
    *out = kernel;
    return NULL;
}

static inline OrtStatus *op_compute(void *op_kernel, OrtKernelContext *context) {
    struct kernel *kernel = op_kernel;
    OrtStatus *status = kernel->op->compute(kernel, context);
    ++kernel->counter;
    return status;
}

static inline void op_destroy(void *op_kernel) {
    free(op_kernel);
}

static inline int op_version(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

static inline int op_last_version(const OrtCustomOp *op) {
    (void)op;
    return INT32_MAX;
}

static inline void fill_callbacks(OrtCustomOp *base) {
    *base = (OrtCustomOp){
        .version = ORT_API_VERSION,
        .GetName = op_name,
        .GetExecutionProviderType = op_provider,
        .GetInputType = op_input_type,
        .GetInputTypeCount = op_input_count,
        .GetOutputType = op_output_type,
        .GetOutputTypeCount = op_output_count,
        .KernelDestroy = op_destroy,
        .GetInputCharacteristic = op_input_kind,
        .GetOutputCharacteristic = op_output_kind,
        .GetInputMemoryType = op_memory_type,
        .CreateKernelV2 = op_create_kernel,
        .KernelComputeV2 = op_compute,
        .GetStartVersion = op_version,
        .GetEndVersion = op_last_version,
    };
}

static inline OrtStatus *register_ops(OrtSessionOptions *options, const OrtApiBase *base,
                                      const char *domain_name, struct test_op *ops, size_t count) {
    const OrtApi *api = base->GetApi(ORT_API_VERSION);
    OrtCustomOpDomain *domain = NULL;
    TRY(api->CreateCustomOpDomain(domain_name, &domain));
    for (size_t i = 0; i < count; ++i) {
        fill_callbacks(&ops[i].base);
        TRY(api->CustomOpDomain_Add(domain, &ops[i].base));
    }
    return api->AddCustomOpDomain(options, domain);
}

#define OP_COUNT(ops) (sizeof(ops) / sizeof((ops)[0]))

OP_EXPORT OrtStatus *ORT_API_CALL RegisterCustomOps(OrtSessionOptions *options,
                                                    const OrtApiBase *base);

#endif
