/*
 * What was seen, percentiles, and preparing a search. Searching is range_entropy.c's and
 * range_mse.c's.
 */
#include "calib/range.h"

#include "calib/minmax.h"
#include "calib/range_search.h"

#include <math.h>
#include <stdlib.h>

#define MASK_RATIO 65536.0
#define MASK_RATIO_F16 256.0

/* ---- What was seen ---- */

static int far_exponent(const struct oq_statistics *statistics) {
    return statistics->type == ONNXPTQ_TYPE_FLOAT16 ? OQ_FAR_EXPONENT_F16 : OQ_FAR_EXPONENT;
}

static bool has_masks(const struct oq_statistics *statistics) {
    double near = fmax(-statistics->near_min, statistics->near_max);
    bool half = statistics->type == ONNXPTQ_TYPE_FLOAT16;
    return statistics->n_far > 0 && near > 0.0 &&
           statistics->far_least >= near * (half ? MASK_RATIO_F16 : MASK_RATIO);
}

struct oq_range oq_range_observed(const struct oq_statistics *statistics) {
    if (has_masks(statistics)) {
        return (struct oq_range){statistics->near_min, statistics->near_max, statistics->n_far};
    }
    return (struct oq_range){statistics->min, statistics->max, 0};
}

/* ---- Percentile ---- */

/* Where the first bin ends below whose end lie `needed` of the values; values below all bins lie
 * where the bins begin. */
static double magnitude_of_rank(const struct oq_bins *bins, double n_low, double needed) {
    double n = n_low;
    for (size_t i = 0; i < bins->n; i++) {
        n += bins->counts[0][i];
        if (n >= needed && bins->counts[0][i] > 0) {
            return bins->edges[i + 1];
        }
    }
    return bins->edges[bins->n];
}

static double sum_of(const double *counts, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += counts[i];
    }
    return sum;
}

/* Percentiles that fall on zero say nothing about a range: those of the other values do. */
static double percentile_limit(const struct oq_statistics *statistics,
                               const struct oq_range_search *search, double percentile) {
    double above = sum_of(search->bins.counts[0], search->bins.n);
    double n = (double)(statistics->n_finite - oq_range_observed(statistics).n_masked);
    double n_low = n - above, needed = ceil(n * percentile / 100.0);
    if (needed <= n_low) {
        n_low = 0;
        needed = ceil(above * percentile / 100.0);
    }
    return fmin(magnitude_of_rank(&search->bins, n_low, needed), search->largest);
}

/* ---- Searching ---- */

struct oq_range oq_range_within(const struct oq_range_search *search, double limit) {
    if (search->codes.symmetric) {
        return (struct oq_range){-limit, limit, 0};
    }
    return (struct oq_range){fmax(search->min, -limit), fmin(search->max, limit), 0};
}

size_t oq_range_bins_below(const struct oq_range_search *search, bool negative, double magnitude) {
    return magnitude >= search->ends[negative] ? search->bins.n
                                               : oq_bins_below(&search->bins, magnitude);
}

/* A range that ends in an octave of fewer bins has levels without one. */
static bool enough_bins(size_t place, size_t n_levels) {
    size_t most = (size_t)1 << OQ_HISTOGRAM_BITS;
    return (size_t)1 << oq_histogram_place_bits(place) >= (n_levels < most ? n_levels : most);
}

static bool list_limits(const struct oq_histogram *histogram, struct oq_range_search *search) {
    size_t n = oq_histogram_n_octaves(histogram);
    search->limits = calloc(1 + n * OQ_RANGE_STEPS, sizeof *search->limits);
    if (search->limits == NULL) {
        return false;
    }
    search->limits[search->n_limits++] = search->largest;
    for (size_t place = 0; place < n && enough_bins(place, search->n_levels); place++) {
        double start = ldexp(1.0, oq_histogram_exponent(histogram, place));
        for (int step = OQ_RANGE_STEPS; step > 0; step--) {
            double limit = start + start * step / OQ_RANGE_STEPS;
            if (limit < search->largest) {
                search->limits[search->n_limits++] = limit;
            }
        }
    }
    return true;
}

static size_t count_levels(const struct oq_range_codes *codes) {
    size_t n_codes = (size_t)((int64_t)codes->high - codes->low + 1);
    return codes->symmetric ? (n_codes + 1) / 2 : n_codes;
}

static bool prepare(const struct oq_statistics *statistics, const struct oq_range_codes *codes,
                    bool folded, struct oq_range_search *search) {
    struct oq_range seen = oq_range_observed(statistics);
    int end = seen.n_masked > 0 ? far_exponent(statistics) : OQ_HISTOGRAM_MAX_EXPONENT + 1;
    *search = (struct oq_range_search){.codes = *codes,
                                       .min = fmin(seen.min, 0.0),
                                       .max = fmax(seen.max, 0.0),
                                       .n_levels = count_levels(codes)};
    search->largest = fmax(-search->min, search->max);
    search->ends[0] = folded ? search->largest : search->max;
    search->ends[1] = -search->min;
    return oq_bins_create(statistics->histogram, end, folded, &search->bins) &&
           list_limits(statistics->histogram, search);
}

static bool run_search(const struct oq_range_method *method, const struct oq_statistics *statistics,
                       struct oq_range_search *search, struct oq_range *range) {
    switch (method->method) {
    case ONNXPTQ_METHOD_PERCENTILE:
        *range = oq_range_within(search, percentile_limit(statistics, search, method->percentile));
        return true;
    case ONNXPTQ_METHOD_ENTROPY: return oq_range_search_entropy(search, range);
    case ONNXPTQ_METHOD_MSE: return oq_range_search_mse(search, range);
    case ONNXPTQ_METHOD_MAX:
    case ONNXPTQ_METHOD_AUTO: break;
    }
    *range = oq_range_within(search, search->largest);
    return true;
}

static enum onnxptq_status search_range(const struct oq_range_method *method,
                                        const struct oq_range_codes *codes,
                                        const struct oq_statistics *statistics,
                                        struct oq_range *range, struct onnxptq_error *error) {
    struct oq_range_search search;
    bool folded = codes->symmetric || method->method == ONNXPTQ_METHOD_PERCENTILE;
    bool good = prepare(statistics, codes, folded, &search) &&
                (search.bins.n > 0 ? run_search(method, statistics, &search, range) : true);
    oq_bins_reset(&search.bins);
    free(search.limits);
    return good ? ONNXPTQ_OK : oq_fail_memory(error, "the search of a range");
}

bool oq_range_needs_histogram(enum onnxptq_method method) {
    return method != ONNXPTQ_METHOD_MAX;
}

enum onnxptq_status oq_range_choose(const struct oq_range_method *method,
                                    const struct oq_range_codes *codes,
                                    const struct oq_statistics *statistics, struct oq_range *range,
                                    struct onnxptq_error *error) {
    struct oq_range chosen = oq_range_observed(statistics);
    uint64_t n_masked = chosen.n_masked;
    if (oq_range_needs_histogram(method->method) && chosen.min <= chosen.max) {
        if (statistics->histogram == NULL) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA, "there is no histogram of it");
        }
        OQ_TRY(search_range(method, codes, statistics, &chosen, error));
    }
    chosen.n_masked = n_masked;
    *range = chosen;
    return ONNXPTQ_OK;
}
