/* half.ops::Twice: y = 2x, with a kernel for float and one for float16. */
#include "op_scale.h"

/* Twice a float16: the exponent, or where that is 0 the whole, goes up. Infinities and NaN stay. */
static uint16_t twice_half(uint16_t x) {
    const unsigned exponent = (x >> 10) & 0x1fU;
    if (exponent == 0x1fU) {
        return x;
    }
    if (exponent > 0) {
        const unsigned more = exponent + 1;
        return (uint16_t)(more == 0x1fU ? (x & 0x8000U) | 0x7c00U : x + 0x400U);
    }
    return (uint16_t)((x & 0x8000U) | ((unsigned)(x << 1) & 0x7fffU));
}

static OrtStatus *twice(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &out));
    const uint16_t *from = x.data;
    uint16_t *to = out;
    for (size_t i = 0; i < x.count; ++i) {
        to[i] = twice_half(from[i]);
    }
    return NULL;
}

static struct test_op ops[] = {
    {.name = "Twice",
     .inputs = {FLOAT_EDGE},
     .input_count = 1,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .compute = scale_by_2},
    {.name = "Twice",
     .inputs = {{ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, false}},
     .input_count = 1,
     .outputs = {{ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, false}},
     .output_count = 1,
     .compute = twice},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "half.ops", ops, OP_COUNT(ops));
}
