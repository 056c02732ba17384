/*
 * How much a tensor loses when it is rounded to the target's activation type, estimated from the
 * traced sample: a few large values beside many small ones leave the small ones few codes.
 */
#include "quant/planner.h"

#include <math.h>

/* Sum of the squares of the values in the bins of one sign, each taken at its bin's centre. */
static double square_sum(const struct oq_histogram *histogram, size_t place, bool negative) {
    if (oq_histogram_octave_total(histogram, place, negative) == 0) {
        return 0.0;
    }
    size_t n = (size_t)1 << oq_histogram_place_bits(place);
    double base = ldexp(1.0, oq_histogram_exponent(histogram, place));
    double sum = 0.0;
    for (size_t bin = 0; bin < n; bin++) {
        uint64_t count = oq_histogram_count(histogram, place, negative, bin);
        double centre = base * (1.0 + ((double)bin + 0.5) / (double)n);
        sum += (double)count * centre * centre;
    }
    return sum;
}

static double mean_square(const struct oq_histogram *histogram) {
    double sum = 0.0;
    for (size_t place = 0; place < oq_histogram_n_octaves(histogram); place++) {
        sum += square_sum(histogram, place, false) + square_sum(histogram, place, true);
    }
    return sum / (double)oq_histogram_total(histogram);
}

double oq_planner_rounding_db(const struct oq_planner *planner, uint32_t value) {
    const struct oq_statistics *trace = planner->context->trace;
    if (value == OQ_NONE || trace == NULL || trace[value].histogram == NULL ||
        trace[value].n_finite == 0) {
        return INFINITY;
    }
    double power = mean_square(trace[value].histogram);
    struct oq_quant_params params = oq_quant_params_from_range(&planner->target->activation,
                                                               trace[value].min, trace[value].max);
    double noise = (double)params.scale * (double)params.scale / 12.0;
    return power > 0.0 ? 10.0 * log10(power / noise) : INFINITY;
}
