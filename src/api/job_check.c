/*
 * Stages check and commit: the result beside the original on samples, then in its place.
 */
#include "api/job_sessions.h"
#include "api/job_state.h"

#include "base/number.h"

#include <stdlib.h>
#include <string.h>

/* The runtime's optimizer turns Q/DQ into integer kernels, whose rounding differs a little from the
 * plain operators'. Below these it does not differ a little: first where its kernels are what will
 * run, then where it need not be asked. */
#define SAME_RESULT_DB 10.0
#define TELLING_RESULT_DB 20.0

/* ---- Measuring ----------------------------------------------------------------------------- */

static enum onnxptq_status compare(struct onnxptq_job *job, const struct oq_data_runs *runs,
                                   const struct oq_log *log, struct oq_session *reference,
                                   struct oq_session *candidate, struct oq_output_quality **quality,
                                   struct onnxptq_error *error) {
    size_t n = oq_session_n_outputs(reference);
    struct oq_output_quality *measured = calloc(n + 1, sizeof *measured);
    if (measured == NULL) {
        return oq_fail_memory(error, "the check");
    }
    struct oq_compare_spec spec = {.runtime = job->runtime,
                                   .reference = reference,
                                   .candidate = candidate,
                                   .source = job->source,
                                   .runs = runs,
                                   .log = log};
    enum onnxptq_status status = oq_compare(&spec, measured, error);
    if (status != ONNXPTQ_OK) {
        free(measured);
        return status;
    }
    *quality = measured;
    return ONNXPTQ_OK;
}

/* The qualities' names are the reference's. */
struct measured {
    struct oq_session *reference;
    struct oq_output_quality *quality;
};

static void reset_measured(struct measured *measured) {
    free(measured->quality);
    oq_session_destroy(measured->reference);
    *measured = (struct measured){0};
}

static enum onnxptq_status measure(struct onnxptq_job *job, const struct oq_data_runs *runs,
                                   struct oq_session *candidate, struct measured *measured,
                                   struct onnxptq_error *error) {
    OQ_TRY(oq_job_open_original(job, &measured->reference, error));
    return compare(job, runs, &job->log, measured->reference, candidate, &measured->quality, error);
}

/* ---- With optimizations off ---------------------------------------------------------------- */

/* True when an output depends on the optimizations, which is noted. */
static bool find_difference(struct onnxptq_job *job, const struct oq_output_quality *quality,
                            size_t n) {
    bool found = false;
    const bool grave = job->target->needs_runtime_optimizer;
    const double same = grave ? SAME_RESULT_DB : TELLING_RESULT_DB;
    for (size_t i = 0; i < n; i++) {
        double sqnr = 0;
        if (quality[i].comparable && oq_type_is_float(quality[i].type) &&
            oq_quality_sqnr(&quality[i], &sqnr) && sqnr < same) {
            found = true;
            oq_report_add_note(
                &job->report,
                "%soutput '%s' depends on the runtime's optimizations: with "
                "them on and off the quantized model agrees to %.1f dB only%s",
                grave ? "LOW QUALITY: " : "", quality[i].name, sqnr,
                grave ? "" : "; it was measured with them off, as the target does without them");
        }
    }
    return found;
}

static bool may_keep_state(const struct onnxptq_job *job) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(job->graph); i++) {
        const struct oq_node *node = oq_graph_node(job->graph, i);
        if (node->foreign || oq_operator_is_random(node->proto->domain, node->proto->op_type)) {
            return true;
        }
    }
    return false;
}

/* Where operators may keep state from run to run, a place in a row of random numbers included, both
 * sessions must be fresh: `used` has run before. */
static enum onnxptq_status compare_optimizations(struct onnxptq_job *job,
                                                 const struct oq_data_runs *run,
                                                 struct oq_session *used, bool *differs,
                                                 struct onnxptq_error *error) {
    struct oq_session *plain = NULL, *fresh = NULL, *optimized = used;
    struct oq_output_quality *quality = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(
        oq_job_open_result(job, oq_job_measured_model(job), OQ_OPTIMIZE_NONE, &plain, error));
    if (may_keep_state(job)) {
        OQ_TRY_DONE(
            oq_job_open_result(job, oq_job_measured_model(job), OQ_OPTIMIZE_ALL, &fresh, error));
        optimized = fresh;
    }
    OQ_TRY_DONE(compare(job, run, NULL, optimized, plain, &quality, error));
    *differs = find_difference(job, quality, oq_session_n_outputs(optimized));
done:
    free(quality);
    oq_session_destroy(fresh);
    oq_session_destroy(plain);
    return status;
}

