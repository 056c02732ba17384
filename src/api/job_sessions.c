/*
 * Sessions of whole models for measuring.
 */
#include "api/job_sessions.h"

#include "calib/marks.h"
#include "calib/session_copy.h"

#include <stdlib.h>

/* They carry types too, which are others where foreign operators compute in half precision: there
 * only what the result itself declares. */
static const struct oq_traced_shapes *shapes_for(const struct onnxptq_job *job,
                                                 const struct oq_model *model) {
    return model != job->original && job->options.quantize.n_half_op_types > 0 ? NULL : job->shapes;
}

/* `kind` says how; model, size and folder are filled in. */
static enum onnxptq_status open_session(struct onnxptq_job *job, const struct oq_model *model,
                                        struct oq_session_spec kind, struct oq_session **session,
                                        struct onnxptq_error *error) {
    struct oq_model *copy = NULL;
    uint8_t *bytes = NULL;
    OQ_TRY(oq_session_copy_create(model, job->runtime, shapes_for(job, model), &copy, error));
    enum onnxptq_status status = oq_marks_add(copy, job->runtime, error);
    if (status == ONNXPTQ_OK) {
        status = oq_session_bytes(copy, job->weights, &bytes, &kind.size, error);
    }
    oq_model_destroy(copy);
    if (status != ONNXPTQ_OK) {
        return status;
    }
    kind.model = bytes;
    kind.weights_folder = oq_weight_file_folder(job->weights);
    kind.no_prepacking = kind.no_prepacking || oq_job_is_large(job);
    status = oq_session_create(job->runtime, &kind, session, error);
    free(bytes);
    return status;
}

/* ---- The original -------------------------------------------------------------------------- */

/* What a provider that refuses the user's own model says is no fault of the result: the reference
 * then comes from CPU. */
enum onnxptq_status oq_job_open_original(struct onnxptq_job *job, struct oq_session **session,
                                         struct onnxptq_error *error) {
    struct onnxptq_error refusal = {0};
    char reason[OQ_REASON_SIZE];
    /* It runs a few times, beside another session that has packed weights. */
    struct oq_session_spec kind = {.optimization = OQ_OPTIMIZE_ALL,
                                   .no_prepacking = true,
                                   .cpu_only = job->original_on_cpu,
                                   .purpose = "check of the original model"};
    enum onnxptq_status status = open_session(job, job->original, kind, session, &refusal);
    if (status == ONNXPTQ_ERROR_RUNTIME && !kind.cpu_only &&
        oq_runtime_has_accelerators(job->runtime)) {
        kind.cpu_only = true;
        job->original_on_cpu = open_session(job, job->original, kind, session, NULL) == ONNXPTQ_OK;
        if (job->original_on_cpu) {
            oq_report_reason(refusal.message, reason);
            oq_report_add_note(&job->report, "the result is compared with the original on CPU: %s",
                               reason);
            return ONNXPTQ_OK;
        }
    }
    return status == ONNXPTQ_OK ? status : oq_fail(error, status, "%s", refusal.message);
}

enum onnxptq_status oq_job_open_plain_original(struct onnxptq_job *job, struct oq_session **session,
                                               struct onnxptq_error *error) {
    const struct oq_session_spec kind = {.optimization = OQ_OPTIMIZE_NONE,
                                         .purpose =
                                             "check of the original model without optimizations"};
    return open_session(job, job->original, kind, session, error);
}

/* ---- The result ---------------------------------------------------------------------------- */

static bool is_original_refused(struct onnxptq_job *job) {
    struct oq_session *original = NULL;
    bool open = oq_job_open_original(job, &original, NULL) == ONNXPTQ_OK;
    if (open) {
        oq_session_destroy(original);
    }
    return open && job->original_on_cpu;
}

/* Where providers refuse the original they have a reason that quantization did not give them. */
enum onnxptq_status oq_job_open_result(struct onnxptq_job *job, const struct oq_model *model,
                                       enum oq_optimization optimization,
                                       struct oq_session **session, struct onnxptq_error *error) {
    struct onnxptq_error refusal = {0};
    char reason[OQ_REASON_SIZE];
    /* Weights dequantized for good are in memory already, and such sessions make few runs. */
    struct oq_session_spec kind = {.optimization = optimization,
                                   .no_prepacking = optimization == OQ_OPTIMIZE_FLOAT,
                                   .cpu_only = job->results_on_cpu,
                                   .purpose =
                                       optimization == OQ_OPTIMIZE_NONE
                                           ? "check of the quantized model without optimizations"
                                           : "check of the quantized model"};
    enum onnxptq_status status = open_session(job, model, kind, session, &refusal);
    if (status == ONNXPTQ_ERROR_RUNTIME && !kind.cpu_only &&
        oq_runtime_has_accelerators(job->runtime) && is_original_refused(job)) {
        kind.cpu_only = true;
        job->results_on_cpu = open_session(job, model, kind, session, NULL) == ONNXPTQ_OK;
        if (job->results_on_cpu) {
            oq_report_reason(refusal.message, reason);
            oq_report_add_note(&job->report, "the result was measured on CPU: %s", reason);
            return ONNXPTQ_OK;
        }
    }
    return status == ONNXPTQ_OK ? status : oq_fail(error, status, "%s", refusal.message);
}

/* Newest runtimes' optimizers refuse some of what the runtime itself takes (Q/DQ on int8 around a
 * Reshape that they move, from opset 21 on). For a target that is another program this is no fault
 * of the result, which is then measured without them. */
enum onnxptq_status oq_job_open_candidate(struct onnxptq_job *job, const struct oq_model *model,
                                          bool *optimized, struct oq_session **session,
                                          struct onnxptq_error *error) {
    enum onnxptq_status status = oq_job_open_result(job, model, OQ_OPTIMIZE_ALL, session, error);
    *optimized = status == ONNXPTQ_OK;
    if (status != ONNXPTQ_ERROR_RUNTIME || job->target->needs_runtime_optimizer ||
        oq_job_open_result(job, model, OQ_OPTIMIZE_NONE, session, NULL) != ONNXPTQ_OK) {
        return status;
    }
    job->report.public.measured_unoptimized = true;
    oq_report_add_note(&job->report,
                       "ONNX Runtime %s takes the result only with its optimizations off, which is "
                       "how it was measured: %s",
                       oq_runtime_version(job->runtime),
                       error != NULL ? error->message : "its optimizer refuses it");
    return ONNXPTQ_OK;
}
