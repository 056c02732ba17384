/*
 * Adding tensors to statistics and statistics to each other. Tensors are measured by measure.c.
 */
#include "calib/statistics.h"

#include "calib/binner.h"
#include "calib/bins.h"
#include "calib/minmax.h"

#include <math.h>
#include <stdlib.h>

void oq_statistics_init(struct oq_statistics *statistics) {
    struct oq_extremes none = oq_extremes_none();
    *statistics = (struct oq_statistics){.min = none.min,
                                         .max = none.max,
                                         .near_min = none.near_min,
                                         .near_max = none.near_max,
                                         .far_least = none.far_least,
                                         .mean_square = (double)NAN};
}

void oq_statistics_reset(struct oq_statistics *statistics) {
    oq_histogram_destroy(statistics->histogram);
    oq_statistics_init(statistics);
}

void oq_statistics_condense(struct oq_statistics *statistics) {
    if (statistics->histogram != NULL && statistics->n_finite > 0) {
        statistics->mean_square = oq_histogram_mean_square(statistics->histogram);
    }
    oq_histogram_destroy(statistics->histogram);
    statistics->histogram = NULL;
}

void oq_statistics_free(struct oq_statistics *statistics, size_t n) {
    for (size_t i = 0; statistics != NULL && i < n; i++) {
        oq_statistics_reset(&statistics[i]);
    }
    free(statistics);
}

/* What varies is forgotten, so that it does not matter what came first. */
static void forget_shape(struct oq_statistics *statistics) {
    statistics->rank_varies = true;
    statistics->rank = 0;
    for (size_t i = 0; i < ONNXPTQ_MAX_RANK; i++) {
        statistics->shape[i] = 0;
        statistics->dim_varies[i] = false;
    }
}

static void forget_dimension(struct oq_statistics *statistics, size_t index) {
    statistics->dim_varies[index] = true;
    statistics->shape[index] = -1;
}

static void set_shape(struct oq_statistics *statistics, size_t rank, const int64_t *shape) {
    statistics->rank = rank;
    for (size_t i = 0; i < rank; i++) {
        statistics->shape[i] = shape[i];
    }
}

static void join_shape(struct oq_statistics *statistics, size_t rank, const int64_t *shape) {
    if (statistics->rank_varies || rank != statistics->rank) {
        forget_shape(statistics);
        return;
    }
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] != statistics->shape[i]) {
            forget_dimension(statistics, i);
        }
    }
}

static void join_type(struct oq_statistics *statistics, int type) {
    if (statistics->type == type) {
        return;
    }
    statistics->type_varies = true;
    statistics->type = 0;
}

/* A rank beyond what we store counts as one that varies: its shape is not known. */
static void join_form(struct oq_statistics *statistics, int type, size_t rank,
                      const int64_t *shape) {
    if (statistics->seen > 0) {
        join_type(statistics, type);
    } else {
        statistics->type = type;
    }
    if (rank > ONNXPTQ_MAX_RANK) {
        forget_shape(statistics);
    } else if (statistics->seen > 0) {
        join_shape(statistics, rank, shape);
    } else {
        set_shape(statistics, rank, shape);
    }
}

static struct oq_extremes extremes_of(const struct oq_statistics *statistics) {
    return (struct oq_extremes){.min = statistics->min,
                                .max = statistics->max,
                                .near_min = statistics->near_min,
                                .near_max = statistics->near_max,
                                .far_least = statistics->far_least,
                                .n_far = statistics->n_far,
                                .n_nan = statistics->n_nan,
                                .n_infinite = statistics->n_infinite};
}

static void add_extremes(struct oq_statistics *statistics, const struct oq_extremes *more,
                         uint64_t n_finite, size_t sample) {
    struct oq_extremes all = extremes_of(statistics);
    if (more->n_nan + more->n_infinite > 0 &&
        (all.n_nan + all.n_infinite == 0 || sample < statistics->first_nonfinite_sample)) {
        statistics->first_nonfinite_sample = sample;
    }
    oq_extremes_merge(&all, more);
    statistics->min = all.min;
    statistics->max = all.max;
    statistics->near_min = all.near_min;
    statistics->near_max = all.near_max;
    statistics->far_least = all.far_least;
    statistics->n_far = all.n_far;
    statistics->n_nan = all.n_nan;
    statistics->n_infinite = all.n_infinite;
    statistics->n_finite += n_finite;
}

