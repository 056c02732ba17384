/*
 * How often the magnitudes of a tensor fall where: counts of all values seen, exact and mergeable.
 *
 * Magnitudes are sorted by octave, [2^e, 2^(e+1)), for both signs apart. The OQ_HISTOGRAM_OCTAVES
 * highest octaves that hold anything are kept, each cut into equal bins whose width is a power of
 * two: 2048 in the highest four, and half as many from there on with every further one, so that the
 * bins' widths stop shrinking where a range that ends in one of the four cannot tell them apart:
 *
 *     |0          low           |. . . .|..:..:..:..|:::::::::::|::::::::::::::::::::::| 2^(e+1)
 *                    octave:     14, 13, ... 5, 4      3, 2, 1             0
 *
 * Octaves count where something lies in them, so neither a mask of -1e9 nor one outlier costs the
 * rest its bins, as it would where the widths follow the largest value. When a higher octave
 * appears, those below move down a place: neighbouring bins are added in pairs, and what leaves the
 * last place is counted as "low", with the zeros. An octave's place in the end depends on which
 * octaves hold anything, and never rises, so the counts are the same to the bit for any order and
 * any split of the values.
 *
 * Magnitudes below 2^-126, where float32 ends, count as low.
 */
#ifndef OQ_CALIB_HISTOGRAM_H
#define OQ_CALIB_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OQ_HISTOGRAM_BITS 11 /* log2 of the bins of the highest octaves */
#define OQ_HISTOGRAM_FINE 4  /* how many those are */
#define OQ_HISTOGRAM_OCTAVES (OQ_HISTOGRAM_FINE + OQ_HISTOGRAM_BITS)
#define OQ_HISTOGRAM_MIN_EXPONENT (-126)
#define OQ_HISTOGRAM_MAX_EXPONENT 127

struct oq_histogram;

struct oq_histogram *oq_histogram_create(void);            /* NULL: out of memory */
void oq_histogram_destroy(struct oq_histogram *histogram); /* NULL is allowed */

/* log2 of the bins of the octave in a place: 0 the highest. */
unsigned oq_histogram_place_bits(size_t place);

/* Adding; false when out of memory, after which the histogram may only be destroyed.
 *
 * n values, whatever they are: those that no bin takes are low. */
void oq_histogram_add_total(struct oq_histogram *histogram, uint64_t n);
/* Counts of the 2^OQ_HISTOGRAM_BITS bins of an octave, of values that are in the total; `sum` of
 * them, below 2^16 and not 0. Nothing happens when the octave is too low to be kept. */
bool oq_histogram_add_counts(struct oq_histogram *histogram, int exponent, bool negative,
                             const uint16_t *counts, uint16_t sum);
/* One such value. */
bool oq_histogram_add_one(struct oq_histogram *histogram, int exponent, bool negative, size_t bin);
/* All of another's. */
bool oq_histogram_merge(struct oq_histogram *histogram, const struct oq_histogram *other);

/* ---- What it holds ---- */

uint64_t oq_histogram_total(const struct oq_histogram *histogram);
/* Values in no bin: zeros, and what is below the octaves that are kept. */
uint64_t oq_histogram_low(const struct oq_histogram *histogram);

/* Octaves that are kept, the highest first. */
size_t oq_histogram_n_octaves(const struct oq_histogram *histogram);
int oq_histogram_exponent(const struct oq_histogram *histogram, size_t place);
/* Values of that sign in an octave. */
uint64_t oq_histogram_octave_total(const struct oq_histogram *histogram, size_t place,
                                   bool negative);
/* Of 2^oq_histogram_place_bits(place) bins. */
uint64_t oq_histogram_count(const struct oq_histogram *histogram, size_t place, bool negative,
                            size_t bin);

/* Puts back what was read from a file: octaves in descending order, each sign at most once, the
 * counts of all its bins. False when out of memory, or when this is not what a histogram gave. */
bool oq_histogram_restore(struct oq_histogram *histogram, int exponent, bool negative,
                          const uint64_t *counts, size_t n);

#endif
