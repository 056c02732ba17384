/*
 * Stage precision: how much of what stays float can be computed in half precision, measured on the
 * model without Q/DQ; and the same decisions on what is emitted.
 */
#include "api/job_sessions.h"
#include "api/search.h"
#include "base/number.h"
#include "calib/watch.h"
#include "check/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What float16 may lose of a float output, noise over signal: 50 dB. More of the model stays
 * float32 else: it is looked for in so many groups of nodes, and nodes alone. */
#define MOST_LOSS 1e-5
#define N_GROUPS 16
#define N_TRIALS 24
#define N_SINGLES 48
#define MAX_RUNS 8
#define MAX_REFERENCE_BYTES ((size_t)64 << 20)

bool oq_job_lowers_precision(const struct onnxptq_job *job) {
    return oq_type_is_half((int)job->options.quantize.high_precision);
}

/* ---- What is known of values ---- */

/* Without the histogram, which stays where it is. */
static struct oq_statistics plain(const struct oq_statistics *statistics) {
    struct oq_statistics copy = *statistics;
    copy.histogram = NULL;
    return copy;
}

static void take_known(const struct onnxptq_job *job, struct oq_statistics *seen) {
    for (uint32_t i = 0; i < oq_graph_n_values(job->graph); i++) {
        const struct oq_statistics *trace = job->trace != NULL ? &job->trace[i] : NULL;
        const struct oq_statistics *ranges = job->ranges != NULL ? &job->ranges[i] : NULL;
        oq_statistics_init(&seen[i]);
        if (ranges != NULL && ranges->seen > 0) {
            seen[i] = plain(ranges);
        } else if (trace != NULL) {
            seen[i] = plain(trace);
        }
        if (trace != NULL) {
            seen[i].mean_square = trace->mean_square;
        }
    }
}

/* Of a branch, say, that the traced sample did not take. */
static bool is_unseen(const struct onnxptq_job *job, uint32_t value) {
    const struct oq_value *v = oq_graph_value(job->graph, value);
    return job->seen[value].seen == 0 && v->initializer == NULL && v->sparse_initializer == NULL &&
           (v->producer != OQ_NONE || v->is_input);
}

/* The extremes of all float tensors in all samples: the plan watched those that it quantizes. */
static enum onnxptq_status watch_floats(struct onnxptq_job *job, struct onnxptq_error *error) {
    const size_t n_all = oq_graph_n_values(job->graph);
    uint32_t *values = calloc(n_all + 1, sizeof *values);
    struct oq_statistics *seen = calloc(n_all + 1, sizeof *seen);
    struct oq_data_runs runs = {0};
    size_t n = 0;
    enum onnxptq_status status = ONNXPTQ_OK;
    if (values == NULL || seen == NULL) {
        status = oq_fail_memory(error, "the ranges of float tensors");
        goto done;
    }
    for (uint32_t i = 0; i < n_all; i++) {
        oq_statistics_init(&seen[i]);
        if (job->seen[i].type == ONNXPTQ_TYPE_FLOAT || is_unseen(job, i)) {
            values[n++] = i;
        }
    }
    OQ_TRY_DONE(oq_data_runs(job->source, OQ_DATA_CALIBRATE, &runs, error));
    const struct oq_watch_spec spec = {.runtime = job->runtime,
                                       .graph = job->graph,
                                       .weights = job->weights,
                                       .source = job->source,
                                       .runs = &runs,
                                       .values = values,
                                       .n_values = n,
                                       .stage = "precision",
                                       .log = &job->log,
                                       .shapes = job->shapes,
                                       .no_prepacking = oq_job_is_large(job)};
    OQ_TRY_DONE(oq_watch(&spec, seen, error));
    for (size_t i = 0; i < n; i++) {
        const double mean_square = job->seen[values[i]].mean_square;
        job->seen[values[i]] = plain(&seen[i]);
        job->seen[values[i]].mean_square = mean_square;
    }
done:
    oq_data_runs_reset(&runs);
    oq_statistics_free(seen, n_all);
    free(values);
    return status;
}

/* ---- The same for a model made of that graph ---- */

static bool is_of_type(const struct oq_node *node, const char *type) {
    return oq_is_default_domain(node->proto->domain) && strcmp(node->proto->op_type, type) == 0;
}

