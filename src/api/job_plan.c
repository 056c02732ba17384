/*
 * Stages from the file to the plan: read, prepare, trace, plan.
 */
#include "api/declare.h"
#include "api/job.h"
#include "api/profiles.h"
#include "base/number.h"
#include "calib/watch.h"
#include "prepare/prepare.h"
#include "runtime/probe.h"

#include <stdlib.h>

/* Above this the packed copies of the weights would cost more than they gain. */
#define LARGE_MODEL_BYTES ((uint64_t)1 << 30)

bool oq_job_is_large(const struct onnxptq_job *job) {
    return job->report.public.model_bytes > LARGE_MODEL_BYTES;
}

/* ---- Read ---------------------------------------------------------------------------------- */

static enum onnxptq_status describe_runtime(struct onnxptq_job *job, struct onnxptq_error *error) {
    struct onnxptq_report *report = &job->report.public;
    size_t n = oq_runtime_n_libraries(job->runtime);
    const char **libraries = oq_arena_array(job->report.arena, n, sizeof *libraries);
    if (libraries == NULL) {
        return oq_fail_memory(error, "the report");
    }
    for (size_t i = 0; i < n; i++) {
        libraries[i] = oq_runtime_library_name(job->runtime, i);
    }
    struct onnxptq_provider_report *providers =
        oq_arena_array(job->report.arena, oq_runtime_n_providers(job->runtime), sizeof *providers);
    if (providers == NULL) {
        return oq_fail_memory(error, "the report");
    }
    for (size_t i = 0; i < oq_runtime_n_providers(job->runtime); i++) {
        oq_runtime_describe_provider(job->runtime, i, &providers[i]);
    }
    report->providers = providers;
    report->n_providers = oq_runtime_n_providers(job->runtime);
    report->runtime_version = oq_runtime_version(job->runtime);
    report->custom_op_libraries = libraries;
    report->n_custom_op_libraries = n;
    return ONNXPTQ_OK;
}

static void note_plugins(struct onnxptq_job *job) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(job->graph); i++) {
        const struct oq_node *node = oq_graph_node(job->graph, i);
        if (node->foreign &&
            oq_runtime_calls_plugin(job->runtime, node->proto->domain, node->proto->op_type)) {
            oq_report_add_note(&job->report,
                               "%s is a plugin: ONNX Runtime was offered it as " OQ_PLUGIN_DOMAIN
                               "::%s, and to run the result it wants that domain too; the output "
                               "keeps yours",
                               node->op_name, node->proto->op_type);
        }
    }
}

enum onnxptq_status oq_job_read(struct onnxptq_job *job, struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    struct onnxptq_report *report = &job->report.public;
    OQ_TRY(oq_runtime_open(&job->options.runtime, &job->runtime_log, &job->runtime, error));
    OQ_TRY(describe_runtime(job, error));
    oq_log_message(&job->log, ONNXPTQ_LOG_INFO, "ONNX Runtime %s, loaded from '%s'",
                   oq_runtime_version(job->runtime), oq_runtime_library(job->runtime));
    OQ_TRY(oq_model_read(options->model_path, &job->original, error));
    report->model_bytes = oq_model_bytes(job->original);
    const char *repeated = oq_model_repeated_initializer(job->original);
    if (repeated != NULL) {
        oq_report_add_note(
            &job->report, "initializer '%s' is listed more than once, equal each time: one is kept",
            repeated);
    }
    if (options->output_path != NULL) {
        OQ_TRY(oq_output_check(options, job->original, error));
    }
    OQ_TRY(oq_job_load_ranges(job, error));
    OQ_TRY(oq_graph_build(job->original, &job->graph, error));
    OQ_TRY(oq_probe_require_all(job->runtime, job->graph, error));
    note_plugins(job);
    OQ_TRY(oq_selection_create(options, job->graph, &job->selection, error));
    const struct onnxptq_quantize_options kept = {.exclude_op_types = options->keep_float_op_types,
                                                  .n_exclude_op_types =
                                                      options->n_keep_float_op_types,
                                                  .exclude_nodes = options->keep_float_nodes,
                                                  .n_exclude_nodes = options->n_keep_float_nodes};
    OQ_TRY(oq_selection_create(&kept, job->graph, &job->float_selection, error));
    OQ_TRY(oq_report_add_nodes(&job->report, job->graph, NULL, NULL, error));
    OQ_TRY(oq_declare_inputs(job->graph, job->report.arena, &report->inputs, &report->n_inputs,
                             error));
    return oq_profiles_check(&job->options.runtime, report, error);
}

/* ---- Prepare ------------------------------------------------------------------------------- */

