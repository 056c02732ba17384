/* my.ops::ScaleBy2 behind an entry point of another name: the library has no RegisterCustomOps. */
#include "op_scale.h"

OP_EXPORT OrtStatus *ORT_API_CALL RegisterMyOps(OrtSessionOptions *options, const OrtApiBase *base);

static struct test_op ops[] = {SCALE_BY_2_OP};

OrtStatus *RegisterMyOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "my.ops", ops, OP_COUNT(ops));
}
