/* my.ops::ScaleBy2 behind the usual entry point. */
#include "op_scale.h"

static struct test_op ops[] = {SCALE_BY_2_OP};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "my.ops", ops, OP_COUNT(ops));
}
