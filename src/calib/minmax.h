/*
 * The kernels behind measure.c: finite minimum and maximum of an array, of all and of
 * those that are no mask, and how many elements are not finite.
 *
 * Floats are compared as integers: flipping the lower bits of negative numbers makes the order of
 * the bit patterns the order of the values, so one integer loop serves every float type, compilers
 * vectorise it for every instruction set, and the result has the same bits on all of them, for any
 * split of the array.
 */
#ifndef OQ_CALIB_MINMAX_H
#define OQ_CALIB_MINMAX_H

#include "calib/vector.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From 2^24 on a magnitude is "far": no layer computes it, but masks are made of it (the lowest
 * float, -1e9). Kept apart, so that a mask does not have to swallow the range of the rest
 * (range.h). In float16, which ends at 65504, far is from 65024 on. */
#define OQ_FAR_EXPONENT 24
#define OQ_FAR_EXPONENT_F16 15
#define OQ_FAR_LEAST 16777216.0
#define OQ_FAR_LEAST_F16 65024.0

/* Of the finite elements; min > max while there are none. 64-bit integers are rounded to double,
 * which keeps their order. Integers are never far. */
struct oq_extremes {
    double min, max;
    double near_min, near_max; /* of those that are not far; near_min > near_max: none */
    double far_least;          /* least magnitude of a far one; infinite: none */
    uint64_t n_far, n_nan, n_infinite;
};

struct oq_extremes oq_extremes_none(void);
void oq_extremes_merge(struct oq_extremes *extremes, const struct oq_extremes *other);

/* True for the types that hold numbers we can read. */
bool oq_minmax_knows(int type);
/* n elements of a type that is known, at any alignment. */
struct oq_extremes oq_minmax_run(enum oq_vector_level level, int type, const void *data, size_t n);

#endif
