/* custom_domain::DummyOp: y = alpha * x + x / (1 + |x|), same shape; `alpha` is an
 * attribute, so a lost one changes the result. */
#include "op_common.h"

static OrtStatus *dummy(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &out));
    const float *from = x.data;
    float *to = out;
    for (size_t i = 0; i < x.count; ++i) {
        float magnitude = from[i] < 0 ? -from[i] : from[i];
        to[i] = kernel->alpha * from[i] + from[i] / (1.0F + magnitude);
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
     .compute = dummy},
    /* The names of standard operators in a foreign domain. */
    {.name = "Conv",
     .inputs = {FLOAT_EDGE, FLOAT_EDGE},
     .input_count = 2,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .alpha = 2.0F,
     .compute = dummy},
    {.name = "MatMul",
     .inputs = {FLOAT_EDGE, FLOAT_EDGE},
     .input_count = 2,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .alpha = 2.0F,
     .compute = dummy},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "custom_domain", ops, OP_COUNT(ops));
}
