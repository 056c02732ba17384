/* my.top::TopIdx(x float[B,N], floor float[1]?, gain float[1]?) -> (v float[B,4], idx int64[B,4]?)
 *
 * The four largest elements of each row, times `gain`, none below `floor`, and where they were. */
#include "op_common.h"

enum { TOP = 4 };

static void top_of_row(const float *row, int64_t n, float *values, int64_t *indices) {
    for (int64_t k = 0; k < TOP; ++k) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; ++i) {
            bool taken = false;
            for (int64_t j = 0; j < k; ++j) {
                taken = taken || indices[j] == i;
            }
            if (!taken && (best < 0 || row[i] > row[best])) {
                best = i;
            }
        }
        indices[k] = best;
        values[k] = row[best];
    }
}

static OrtStatus *top_idx(struct kernel *kernel, OrtKernelContext *context) {
    struct view x, floor_in, gain_in;
    void *values = NULL, *indices = NULL;
    TRY(read_input(kernel, context, 0, &x));
    TRY(read_input(kernel, context, 1, &floor_in));
    TRY(read_input(kernel, context, 2, &gain_in));
    if (x.rank != 2 || x.dims[1] < TOP) {
        return kernel->api->CreateStatus(ORT_INVALID_ARGUMENT,
                                         "TopIdx wants x of shape [B,N], N >= 4");
    }
    const int64_t dims[] = {x.dims[0], TOP};
    TRY(make_output(kernel, context, 0, dims, 2, &values));
    TRY(make_output(kernel, context, 1, dims, 2, &indices));

    const float gain = gain_in.data ? *(const float *)gain_in.data : 1.0F;
    for (int64_t b = 0; b < x.dims[0]; ++b) {
        float v[TOP];
        int64_t idx[TOP];
        top_of_row((const float *)x.data + b * x.dims[1], x.dims[1], v, idx);
        for (int64_t k = 0; k < TOP; ++k) {
            float value = gain * v[k];
            if (floor_in.data && value < *(const float *)floor_in.data) {
                value = *(const float *)floor_in.data;
            }
            ((float *)values)[b * TOP + k] = value;
            if (indices) {
                ((int64_t *)indices)[b * TOP + k] = idx[k];
            }
        }
    }
    return NULL;
}

static struct test_op ops[] = {
    {.name = "TopIdx",
     .inputs = {FLOAT_EDGE, OPTIONAL_FLOAT_EDGE, OPTIONAL_FLOAT_EDGE},
     .input_count = 3,
     .outputs = {FLOAT_EDGE, OPTIONAL_INT64_EDGE},
     .output_count = 2,
     .compute = top_idx},
};

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    return register_ops(options, base, "my.top", ops, OP_COUNT(ops));
}