/* A float tensor whose name its DequantizeLinear took. */
static const char *public_name(const struct oq_graph *graph, const struct oq_value *value) {
    for (uint32_t k = 0; k < value->n_uses; k++) {
        const struct oq_node *quantize = oq_graph_node(graph, value->uses[k].node);
        if (!is_of_type(quantize, "QuantizeLinear") || quantize->outputs[0] == OQ_NONE) {
            continue;
        }
        const struct oq_value *codes = oq_graph_value(graph, quantize->outputs[0]);
        for (uint32_t j = 0; j < codes->n_uses; j++) {
            const struct oq_node *dequantize = oq_graph_node(graph, codes->uses[j].node);
            if (is_of_type(dequantize, "DequantizeLinear") && dequantize->outputs[0] != OQ_NONE) {
                return oq_graph_value(graph, dequantize->outputs[0])->name;
            }
        }
    }
    return NULL;
}

/* The id there of a value of a model made of the job's graph, or OQ_NONE. */
static uint32_t find_own(const struct onnxptq_job *job, const struct oq_graph *graph, uint32_t id) {
    const struct oq_value *value = oq_graph_value(graph, id);
    const char *names[] = {value->name, public_name(graph, value)};
    for (size_t i = 0; i < 2 && value->scope < oq_graph_n_scopes(job->graph); i++) {
        const uint32_t own =
            names[i] == NULL ? OQ_NONE : oq_graph_find_value(job->graph, value->scope, names[i]);
        if (own != OQ_NONE && oq_graph_value(job->graph, own)->scope == value->scope) {
            return own;
        }
    }
    return OQ_NONE;
}

/* Whether the node that it was made of is held. */
static bool is_held(const struct onnxptq_job *job, const struct oq_graph *graph, uint32_t node,
                    const bool *held) {
    const struct oq_node *made = oq_graph_node(graph, node);
    for (size_t i = 0; i < made->proto->n_output; i++) {
        const uint32_t own =
            made->outputs[i] == OQ_NONE ? OQ_NONE : find_own(job, graph, made->outputs[i]);
        const uint32_t before =
            own == OQ_NONE ? OQ_NONE : oq_graph_value(job->graph, own)->producer;
        if (before != OQ_NONE) {
            return held[before];
        }
    }
    return false;
}

struct search {
    struct onnxptq_job *job;
    const struct oq_reference *reference; /* NULL: nothing can be measured */
    size_t n_tried, n_half;               /* n_half: nodes of the latest try */
};

struct lowering {
    struct oq_graph *graph;
    struct oq_statistics *seen;
    bool *kept, *held;
    struct oq_selection *selection;
    struct oq_precision_plan *plan;
    struct oq_precision_counts counts;
};

static void reset_lowering(struct lowering *lowering) {
    oq_precision_plan_destroy(lowering->plan);
    oq_selection_destroy(lowering->selection);
    oq_graph_destroy(lowering->graph);
    free(lowering->seen);
    free(lowering->kept);
    free(lowering->held);
}

/* Decides about `model`, and edits it. To be reset, whatever the result. */
static enum onnxptq_status lower(struct onnxptq_job *job, struct oq_model *model, bool native_io,
                                 const bool *held, struct lowering *out,
                                 struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    *out = (struct lowering){0};
    OQ_TRY(oq_graph_build(model, &out->graph, error));
    const uint32_t n_values = oq_graph_n_values(out->graph);
    const uint32_t n_nodes = oq_graph_n_nodes(out->graph);
    out->seen = calloc((size_t)n_values + 1, sizeof *out->seen);
    out->kept = calloc((size_t)n_nodes + 1, sizeof *out->kept);
    out->held = calloc((size_t)n_nodes + 1, sizeof *out->held);
    if (out->seen == NULL || out->kept == NULL || out->held == NULL) {
        return oq_fail_memory(error, "half precision");
    }
    for (uint32_t i = 0; i < n_values; i++) {
        const uint32_t own = find_own(job, out->graph, i);
        oq_statistics_init(&out->seen[i]);
        out->seen[i] = own != OQ_NONE ? job->seen[own] : out->seen[i];
    }
    OQ_TRY(oq_selection_project(job->float_selection, out->graph, &out->selection, error));
    for (uint32_t i = 0; i < n_nodes; i++) {
        out->kept[i] = oq_selection_excludes(out->selection, i);
        out->held[i] = is_held(job, out->graph, i, held);
    }
    const struct oq_precision_spec spec = {.graph = out->graph,
                                           .runtime = job->runtime,
                                           .type = options->high_precision,
                                           .native_io = native_io,
                                           .seen = out->seen,
                                           .kept = out->kept,
                                           .held = out->held,
                                           .half_ops = options->half_op_types,
                                           .n_half_ops = options->n_half_op_types};
    OQ_TRY(oq_precision_decide(&spec, &out->plan, error));
    return oq_precision_apply(model, out->graph, out->plan, options->output_path, &out->counts,
                              error);
}

/* ---- How much ---- */

