/*
 * Stages calibrate and emit: ranges from all samples, then the quantized model in a temporary file.
 */
#include "api/job_state.h"

#include "calib/watch.h"
#include "prepare/opset.h"

#include <stdio.h>
#include <stdlib.h>

/* How many tensors with non-finite values are named, before they are only counted. */
#define MAX_NAMED 8

/* ---- Calibrate ----------------------------------------------------------------------------- */

static void note_samples(struct onnxptq_job *job, const struct oq_data_runs *runs,
                         size_t n_samples) {
    struct onnxptq_report *report = &job->report.public;
    report->n_calibration_samples = n_samples;
    report->held_back = oq_data_held_back(job->source);
    if (!report->held_back) {
        oq_report_add_note(
            &job->report,
            "all %zu samples serve both for calibration and for the check (fewer than "
            "16)",
            oq_data_n_samples(job->source));
    }
    if (runs->n_skipped > 0) {
        oq_report_add_note(&job->report,
                           "%zu samples were skipped in calibration: they do not fill the model's "
                           "fixed batch",
                           runs->n_skipped);
    }
}

#define MAKER_SIZE 512

/* ", which node 'n' of library 'l' wrote,"; empty for what none of a user's library did. */
static const char *name_maker(const struct onnxptq_job *job, uint32_t value,
                              char text[MAKER_SIZE]) {
    uint32_t producer = oq_graph_value(job->graph, value)->producer;
    const struct oq_node *node = producer != OQ_NONE ? oq_graph_node(job->graph, producer) : NULL;
    const char *library = node != NULL ? oq_runtime_library_of(job->runtime, node->op_name) : NULL;
    text[0] = '\0';
    if (library != NULL) {
        (void)snprintf(text, MAKER_SIZE, ", which node '%s' of library '%s' wrote,", node->name,
                       library);
    }
    return text;
}

static void note_nonfinite(struct onnxptq_job *job, const uint32_t *values, size_t n) {
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++) {
        const struct oq_statistics *seen = &job->ranges[values[i]];
        uint64_t count = seen->n_nan + seen->n_infinite;
        if (count == 0 || ++n_found > MAX_NAMED) {
            continue;
        }
        char maker[MAKER_SIZE];
        oq_report_add_note(
            &job->report,
            "tensor '%s'%s held %llu NaN and %llu infinite values in %llu of the %llu times it was "
            "computed, first at sample %zu; its range leaves them out",
            oq_graph_value(job->graph, values[i])->name, name_maker(job, values[i], maker),
            (unsigned long long)seen->n_nan, (unsigned long long)seen->n_infinite,
            (unsigned long long)seen->n_nonfinite, (unsigned long long)seen->seen,
            seen->first_nonfinite_sample);
    }
    if (n_found > MAX_NAMED) {
        oq_report_add_note(&job->report, "%zu more tensors held values that are not finite",
                           n_found - MAX_NAMED);
    }
}

static void note_masks(struct onnxptq_job *job, const uint32_t *values, size_t n) {
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++) {
        const struct oq_statistics *seen = &job->ranges[values[i]];
        struct oq_range range = oq_range_observed(seen);
        if (range.n_masked == 0 || ++n_found > MAX_NAMED) {
            continue;
        }
        oq_report_add_note(
            &job->report,
            "tensor '%s' held %llu values of %.3g and beyond in magnitude, which are "
            "taken for masks; its range leaves them out",
            oq_graph_value(job->graph, values[i])->name, (unsigned long long)range.n_masked,
            seen->far_least);
    }
    if (n_found > MAX_NAMED) {
        oq_report_add_note(&job->report, "%zu more tensors held masks", n_found - MAX_NAMED);
    }
}

static bool needs_histograms(const struct onnxptq_job *job) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    return (oq_range_needs_histogram(options->method) &&
            options->observe != ONNXPTQ_OBSERVE_DEVICE) ||
           options->save_ranges_path != NULL;
}

