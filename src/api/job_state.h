/*
 * The state of a job's calibration (state.h): which runs this process makes, and keeping what they
 * showed.
 */
#ifndef OQ_API_JOB_STATE_H
#define OQ_API_JOB_STATE_H

#include "api/job.h"

struct oq_job_state;

/* `runs` are those of all samples; `values` are watched. What an earlier process saw is put into
 * `seen`, which must be initialised. All is borrowed. */
struct oq_job_state_spec {
    struct onnxptq_job *job;
    const struct oq_data_runs *runs;
    const uint32_t *values;
    size_t n_values;
    bool histograms;
};
enum onnxptq_status oq_job_state_create(const struct oq_job_state_spec *spec,
                                        struct oq_statistics *seen, struct oq_job_state **out,
                                        struct onnxptq_error *error) OQ_MUST_USE;
void oq_job_state_destroy(struct oq_job_state *state); /* NULL is allowed */

/* What is left to do here. */
const struct oq_data_runs *oq_job_state_runs(const struct oq_job_state *state);
/* Samples of this job when all is done, those of other processes included. */
size_t oq_job_state_n_samples(const struct oq_job_state *state);

/* Takes note of a run, and saves now and then. As oq_watch_spec wants it. */
enum onnxptq_status oq_job_state_keep(void *user, const struct oq_statistics *seen, size_t n_done,
                                      bool cancelled, struct onnxptq_error *error);
/* All is done: a part saves. */
enum onnxptq_status oq_job_state_finish(struct oq_job_state *state,
                                        const struct oq_statistics *seen,
                                        struct onnxptq_error *error) OQ_MUST_USE;

/* Once the result is written, or has failed for good. */
void oq_job_state_remove(const struct onnxptq_job *job);

#endif
