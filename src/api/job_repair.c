/*
 * Stage repair: when the quantized model loses more than it may, the nodes that cost most go back
 * to float. What each costs is measured, alone and in groups, on the models that would be emitted.
 */
#include "api/job_sessions.h"
#include "api/search.h"
#include "base/file.h"
#include "base/number.h"
#include "check/reference.h"
#include "quant/macs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Every output keeps this at least after a repair that nobody asked for, in dB. */
#define DEFAULT_TARGET_DB 25.0
#define MAX_RUNS 8
#define MAX_REFERENCE_BYTES ((size_t)64 << 20)
#define N_GROUPS 16
#define N_TRIALS 24
#define N_SINGLES 40
#define MAX_NAMED 5

struct repair {
    struct onnxptq_job *job;
    struct oq_reference *reference;
    struct oq_range_method method;
    double deadline; /* by the clock; infinite: none */
    size_t n_tried;
    bool late;
};

bool oq_job_may_repair(const struct onnxptq_job *job) {
    return job->options.quantize.repair != ONNXPTQ_REPAIR_OFF && job->source != NULL &&
           !job->options.quantize.convert_only && job->plan->n_pairs > 0;
}

static double decibels(double loss) {
    return -10.0 * log10(loss);
}

static double loss_of(double db) {
    return pow(10.0, -db / 10.0);
}

/* ---- Measuring ----------------------------------------------------------------------------- */

static double worst_loss(const struct oq_output_quality *quality, size_t n) {
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        double sqnr = 0.0;
        if (oq_type_is_float(quality[i].type) && oq_quality_sqnr(&quality[i], &sqnr)) {
            worst = fmax(worst, loss_of(sqnr));
        }
    }
    return worst;
}

/* As the target will run it. */
static enum onnxptq_status open_session(struct onnxptq_job *job, const struct oq_model *model,
                                        struct oq_session **session, struct onnxptq_error *error) {
    const enum oq_optimization optimization =
        job->target->needs_runtime_optimizer ? OQ_OPTIMIZE_ALL : OQ_OPTIMIZE_FLOAT;
    if (oq_job_open_result(job, model, optimization, session, NULL) == ONNXPTQ_OK) {
        return ONNXPTQ_OK;
    }
    return oq_job_open_result(job, model, OQ_OPTIMIZE_NONE, session, error);
}

static enum onnxptq_status measure(struct repair *repair, const struct oq_model *model,
                                   double *loss, struct onnxptq_error *error) {
    struct onnxptq_job *job = repair->job;
    const size_t n_outputs = oq_reference_n_outputs(repair->reference);
    const size_t n = oq_reference_n_samples(repair->reference);
    /* The first measurement, which most jobs end with, is short. */
    const struct oq_reference_progress progress = {repair->n_tried > 0 ? &job->log : NULL, "repair",
                                                   repair->n_tried * n,
                                                   (N_GROUPS + N_SINGLES + N_TRIALS + 2) * n};
    struct oq_session *session = NULL;
    struct oq_output_quality *quality = calloc(n_outputs + 1, sizeof *quality);
    if (quality == NULL) {
        return oq_fail_memory(error, "the measurement of a repair");
    }
    enum onnxptq_status status = open_session(job, model, &session, error);
    if (status == ONNXPTQ_OK) {
        status = oq_reference_compare(repair->reference, session, &progress, quality, error);
    }
    if (status == ONNXPTQ_OK) {
        *loss = worst_loss(quality, n_outputs);
    }
    oq_session_destroy(session);
    free(quality);
    return status;
}

/* The model with the nodes of `held` in float. */
static enum onnxptq_status try_held(void *user, const bool *held, double *loss,
                                    struct onnxptq_error *error) {
    struct repair *repair = user;
    struct onnxptq_job *job = repair->job;
    struct oq_plan *plan = job->plan;
    struct oq_emit_result emitted = {0};
    if (oq_clock_seconds() > repair->deadline) {
        repair->late = true;
        *loss = 0.0; /* nothing more is looked for */
        return ONNXPTQ_OK;
    }
    job->plan = NULL;
    enum onnxptq_status status = oq_job_make_plan(job, held, &job->plan, error);
    if (status == ONNXPTQ_OK) {
        status = oq_job_emit_with(job, repair->method, &emitted, error);
    }
    if (status == ONNXPTQ_OK) {
        status = measure(repair, emitted.model, loss, error);
    }
    oq_emit_result_reset(&emitted);
    oq_plan_destroy(job->plan);
    job->plan = plan;
    repair->n_tried++;
    return status;
}

