/*
 * Sessions of whole models for measuring. Private to the stages that do, choose and check.
 */
#ifndef OQ_API_JOB_SESSIONS_H
#define OQ_API_JOB_SESSIONS_H

#include "api/job.h"
#include "runtime/session.h"

/* The original on the providers, or on CPU where they refuse it. */
enum onnxptq_status oq_job_open_original(struct onnxptq_job *job, struct oq_session **session,
                                         struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_job_open_plain_original(struct onnxptq_job *job, struct oq_session **session,
                                               struct onnxptq_error *error) OQ_MUST_USE;
/* A quantized model. */
enum onnxptq_status oq_job_open_result(struct onnxptq_job *job, const struct oq_model *model,
                                       enum oq_optimization optimization,
                                       struct oq_session **session, struct onnxptq_error *error)
    OQ_MUST_USE;
/* A quantized model as it is measured: with optimizations, or without where they refuse it and the
 * target does not need them, which is noted. */
enum onnxptq_status oq_job_open_candidate(struct onnxptq_job *job, const struct oq_model *model,
                                          bool *optimized, struct oq_session **session,
                                          struct onnxptq_error *error) OQ_MUST_USE;

#endif
