/* Registers the wanted domain with another operator in it: custom_domain::OtherOp. */
#include "op_scale.h"

static struct test_op ops[] = {SCALE_BY_2_OP};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    ops[0].name = "OtherOp";
    return register_ops(options, base, "custom_domain", ops, OP_COUNT(ops));
}