/* ---- Candidates ---------------------------------------------------------------------------- */

/* What the plan quantizes, and the share of all multiply-accumulates in it of each. */
static bool list_nodes(const struct onnxptq_job *job, uint32_t **nodes, double **sizes, size_t *n) {
    const uint32_t n_nodes = oq_graph_n_nodes(job->graph);
    double total = 0.0;
    *n = 0;
    *nodes = calloc((size_t)n_nodes + 1, sizeof **nodes);
    *sizes = calloc((size_t)n_nodes + 1, sizeof **sizes);
    for (uint32_t i = 0; *nodes != NULL && *sizes != NULL && i < n_nodes; i++) {
        total += oq_node_macs(job->graph, job->trace, i);
        const struct oq_plan_node *planned = &job->plan->nodes[i];
        if (planned->decision == ONNXPTQ_DECISION_QUANTIZED && !planned->kept) {
            (*nodes)[*n] = i;
            (*sizes)[(*n)++] = oq_node_macs(job->graph, job->trace, i);
        }
    }
    for (size_t i = 0; i < *n; i++) {
        (*sizes)[i] = total > 0.0 ? (*sizes)[i] / total : 0.0;
    }
    return *nodes != NULL && *sizes != NULL;
}

static double share_of(const double *sizes, size_t n) {
    double share = 0.0;
    for (size_t i = 0; i < n; i++) {
        share += sizes[i];
    }
    return share;
}

/* ---- Telling ------------------------------------------------------------------------------- */

/* "'a', 'b' and 3 more" */
static void name_worst(const struct onnxptq_job *job, const struct oq_search_spec *spec,
                       const struct oq_search_result *result, char *text, size_t size) {
    size_t named = 0, used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < result->n_units && named < MAX_NAMED && used < size; i++) {
        const struct oq_search_unit *unit = &result->units[i];
        const struct oq_node *first = oq_graph_node(job->graph, spec->nodes[unit->first]);
        const struct oq_node *last =
            oq_graph_node(job->graph, spec->nodes[unit->first + unit->n - 1]);
        const int n =
            unit->n == 1
                ? snprintf(text + used, size - used, "%s'%s' (%.1f dB alone)",
                           named > 0 ? ", " : "", first->name, decibels(unit->loss))
                : snprintf(text + used, size - used, "%s'%s' to '%s' (%.1f dB)",
                           named > 0 ? ", " : "", first->name, last->name, decibels(unit->loss));
        used += n > 0 ? (size_t)n : 0;
        named++;
    }
}

static void tell(struct repair *repair, const struct oq_search_spec *spec,
                 const struct oq_search_result *result, const bool *held, double share) {
    struct onnxptq_job *job = repair->job;
    char worst[1024];
    size_t n_held = 0;
    double lost = 0.0;
    for (size_t i = 0; i < spec->n; i++) {
        n_held += held[spec->nodes[i]];
        lost += held[spec->nodes[i]] ? spec->sizes[i] : 0.0;
    }
    name_worst(job, spec, result, worst, sizeof worst);
    if (result->n_units > 0) {
        oq_report_add_note(&job->report, "most of what the worst output loses comes from %s",
                           worst);
    }
    if (n_held > 0) {
        oq_report_add_note(
            &job->report,
            "repaired: %zu of %zu nodes went back to float, from %.1f to %.1f dB on the "
            "worst output; %.1f %% of the multiply-accumulates are int8, %.1f %% before",
            n_held, spec->n, decibels(result->loss_before), decibels(result->loss),
            100.0 * (share - lost), 100.0 * share);
    }
    if (repair->late) {
        oq_report_add_note(&job->report, "the repair ran out of its time (--repair-budget)");
    } else if (result->loss > spec->most_loss) {
        oq_report_add_note(
            &job->report,
            "the repair ends at %.1f of %.1f dB: more would leave less than %.0f %% of "
            "the multiply-accumulates int8 (--min-int8-macs)",
            decibels(result->loss), decibels(spec->most_loss),
            100.0 * job->options.quantize.min_int8_macs);
    }
}