static void add_note(void *user, const char *text) {
    struct onnxptq_job *job = user;
    oq_report_add_note(&job->report, "%s", text);
}

/* Scales are of the weight's type. */
static int64_t needed_opset(const struct oq_graph *graph, enum onnxptq_type activation) {
    struct oq_quant_spec spec = {.type = activation};
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        const struct oq_node *node = oq_graph_node(graph, i);
        uint32_t value = node->op != NULL && node->op->weight_input >= 0
                             ? oq_node_input(node, (size_t)node->op->weight_input)
                             : OQ_NONE;
        const Onnx__TensorProto *weight = value == OQ_NONE ? NULL : oq_graph_constant(graph, value);
        if (weight != NULL && oq_type_is_half(weight->data_type)) {
            spec.float_type = (enum onnxptq_type)weight->data_type;
        }
    }
    return oq_quant_needed_opset(&spec, true);
}

/* A model is never lowered, and never left without what quantization needs. */
static int64_t choose_opset(struct onnxptq_job *job) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    int64_t needed = options->convert_only ? 0 : needed_opset(job->graph, options->activation_type);
    if (oq_job_lowers_precision(job)) {
        const int64_t half =
            oq_precision_needed_opset(options->high_precision, !options->convert_only);
        needed = half > needed ? half : needed;
    }
    const int64_t asked = job->options.quantize.opset;
    const int64_t given = oq_model_opset(job->original);
    const int64_t least = given > needed ? given : needed;
    if (asked != 0 && asked < least) {
        oq_report_add_note(
            &job->report, "--opset %lld has no effect: %s opset %lld", (long long)asked,
            given > needed ? "the model has" : "quantization needs", (long long)least);
    }
    return asked > needed ? asked : needed;
}

/* What the user excluded, per node of the original; in the report's arena. */
static const bool *list_excluded(struct onnxptq_job *job) {
    uint32_t n = oq_graph_n_nodes(job->graph);
    bool *excluded = oq_arena_array(job->report.arena, n, sizeof *excluded);
    for (uint32_t i = 0; excluded != NULL && i < n; i++) {
        excluded[i] = oq_selection_excludes(job->selection, i);
    }
    return excluded;
}

enum onnxptq_status oq_job_prepare(struct onnxptq_job *job, struct onnxptq_error *error) {
    const bool *excluded = list_excluded(job);
    if (excluded == NULL) {
        return oq_fail_memory(error, "the selection");
    }
    const struct oq_prepare_spec spec = {.graph = job->graph,
                                         .excluded = excluded,
                                         .runtime = job->runtime,
                                         .beside_path =
                                             oq_options_result_path(&job->options.quantize),
                                         .opset = choose_opset(job),
                                         .log = &job->log,
                                         .note = add_note,
                                         .note_user = job};
    job->first_prepare_note = job->report.n_notes;
    OQ_TRY(oq_prepare(&spec, &job->prepared, error));
    job->n_prepare_notes = job->report.n_notes - job->first_prepare_note;
    oq_graph_destroy(job->graph);
    job->graph = NULL;
    OQ_TRY(oq_graph_build(job->prepared, &job->graph, error));
    OQ_TRY(oq_selection_project(job->selection, job->graph, &job->prepared_selection, error));
    return oq_weight_file_create(oq_options_result_path(&job->options.quantize), &job->weights,
                                 error);
}

/* ---- Trace --------------------------------------------------------------------------------- */

static enum onnxptq_status open_data(struct onnxptq_job *job, struct onnxptq_error *error) {
    const struct onnxptq_report *report = &job->report.public;
    struct oq_data_spec spec = {.options = &job->options.quantize,
                                .inputs = report->inputs,
                                .n_inputs = report->n_inputs,
                                .log = &job->log};
    return oq_data_open(&spec, &job->source, error);
}

/* What a run produces: inputs and results of nodes in every scope. Constants need no run to be
 * known. */
static size_t list_dynamic_values(const struct oq_graph *graph, uint32_t *values) {
    size_t n = 0;
    for (uint32_t i = 0; i < oq_graph_n_values(graph); i++) {
        const struct oq_value *value = oq_graph_value(graph, i);
        bool constant = value->initializer != NULL || value->sparse_initializer != NULL;
        if (!constant && (value->producer != OQ_NONE || value->is_input)) {
            values[n++] = i;
        }
    }
    return n;
}

/* One row, whatever the batch: rules look at shapes. Where the batch is fixed a whole one is
 * needed. */