/* Tensors of a device would be copied to the host to be read. */
static bool reduces_on_device(const struct onnxptq_job *job) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    switch (options->observe) {
    case ONNXPTQ_OBSERVE_HOST: return false;
    case ONNXPTQ_OBSERVE_DEVICE: return true;
    case ONNXPTQ_OBSERVE_AUTO: break;
    }
    return !needs_histograms(job) && oq_runtime_has_own_memory(job->runtime);
}

static enum onnxptq_status watch_runs(struct onnxptq_job *job, struct oq_job_state *state,
                                      const uint32_t *values, size_t n, struct oq_statistics *seen,
                                      struct onnxptq_error *error) {
    const struct oq_data_runs *runs = oq_job_state_runs(state);
    struct onnxptq_error refusal = {0};
    struct oq_watch_spec spec = {.runtime = job->runtime,
                                 .graph = job->graph,
                                 .weights = job->weights,
                                 .source = job->source,
                                 .runs = runs,
                                 .values = values,
                                 .n_values = n,
                                 .histograms = needs_histograms(job),
                                 .stage = "calibrate",
                                 .log = &job->log,
                                 .shapes = job->shapes,
                                 .refusal = &refusal,
                                 .reduce = reduces_on_device(job) ? job->trace : NULL,
                                 .no_prepacking = oq_job_is_large(job),
                                 .keep = oq_job_state_keep,
                                 .keep_user = state,
                                 .continues = true};
    OQ_TRY(n > 0 && runs->n_runs > 0 ? oq_watch(&spec, seen, error) : ONNXPTQ_OK);
    if (refusal.message[0] != '\0') {
        char reason[OQ_REASON_SIZE];
        oq_report_reason(refusal.message, reason);
        oq_report_add_note(&job->report, "the ranges were measured on CPU: %s", reason);
    }
    return oq_job_state_finish(state, seen, error);
}

static enum onnxptq_status watch_all(struct onnxptq_job *job, const uint32_t *values, size_t n,
                                     struct oq_statistics *seen, struct onnxptq_error *error) {
    struct oq_data_runs runs;
    struct oq_job_state *state = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY(oq_data_runs(job->source, OQ_DATA_CALIBRATE, &runs, error));
    struct oq_job_state_spec spec = {.job = job,
                                     .runs = &runs,
                                     .values = values,
                                     .n_values = n,
                                     .histograms = needs_histograms(job)};
    OQ_TRY_DONE(oq_job_state_create(&spec, seen, &state, error));
    job->owns_state = true;
    note_samples(job, &runs, oq_job_state_n_samples(state));
    OQ_TRY_DONE(watch_runs(job, state, values, n, seen, error));
done:
    oq_job_state_destroy(state);
    oq_data_runs_reset(&runs);
    return status;
}

static enum onnxptq_status run_calibration(struct onnxptq_job *job, const uint32_t *values,
                                           size_t n, struct onnxptq_error *error) {
    struct oq_statistics *seen = calloc(n + 1, sizeof *seen);
    enum onnxptq_status status = ONNXPTQ_OK;
    if (seen == NULL) {
        return oq_fail_memory(error, "the ranges");
    }
    for (size_t i = 0; i < n; i++) {
        oq_statistics_init(&seen[i]);
    }
    OQ_TRY_DONE(watch_all(job, values, n, seen, error));
    job->ranges = oq_job_scatter(job->graph, values, n, seen);
    status = job->ranges ? oq_job_take_shapes(job, error) : oq_fail_memory(error, "the ranges");
done:
    oq_statistics_free(seen, n);
    return status;
}

enum onnxptq_status oq_job_calibrate(struct onnxptq_job *job, struct onnxptq_error *error) {
    uint32_t *values = NULL;
    size_t n = 0;
    OQ_TRY(oq_plan_watched(job->plan, &values, &n, error));
    enum onnxptq_status status = job->saved != NULL ? oq_job_take_ranges(job, error)
                                                    : run_calibration(job, values, n, error);
    if (status == ONNXPTQ_OK) {
        note_nonfinite(job, values, n);
        note_masks(job, values, n);
    }
    free(values);
    return status;
}

