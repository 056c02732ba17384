/*
 * Statistics of one tensor over all the times it was produced. Exact and mergeable: the same bits
 * for any order and any split of the same tensors.
 */
#ifndef OQ_CALIB_STATISTICS_H
#define OQ_CALIB_STATISTICS_H

#include "runtime/session.h"

struct oq_statistics {
    uint64_t seen; /* times produced */
    int type;      /* TensorProto.DataType; 0 until seen */
    bool type_varies, rank_varies;
    size_t rank;
    int64_t shape[ONNXPTQ_MAX_RANK]; /* of the first time */
    bool dim_varies[ONNXPTQ_MAX_RANK];
    uint64_t n_empty; /* times it had no element */
    uint64_t n_finite, n_nan, n_infinite;
    double min,
        max; /* of the finite elements; min > max while there are none. -0.0 counts as 0.0 */
    size_t first_nonfinite_sample; /* valid when n_nan + n_infinite > 0 */
};

void oq_statistics_init(struct oq_statistics *statistics);
/* Adds one tensor; types that hold no numbers only count. `sample` is for messages. */
void oq_statistics_update(struct oq_statistics *statistics, const struct oq_observed *tensor,
                          size_t sample);
/* Adds what `other` has seen. */
void oq_statistics_merge(struct oq_statistics *statistics, const struct oq_statistics *other);

/* The kernel behind update: finite minimum and maximum and counts of n floats. The fastest version
 * for this machine is chosen at the first call; `_plain` is the reference that all must equal to
 * the bit. */
struct oq_minmax {
    float min, max; /* +inf, -inf when nothing is finite */
    uint64_t n_nan, n_infinite;
};
struct oq_minmax oq_minmax_f32(const float *data, size_t n);
struct oq_minmax oq_minmax_f32_plain(const float *data, size_t n);

#endif
