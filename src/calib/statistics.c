/*
 * Adding tensors to statistics and statistics to each other. The loops are in minmax.c.
 */
#include "calib/statistics.h"

#include "base/number.h"
#include "calib/minmax.h"

#include <math.h>
#include <string.h>

/* Tensors from PARALLEL_BYTES on are split into at most MAX_PARTS parts of at least PART_BYTES:
 * below, waking the threads costs more than it saves. The result does not depend on the split. */
#define PARALLEL_BYTES ((size_t)1 << 20)
#define PART_BYTES ((size_t)1 << 18)
#define MAX_PARTS 64

/* ---- One tensor ---- */

struct parts {
    enum oq_minmax_level level;
    int type;
    const unsigned char *data;
    size_t n_elements, element_size, part_elements;
    struct oq_extremes results[MAX_PARTS];
};

static void measure_part(void *arg, size_t index) {
    struct parts *parts = arg;
    size_t first = index * parts->part_elements;
    size_t n = parts->n_elements - first;
    if (n > parts->part_elements) {
        n = parts->part_elements;
    }
    parts->results[index] =
        oq_minmax_run(parts->level, parts->type, parts->data + first * parts->element_size, n);
}

static struct oq_extremes measure_parallel(const struct oq_observed *tensor, size_t element_size) {
    struct parts parts = {.level = oq_minmax_best(),
                          .type = tensor->type,
                          .data = tensor->data,
                          .n_elements = tensor->n_elements,
                          .element_size = element_size,
                          .part_elements = PART_BYTES / element_size};
    size_t least = (tensor->n_elements + MAX_PARTS - 1) / MAX_PARTS;
    if (parts.part_elements < least) {
        parts.part_elements = least;
    }
    size_t n = (tensor->n_elements + parts.part_elements - 1) / parts.part_elements;
    for (size_t i = 0; i < n; i++) {
        parts.results[i] = oq_extremes_none();
    }
    tensor->parallel_for(tensor, n, measure_part, &parts);
    struct oq_extremes extremes = oq_extremes_none();
    for (size_t i = 0; i < n; i++) {
        oq_extremes_merge(&extremes, &parts.results[i]);
    }
    return extremes;
}

static struct oq_extremes measure(const struct oq_observed *tensor) {
    size_t element_size = oq_type_size(tensor->type);
    if (tensor->parallel_for != NULL && tensor->n_elements >= PARALLEL_BYTES / element_size) {
        return measure_parallel(tensor, element_size);
    }
    return oq_minmax_run(oq_minmax_best(), tensor->type, tensor->data, tensor->n_elements);
}

/* ---- Statistics ---- */

void oq_statistics_init(struct oq_statistics *statistics) {
    *statistics = (struct oq_statistics){.min = (double)INFINITY, .max = -(double)INFINITY};
}

/* A rank beyond what we store counts as one that varies: its shape is not known. */
static void set_shape(struct oq_statistics *statistics, size_t rank, const int64_t *shape) {
    bool fits = rank <= ONNXPTQ_MAX_RANK;
    statistics->rank = fits ? rank : 0;
    statistics->rank_varies = !fits;
    for (size_t i = 0; i < statistics->rank; i++) {
        statistics->shape[i] = shape[i];
    }
}

static void join_shape(struct oq_statistics *statistics, size_t rank, const int64_t *shape) {
    if (rank != statistics->rank) {
        statistics->rank_varies = true;
        return;
    }
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] != statistics->shape[i]) {
            statistics->dim_varies[i] = true;
        }
    }
}

static void add_extremes(struct oq_statistics *statistics, const struct oq_extremes *extremes,
                         size_t n_elements, size_t sample) {
    uint64_t bad = extremes->n_nan + extremes->n_infinite;
    if (bad > 0 && (statistics->n_nan + statistics->n_infinite == 0 ||
                    sample < statistics->first_nonfinite_sample)) {
        statistics->first_nonfinite_sample = sample;
    }
    statistics->n_finite += n_elements - bad;
    statistics->n_nan += extremes->n_nan;
    statistics->n_infinite += extremes->n_infinite;
    if (extremes->min < statistics->min) {
        statistics->min = extremes->min;
    }
    if (extremes->max > statistics->max) {
        statistics->max = extremes->max;
    }
}

void oq_statistics_update(struct oq_statistics *statistics, const struct oq_observed *tensor,
                          size_t sample) {
    if (statistics->seen == 0) {
        statistics->type = tensor->type;
        set_shape(statistics, tensor->rank, tensor->shape);
    } else {
        if (tensor->type != statistics->type) {
            statistics->type_varies = true;
        }
        join_shape(statistics, tensor->rank, tensor->shape);
    }
    statistics->seen++;
    if (tensor->n_elements == 0) {
        statistics->n_empty++;
    } else if (tensor->data != NULL && oq_minmax_knows(tensor->type)) {
        struct oq_extremes extremes = measure(tensor);
        add_extremes(statistics, &extremes, tensor->n_elements, sample);
    }
}

void oq_statistics_merge(struct oq_statistics *statistics, const struct oq_statistics *other) {
    if (other->seen == 0) {
        return;
    }
    if (statistics->seen == 0) {
        *statistics = *other;
        return;
    }
    statistics->type_varies |= other->type_varies || other->type != statistics->type;
    statistics->rank_varies |= other->rank_varies;
    join_shape(statistics, other->rank, other->shape);
    for (size_t i = 0; i < ONNXPTQ_MAX_RANK; i++) {
        statistics->dim_varies[i] |= other->dim_varies[i];
    }
    struct oq_extremes extremes = {other->min, other->max, other->n_nan, other->n_infinite};
    uint64_t bad = other->n_nan + other->n_infinite;
    add_extremes(statistics, &extremes, (size_t)(other->n_finite + bad),
                 other->first_nonfinite_sample);
    statistics->seen += other->seen;
    statistics->n_empty += other->n_empty;
}

/* ---- The kernel by itself ---- */

struct oq_minmax oq_minmax_f32(const float *data, size_t n) {
    struct oq_extremes extremes = oq_minmax_run(oq_minmax_best(), ONNXPTQ_TYPE_FLOAT, data, n);
    return (struct oq_minmax){.min = (float)extremes.min,
                              .max = (float)extremes.max,
                              .n_nan = extremes.n_nan,
                              .n_infinite = extremes.n_infinite};
}

struct oq_minmax oq_minmax_f32_plain(const float *data, size_t n) {
    struct oq_minmax result = {.min = INFINITY, .max = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        float value = data[i];
        if (isnan(value)) {
            result.n_nan++;
        } else if (isinf(value)) {
            result.n_infinite++;
        } else {
            if (value < result.min) {
                result.min = value;
            }
            if (value > result.max) {
                result.max = value;
            }
        }
    }
    result.min += 0.0F; /* -0.0 counts as 0.0 */
    result.max += 0.0F;
    return result;
}
