/* An operator of one's own: custom_domain::Swish, y = x / (1 + exp(-beta x)).
 *
 * cc -shared -fPIC -I DIR swish_op.c -lm -o libswish.so, where DIR holds onnxruntime_c_api.h. */
#include <math.h>
#include <onnxruntime_c_api.h>
#include <stdint.h>
#include <stdlib.h>

struct swish {
    const OrtApi *api;
    float beta; /* an attribute of the node */
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        OrtStatus *failed = (call);                                                                \
        if (failed) {                                                                              \
            return failed;                                                                         \
        }                                                                                          \
    } while (0)

static OrtStatus *create(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info,
                         void **kernel) {
    struct swish *swish = malloc(sizeof *swish);
    (void)op;
    if (!swish) {
        return api->CreateStatus(ORT_FAIL, "out of memory");
    }
    swish->api = api;
    OrtStatus *missing = api->KernelInfoGetAttribute_float(info, "beta", &swish->beta);
    if (missing) {
        api->ReleaseStatus(missing);
        swish->beta = 1;
    }
    *kernel = swish;
    return NULL;
}

static void destroy(void *kernel) {
    free(kernel);
}

static OrtStatus *shape_of(const OrtApi *api, const OrtValue *value, int64_t *shape, size_t *rank,
                           size_t *n) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    TRY(api->GetTensorTypeAndShape(value, &info));
    OrtStatus *status = api->GetDimensionsCount(info, rank);
    if (!status && *rank > 8) {
        status = api->CreateStatus(ORT_INVALID_ARGUMENT, "Swish takes tensors of rank 8 at most");
    }
    if (!status) {
        status = api->GetDimensions(info, shape, *rank);
    }
    if (!status) {
        status = api->GetTensorShapeElementCount(info, n);
    }
    api->ReleaseTensorTypeAndShapeInfo(info);
    return status;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
    const struct swish *swish = kernel;
    const OrtApi *api = swish->api;
    const OrtValue *input = NULL;
    OrtValue *output = NULL;
    int64_t shape[8];
    size_t rank = 0, n = 0;
    float *x = NULL, *y = NULL;
    TRY(api->KernelContext_GetInput(context, 0, &input));
    TRY(shape_of(api, input, shape, &rank, &n));
    TRY(api->KernelContext_GetOutput(context, 0, shape, rank, &output));
    TRY(api->GetTensorMutableData((OrtValue *)(uintptr_t)input, (void **)&x));
    TRY(api->GetTensorMutableData(output, (void **)&y));
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] / (1 + expf(-swish->beta * x[i]));
    }
    return NULL;
}

static const char *name(const OrtCustomOp *op) {
    (void)op;
    return "Swish";
}

static const char *provider(const OrtCustomOp *op) {
    (void)op;
    return "CPUExecutionProvider";
}

static size_t one(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

static ONNXTensorElementDataType type(const OrtCustomOp *op, size_t index) {
    (void)op, (void)index;
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

static OrtCustomOpInputOutputCharacteristic kind(const OrtCustomOp *op, size_t index) {
    (void)op, (void)index;
    return INPUT_OUTPUT_REQUIRED;
}

static OrtMemType memory(const OrtCustomOp *op, size_t index) {
    (void)op, (void)index;
    return OrtMemTypeDefault;
}

static int first_version(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

static int last_version(const OrtCustomOp *op) {
    (void)op;
    return INT32_MAX;
}

static const OrtCustomOp swish_op = {
    .version = ORT_API_VERSION,
    .GetName = name,
    .GetExecutionProviderType = provider,
    .GetInputType = type,
    .GetInputTypeCount = one,
    .GetOutputType = type,
    .GetOutputTypeCount = one,
    .GetInputCharacteristic = kind,
    .GetOutputCharacteristic = kind,
    .GetInputMemoryType = memory,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
    .KernelDestroy = destroy,
    .GetStartVersion = first_version,
    .GetEndVersion = last_version,
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    const OrtApi *api = base->GetApi(ORT_API_VERSION);
    OrtCustomOpDomain *domain = NULL;
    TRY(api->CreateCustomOpDomain("custom_domain", &domain));
    TRY(api->CustomOpDomain_Add(domain, &swish_op));
    return api->AddCustomOpDomain(options, domain);
}
