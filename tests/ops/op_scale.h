/* ScaleBy2: y = 2x, the same kernel behind two libraries with differently named entry points. */
#ifndef ONNXPTQ_TESTS_OP_SCALE_H
#define ONNXPTQ_TESTS_OP_SCALE_H

#include "op_common.h"

static inline OrtStatus *scale_by_2(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *out = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &out));
    const float *from = x.data;
    float *to = out;
    for (size_t i = 0; i < x.count; ++i) {
        to[i] = 2.0F * from[i];
    }
    return NULL;
}

#define SCALE_BY_2_OP                                                                              \
    {.name = "ScaleBy2",                                                                           \
     .inputs = {FLOAT_EDGE},                                                                       \
     .input_count = 1,                                                                             \
     .outputs = {FLOAT_EDGE},                                                                      \
     .output_count = 1,                                                                            \
     .compute = scale_by_2}

#endif
