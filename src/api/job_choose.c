/*
 * Stage choose, of the method AUTO: every method has served its ranges from the same statistics;
 * which of them loses least is measured on a few samples, on the models that would be emitted. The
 * original runs on each of the samples once, whatever the number of candidates, and candidates with
 * the same numbers are measured once.
 */
#include "api/job_sessions.h"
#include "base/number.h"
#include "check/reference.h"

#include <math.h>
#include <stdlib.h>

/* What the choice costs is bounded: so many runs of each candidate, more of small models as long as
 * they compute few values, and so much memory for the original's outputs. */
#define MAX_RUNS 8
#define MAX_SMALL_RUNS 64
#define FEW_VALUES ((double)(1 << 22))
#define MAX_REFERENCE_BYTES ((size_t)64 << 20)

/* A candidate must be better than those before it by more than what another instruction set or
 * number of threads makes of the same model. */
#define BETTER_DB 0.05

/* In the order of preference. */
static const enum onnxptq_method methods[] = {ONNXPTQ_METHOD_MAX, ONNXPTQ_METHOD_PERCENTILE,
                                              ONNXPTQ_METHOD_MSE, ONNXPTQ_METHOD_ENTROPY};
#define N_CANDIDATES (sizeof methods / sizeof *methods)

struct choice {
    struct onnxptq_job *job;
    struct oq_reference *reference;
    struct onnxptq_candidate_report *candidates; /* N_CANDIDATES, in the report's arena */
    struct oq_quant_params *params[N_CANDIDATES];
    const struct oq_data_runs *runs;
    size_t n_unseen_runs; /* the first of them: calibration did not see their samples */
    size_t best;          /* N_CANDIDATES: none is measured yet */
};

bool oq_job_must_choose(const struct onnxptq_job *job) {
    return job->method.method == ONNXPTQ_METHOD_AUTO;
}

static double percentile_of(struct oq_range_method method) {
    return method.method == ONNXPTQ_METHOD_PERCENTILE ? method.percentile : 0.0;
}

void oq_job_use_method(struct onnxptq_job *job, struct oq_range_method method) {
    job->method = method;
    job->report.public.method = oq_method_name(method.method);
    job->report.public.percentile = percentile_of(method);
}

static struct oq_range_method method_of(const struct onnxptq_job *job, size_t i) {
    return (struct oq_range_method){methods[i], job->options.quantize.percentile};
}

/* Where nothing can be measured: what did best on the models this was developed with. */
static struct oq_range_method fallback_of(const struct onnxptq_job *job) {
    return method_of(job, 1);
}

struct oq_range_method oq_job_method_in_use(const struct onnxptq_job *job) {
    return oq_job_must_choose(job) ? fallback_of(job) : job->method;
}

static void use_fallback(struct onnxptq_job *job, const char *why) {
    oq_job_use_method(job, fallback_of(job));
    oq_report_add_note(&job->report,
                       "the method was not chosen by measuring, %s: it is percentile %g", why,
                       job->method.percentile);
}

/* False where a device summarised the tensors, or a file of ranges has none. */
static bool histograms_are_there(const struct onnxptq_job *job) {
    for (size_t i = 0; i < job->plan->n_pairs; i++) {
        const struct oq_plan_pair *pair = &job->plan->pairs[i];
        const struct oq_statistics *seen = &job->ranges[pair->value];
        if (!pair->has_fixed_range && seen->n_finite > 0 && seen->histogram == NULL) {
            return false;
        }
    }
    return true;
}

/* ---- One candidate ------------------------------------------------------------------------- */

/* The worst output that can be measured; those that are not float only where none is. */
static void find_worst(const struct oq_output_quality *quality, size_t n, bool floats,
                       struct onnxptq_candidate_report *candidate) {
    for (size_t i = 0; i < n; i++) {
        double sqnr = 0.0;
        if (oq_type_is_float(quality[i].type) == floats && oq_quality_sqnr(&quality[i], &sqnr) &&
            (!candidate->has_sqnr || sqnr < candidate->sqnr_db)) {
            candidate->has_sqnr = true;
            candidate->sqnr_db = sqnr;
            candidate->output = quality[i].name;
        }
    }
}

static enum onnxptq_status rate(const struct choice *choice,
                                const struct oq_output_quality *quality,
                                struct onnxptq_candidate_report *candidate,
                                struct onnxptq_error *error) {
    size_t n = oq_reference_n_outputs(choice->reference);
    find_worst(quality, n, true, candidate);
    if (!candidate->has_sqnr) {
        find_worst(quality, n, false, candidate);
    }
    if (candidate->output != NULL) {
        candidate->output = oq_arena_strdup(choice->job->report.arena, candidate->output);
    }
    return candidate->has_sqnr && candidate->output == NULL ? oq_fail_memory(error, "the report")
                                                            : ONNXPTQ_OK;
}

/* As the target will run it: with integer kernels where these are the runtime's own, else by what
 * Q/DQ say. */
