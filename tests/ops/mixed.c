/* my.mixed: operators whose edges are not one float tensor in, one out.
 *
 *   Route(x float[B,N], id int64[B]) -> (y float[B,N], next int64[B])   rows scaled by their id,
 * ids counted on Lookup(x float[..,N], table float[N], pick int64[N]) -> float[..,N] x *
 * table[pick] Compact(v float[1,C,H,W], guide float[1,1,H,W]) -> float[M,C]       the M positions
 * where guide > 0: rank and M depend on data Counter(x float) -> float keeps state: the k-th run of
 * a kernel adds (k % 4) / 4096 */
#include "op_common.h"

static OrtStatus *route(struct kernel *kernel, OrtKernelContext *context) {
    struct view x, id;
    void *y = NULL, *next = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(read_input(kernel, context, 1, &id));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &y));
    TRY(make_output(kernel, context, 1, id.dims, id.rank, &next));
    const size_t rows = id.count, width = rows ? x.count / rows : 0;
    for (size_t b = 0; b < rows; ++b) {
        const int64_t i = ((const int64_t *)id.data)[b];
        const float scale = 1.0F + 0.25F * (float)(i % 3);
        for (size_t k = b * width; k < (b + 1) * width; ++k) {
            ((float *)y)[k] = scale * ((const float *)x.data)[k];
        }
        ((int64_t *)next)[b] = i + 1;
    }
    return NULL;
}

static OrtStatus *lookup(struct kernel *kernel, OrtKernelContext *context) {
    struct view x, table, pick;
    void *y = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(read_input(kernel, context, 1, &table));
    TRY(read_input(kernel, context, 2, &pick));
    if (!pick.count) {
        return kernel->api->CreateStatus(ORT_INVALID_ARGUMENT, "Lookup wants a pick");
    }
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &y));
    for (size_t i = 0; i < x.count; ++i) {
        const int64_t row = ((const int64_t *)pick.data)[i % pick.count];
        ((float *)y)[i] = ((const float *)x.data)[i] * ((const float *)table.data)[row];
    }
    return NULL;
}

static OrtStatus *compact(struct kernel *kernel, OrtKernelContext *context) {
    struct view v, guide;
    void *y = NULL;
    TRY(read_input(kernel, context, 0, &v));
    TRY(read_input(kernel, context, 1, &guide));
    const size_t positions = guide.count, channels = positions ? v.count / positions : 0;
    int64_t kept = 0;
    for (size_t p = 0; p < positions; ++p) {
        kept += ((const float *)guide.data)[p] > 0;
    }

    const int64_t dims[] = {kept, (int64_t)channels};
    TRY(make_output(kernel, context, 0, dims, 2, &y));
    float *to = y;
    for (size_t p = 0; p < positions; ++p) {
        if (!(((const float *)guide.data)[p] > 0)) {
            continue;
        }
        for (size_t c = 0; c < channels; ++c) {
            *to++ = ((const float *)v.data)[c * positions + p];
        }
    }
    return NULL;
}

static OrtStatus *counter(struct kernel *kernel, OrtKernelContext *context) {
    struct view x;
    void *y = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(make_output(kernel, context, 0, x.dims, x.rank, &y));
    const float offset = (float)(kernel->counter % 4) / 4096.0F;
    for (size_t i = 0; i < x.count; ++i) {
        ((float *)y)[i] = ((const float *)x.data)[i] + offset;
    }
    return NULL;
}

static struct test_op ops[] = {
    {.name = "Route",
     .inputs = {FLOAT_EDGE, INT64_EDGE},
     .input_count = 2,
     .outputs = {FLOAT_EDGE, INT64_EDGE},
     .output_count = 2,
     .compute = route},
    {.name = "Lookup",
     .inputs = {FLOAT_EDGE, FLOAT_EDGE, INT64_EDGE},
     .input_count = 3,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .compute = lookup},
    {.name = "Compact",
     .inputs = {FLOAT_EDGE, FLOAT_EDGE},
     .input_count = 2,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .compute = compact},
    {.name = "Counter",
     .inputs = {FLOAT_EDGE},
     .input_count = 1,
     .outputs = {FLOAT_EDGE},
     .output_count = 1,
     .compute = counter},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "my.mixed", ops, OP_COUNT(ops));
}