/* True when the original does not run without optimizations either: then it is not our doing. */
static bool original_fails_too(struct onnxptq_job *job, const struct oq_data_runs *run) {
    struct oq_session *a = NULL, *b = NULL;
    struct oq_output_quality *quality = NULL;
    bool runs = oq_job_open_plain_original(job, &a, NULL) == ONNXPTQ_OK &&
                oq_job_open_plain_original(job, &b, NULL) == ONNXPTQ_OK &&
                compare(job, run, NULL, a, b, &quality, NULL) == ONNXPTQ_OK;
    free(quality);
    oq_session_destroy(b);
    oq_session_destroy(a);
    return !runs;
}

/* A result that only one optimization level runs is not valid. One run tells. */
static enum onnxptq_status check_without_optimizations(struct onnxptq_job *job,
                                                       const struct oq_data_runs *runs,
                                                       struct oq_session *optimized, bool *differs,
                                                       struct onnxptq_error *error) {
    struct oq_data_runs one = *runs;
    one.n_runs = 1;
    one.n_samples = runs->first[1] - runs->first[0];
    struct onnxptq_error reason = {0};
    enum onnxptq_status status = compare_optimizations(job, &one, optimized, differs, &reason);
    if (status == ONNXPTQ_ERROR_RUNTIME && original_fails_too(job, &one)) {
        oq_report_add_note(&job->report,
                           "with the runtime's optimizations off neither the original nor the "
                           "quantized model runs");
        return ONNXPTQ_OK;
    }
    if (status != ONNXPTQ_OK) {
        return oq_fail(error, status, "%s", reason.message);
    }
    return ONNXPTQ_OK;
}

/* ---- Stages -------------------------------------------------------------------------------- */

/* What ONNX Runtime's optimizations make of the result says nothing where another program runs it.
 */
static enum onnxptq_status measure_again(struct onnxptq_job *job, const struct oq_data_runs *runs,
                                         struct measured *measured, struct onnxptq_error *error) {
    struct oq_session *plain = NULL;
    reset_measured(measured);
    job->report.public.measured_unoptimized = true;
    OQ_TRY(oq_job_open_result(job, oq_job_measured_model(job), OQ_OPTIMIZE_NONE, &plain, error));
    enum onnxptq_status status = measure(job, runs, plain, measured, error);
    oq_session_destroy(plain);
    return status;
}

static enum onnxptq_status check_runs(struct onnxptq_job *job, const struct oq_data_runs *runs,
                                      struct onnxptq_error *error) {
    struct oq_session *result = NULL;
    struct measured measured = {0};
    bool optimized = true, differs = false;
    OQ_TRY(oq_job_open_candidate(job, oq_job_measured_model(job), &optimized, &result, error));
    enum onnxptq_status status = measure(job, runs, result, &measured, error);
    if (status == ONNXPTQ_OK && optimized && !oq_job_is_large(job)) {
        status = check_without_optimizations(job, runs, result, &differs, error);
    }
    if (status == ONNXPTQ_OK && differs && !job->target->needs_runtime_optimizer) {
        status = measure_again(job, runs, &measured, error);
    }
    if (status == ONNXPTQ_OK) {
        status = oq_report_add_outputs(&job->report, measured.quality,
                                       oq_session_n_outputs(measured.reference), error);
    }
    reset_measured(&measured);
    oq_session_destroy(result);
    return status;
}

/* Without samples nothing can be measured, but the result must load wherever the original does.
 * Neither may: ranges can come from a machine whose provider has bfloat16, or an accelerator's
 * operators. */
static enum onnxptq_status check_loading(struct onnxptq_job *job, struct onnxptq_error *error) {
    struct oq_session *session = NULL;
    struct onnxptq_error reason = {0};
    bool optimized = true;
    oq_report_add_note(&job->report, "the result was not measured: no samples were given");
    enum onnxptq_status status =
        oq_job_open_candidate(job, oq_job_measured_model(job), &optimized, &session, &reason);
    if (status == ONNXPTQ_ERROR_RUNTIME &&
        oq_job_open_original(job, &session, NULL) == ONNXPTQ_ERROR_RUNTIME) {
        oq_report_add_note(&job->report,
                           "nor was it loaded: this runtime's providers take neither the original "
                           "nor the result: %s",
                           reason.message);
        return ONNXPTQ_OK;
    }
    oq_session_destroy(session);
    return status == ONNXPTQ_OK ? status : oq_fail(error, status, "%s", reason.message);
}

