/*
 * Outputs of a model on a few runs, kept in memory, so that many candidates are measured against
 * them for the price of one run of the reference.
 */
#ifndef OQ_CHECK_REFERENCE_H
#define OQ_CHECK_REFERENCE_H

#include "check/compare.h"

struct oq_reference;

/* Progress of several measurements in a row: `done` samples before this one, `total` in all. */
struct oq_reference_progress {
    const struct oq_log *log; /* may be NULL */
    const char *stage;
    size_t done, total;
};

struct oq_reference_spec {
    struct oq_runtime *runtime; /* outlives the reference */
    struct oq_session *session;
    struct oq_data_source *source;   /* outlives the reference */
    const struct oq_data_runs *runs; /* outlives it too */
    size_t max_bytes;                /* no further run once its outputs take more than this */
};

/* At least one run is made. */
enum onnxptq_status oq_reference_create(const struct oq_reference_spec *spec,
                                        const struct oq_reference_progress *progress,
                                        struct oq_reference **out, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_reference_destroy(struct oq_reference *reference); /* NULL is allowed */

size_t oq_reference_n_outputs(const struct oq_reference *reference);
size_t oq_reference_n_samples(const struct oq_reference *reference); /* of the runs made */

/* quality[i] for output i of a session with the same inputs and outputs, on the same runs. Names
 * are the reference's. */
enum onnxptq_status oq_reference_compare(const struct oq_reference *reference,
                                         struct oq_session *candidate,
                                         const struct oq_reference_progress *progress,
                                         struct oq_output_quality *quality,
                                         struct onnxptq_error *error) OQ_MUST_USE;

#endif
