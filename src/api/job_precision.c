/*
 * Stage precision: how much of what stays float can be computed in half precision, measured on the
 * model without Q/DQ; and the same decisions on what is emitted.
 */
#include "api/job_sessions.h"
#include "base/number.h"
#include "calib/watch.h"
#include "check/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What float16 may lose of a float output, noise over signal: 50 dB. More of the model stays
 * float32 else: it is looked for in so many groups of nodes. */
#define MOST_LOSS 1e-5
#define N_GROUPS 24
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
    struct oq_reference *reference; /* NULL: nothing can be measured */
    size_t n_tried, n_half;         /* n_half: nodes of the latest try */
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
static enum onnxptq_status try_held(struct search *search, const bool *held, double *loss,
                                    struct onnxptq_error *error) {
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

/* ---- Where it costs most ---- */

/* Nodes that compute in half, in their order, in groups of equal numbers. */
static size_t make_groups(const struct oq_precision_plan *plan, uint32_t n_nodes, uint32_t *group) {
    const size_t size = (plan->n_half + N_GROUPS - 1) / N_GROUPS;
    size_t n = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        group[i] = plan->nodes[i].half ? (uint32_t)(n++ / (size > 0 ? size : 1)) : N_GROUPS;
    }
    return size > 0 ? (n + size - 1) / size : 0;
}

/* What each group costs, with all others in float32. */
static enum onnxptq_status measure_groups(struct search *search, const uint32_t *group, size_t n,
                                          double *losses, struct onnxptq_error *error) {
    const uint32_t n_nodes = oq_graph_n_nodes(search->job->graph);
    bool *held = calloc((size_t)n_nodes + 1, sizeof *held);
    enum onnxptq_status status =
        held != NULL ? ONNXPTQ_OK : oq_fail_memory(error, "the groups of half precision");
    for (size_t g = 0; g < n && status == ONNXPTQ_OK; g++) {
        for (uint32_t i = 0; i < n_nodes; i++) {
            held[i] = group[i] != g;
        }
        status = try_held(search, held, &losses[g], error);
    }
    free(held);
    return status;
}

static void hold_group(struct onnxptq_job *job, const uint32_t *group, size_t g) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(job->graph); i++) {
        job->held[i] |= group[i] == g;
    }
}

static size_t find_costliest(const double *losses, size_t n) {
    size_t worst = 0;
    for (size_t g = 1; g < n; g++) {
        worst = losses[g] > losses[worst] ? g : worst;
    }
    return worst;
}

/* Holds the costliest groups until the rest, whose losses add up, is good enough by estimate and
 * then by measurement. */
static enum onnxptq_status hold_costliest(struct search *search, const uint32_t *group, size_t n,
                                          double *losses, double *loss,
                                          struct onnxptq_error *error) {
    for (size_t left = n; left > 0 && *loss > MOST_LOSS; left--) {
        const size_t worst = find_costliest(losses, n);
        double rest = 0.0;
        losses[worst] = 0.0;
        hold_group(search->job, group, worst);
        for (size_t g = 0; g < n; g++) {
            rest += losses[g];
        }
        if (rest <= MOST_LOSS) {
            OQ_TRY(try_held(search, search->job->held, loss, error));
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status search_groups(struct search *search, double *loss,
                                         struct onnxptq_error *error) {
    const uint32_t n_nodes = oq_graph_n_nodes(search->job->graph);
    double losses[N_GROUPS] = {0};
    uint32_t *group = calloc((size_t)n_nodes + 1, sizeof *group);
    if (group == NULL) {
        return oq_fail_memory(error, "the groups of half precision");
    }
    const size_t n = make_groups(search->job->precision, n_nodes, group);
    enum onnxptq_status status = measure_groups(search, group, n, losses, error);
    if (status == ONNXPTQ_OK) {
        status = hold_costliest(search, group, n, losses, loss, error);
    }
    free(group);
    return status;
}

static double decibels(double loss) {
    return -10.0 * log10(loss);
}

static enum onnxptq_status choose(struct search *search, struct onnxptq_error *error) {
    struct onnxptq_job *job = search->job;
    double loss = 0.0;
    OQ_TRY(try_held(search, job->held, &loss, error));
    const double all = loss;
    const size_t n_all = search->n_half;
    if (loss > MOST_LOSS) {
        OQ_TRY(search_groups(search, &loss, error));
    }
    if (search->reference == NULL || n_all == 0) {
        return ONNXPTQ_OK;
    }
    if (search->n_half < n_all) {
        oq_report_add_note(&job->report,
                           "half precision wherever values allow would keep %.1f dB of the worst "
                           "output: %zu of %zu operators stay float32, the others keep %.1f dB",
                           decibels(all), n_all - search->n_half, n_all, decibels(loss));
    } else if (loss > 0.0) {
        oq_report_add_note(&job->report, "half precision keeps %.1f dB of the worst output",
                           decibels(loss));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status choose_with_reference(struct search *search,
                                                 struct onnxptq_error *error) {
    struct onnxptq_job *job = search->job;
    struct oq_data_runs runs = {0};
    struct oq_session *session = NULL;
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
        OQ_TRY_DONE(oq_reference_create(&spec, &progress, &search->reference, error));
    }
    OQ_TRY_DONE(choose(search, error));
done:
    oq_reference_destroy(search->reference);
    search->reference = NULL;
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