static enum onnxptq_status open_session(struct onnxptq_job *job, const struct oq_model *model,
                                        struct oq_session **session, struct onnxptq_error *error) {
    if (job->target->needs_runtime_optimizer) {
        return oq_job_open_result(job, model, OQ_OPTIMIZE_ALL, session, error);
    }
    if (oq_job_open_result(job, model, OQ_OPTIMIZE_FLOAT, session, NULL) == ONNXPTQ_OK) {
        return ONNXPTQ_OK;
    }
    return oq_job_open_result(job, model, OQ_OPTIMIZE_NONE, session, error);
}

static enum onnxptq_status measure(const struct choice *choice, size_t i,
                                   const struct oq_model *model, struct onnxptq_error *error) {
    struct onnxptq_job *job = choice->job;
    size_t n_samples = oq_reference_n_samples(choice->reference);
    const struct oq_reference_progress progress = {&job->log, "choose", (i + 1) * n_samples,
                                                   (N_CANDIDATES + 1) * n_samples};
    struct oq_session *session = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    struct oq_output_quality *quality =
        calloc(oq_reference_n_outputs(choice->reference) + 1, sizeof *quality);
    if (quality == NULL) {
        return oq_fail_memory(error, "the measurement of a method");
    }
    OQ_TRY_DONE(open_session(job, model, &session, error));
    OQ_TRY_DONE(oq_reference_compare(choice->reference, session, &progress, quality, error));
    OQ_TRY_DONE(rate(choice, quality, &choice->candidates[i], error));
done:
    oq_session_destroy(session);
    free(quality);
    return status;
}

static bool same_params(const struct oq_quant_params *a, const struct oq_quant_params *b,
                        size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (a[i].scale < b[i].scale || a[i].scale > b[i].scale ||
            a[i].zero_point != b[i].zero_point) {
            return false;
        }
    }
    return true;
}

/* The first candidate with these numbers; `i` itself when there is none before it. */
static size_t find_twin(const struct choice *choice, size_t i) {
    size_t twin = 0;
    while (twin < i &&
           !same_params(choice->params[twin], choice->params[i], choice->job->plan->n_pairs)) {
        twin++;
    }
    return twin;
}

static enum onnxptq_status keep_params(struct choice *choice, size_t i,
                                       const struct oq_emit_result *emitted,
                                       struct onnxptq_error *error) {
    size_t n = choice->job->plan->n_pairs;
    choice->params[i] = calloc(n + 1, sizeof *choice->params[i]);
    if (choice->params[i] == NULL) {
        return oq_fail_memory(error, "the numbers of a method");
    }
    for (size_t k = 0; k < n; k++) {
        choice->params[i][k] = emitted->pairs[k];
    }
    return ONNXPTQ_OK;
}

/* The better of the two stays with the job. */
static void keep_better(struct choice *choice, size_t i, struct oq_emit_result *emitted) {
    const struct onnxptq_candidate_report *tried = &choice->candidates[i];
    bool better =
        tried->has_sqnr && (choice->best == N_CANDIDATES ||
                            tried->sqnr_db > choice->candidates[choice->best].sqnr_db + BETTER_DB);
    if (better) {
        oq_emit_result_reset(&choice->job->emitted);
        choice->job->emitted = *emitted;
        *emitted = (struct oq_emit_result){0};
        choice->best = i;
    }
}

static enum onnxptq_status try_method(struct choice *choice, size_t i,
                                      struct onnxptq_error *error) {
    struct onnxptq_job *job = choice->job;
    struct oq_range_method method = method_of(job, i);
    struct onnxptq_candidate_report *candidate = &choice->candidates[i];
    *candidate = (struct onnxptq_candidate_report){.method = oq_method_name(method.method),
                                                   .percentile = percentile_of(method)};
    struct oq_emit_result emitted = {0};
    OQ_TRY(oq_job_emit_with(job, method, &emitted, error));
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(keep_params(choice, i, &emitted, error));
    size_t twin = find_twin(choice, i);
    if (twin < i) {
        candidate->has_sqnr = choice->candidates[twin].has_sqnr;
        candidate->sqnr_db = choice->candidates[twin].sqnr_db;
        candidate->output = choice->candidates[twin].output;
        goto done;
    }
    OQ_TRY_DONE(measure(choice, i, emitted.model, error));
    keep_better(choice, i, &emitted);
done:
    oq_emit_result_reset(&emitted);
    return status;
}

/* ---- All of them --------------------------------------------------------------------------- */

static enum onnxptq_status keep_reference(struct choice *choice, struct onnxptq_error *error) {
    struct onnxptq_job *job = choice->job;
    const struct oq_reference_progress progress = {&job->log, "choose", 0,
                                                   (N_CANDIDATES + 1) * choice->runs->n_samples};
    struct oq_reference_spec spec = {.runtime = job->runtime,
                                     .source = job->source,
                                     .runs = choice->runs,
                                     .max_bytes = MAX_REFERENCE_BYTES};
    OQ_TRY(oq_job_open_original(job, &spec.session, error));
    enum onnxptq_status status = oq_reference_create(&spec, &progress, &choice->reference, error);
    oq_session_destroy(spec.session);
    return status;
}