/* Noise over signal of the worst float output, 0 where nothing is lost. */
static double worst_loss(const struct oq_output_quality *quality, size_t n) {
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        double sqnr = 0.0;
        if (!quality[i].comparable || quality[i].n_nonfinite > 0) {
            return INFINITY;
        }
        if (oq_type_is_float(quality[i].type) && oq_quality_sqnr(&quality[i], &sqnr)) {
            worst = fmax(worst, pow(10.0, -sqnr / 10.0));
        }
    }
    return worst;
}

static enum onnxptq_status measure(const struct search *search, const struct oq_model *model,
                                   double *loss, struct onnxptq_error *error) {
    struct onnxptq_job *job = search->job;
    const size_t n_outputs = oq_reference_n_outputs(search->reference);
    const size_t n = oq_reference_n_samples(search->reference);
    const struct oq_reference_progress progress = {&job->log, "precision", search->n_tried * n,
                                                   (search->n_tried + 1) * n};
    struct oq_session *session = NULL;
    struct oq_output_quality *quality = calloc(n_outputs + 1, sizeof *quality);
    if (quality == NULL) {
        return oq_fail_memory(error, "the measurement of half precision");
    }
    enum onnxptq_status status = oq_job_open_result(job, model, OQ_OPTIMIZE_NONE, &session, error);
    if (status == ONNXPTQ_OK) {
        status = oq_reference_compare(search->reference, session, &progress, quality, error);
    }
    *loss = status == ONNXPTQ_OK ? worst_loss(quality, n_outputs) : INFINITY;
    oq_session_destroy(session);
    free(quality);
    return status;
}

/* The model with what `held` says in float32; its plan stays with the job. What the runtime does
 * not run is lost altogether. */
static enum onnxptq_status try_held(void *user, const bool *held, double *loss,
                                    struct onnxptq_error *error) {
    struct search *search = user;
    struct onnxptq_job *job = search->job;
    struct oq_model *model = NULL;
    struct lowering lowering = {0};
    enum onnxptq_status status = ONNXPTQ_OK;
    *loss = 0.0;
    OQ_TRY_DONE(oq_model_clone(oq_graph_model(job->graph), &model, error));
    OQ_TRY_DONE(lower(job, model, false, held, &lowering, error));
    search->n_half = lowering.plan->n_half;
    if (search->reference != NULL && search->n_half > 0) {
        struct onnxptq_error reason = {0};
        status = measure(search, model, loss, &reason);
        search->n_tried++;
        if (status == ONNXPTQ_ERROR_RUNTIME) {
            oq_log_message(&job->log, ONNXPTQ_LOG_INFO, "half precision: %s", reason.message);
            status = ONNXPTQ_OK;
        }
        OQ_TRY_DONE(status == ONNXPTQ_OK ? status : oq_fail(error, status, "%s", reason.message));
    }
    oq_precision_plan_destroy(job->precision);
    job->precision = lowering.plan;
    lowering.plan = NULL;
done:
    reset_lowering(&lowering);
    oq_model_destroy(model);
    return status;
}

static double decibels(double loss) {
    return -10.0 * log10(loss);
}

/* The nodes that compute in half by the rules. */
static uint32_t *list_half(const struct onnxptq_job *job, size_t *n) {
    const uint32_t n_nodes = oq_graph_n_nodes(job->graph);
    uint32_t *nodes = calloc((size_t)n_nodes + 1, sizeof *nodes);
    *n = 0;
    for (uint32_t i = 0; nodes != NULL && i < n_nodes; i++) {
        if (job->precision->nodes[i].half) {
            nodes[(*n)++] = i;
        }
    }
    return nodes;
}

static void note_result(struct search *search, size_t n_all,
                        const struct oq_search_result *result) {
    struct onnxptq_job *job = search->job;
    if (search->n_half < n_all) {
        oq_report_add_note(&job->report,
                           "half precision wherever values allow would keep %.1f dB of the worst "
                           "output: %zu of %zu operators stay float32, the others keep %.1f dB",
                           decibels(result->loss_before), n_all - search->n_half, n_all,
                           decibels(result->loss));
    } else if (result->loss > 0.0) {
        oq_report_add_note(&job->report, "half precision keeps %.1f dB of the worst output",
                           decibels(result->loss));
    }
}

