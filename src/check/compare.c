/*
 * Both models run on every sample, one after the other; nothing is kept but sums.
 */
#include "check/compare.h"

#include <stdlib.h>

struct comparison {
    const struct oq_compare_spec *spec;
    size_t n_inputs, n_outputs;
    struct onnxptq_tensor *inputs, *reference, *candidate;
};

/* Each run is told: what was going on ends with a run. */
static enum onnxptq_status run_one(const struct comparison *c, struct oq_session *session,
                                   const size_t *samples, size_t n, struct onnxptq_tensor *outputs,
                                   struct onnxptq_error *error) {
    oq_runtime_tell_run(c->spec->runtime, "check", samples[0], n);
    return oq_prefix(error, oq_session_run(session, c->inputs, outputs, error),
                     "cannot check sample %zu: ", samples[0]);
}

static enum onnxptq_status run_both(const struct comparison *c, const size_t *samples, size_t n,
                                    struct onnxptq_error *error) {
    const struct oq_compare_spec *spec = c->spec;
    OQ_TRY(oq_data_read(spec->source, samples, n, c->inputs, error));
    OQ_TRY(run_one(c, spec->reference, samples, n, c->reference, error));
    return run_one(c, spec->candidate, samples, n, c->candidate, error);
}

static enum onnxptq_status compare_runs(const struct comparison *c,
                                        struct oq_output_quality *quality,
                                        struct onnxptq_error *error) {
    const struct oq_data_runs *runs = c->spec->runs;
    for (size_t r = 0; r < runs->n_runs; r++) {
        size_t first = runs->first[r], n = runs->first[r + 1] - first;
        OQ_TRY(run_both(c, runs->samples + first, n, error));
        for (size_t i = 0; i < c->n_outputs; i++) {
            oq_quality_add(&quality[i], &c->reference[i], &c->candidate[i]);
        }
        OQ_TRY(oq_log_progress(c->spec->log, "check", first + n, runs->first[runs->n_runs], error));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_counts(const struct oq_compare_spec *spec,
                                        struct onnxptq_error *error) {
    if (oq_session_n_inputs(spec->reference) != oq_session_n_inputs(spec->candidate) ||
        oq_session_n_outputs(spec->reference) != oq_session_n_outputs(spec->candidate)) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot compare the models: the numbers of their inputs or outputs differ");
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_compare(const struct oq_compare_spec *spec,
                               struct oq_output_quality *quality, struct onnxptq_error *error) {
    OQ_TRY(check_counts(spec, error));
    struct comparison c = {.spec = spec,
                           .n_inputs = oq_session_n_inputs(spec->reference),
                           .n_outputs = oq_session_n_outputs(spec->reference)};
    for (size_t i = 0; i < c.n_outputs; i++) {
        const struct onnxptq_tensor *declared = oq_session_output(spec->reference, i);
        oq_quality_init(&quality[i], declared->name, (int)declared->type);
    }
    c.inputs = calloc(c.n_inputs + 1, sizeof *c.inputs);
    c.reference = calloc(c.n_outputs + 1, sizeof *c.reference);
    c.candidate = calloc(c.n_outputs + 1, sizeof *c.candidate);
    enum onnxptq_status status = c.inputs != NULL && c.reference != NULL && c.candidate != NULL
                                     ? compare_runs(&c, quality, error)
                                     : oq_fail_memory(error, "the check");
    free(c.inputs);
    free(c.reference);
    free(c.candidate);
    return status;
}
