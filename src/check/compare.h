/*
 * Running two models side by side on the same samples and measuring each output.
 */
#ifndef OQ_CHECK_COMPARE_H
#define OQ_CHECK_COMPARE_H

#include "data/source.h"
#include "runtime/session.h"

struct oq_output_quality {
    const char *name; /* borrowed from the reference session: copied into the caller's arena */
    int type;
    bool comparable; /* a dense numeric tensor of the same type and shape in both */
    bool exact;      /* equal to the bit on every sample */
    double signal;   /* sum of ref^2 */
    double noise;    /* sum of (ref - got)^2 */
    double max_abs_error;
    uint64_t n_elements;
    uint64_t n_nonfinite; /* elements that differ where at least one of the two is not finite */
};

/* Starts measuring an output; `name` is borrowed. `type` UNDEFINED is taken from the first tensor.
 */
void oq_quality_init(struct oq_output_quality *quality, const char *name, int type);
/* Adds one pair of tensors. NaN in both, and equal infinities, count as equal. Where the reference
 * is not finite nothing can be measured: the element is left out of signal and noise. Where only
 * the candidate is not finite, noise and max_abs_error become infinite. */
void oq_quality_add(struct oq_output_quality *quality, const struct onnxptq_tensor *reference,
                    const struct onnxptq_tensor *candidate);

struct oq_compare_spec {
    struct oq_runtime *runtime;
    struct oq_session *reference, *candidate; /* same inputs and outputs */
    struct oq_data_source *source;
    const struct oq_data_runs *runs;
    const struct oq_log *log; /* progress as stage "check" */
};

/* quality[i] for output i; same number in both, else ONNXPTQ_ERROR_INTERNAL. */
enum onnxptq_status oq_compare(const struct oq_compare_spec *spec,
                               struct oq_output_quality *quality, struct onnxptq_error *error)
    OQ_MUST_USE;

/* 10 log10(signal / noise): +inf when noise is 0, -inf when noise is not finite; false when signal
 * is 0 or the output is not comparable. */
bool oq_quality_sqnr(const struct oq_output_quality *quality, double *sqnr_db);

#endif