/* ---- All ----------------------------------------------------------------------------------- */

/* The plan with what is held in float takes the place of the job's. */
static enum onnxptq_status use_held(struct repair *repair, const bool *held,
                                    struct onnxptq_error *error) {
    struct onnxptq_job *job = repair->job;
    struct oq_plan *plan = NULL;
    OQ_TRY(oq_job_make_plan(job, held, &plan, error));
    oq_plan_destroy(job->plan);
    job->plan = plan;
    oq_emit_result_reset(&job->emitted); /* is made anew */
    job->emitted = (struct oq_emit_result){0};
    return ONNXPTQ_OK;
}

static enum onnxptq_status search(struct repair *repair, double target_db,
                                  struct onnxptq_error *error) {
    struct onnxptq_job *job = repair->job;
    uint32_t *nodes = NULL;
    double *sizes = NULL;
    bool *held = calloc((size_t)oq_graph_n_nodes(job->graph) + 1, sizeof *held);
    struct oq_search_result result = {0};
    struct oq_search_spec spec = {.n_nodes = oq_graph_n_nodes(job->graph),
                                  .most_loss = loss_of(target_db),
                                  .max_groups = N_GROUPS,
                                  .max_singles = N_SINGLES,
                                  .max_trials = N_TRIALS,
                                  .measure = try_held,
                                  .user = repair};
    enum onnxptq_status status = ONNXPTQ_OK;
    if (held == NULL || !list_nodes(job, &nodes, &sizes, &spec.n)) {
        status = oq_fail_memory(error, "a repair");
        goto done;
    }
    const double share = share_of(sizes, spec.n);
    spec.nodes = nodes;
    spec.sizes = sizes;
    spec.most_held = fmax(0.0, share - job->options.quantize.min_int8_macs);
    OQ_TRY_DONE(oq_search_held(&spec, held, &result, error));
    tell(repair, &spec, &result, held, share);
    status = use_held(repair, held, error);
done:
    oq_search_result_reset(&result);
    free(sizes);
    free(nodes);
    free(held);
    return status;
}

static enum onnxptq_status repair_on(struct repair *repair, struct onnxptq_error *error) {
    struct onnxptq_job *job = repair->job;
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    double loss = 0.0;
    bool *none = calloc((size_t)oq_graph_n_nodes(job->graph) + 1, sizeof *none);
    if (none == NULL) {
        return oq_fail_memory(error, "a repair");
    }
    const enum onnxptq_status status = try_held(repair, none, &loss, error);
    free(none);
    if (status != ONNXPTQ_OK) {
        return status;
    }
    const bool asked = options->repair == ONNXPTQ_REPAIR_ON;
    const double target = options->repair_db > 0.0 ? options->repair_db : DEFAULT_TARGET_DB;
    return loss > loss_of(asked ? target : options->min_sqnr) ? search(repair, target, error)
                                                              : ONNXPTQ_OK;
}

enum onnxptq_status oq_job_repair(struct onnxptq_job *job, struct onnxptq_error *error) {
    struct repair repair = {.job = job, .method = job->method, .deadline = INFINITY};
    struct oq_data_runs runs = {0};
    struct oq_session *session = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    if (job->options.quantize.repair_budget > 0.0) {
        repair.deadline = oq_clock_seconds() + job->options.quantize.repair_budget;
    }
    OQ_TRY_DONE(oq_job_pick_runs(job, MAX_RUNS, &runs, NULL, error));
    if (runs.n_runs == 0) {
        goto done;
    }
    const struct oq_reference_progress progress = {NULL, "repair", 0, runs.n_samples};
    OQ_TRY_DONE(oq_job_open_original(job, &session, error));
    const struct oq_reference_spec spec = {.runtime = job->runtime,
                                           .session = session,
                                           .source = job->source,
                                           .runs = &runs,
                                           .max_bytes = MAX_REFERENCE_BYTES};
    OQ_TRY_DONE(oq_reference_create(&spec, &progress, &repair.reference, error));
    OQ_TRY_DONE(repair_on(&repair, error));
done:
    oq_reference_destroy(repair.reference);
    oq_session_destroy(session);
    oq_data_runs_reset(&runs);
    return status;
}
