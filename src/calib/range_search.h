/*
 * What the methods that search share (range.c, range_entropy.c, range_mse.c). For them alone.
 */
#ifndef OQ_CALIB_RANGE_SEARCH_H
#define OQ_CALIB_RANGE_SEARCH_H

#include "calib/bins.h"
#include "calib/range.h"

/* Limits of magnitudes that are tried in each octave. */
#define OQ_RANGE_STEPS 64

struct oq_range_search {
    struct oq_range_codes codes;
    double min, max;     /* seen, holding zero */
    double largest;      /* magnitude */
    struct oq_bins bins; /* folded when symmetric */
    double ends[2];      /* of the values in each of the bins' two counts */
    size_t n_levels;     /* from zero to the end of a symmetric range, in all of another */
    double *limits;      /* magnitudes that are tried, the largest first; the first is `largest` */
    size_t n_limits;
};

/* The range that ends at `limit`: [-limit, limit] when symmetric, else what was seen, cut there. */
struct oq_range oq_range_within(const struct oq_range_search *search, double limit);

/* How many bins of a sign have their middle at or below `magnitude`; all of them at the end of the
 * values, wherever in the last bin that is. */
size_t oq_range_bins_below(const struct oq_range_search *search, bool negative, double magnitude);

/* The best of the limits. False when out of memory. */
bool oq_range_search_entropy(const struct oq_range_search *search, struct oq_range *range);
bool oq_range_search_mse(const struct oq_range_search *search, struct oq_range *range);

#endif
