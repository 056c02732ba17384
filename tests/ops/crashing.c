/* custom_domain::DummyOp with a kernel that dies by a signal. */
#include "op_common.h"

static OrtStatus *crash(struct kernel *kernel, OrtKernelContext *context) {
    (void)kernel;
    (void)context;
    abort();
}

static struct test_op ops[] = {
    {.name = "DummyOp",
     .inputs = {FLOAT_EDGE},
     .input_count = 1,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .compute = crash},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "custom_domain", ops, OP_COUNT(ops));
}
