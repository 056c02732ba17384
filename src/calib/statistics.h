/*
 * Statistics of one tensor over all the times it was produced. Exact and mergeable: the same bits
 * for any order and any split of the same tensors.
 */
#ifndef OQ_CALIB_STATISTICS_H
#define OQ_CALIB_STATISTICS_H

#include "calib/measure.h"

/* A plain value but for the histogram, which it owns: copying moves it. */
struct oq_statistics {
    uint64_t seen; /* times produced */
    int type;      /* TensorProto.DataType; 0 until seen, and when it varies */
    bool type_varies, rank_varies;
    size_t rank;                     /* 0 when it varies */
    int64_t shape[ONNXPTQ_MAX_RANK]; /* -1 where it varies */
    bool dim_varies[ONNXPTQ_MAX_RANK];
    uint64_t n_empty; /* times it had no element */
    uint64_t n_finite, n_nan, n_infinite;
    uint64_t n_nonfinite; /* times it had an element that is not finite */
    double min,
        max; /* of the finite elements; min > max while there are none. -0.0 counts as 0.0 */
    /* The finite elements that no layer computes, but masks are made of, kept apart (minmax.h). */
    uint64_t n_far;
    double near_min, near_max;      /* of all others; near_min > near_max: none */
    double far_least;               /* their least magnitude; infinite: none */
    size_t first_nonfinite_sample;  /* valid when n_nan + n_infinite > 0 */
    struct oq_histogram *histogram; /* of the finite elements; NULL: not asked for, or no floats */
    double mean_square; /* of the finite elements; NaN before oq_statistics_condense() */
};

void oq_statistics_init(struct oq_statistics *statistics);
void oq_statistics_reset(struct oq_statistics *statistics);
/* Takes the mean square from the histogram, which goes. */
void oq_statistics_condense(struct oq_statistics *statistics);
/* Resets and frees a malloc'ed array; NULL is allowed. */
void oq_statistics_free(struct oq_statistics *statistics, size_t n);
/* Adds one tensor; types that hold no numbers only count. `sample` is for messages. With `scratch`
 * (else NULL) float tensors are counted into a histogram. False when out of memory. */
bool oq_statistics_update(struct oq_statistics *statistics, const struct oq_observed *tensor,
                          size_t sample, struct oq_measure_scratch *scratch);
/* Adds what `other` has seen. A histogram is left only when both have one, or one has seen nothing
 * finite. False when out of memory. */
bool oq_statistics_merge(struct oq_statistics *statistics, const struct oq_statistics *other);

#endif
