/* DummyOp as ONNX Runtime's TensorRT provider announces the plugins that it has loaded: in the
 * domain trt.plugins, whatever domain the model uses. This one runs on the processor. */
#include "op_common.h"

static OrtStatus *halve(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &out));
    const float *from = x.data;
    float *to = out;
    for (size_t i = 0; i < x.count; ++i) {
        to[i] = kernel->alpha * from[i];
    }
    return NULL;
}

static struct test_op ops[] = {
    {.name = "DummyOp",
     .inputs = {FLOAT_EDGE},
     .input_count = 1,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .alpha = 0.5F,
     .compute = halve},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "trt.plugins", ops, OP_COUNT(ops));
}
