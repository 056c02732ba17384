/*
 * A histogram laid out for searching ranges: bins side by side, found from a magnitude in no time.
 */
#ifndef OQ_CALIB_BINS_H
#define OQ_CALIB_BINS_H

#include "calib/histogram.h"

#define OQ_BINS_EXPONENTS (OQ_HISTOGRAM_MAX_EXPONENT - OQ_HISTOGRAM_MIN_EXPONENT + 1)

/* The number of the first bin whose middle is above x is (size_t)(x * factor + offset), with
 * the numbers of x's octave. */
struct oq_bins_octave {
    double factor, offset;
};

/* Bins of magnitudes, ascending; both signs share their edges. Between octaves that hold something
 * lies one empty bin. What is below edges[0] is left out: zeros, and what rounds to zero with any
 * range that ends where the bins are. */
struct oq_bins {
    size_t n;
    double *edges;     /* n + 1 */
    double *counts[2]; /* n each: of positive and of negative numbers; folded: of both, and NULL */
    struct oq_bins_octave octaves[OQ_BINS_EXPONENTS];
};

/* Octaves from 2^end_exponent on are left out. False when out of memory. */
bool oq_bins_create(const struct oq_histogram *histogram, int end_exponent, bool folded,
                    struct oq_bins *bins);
void oq_bins_reset(struct oq_bins *bins);

/* How many bins have their middle at or below `magnitude`, which is finite and not negative. */
size_t oq_bins_below(const struct oq_bins *bins, double magnitude);

/* Mean of the squares of all values, each taken for the middle of its bin; 0 of none. */
double oq_histogram_mean_square(const struct oq_histogram *histogram);

#endif