/* ---- Emit ---------------------------------------------------------------------------------- */

static bool nothing_is_quantized(const struct oq_plan *plan, const struct oq_emit_result *emitted) {
    for (size_t i = 0; i < plan->n_pairs; i++) {
        if (emitted->pairs[i].scale > 0.0F) {
            return false;
        }
    }
    for (size_t i = 0; i < plan->n_weights; i++) {
        if (emitted->weight_channels[i] > 0) {
            return false;
        }
    }
    return true;
}

/* What was prepared for quantization, the opset for one, is of no use without it. */
static enum onnxptq_status keep_original(struct onnxptq_job *job, struct onnxptq_error *error) {
    struct oq_model *copy = NULL;
    const int64_t asked = job->options.quantize.opset;
    const int64_t given = oq_model_opset(job->original);
    const bool raised = given != 0 && asked > given;
    OQ_TRY(oq_model_clone(job->original, &copy, error));
    oq_model_destroy(job->emitted.model);
    job->emitted.model = copy;
    if (raised) {
        OQ_TRY(oq_opset_raise(copy, asked, error));
    }
    oq_report_remove_notes(&job->report, job->first_prepare_note, job->n_prepare_notes);
    oq_report_add_note(&job->report,
                       "nothing is quantized: the output is %s; the reasons are listed by node "
                       "with --verbose and --json",
                       raised ? "the model with its opset raised" : "a copy of the model");
    return ONNXPTQ_OK;
}

/* Files of a replaced model are the user's: they stay, and the user is told. */
static void note_files(struct onnxptq_job *job) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    const char *data_path = job->report.public.output_data_path;
    if (oq_output_leaves_data(job->output)) {
        oq_report_add_note(&job->report,
                           "the model that '%s' replaces has weights in files beside it, which "
                           "stay: remove them when nothing else needs them",
                           options->output_path);
    }
    if (data_path == NULL && options->external_data == ONNXPTQ_EXTERNAL_DATA_ALWAYS) {
        oq_report_add_note(&job->report,
                           "the weights are inside the output: none reaches %llu bytes, the "
                           "threshold of external data",
                           (unsigned long long)options->external_data_threshold);
    }
}

enum onnxptq_status oq_job_emit_with(struct onnxptq_job *job, struct oq_range_method method,
                                     struct oq_emit_result *out, struct onnxptq_error *error) {
    const struct oq_emit_spec spec = {.graph = job->graph,
                                      .plan = job->plan,
                                      .ranges = job->ranges,
                                      .trace = job->trace,
                                      .method = method,
                                      .spill_beside = job->options.quantize.output_path};
    return oq_emit(&spec, out, error);
}

enum onnxptq_status oq_job_emit(struct onnxptq_job *job, struct onnxptq_error *error) {
    if (job->emitted.model == NULL) {
        OQ_TRY(oq_job_emit_with(job, job->method, &job->emitted, error));
    }
    OQ_TRY(oq_report_add_numbers(&job->report, job->graph, job->plan, job->ranges, &job->emitted,
                                 error));
    if (oq_job_lowers_precision(job)) {
        OQ_TRY(oq_report_add_precision(&job->report, job->precision, error));
        OQ_TRY(oq_job_lower(job, error));
    } else if (nothing_is_quantized(job->plan, &job->emitted)) {
        OQ_TRY(keep_original(job, error));
    }
    OQ_TRY(oq_output_write(&job->options.quantize, job->original, job->emitted.model, &job->output,
                           error));
    job->report.public.output_bytes = oq_output_bytes(job->output);
    job->report.public.output_data_path = oq_output_data_path(job->output);
    note_files(job);
    return ONNXPTQ_OK;
}