/* Few providers of a CPU have kernels for bfloat16: what the runtime takes for a valid model, and
 * cannot run here, is not measured here. */
static bool is_beyond_providers(const struct onnxptq_job *job, enum onnxptq_status status,
                                const struct onnxptq_error *reason) {
    return status == ONNXPTQ_ERROR_RUNTIME &&
           job->options.quantize.high_precision == ONNXPTQ_TYPE_BFLOAT16 &&
           strstr(reason->message, "Could not find an implementation") != NULL;
}

static enum onnxptq_status check_or_tell(struct onnxptq_job *job, const struct oq_data_runs *runs,
                                         struct onnxptq_error *error) {
    struct onnxptq_error reason = {0};
    const enum onnxptq_status status = check_runs(job, runs, &reason);
    if (is_beyond_providers(job, status, &reason)) {
        job->report.public.n_check_samples = 0;
        oq_report_add_note(&job->report, "the result was not measured: %s", reason.message);
        return ONNXPTQ_OK;
    }
    return status == ONNXPTQ_OK ? status : oq_fail(error, status, "%s", reason.message);
}

static enum onnxptq_status check_samples(struct onnxptq_job *job, struct onnxptq_error *error) {
    struct oq_data_runs runs;
    OQ_TRY(oq_data_runs(job->source, OQ_DATA_CHECK, &runs, error));
    job->report.public.n_check_samples = runs.n_samples;
    enum onnxptq_status status = ONNXPTQ_OK;
    if (runs.n_runs > 0) {
        status = check_or_tell(job, &runs, error);
    } else {
        oq_report_add_note(&job->report,
                           "the result was not measured: there are too few samples for "
                           "one run of the check");
    }
    oq_data_runs_reset(&runs);
    return status;
}

/* The worst float output, or NULL where none was measured. */
static const struct onnxptq_output_report *worst_output(const struct onnxptq_report *report) {
    const struct onnxptq_output_report *worst = NULL;
    for (size_t i = 0; i < report->n_outputs; i++) {
        const struct onnxptq_output_report *output = &report->outputs[i];
        if (output->has_sqnr && oq_type_is_float((int)output->type) &&
            (worst == NULL || output->sqnr_db < worst->sqnr_db)) {
            worst = output;
        }
    }
    return worst;
}

/* The note that names the nodes behind it, or nothing. */
static const char *note_of_worst_nodes(const struct onnxptq_report *report) {
    for (size_t i = 0; i < report->n_notes; i++) {
        if (strncmp(report->notes[i], "most of what", strlen("most of what")) == 0) {
            return report->notes[i];
        }
    }
    return "samples of real use, --method, --repair=DB or excluding sensitive nodes may help";
}

static enum onnxptq_status pass_gate(const struct onnxptq_job *job, struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    const struct onnxptq_output_report *worst = worst_output(&job->report.public);
    if (worst == NULL || worst->sqnr_db >= options->min_sqnr || options->allow_low_quality) {
        return ONNXPTQ_OK;
    }
    return oq_fail(
        error, ONNXPTQ_ERROR_QUALITY,
        "cannot hand over the quantized model: output '%s' keeps %.1f dB of signal to "
        "noise, below the %g dB of --min-sqnr; %s; --allow-low-quality writes it all the "
        "same",
        worst->name, worst->sqnr_db, options->min_sqnr, note_of_worst_nodes(&job->report.public));
}

enum onnxptq_status oq_job_check(struct onnxptq_job *job, struct onnxptq_error *error) {
    OQ_TRY(job->source != NULL ? check_samples(job, error) : check_loading(job, error));
    OQ_TRY(pass_gate(job, error));
    job->report.public.temporary_bytes =
        oq_weight_file_size(job->weights) + oq_model_temporary_bytes(job->emitted.model);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_job_commit(struct onnxptq_job *job, struct onnxptq_error *error) {
    if (job->options.quantize.save_ranges_path != NULL) {
        OQ_TRY(oq_job_write_ranges(job, error));
    }
    /* Temporary files go first, so that nothing but the output is there once the output is. */
    oq_emit_result_reset(&job->emitted);
    oq_model_release_files(job->prepared);
    oq_weight_file_destroy(job->weights);
    job->weights = NULL;
    OQ_TRY(oq_output_commit(job->output, error));
    oq_job_state_remove(job);
    return ONNXPTQ_OK;
}