static enum onnxptq_status choose(struct search *search, struct onnxptq_error *error) {
    struct onnxptq_job *job = search->job;
    double loss = 0.0;
    const struct oq_reference *reference = search->reference;
    search->reference = NULL;
    OQ_TRY(try_held(search, job->held, &loss, error)); /* the rules alone: nothing is run */
    search->reference = reference;
    const size_t n_all = search->n_half;
    if (reference == NULL || n_all == 0) {
        return ONNXPTQ_OK;
    }
    struct oq_search_result result = {0};
    struct oq_search_spec spec = {.n_nodes = oq_graph_n_nodes(job->graph),
                                  .most_loss = MOST_LOSS,
                                  .most_held = 1.0,
                                  .max_groups = N_GROUPS,
                                  .max_singles = N_SINGLES,
                                  .max_trials = N_TRIALS,
                                  .measure = try_held,
                                  .user = search};
    uint32_t *nodes = list_half(job, &spec.n);
    spec.nodes = nodes;
    enum onnxptq_status status = nodes != NULL
                                     ? oq_search_held(&spec, job->held, &result, error)
                                     : oq_fail_memory(error, "the operators in half precision");
    if (status == ONNXPTQ_OK) {
        search->reference = NULL;
        status = try_held(search, job->held, &loss, error); /* the plan of the result */
        note_result(search, n_all, &result);
    }
    oq_search_result_reset(&result);
    free(nodes);
    return status;
}

static enum onnxptq_status choose_with_reference(struct search *search,
                                                 struct onnxptq_error *error) {
    struct onnxptq_job *job = search->job;
    struct oq_data_runs runs = {0};
    struct oq_session *session = NULL;
    struct oq_reference *reference = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(oq_data_runs(job->source, OQ_DATA_CHECK, &runs, error));
    if (runs.n_runs > MAX_RUNS) {
        runs.n_runs = MAX_RUNS;
        runs.n_samples = runs.first[MAX_RUNS];
    }
    if (runs.n_runs > 0) {
        const struct oq_reference_progress progress = {&job->log, "precision", 0, runs.n_samples};
        OQ_TRY_DONE(oq_job_open_original(job, &session, error));
        const struct oq_reference_spec spec = {.runtime = job->runtime,
                                               .session = session,
                                               .source = job->source,
                                               .runs = &runs,
                                               .max_bytes = MAX_REFERENCE_BYTES};
        OQ_TRY_DONE(oq_reference_create(&spec, &progress, &reference, error));
        search->reference = reference;
    }
    OQ_TRY_DONE(choose(search, error));
done:
    oq_reference_destroy(reference);
    oq_session_destroy(session);
    oq_data_runs_reset(&runs);
    return status;
}

enum onnxptq_status oq_job_precision(struct onnxptq_job *job, struct onnxptq_error *error) {
    job->seen = calloc((size_t)oq_graph_n_values(job->graph) + 1, sizeof *job->seen);
    job->held = calloc((size_t)oq_graph_n_nodes(job->graph) + 1, sizeof *job->held);
    if (job->seen == NULL || job->held == NULL) {
        return oq_fail_memory(error, "half precision");
    }
    take_known(job, job->seen);
    if (job->source != NULL && job->trace != NULL) {
        OQ_TRY(watch_floats(job, error));
    }
    /* Few kernels of a CPU compute in bfloat16, and none keeps 50 dB. */
    struct search search = {.job = job};
    return job->source != NULL && job->options.quantize.high_precision == ONNXPTQ_TYPE_FLOAT16
               ? choose_with_reference(&search, error)
               : choose(&search, error);
}

/* ---- The result ---- */

static void note_counts(struct onnxptq_job *job, const struct lowering *lowering) {
    const struct oq_precision_counts *counts = &lowering->counts;
    const char *type = oq_type_name((int)job->options.quantize.high_precision);
    if (counts->clamped > 0) {
        oq_report_add_note(&job->report,
                           "%llu elements of constants beyond %s became its largest number",
                           (unsigned long long)counts->clamped, type);
    }
    if (counts->underflown > 0) {
        oq_report_add_note(&job->report, "%llu elements of weights are too small for %s: zero now",
                           (unsigned long long)counts->underflown, type);
    }
}

enum onnxptq_status oq_job_lower(struct onnxptq_job *job, struct onnxptq_error *error) {
    const bool native = job->options.quantize.native_io;
    struct lowering lowering = {0};
    enum onnxptq_status status = ONNXPTQ_OK;
    if (native) { /* the samples and the original are float32: so is what is measured */
        OQ_TRY_DONE(oq_model_clone(job->emitted.model, &job->measured, error));
        OQ_TRY_DONE(lower(job, job->measured, false, job->held, &lowering, error));
        reset_lowering(&lowering);
        lowering = (struct lowering){0};
    }
    OQ_TRY_DONE(lower(job, job->emitted.model, native, job->held, &lowering, error));
    note_counts(job, &lowering);
done:
    reset_lowering(&lowering);
    return status;
}

const struct oq_model *oq_job_measured_model(const struct onnxptq_job *job) {
    return job->measured != NULL ? job->measured : job->emitted.model;
}