static void take_reduction(struct oq_statistics *statistics, const struct oq_observed *tensor,
                           size_t sample) {
    const struct oq_reduction *reduction = tensor->reduction;
    const struct oq_extremes extremes = {.min = reduction->min,
                                         .max = reduction->max,
                                         .near_min = reduction->near_min,
                                         .near_max = reduction->near_max,
                                         .far_least = reduction->far_least,
                                         .n_far = reduction->n_finite - reduction->n_near,
                                         .n_nan = tensor->n_elements - reduction->n_numbers,
                                         .n_infinite = reduction->n_numbers - reduction->n_finite};
    add_extremes(statistics, &extremes, reduction->n_finite, sample);
}

static bool measure(struct oq_statistics *statistics, const struct oq_observed *tensor,
                    size_t sample, struct oq_measure_scratch *scratch) {
    bool counted = scratch != NULL && oq_binner_knows(tensor->type);
    if (counted && statistics->histogram == NULL) {
        statistics->histogram = oq_histogram_create();
        if (statistics->histogram == NULL) {
            return false;
        }
    }
    struct oq_extremes extremes;
    if (!oq_measure(tensor, scratch, counted ? statistics->histogram : NULL, &extremes)) {
        return false;
    }
    uint64_t n_finite = tensor->n_elements - extremes.n_nan - extremes.n_infinite;
    add_extremes(statistics, &extremes, n_finite, sample);
    return true;
}

bool oq_statistics_update(struct oq_statistics *statistics, const struct oq_observed *tensor,
                          size_t sample, struct oq_measure_scratch *scratch) {
    uint64_t before = statistics->n_nan + statistics->n_infinite;
    join_form(statistics, tensor->type, tensor->rank, tensor->shape);
    statistics->seen++;
    if (tensor->n_elements == 0) {
        statistics->n_empty++;
    } else if (tensor->reduction != NULL) {
        take_reduction(statistics, tensor, sample);
    } else if (tensor->data != NULL && oq_minmax_knows(tensor->type) &&
               !measure(statistics, tensor, sample, scratch)) {
        return false;
    }
    statistics->n_nonfinite += statistics->n_nan + statistics->n_infinite > before;
    return true;
}

/* ---- Merging ---- */

static bool merge_histograms(struct oq_statistics *statistics, const struct oq_statistics *other) {
    if (other->n_finite == 0) {
        return true;
    }
    if (statistics->n_finite == 0 && statistics->histogram == NULL && other->histogram != NULL) {
        statistics->histogram = oq_histogram_create();
        if (statistics->histogram == NULL) {
            return false;
        }
    }
    if (statistics->histogram == NULL) {
        return true;
    }
    if (other->histogram != NULL) {
        return oq_histogram_merge(statistics->histogram, other->histogram);
    }
    oq_histogram_destroy(statistics->histogram);
    statistics->histogram = NULL;
    return true;
}

static void merge_form(struct oq_statistics *statistics, const struct oq_statistics *other) {
    join_form(statistics, other->type, other->rank, other->shape);
    statistics->type_varies |= other->type_varies;
    if (other->rank_varies) {
        forget_shape(statistics);
    }
    for (size_t i = 0; i < statistics->rank; i++) {
        if (other->dim_varies[i]) {
            forget_dimension(statistics, i);
        }
    }
}

bool oq_statistics_merge(struct oq_statistics *statistics, const struct oq_statistics *other) {
    if (other->seen == 0) {
        return true;
    }
    merge_form(statistics, other);
    if (!merge_histograms(statistics, other)) {
        return false;
    }
    struct oq_extremes extremes = extremes_of(other);
    add_extremes(statistics, &extremes, other->n_finite, other->first_nonfinite_sample);
    statistics->mean_square = (double)NAN;
    statistics->seen += other->seen;
    statistics->n_empty += other->n_empty;
    statistics->n_nonfinite += other->n_nonfinite;
    return true;
}