static enum onnxptq_status watch_one_run(struct onnxptq_job *job, const uint32_t *values, size_t n,
                                         struct oq_statistics *seen, struct onnxptq_error *error) {
    struct oq_data_runs runs;
    OQ_TRY(oq_data_runs(job->source, OQ_DATA_CALIBRATE, &runs, error));
    size_t first[] = {0, 1};
    struct oq_data_runs one = {
        .n_runs = 1, .n_samples = 1, .first = first, .samples = runs.samples};
    bool fixed = oq_data_batch_fixed(job->source);
    struct oq_watch_spec spec = {.runtime = job->runtime,
                                 .graph = job->graph,
                                 .weights = job->weights,
                                 .source = job->source,
                                 .runs = fixed || runs.n_runs == 0 ? &runs : &one,
                                 .max_runs = 1,
                                 .values = values,
                                 .n_values = n,
                                 .histograms = true,
                                 .stage = "trace",
                                 .log = &job->log};
    enum onnxptq_status status = oq_watch(&spec, seen, error);
    oq_data_runs_reset(&runs);
    return status;
}

struct oq_statistics *oq_job_scatter(const struct oq_graph *graph, const uint32_t *values, size_t n,
                                     struct oq_statistics *seen) {
    size_t n_all = oq_graph_n_values(graph);
    struct oq_statistics *all = calloc(n_all + 1, sizeof *all);
    if (all == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n_all; i++) {
        oq_statistics_init(&all[i]);
    }
    for (size_t i = 0; i < n; i++) {
        all[values[i]] = seen[i];
        oq_statistics_init(&seen[i]);
    }
    return all;
}

enum onnxptq_status oq_job_take_shapes(struct onnxptq_job *job, struct onnxptq_error *error) {
    oq_traced_shapes_destroy(job->shapes);
    job->shapes = NULL;
    return oq_traced_shapes_create(job->graph, job->trace, job->ranges,
                                   oq_runtime_has_accelerators(job->runtime), &job->shapes, error);
}

static enum onnxptq_status run_trace(struct onnxptq_job *job, struct onnxptq_error *error) {
    size_t n_all = oq_graph_n_values(job->graph);
    uint32_t *values = calloc(n_all + 1, sizeof *values);
    struct oq_statistics *seen = calloc(n_all + 1, sizeof *seen);
    enum onnxptq_status status = ONNXPTQ_OK;
    if (values == NULL || seen == NULL) {
        status = oq_fail_memory(error, "the trace");
        goto done;
    }
    size_t n = list_dynamic_values(job->graph, values);
    OQ_TRY_DONE(watch_one_run(job, values, n, seen, error));
    for (size_t i = 0; i < n; i++) {
        oq_statistics_condense(&seen[i]);
    }
    job->trace = oq_job_scatter(job->graph, values, n, seen);
    status = job->trace ? ONNXPTQ_OK : oq_fail_memory(error, "the trace");
done:
    free(values);
    oq_statistics_free(seen, n_all);
    return status;
}

enum onnxptq_status oq_job_trace(struct onnxptq_job *job, struct onnxptq_error *error) {
    if (oq_options_have_data(&job->options.quantize)) {
        OQ_TRY(open_data(job, error));
    }
    bool traced = job->saved != NULL && job->saved->trace.n > 0;
    OQ_TRY(traced ? oq_job_take_trace(job, error) : run_trace(job, error));
    return oq_job_take_shapes(job, error);
}

/* ---- Plan ---------------------------------------------------------------------------------- */

/* Nothing is planned where the model is only converted. */
static void plan_nothing(const struct oq_graph *graph, struct oq_plan *plan) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        oq_plan_set_node(plan, i, ONNXPTQ_DECISION_FLOAT, "convert", "the model is converted only");
    }
}

enum onnxptq_status oq_job_make_plan(struct onnxptq_job *job, const bool *held,
                                     struct oq_plan **out, struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    struct oq_plan_context context = {
        .graph = job->graph,
        .trace = job->trace,
        .selection = job->prepared_selection,
        .size_rules =
            options->size_rules < 0 ? job->target->size_rules_default : options->size_rules == 1,
        .foreign_edges = options->foreign_edges,
        .activation_type = options->activation_type,
        .quantize_outputs = options->quantize_outputs,
        .held = held,
    };
    struct oq_plan *plan = NULL;
    OQ_TRY(oq_plan_create(job->graph, &plan, error));
    enum onnxptq_status status = ONNXPTQ_OK;
    if (options->convert_only) {
        plan_nothing(job->graph, plan);
    } else {
        status = oq_target_plan(job->target, &context, plan, error);
    }
    if (status != ONNXPTQ_OK) {
        oq_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_job_plan(struct onnxptq_job *job, struct onnxptq_error *error) {
    OQ_TRY(oq_job_make_plan(job, NULL, &job->plan, error));
    return oq_report_add_nodes(&job->report, job->graph, job->plan, NULL, error);
}
