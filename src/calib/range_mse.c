/*
 * The range whose rounding and saturation errors have the least sum of squares.
 *
 * Every value counts as the middle of its bin. A code c of scale s stands for the values nearest to
 * it, the outermost ones for all beyond, too: with the sums of 1, x and x^2 up to each bin, its
 * errors are
 *
 *     sum (x - c s)^2 = sum x^2 - 2 c s sum x + (c s)^2 n
 */
#include "calib/range_search.h"

#include <math.h>
#include <stdlib.h>

/* Codes of one sign, above which a code is narrower than a bin: then its values lie evenly, and
 * their mean square error is s^2 / 12. */
#define MANY_CODES 1024

/* Ends of a range that is not symmetric are improved in turns. */
#define TURNS 2

/* Sums over the bins of one sign, from zero to each edge. */
struct moments {
    double *count, *first, *second;
};

struct errors {
    const struct oq_range_search *search;
    struct moments sides[2];
};

static void reset_moments(struct errors *errors) {
    for (size_t i = 0; i < 2; i++) {
        free(errors->sides[i].count);
        free(errors->sides[i].first);
        free(errors->sides[i].second);
    }
}

static bool add_up(const struct oq_bins *bins, const double *counts, struct moments *moments) {
    size_t n = bins->n + 1;
    moments->count = calloc(n, sizeof *moments->count);
    moments->first = calloc(n, sizeof *moments->first);
    moments->second = calloc(n, sizeof *moments->second);
    if (moments->count == NULL || moments->first == NULL || moments->second == NULL) {
        return false;
    }
    for (size_t i = 0; i < bins->n; i++) {
        double middle = 0.5 * (bins->edges[i] + bins->edges[i + 1]);
        moments->count[i + 1] = moments->count[i] + counts[i];
        moments->first[i + 1] = moments->first[i] + counts[i] * middle;
        moments->second[i + 1] = moments->second[i] + counts[i] * middle * middle;
    }
    return true;
}

/* ---- Errors ---- */

/* Of the bins [from, to), each value of which becomes `value`. */
static double error_of(const struct moments *moments, size_t from, size_t to, double value) {
    double count = moments->count[to] - moments->count[from];
    double first = moments->first[to] - moments->first[from];
    double second = moments->second[to] - moments->second[from];
    double sum = second - 2.0 * value * first + value * value * count;
    return sum > 0.0 ? sum : 0.0;
}

/* Of one sign, whose codes reach from 0 to `last`; or part of it that is not below `best`
 * already. */
static double error_of_side(const struct errors *errors, bool negative, double scale, int32_t last,
                            double best) {
    const struct moments *moments = &errors->sides[negative];
    size_t end = errors->search->bins.n;
    if (moments->count == NULL || moments->count[end] == 0.0) {
        return 0.0;
    }
    size_t to = oq_range_bins_below(errors->search, negative, ((double)last - 0.5) * scale);
    double sum = error_of(moments, to, end, (double)last * scale);
    if (last > MANY_CODES) {
        return sum + moments->count[to] * scale * scale / 12.0;
    }
    for (int32_t code = last - 1; code >= 0 && to > 0 && sum < best; code--) {
        size_t from =
            code > 0 ? oq_range_bins_below(errors->search, negative, ((double)code - 0.5) * scale)
                     : 0;
        sum += error_of(moments, from, to, (double)code * scale);
        to = from;
    }
    return sum;
}

static double error_of_range(const struct errors *errors, struct oq_range range, double best) {
    const struct oq_range_codes *codes = &errors->search->codes;
    if (codes->symmetric) {
        int32_t last = (int32_t)errors->search->n_levels - 1;
        return error_of_side(errors, false, range.max / (double)last, last, best);
    }
    double steps = (double)codes->high - (double)codes->low;
    double scale = (range.max - range.min) / steps;
    double below = rint(-range.min / scale); /* codes of negative numbers */
    double sum = error_of_side(errors, false, scale, (int32_t)(steps - below), best);
    return sum < best ? sum + error_of_side(errors, true, scale, (int32_t)below, best - sum) : sum;
}

/* ---- Search ---- */

struct found {
    struct oq_range range;
    double error;
};

static void try_range(const struct errors *errors, struct oq_range range, struct found *best) {
    double error =
        range.max > range.min ? error_of_range(errors, range, best->error) : (double)INFINITY;
    if (error < best->error) {
        *best = (struct found){range, error};
    }
}

/* One end moves, the other stays. */
static void move_end(const struct errors *errors, bool negative, struct found *best) {
    const struct oq_range_search *search = errors->search;
    double other = negative ? best->range.max : best->range.min;
    for (size_t i = 0; i < search->n_limits; i++) {
        struct oq_range cut = oq_range_within(search, search->limits[i]);
        struct oq_range tried = {negative ? cut.min : other, negative ? other : cut.max, 0};
        try_range(errors, tried, best);
    }
}

static struct oq_range find_best(const struct errors *errors) {
    const struct oq_range_search *search = errors->search;
    struct found best = {oq_range_within(search, search->largest), INFINITY};
    for (size_t i = 0; i < search->n_limits; i++) {
        try_range(errors, oq_range_within(search, search->limits[i]), &best);
    }
    bool two_sided = !search->codes.symmetric && search->min < 0.0 && search->max > 0.0;
    for (int turn = 0; two_sided && turn < TURNS; turn++) {
        move_end(errors, false, &best);
        move_end(errors, true, &best);
    }
    return best.range;
}

bool oq_range_search_mse(const struct oq_range_search *search, struct oq_range *range) {
    struct errors errors = {.search = search};
    bool good = true;
    for (size_t i = 0; i < 2 && search->bins.counts[i] != NULL; i++) {
        good = good && add_up(&search->bins, search->bins.counts[i], &errors.sides[i]);
    }
    if (good) {
        *range = find_best(&errors);
    }
    reset_moments(&errors);
    return good;
}