static void report_choice(const struct choice *choice) {
    struct onnxptq_report *report = &choice->job->report.public;
    size_t n = oq_reference_n_samples(choice->reference);
    size_t n_unseen = choice->runs->first[choice->n_unseen_runs];
    report->candidates = choice->candidates;
    report->n_candidates = N_CANDIDATES;
    report->n_choice_samples = n;
    report->n_choice_held_back = n_unseen < n ? n_unseen : n;
}

static enum onnxptq_status choose_best(struct choice *choice, struct onnxptq_error *error) {
    struct onnxptq_job *job = choice->job;
    OQ_TRY(keep_reference(choice, error));
    for (size_t i = 0; i < N_CANDIDATES; i++) {
        OQ_TRY(try_method(choice, i, error));
    }
    report_choice(choice);
    if (choice->best == N_CANDIDATES) {
        use_fallback(job, "since no output can be measured");
        return ONNXPTQ_OK;
    }
    choice->candidates[choice->best].chosen = true;
    oq_job_use_method(job, method_of(job, choice->best));
    return ONNXPTQ_OK;
}

static enum onnxptq_status choose_with(struct onnxptq_job *job, const struct oq_data_runs *runs,
                                       size_t n_unseen_runs, struct onnxptq_error *error) {
    struct choice choice = {
        .job = job, .runs = runs, .n_unseen_runs = n_unseen_runs, .best = N_CANDIDATES};
    choice.candidates = oq_arena_array(job->report.arena, N_CANDIDATES, sizeof *choice.candidates);
    enum onnxptq_status status = choice.candidates != NULL ? choose_best(&choice, error)
                                                           : oq_fail_memory(error, "the report");
    for (size_t i = 0; i < N_CANDIDATES; i++) {
        free(choice.params[i]);
    }
    oq_reference_destroy(choice.reference);
    return status;
}

/* ---- Runs ---------------------------------------------------------------------------------- */

/* Of the tensors whose ranges are chosen, in one run. */
static double values_in_a_run(const struct onnxptq_job *job) {
    double n = 0.0;
    for (size_t i = 0; i < oq_graph_n_values(job->graph); i++) {
        const struct oq_statistics *seen = &job->ranges[i];
        n += seen->seen > 0 ? (double)seen->n_finite / (double)seen->seen : 0.0;
    }
    return n;
}

static size_t wanted_runs(const struct onnxptq_job *job) {
    double runs = FEW_VALUES / fmax(values_in_a_run(job), 1.0);
    return (size_t)fmin(fmax(runs, MAX_RUNS), MAX_SMALL_RUNS);
}

/* Half of the runs are of samples that calibration did not see. The others are of those it saw:
 * what is rare and large is among them, or it was never seen. */
enum onnxptq_status oq_job_pick_runs(struct onnxptq_job *job, size_t wanted,
                                     struct oq_data_runs *out, size_t *n_unseen_runs,
                                     struct onnxptq_error *error) {
    struct oq_data_runs unseen = {0}, seen = {0};
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(oq_data_runs(job->source, OQ_DATA_CHECK, &unseen, error));
    OQ_TRY_DONE(oq_data_runs(job->source, OQ_DATA_CALIBRATE, &seen, error));
    size_t n_seen = oq_data_held_back(job->source) ? wanted / 2 : 0;
    n_seen = n_seen < seen.n_runs ? n_seen : seen.n_runs;
    size_t n_unseen = wanted - n_seen < unseen.n_runs ? wanted - n_seen : unseen.n_runs;
    if (n_seen > 0) {
        n_seen = wanted - n_unseen;
    }
    OQ_TRY_DONE(oq_data_runs_pick(&unseen, n_unseen, &seen, n_seen, out, error));
    if (n_unseen_runs != NULL) {
        *n_unseen_runs = oq_data_held_back(job->source) ? n_unseen : 0;
    }
done:
    oq_data_runs_reset(&unseen);
    oq_data_runs_reset(&seen);
    return status;
}

enum onnxptq_status oq_job_choose(struct onnxptq_job *job, struct onnxptq_error *error) {
    if (job->plan->n_pairs == 0) {
        oq_job_use_method(job, method_of(job, 0)); /* there is no range to choose */
        return ONNXPTQ_OK;
    }
    if (!histograms_are_there(job)) {
        oq_job_use_method(job, method_of(job, 0));
        oq_report_add_note(&job->report, "the method is max: there are no histograms for others");
        return ONNXPTQ_OK;
    }
    if (job->source == NULL) {
        use_fallback(job, "since no samples were given");
        return ONNXPTQ_OK;
    }
    struct oq_data_runs runs;
    size_t n_unseen_runs = 0;
    OQ_TRY(oq_job_pick_runs(job, wanted_runs(job), &runs, &n_unseen_runs, error));
    enum onnxptq_status status = ONNXPTQ_OK;
    if (runs.n_runs > 0) {
        status = choose_with(job, &runs, n_unseen_runs, error);
    } else {
        use_fallback(job, "since there are too few samples for one run of the check");
    }
    oq_data_runs_reset(&runs);
    return status;
}
