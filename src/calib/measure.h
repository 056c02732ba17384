/*
 * Measuring one tensor: extremes and, if wanted, its histogram, with the session's own threads
 * where it is large.
 */
#ifndef OQ_CALIB_MEASURE_H
#define OQ_CALIB_MEASURE_H

#include "calib/histogram.h"
#include "calib/minmax.h"
#include "runtime/session.h"

/* Working memory: one binner for each thread that turns up. For one tensor at a time. */
struct oq_measure_scratch;
struct oq_measure_scratch *oq_measure_scratch_create(void);          /* NULL: out of memory */
void oq_measure_scratch_destroy(struct oq_measure_scratch *scratch); /* NULL is allowed */

/* Of a tensor in host memory whose type oq_minmax_knows. Its elements are added to `histogram`
 * unless that is NULL; `scratch` is needed for that only. False when out of memory. */
bool oq_measure(const struct oq_observed *tensor, struct oq_measure_scratch *scratch,
                struct oq_histogram *histogram, struct oq_extremes *extremes);

#endif
