/*
 * Choosing the range of a tensor from its statistics. Formulas and their sources:
 * docs/formulas.md.
 */
#ifndef OQ_CALIB_RANGE_H
#define OQ_CALIB_RANGE_H

#include "calib/statistics.h"

struct oq_range_method {
    enum onnxptq_method method; /* for choosing a range not AUTO, which is a choice among methods */
    double percentile;          /* of PERCENTILE: 50 to 100 */
};

/* The codes that the range will be divided into. */
struct oq_range_codes {
    int32_t low, high;
    bool symmetric; /* the range is [-a, a] */
};

struct oq_range {
    double min, max;   /* min > max: nothing finite was seen */
    uint64_t n_masked; /* elements that are taken for masks and lie outside */
};

/* What was seen, without masks: far elements (minmax.h) are left out when there are others besides
 * zeros, and even 16 bits over a range that holds the far ones could not tell those from zero:
 * far_least >= 2^16 times their largest magnitude (float16, whose far ones begin at 65024: 2^8). */
struct oq_range oq_range_observed(const struct oq_statistics *statistics);

/* True when the method needs a histogram. */
bool oq_range_needs_histogram(enum onnxptq_method method);

/* The range that the method chooses; for symmetric codes min = -max, but for the method max, which
 * gives what was seen. ONNXPTQ_ERROR_DATA when there is no histogram of a tensor with finite
 * elements and the method needs one; ONNXPTQ_ERROR_MEMORY. */
enum onnxptq_status oq_range_choose(const struct oq_range_method *method,
                                    const struct oq_range_codes *codes,
                                    const struct oq_statistics *statistics, struct oq_range *range,
                                    struct onnxptq_error *error) OQ_MUST_USE;

#endif
