/*
 * Laying out bins.
 */
#include "calib/bins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DOUBLE_MANTISSA_BITS 52
#define DOUBLE_BIAS 1023

static size_t octave_bins(size_t place) {
    return (size_t)1 << oq_histogram_place_bits(place);
}

/* Places [first, n) of the histogram are laid out. */
static size_t first_place(const struct oq_histogram *histogram, int end_exponent) {
    size_t place = 0, n = oq_histogram_n_octaves(histogram);
    while (place < n && oq_histogram_exponent(histogram, place) >= end_exponent) {
        place++;
    }
    return place;
}

static bool allocate(struct oq_bins *bins, size_t capacity, bool folded) {
    bins->edges = calloc(capacity + 1, sizeof *bins->edges);
    bins->counts[0] = calloc(capacity + 1, sizeof *bins->counts[0]);
    bins->counts[1] = folded ? NULL : calloc(capacity + 1, sizeof *bins->counts[1]);
    return bins->edges != NULL && bins->counts[0] != NULL && (folded || bins->counts[1] != NULL);
}

/* From the last edge to where the next octave begins, if there is anything between. */
static void add_gap(struct oq_bins *bins, int from, int to) {
    for (int e = from; e < to; e++) {
        bins->octaves[e - OQ_HISTOGRAM_MIN_EXPONENT] =
            (struct oq_bins_octave){0.0, (double)(bins->n + 1)};
    }
    if (from < to) {
        bins->edges[++bins->n] = ldexp(1.0, to);
    }
}

static void add_octave(struct oq_bins *bins, const struct oq_histogram *histogram, size_t place) {
    int exponent = oq_histogram_exponent(histogram, place);
    int bits = (int)oq_histogram_place_bits(place);
    double width = ldexp(1.0, exponent - bits), start = ldexp(1.0, exponent);
    bins->octaves[exponent - OQ_HISTOGRAM_MIN_EXPONENT] = (struct oq_bins_octave){
        ldexp(1.0, bits - exponent), 0.5 + (double)bins->n - ldexp(1, bits)};
    for (size_t i = 0; i < octave_bins(place); i++) {
        double positive = (double)oq_histogram_count(histogram, place, false, i);
        double negative = (double)oq_histogram_count(histogram, place, true, i);
        bins->counts[0][bins->n] = bins->counts[1] != NULL ? positive : positive + negative;
        if (bins->counts[1] != NULL) {
            bins->counts[1][bins->n] = negative;
        }
        bins->edges[++bins->n] = start + (double)(i + 1) * width;
    }
}

bool oq_bins_create(const struct oq_histogram *histogram, int end_exponent, bool folded,
                    struct oq_bins *bins) {
    size_t first = first_place(histogram, end_exponent), n = oq_histogram_n_octaves(histogram);
    size_t capacity = 0;
    for (size_t place = first; place < n; place++) {
        capacity += octave_bins(place) + 1;
    }
    *bins = (struct oq_bins){0};
    if (!allocate(bins, capacity, folded)) {
        oq_bins_reset(bins);
        return false;
    }
    for (size_t place = n; place-- > first;) {
        int exponent = oq_histogram_exponent(histogram, place);
        if (bins->n == 0) {
            bins->edges[0] = ldexp(1.0, exponent);
        } else {
            add_gap(bins, oq_histogram_exponent(histogram, place + 1) + 1, exponent);
        }
        add_octave(bins, histogram, place);
    }
    return true;
}

void oq_bins_reset(struct oq_bins *bins) {
    free(bins->edges);
    free(bins->counts[0]);
    free(bins->counts[1]);
    *bins = (struct oq_bins){0};
}

size_t oq_bins_below(const struct oq_bins *bins, double magnitude) {
    if (bins->n == 0 || magnitude <= bins->edges[0]) {
        return 0;
    }
    if (magnitude >= bins->edges[bins->n]) {
        return bins->n;
    }
    uint64_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    int exponent = (int)(bits >> DOUBLE_MANTISSA_BITS) - DOUBLE_BIAS;
    const struct oq_bins_octave *octave = &bins->octaves[exponent - OQ_HISTOGRAM_MIN_EXPONENT];
    return (size_t)(magnitude * octave->factor + octave->offset);
}

static double square_sum(const struct oq_histogram *histogram, size_t place, bool negative) {
    size_t n = octave_bins(place);
    double start = ldexp(1.0, oq_histogram_exponent(histogram, place)), sum = 0.0;
    for (size_t bin = 0; bin < n; bin++) {
        double middle = start * (1.0 + ((double)bin + 0.5) / (double)n);
        sum += (double)oq_histogram_count(histogram, place, negative, bin) * middle * middle;
    }
    return sum;
}

double oq_histogram_mean_square(const struct oq_histogram *histogram) {
    double sum = 0.0;
    for (size_t place = 0; place < oq_histogram_n_octaves(histogram); place++) {
        sum += square_sum(histogram, place, false) + square_sum(histogram, place, true);
    }
    uint64_t n = oq_histogram_total(histogram);
    return n > 0 ? sum / (double)n : 0.0;
}
