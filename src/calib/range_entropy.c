/*
 * The range that loses least information, as the Kullback-Leibler divergence measures it.
 *
 * P is the histogram, what lies outside the range added to the outermost levels
 * that hold anything; Q what is left of
 * what lies inside when each level knows its sum only and spreads it over its bins that are not
 * empty, by their widths. With m_j values inside level j, o_j added from outside, N in all:
 *
 *     KL = sum_j (m_j + o_j) / N * (log((m_j + o_j) / m_j) + D_j) + log(1 - sum_j o_j / N)
 *
 * where D_j is the divergence within a level, of the bins' counts from the even spread. Sums of
 * c log(c / width) up to each bin give D_j from its two ends. Logarithms are our own: those of the
 * system may round differently on another processor and tip a close decision.
 */
#include "calib/range_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* With more levels than this there is no bin left to lose. */
#define MAX_LEVELS 512

/* Of the sums' rounding: divergences this close are equal, and the larger range is kept. */
#define TOLERANCE 1e-10

/* Sums over the bins of one sign, from zero to each edge. */
struct sums {
    double *count;
    double *entropy; /* c log(c / width) */
    double *width;   /* of bins that are not empty */
};

struct entropy {
    const struct oq_range_search *search;
    struct sums sides[2];
    double total;
};

/* ---- Logarithm ---- */

/* Natural logarithm of a positive normal number, to about 1e-15: atanh series of the mantissa in
 * [sqrt(1/2), sqrt(2)]. */
static double logarithm(double x) {
    static const double ln2 = 0.69314718055994530942;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t exponent = (int64_t)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa);
    if (mantissa > 1.41421356237309504880) {
        mantissa *= 0.5;
        exponent++;
    }
    double z = (mantissa - 1.0) / (mantissa + 1.0), square = z * z, sum = 0.0;
    for (int k = 19; k > 0; k -= 2) {
        sum = sum * square + 1.0 / k;
    }
    return (double)exponent * ln2 + 2.0 * z * sum;
}

/* ---- Sums ---- */

static void reset_sums(struct entropy *entropy) {
    for (size_t i = 0; i < 2; i++) {
        free(entropy->sides[i].count);
        free(entropy->sides[i].entropy);
        free(entropy->sides[i].width);
    }
}

static bool add_up(const struct oq_bins *bins, const double *counts, struct sums *sums) {
    size_t n = bins->n + 1;
    sums->count = calloc(n, sizeof *sums->count);
    sums->entropy = calloc(n, sizeof *sums->entropy);
    sums->width = calloc(n, sizeof *sums->width);
    if (sums->count == NULL || sums->entropy == NULL || sums->width == NULL) {
        return false;
    }
    for (size_t i = 0; i < bins->n; i++) {
        double width = bins->edges[i + 1] - bins->edges[i];
        bool empty = counts[i] == 0.0;
        sums->count[i + 1] = sums->count[i] + counts[i];
        sums->width[i + 1] = sums->width[i] + (empty ? 0.0 : width);
        sums->entropy[i + 1] =
            sums->entropy[i] + (empty ? 0.0 : counts[i] * logarithm(counts[i] / width));
    }
    return true;
}

static bool add_up_all(struct entropy *entropy) {
    const struct oq_bins *bins = &entropy->search->bins;
    for (size_t i = 0; i < 2 && bins->counts[i] != NULL; i++) {
        if (!add_up(bins, bins->counts[i], &entropy->sides[i])) {
            return false;
        }
        entropy->total += entropy->sides[i].count[bins->n];
    }
    return true;
}

/* ---- Divergence ---- */

/* The sums from zero to a place; before zero they count backwards. */
struct place {
    double count, entropy, width;
};

static struct place place_of(const struct entropy *entropy, double x) {
    bool negative = x < 0.0;
    const struct sums *sums = &entropy->sides[negative];
    if (sums->count == NULL) {
        return (struct place){0}; /* folded: there are no negative ones */
    }
    size_t i = oq_range_bins_below(entropy->search, negative, fabs(x));
    if (negative) {
        return (struct place){-sums->count[i], -sums->entropy[i], -sums->width[i]};
    }
    return (struct place){sums->count[i], sums->entropy[i], sums->width[i]};
}

struct level {
    double count, entropy, width;
};

static struct level level_between(struct place from, struct place to) {
    return (struct level){to.count - from.count, to.entropy - from.entropy, to.width - from.width};
}

/* N times the level's part of the sum, `outside` values added to it. */
static double divergence_of(struct level level, double outside) {
    double within = level.entropy / level.count - logarithm(level.count / level.width);
    double added = outside > 0.0 ? logarithm(1.0 + outside / level.count) : 0.0;
    return (level.count + outside) * (within + added);
}

/* Values beyond the positive or the negative end. */
static double outside_of(const struct entropy *entropy, bool negative, double end) {
    const struct sums *sums = &entropy->sides[negative];
    if (sums->count == NULL) {
        return 0.0;
    }
    return sums->count[entropy->search->bins.n] -
           sums->count[oq_range_bins_below(entropy->search, negative, end)];
}

/* The levels of a range: equal parts of [low, high]. */
struct levels {
    size_t n;
    double low, width, high;
};

static struct place level_start(const struct entropy *entropy, const struct levels *levels,
                                size_t i) {
    return place_of(entropy,
                    i < levels->n ? levels->low + (double)i * levels->width : levels->high);
}

/* The lowest level that holds anything; n when none does. */
static size_t lowest_level(const struct entropy *entropy, const struct levels *levels) {
    double start = level_start(entropy, levels, 0).count;
    size_t i = 0;
    while (i < levels->n && level_start(entropy, levels, i + 1).count == start) {
        i++;
    }
    return i;
}

/* N times the divergence, or part of it that is not below `best` already. */
static double divergence(const struct entropy *entropy, struct oq_range range, double best) {
    double low = entropy->search->codes.symmetric ? 0.0 : range.min;
    struct levels levels = {entropy->search->n_levels, low, 0.0, range.max};
    levels.width = (range.max - low) / (double)levels.n;
    double before = outside_of(entropy, true, -range.min);
    double after = outside_of(entropy, false, range.max);
    size_t lowest = before > 0.0 ? lowest_level(entropy, &levels) : 0;
    double inside = entropy->total - before - after;
    double sum = inside > 0.0 ? entropy->total * logarithm(inside / entropy->total) : INFINITY;
    struct place from = level_start(entropy, &levels, levels.n);
    /* From the upper end, where it shows first that a range is too small. No term is negative. */
    for (size_t i = levels.n; i-- > 0 && sum < best;) {
        struct place to = from;
        from = level_start(entropy, &levels, i);
        struct level level = level_between(from, to);
        if (level.count > 0.0) {
            sum += divergence_of(level, after + (i == lowest ? before : 0.0));
            after = 0.0;
        }
    }
    return sum;
}

bool oq_range_search_entropy(const struct oq_range_search *search, struct oq_range *range) {
    *range = oq_range_within(search, search->largest);
    if (search->n_levels > MAX_LEVELS) {
        return true;
    }
    struct entropy entropy = {.search = search};
    bool good = add_up_all(&entropy);
    double best = INFINITY, equal = entropy.total * TOLERANCE;
    for (size_t i = 0; good && entropy.total > 0 && i < search->n_limits; i++) {
        struct oq_range tried = oq_range_within(search, search->limits[i]);
        double found = divergence(&entropy, tried, best);
        if (found < best - equal) {
            best = found;
            *range = tried;
        }
    }
    reset_sums(&entropy);
    return good;
}
