/*
 * Counting the elements of tensors into a histogram, fast: the working memory of one thread.
 *
 * The upper bits of a float, exponent and the first bits of the mantissa, are the number of its
 * bin: a loop without branches or float arithmetic turns a block of elements into bin numbers, a
 * second one counts them in 16 bits, and every 60 thousand elements the counts of the octaves that
 * were touched go to the histogram.
 */
#ifndef OQ_CALIB_BINNER_H
#define OQ_CALIB_BINNER_H

#include "calib/histogram.h"
#include "calib/vector.h"

struct oq_binner;

struct oq_binner *oq_binner_create(void);         /* NULL: out of memory */
void oq_binner_destroy(struct oq_binner *binner); /* NULL is allowed */

/* True for the types that can be counted: float, float16, bfloat16, double (rounded to float, no
 * further than its largest). */
bool oq_binner_knows(int type);

/* Adds n elements at any alignment; what is not finite is left out. False when out of memory. */
bool oq_binner_add(struct oq_binner *binner, enum oq_vector_level level, int type, const void *data,
                   size_t n, struct oq_histogram *histogram);

#endif
