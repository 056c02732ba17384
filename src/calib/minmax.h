/*
 * The kernels behind statistics.c: finite minimum and maximum of an array, and how many elements
 * are not finite.
 *
 * Floats are compared as integers: flipping the lower bits of negative numbers makes the order of
 * the bit patterns the order of the values, so one integer loop serves every float type, compilers
 * vectorise it for every instruction set, and the result has the same bits on all of them, for any
 * split of the array.
 */
#ifndef OQ_CALIB_MINMAX_H
#define OQ_CALIB_MINMAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* min > max while nothing is finite. 64-bit integers are rounded to double, which keeps their
 * order. */
struct oq_extremes {
    double min, max;
    uint64_t n_nan, n_infinite;
};

/* Instruction sets that the loops are compiled for. BASE is what every processor of the platform
 * has (NEON on aarch64). */
enum oq_minmax_level { OQ_MINMAX_BASE, OQ_MINMAX_AVX2, OQ_MINMAX_AVX512, OQ_MINMAX_LEVELS };

bool oq_minmax_supports(enum oq_minmax_level level); /* by this processor */
enum oq_minmax_level oq_minmax_best(void);

struct oq_extremes oq_extremes_none(void);
void oq_extremes_merge(struct oq_extremes *extremes, const struct oq_extremes *other);

/* True for the types that hold numbers we can read. */
bool oq_minmax_knows(int type);
/* n elements of a type that is known, at any alignment. */
struct oq_extremes oq_minmax_run(enum oq_minmax_level level, int type, const void *data, size_t n);

#endif
