/*
 * Sharing and keeping: the runs of this process, the state file it writes.
 */
#include "api/job_state.h"

#include "api/state.h"
#include "base/hash.h"
#include "base/temporary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run that is shorter than this leaves no state. */
#define SECONDS_BEFORE_STATE 2.0
/* Saving takes at most this share of the time. */
#define SHARE_OF_SAVING 0.005

/* How many samples are read to tell data from others. */
#define MAX_HASHED_SAMPLES 16

struct oq_job_state {
    struct oq_job_state_spec spec;
    const char *const *keys; /* names of values, as in ranges files */
    char *path;              /* NULL: nothing is kept */
    char key[17];            /* empty: not computed yet */
    char *done;              /* what `seen` has, by run of all */
    size_t *assigned;        /* to this process and not done, by run of all */
    size_t *first, *samples; /* of `runs` */
    struct oq_data_runs runs;
    size_t n_samples;      /* of the job */
    size_t n_samples_done; /* those in `seen` */
    double begun, saved, cost;
    bool broken; /* could not be saved */
};

static bool is_part(const struct onnxptq_quantize_options *options) {
    return options->n_parts > 1;
}

/* ---- The key: what a state must be of ------------------------------------------------------ */

static enum onnxptq_status hash_samples(struct onnxptq_job *job, const struct oq_data_runs *runs,
                                        uint64_t *hash, struct onnxptq_error *error) {
    size_t n_inputs = job->report.public.n_inputs;
    struct onnxptq_tensor *inputs = calloc(n_inputs + 1, sizeof *inputs);
    if (inputs == NULL) {
        return oq_fail_memory(error, "the inputs of the model");
    }
    size_t n = runs->n_runs < MAX_HASHED_SAMPLES ? runs->n_runs : MAX_HASHED_SAMPLES;
    enum onnxptq_status status = ONNXPTQ_OK;
    for (size_t i = 0; status == ONNXPTQ_OK && i < n; i++) {
        size_t run = n > 1 ? i * (runs->n_runs - 1) / (n - 1) : 0;
        size_t begin = runs->first[run], end = runs->first[run + 1];
        status = oq_data_read(job->source, runs->samples + begin, end - begin, inputs, error);
        for (size_t j = 0; status == ONNXPTQ_OK && j < n_inputs; j++) {
            const struct onnxptq_tensor *tensor = &inputs[j];
            *hash = oq_hash(*hash, tensor->shape, tensor->rank * sizeof *tensor->shape);
            *hash = oq_hash(*hash, tensor->data, tensor->size);
        }
    }
    free(inputs);
    return status;
}

/* A library that was built anew may compute something else. */
static uint64_t hash_library(uint64_t hash, const char *path) {
    struct oq_file_id id = {0};
    const char *base = oq_path_base(path);
    char *file = strndup(path, strcspn(base, "@") + (size_t)(base - path));
    if (file != NULL && oq_file_identify(file, &id)) {
        hash = oq_hash_number(hash, id.size);
    }
    free(file);
    return oq_hash_text(hash, base);
}

static uint64_t hash_texts(uint64_t hash, const char *const *texts, size_t n) {
    hash = oq_hash_number(hash, n);
    for (size_t i = 0; i < n; i++) {
        hash = oq_hash_text(hash, texts[i]);
    }
    return hash;
}

static uint64_t hash_options(const struct onnxptq_job *job, uint64_t hash) {
    const struct onnxptq_runtime_options *runtime = &job->options.runtime;
    hash = hash_texts(hash, runtime->providers, runtime->n_providers);
    hash = hash_texts(hash, runtime->provider_options, runtime->n_provider_options);
    for (size_t i = 0; i < runtime->n_custom_op_libraries; i++) {
        hash = hash_library(hash, runtime->custom_op_libraries[i]);
    }
    hash = oq_hash_text(hash, job->report.public.runtime_version);
    hash = oq_hash_number(hash, job->options.quantize.shard);
    return oq_hash_number(hash, job->options.quantize.n_shards);
}

/* Selection, target and method matter by what they watch. */
static enum onnxptq_status compute_key(struct oq_job_state *state, struct onnxptq_error *error) {
    const struct oq_job_state_spec *spec = &state->spec;
    const struct oq_data_runs *runs = spec->runs;
    uint64_t hash = oq_hash_text(0, onnxptq_version());
    hash = oq_hash_text(hash, oq_job_fingerprint(spec->job));
    for (size_t i = 0; i < spec->n_values; i++) {
        hash = oq_hash_text(hash, state->keys[spec->values[i]]);
    }
    hash = oq_hash_number(hash, spec->histograms);
    hash = oq_hash(hash, runs->first, (runs->n_runs + 1) * sizeof *runs->first);
    hash = oq_hash(hash, runs->samples, runs->n_samples * sizeof *runs->samples);
    hash = hash_options(spec->job, hash);
    OQ_TRY(hash_samples(spec->job, runs, &hash, error));
    (void)snprintf(state->key, sizeof state->key, "%016" PRIx64, hash);
    return ONNXPTQ_OK;
}

/* ---- Going on ------------------------------------------------------------------------------ */

static enum onnxptq_status check_key(const struct oq_job_state *state,
                                     const struct oq_ranges *saved, const char *path,
                                     struct onnxptq_error *error) {
    if (strcmp(saved->state_key, state->key) == 0 &&
        strlen(saved->state_done) == strlen(state->done)) {
        return ONNXPTQ_OK;
    }
    return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                   "cannot resume from '%s': it was left by another model, other samples or other "
                   "options; repeat those of that run, or leave --resume out to begin anew",
                   path);
}

/* Moves what the file has seen. */
static enum onnxptq_status take_seen(struct oq_job_state *state, struct oq_ranges *saved,
                                     const char *path, struct oq_statistics *seen,
                                     struct onnxptq_error *error) {
    for (size_t i = 0; i < state->spec.n_values; i++) {
        const char *key = state->keys[state->spec.values[i]];
        struct oq_ranges_tensor *tensor = oq_ranges_find(&saved->tensors, key);
        if (tensor == NULL) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA,
                           "cannot resume from '%s': it has no tensor '%s'; leave --resume out to "
                           "begin anew",
                           path, key);
        }
        seen[i] = tensor->statistics;
        oq_statistics_init(&tensor->statistics);
    }
    state->n_samples_done = (size_t)saved->n_samples;
    memcpy(state->done, saved->state_done, strlen(state->done));
    return ONNXPTQ_OK;
}

/* `done_too`: what is done elsewhere; NULL: nothing. */
static enum onnxptq_status assign(struct oq_job_state *state, const char *done_too,
                                  struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &state->spec.job->options.quantize;
    const struct oq_data_runs *all = state->spec.runs;
    size_t n_shards = options->n_shards > 0 ? options->n_shards : 1;
    size_t n_parts = options->n_parts > 0 ? options->n_parts : 1, n = 0, n_samples = 0;
    state->assigned = calloc(all->n_runs + 1, sizeof *state->assigned);
    state->first = calloc(all->n_runs + 1, sizeof *state->first);
    state->samples = calloc(all->n_samples + 1, sizeof *state->samples);
    if (state->assigned == NULL || state->first == NULL || state->samples == NULL) {
        return oq_fail_memory(error, "the list of samples");
    }
    for (size_t run = options->shard; run < all->n_runs; run += n_shards) {
        size_t begin = all->first[run], count = all->first[run + 1] - begin;
        state->n_samples += count;
        bool done = oq_state_is_done(state->done, run) ||
                    (done_too != NULL && oq_state_is_done(done_too, run));
        if (done || run / n_shards % n_parts != options->part % n_parts) {
            continue;
        }
        memcpy(state->samples + n_samples, all->samples + begin, count * sizeof *all->samples);
        state->assigned[n++] = run;
        n_samples += count;
        state->first[n] = n_samples;
    }
    state->runs = (struct oq_data_runs){
        .n_runs = n, .n_samples = n_samples, .first = state->first, .samples = state->samples};
    return ONNXPTQ_OK;
}

/* A part goes on with its own file, and leaves out what is done in the joined one. */
static enum onnxptq_status resume(struct oq_job_state *state, struct oq_statistics *seen,
                                  struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &state->spec.job->options.quantize;
    struct oq_ranges *own = NULL, *joined = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY(compute_key(state, error));
    if (is_part(options)) {
        OQ_TRY_DONE(oq_state_read(state->path, &own, error));
        OQ_TRY_DONE(oq_state_read(options->state_path, &joined, error));
    } else {
        OQ_TRY_DONE(oq_state_read_all(options->state_path, &own, error));
    }
    if (own != NULL) {
        OQ_TRY_DONE(check_key(state, own, state->path, error));
        OQ_TRY_DONE(take_seen(state, own, state->path, seen, error));
    }
    if (joined != NULL) {
        OQ_TRY_DONE(check_key(state, joined, options->state_path, error));
    }
    OQ_TRY_DONE(assign(state, joined != NULL ? joined->state_done : NULL, error));
done:
    oq_ranges_destroy(own);
    oq_ranges_destroy(joined);
    return status;
}

/* ---- Create and destroy -------------------------------------------------------------------- */

static enum onnxptq_status set_up(struct oq_job_state *state, struct oq_statistics *seen,
                                  struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &state->spec.job->options.quantize;
    OQ_TRY(oq_job_name_values(state->spec.job, &state->keys, error));
    state->begun = oq_clock_seconds();
    state->saved = state->begun;
    state->done = oq_state_done_create(state->spec.runs->n_runs);
    if (options->state_path != NULL) {
        state->path = is_part(options) ? oq_state_part_path(options->state_path, options->part)
                                       : strdup(options->state_path);
    }
    if (state->done == NULL || (options->state_path != NULL && state->path == NULL)) {
        return oq_fail_memory(error, "the state");
    }
    if (options->state_path == NULL) {
        return assign(state, NULL, error);
    }
    oq_temporary_remove_stale(state->path);
    if (options->resume) {
        return resume(state, seen, error);
    }
    if (!is_part(options)) {
        OQ_TRY(onnxptq_state_discard(options->state_path, error));
    }
    return assign(state, NULL, error);
}

enum onnxptq_status oq_job_state_create(const struct oq_job_state_spec *spec,
                                        struct oq_statistics *seen, struct oq_job_state **out,
                                        struct onnxptq_error *error) {
    struct oq_job_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return oq_fail_memory(error, "the state");
    }
    state->spec = *spec;
    enum onnxptq_status status = set_up(state, seen, error);
    if (status != ONNXPTQ_OK) {
        oq_job_state_destroy(state);
        return status;
    }
    *out = state;
    return ONNXPTQ_OK;
}

void oq_job_state_destroy(struct oq_job_state *state) {
    if (state == NULL) {
        return;
    }
    free(state->path);
    free(state->done);
    free(state->assigned);
    free(state->first);
    free(state->samples);
    free(state);
}

const struct oq_data_runs *oq_job_state_runs(const struct oq_job_state *state) {
    return &state->runs;
}

size_t oq_job_state_n_samples(const struct oq_job_state *state) {
    return state->n_samples;
}

/* ---- Keeping ------------------------------------------------------------------------------- */

static enum onnxptq_status save(struct oq_job_state *state, const struct oq_statistics *seen,
                                struct onnxptq_error *error) {
    const struct oq_job_state_spec *spec = &state->spec;
    struct oq_ranges *view = NULL;
    double begin = oq_clock_seconds();
    if (state->key[0] == '\0') {
        OQ_TRY(compute_key(state, error));
    }
    OQ_TRY(oq_job_view_ranges(spec->job, spec->values, spec->n_values, seen, &view, error));
    view->n_samples = state->n_samples_done;
    view->state_key = state->key;
    view->state_done = state->done;
    enum onnxptq_status status = oq_ranges_save(view, state->path, error);
    oq_ranges_destroy(view);
    state->saved = oq_clock_seconds();
    state->cost = state->saved - begin;
    return status;
}

/* Calibration is not lost for a state that cannot be written. */
static void try_to_save(struct oq_job_state *state, const struct oq_statistics *seen) {
    struct onnxptq_error *error = calloc(1, sizeof *error);
    if (error != NULL && save(state, seen, error) != ONNXPTQ_OK) {
        state->broken = true;
        oq_log_message(&state->spec.job->log, ONNXPTQ_LOG_WARNING,
                       "the state of calibration is not kept: %s", error->message);
    }
    free(error);
}

enum onnxptq_status oq_job_state_keep(void *user, const struct oq_statistics *seen, size_t n_done,
                                      bool cancelled, struct onnxptq_error *error) {
    (void)error;
    struct oq_job_state *state = user;
    bool asked = state->spec.job->options.quantize.resume;
    oq_state_mark_done(state->done, state->assigned[n_done - 1]);
    state->n_samples_done += state->first[n_done] - state->first[n_done - 1];
    double now = oq_clock_seconds(), pause = state->cost / SHARE_OF_SAVING;
    bool due = now - state->saved >= (pause > SECONDS_BEFORE_STATE ? pause : SECONDS_BEFORE_STATE);
    bool leaving = cancelled && (asked || now - state->begun >= SECONDS_BEFORE_STATE);
    if (state->path != NULL && !state->broken && (due || leaving)) {
        try_to_save(state, seen);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_job_state_finish(struct oq_job_state *state,
                                        const struct oq_statistics *seen,
                                        struct onnxptq_error *error) {
    return is_part(&state->spec.job->options.quantize) ? save(state, seen, error) : ONNXPTQ_OK;
}

void oq_job_state_remove(const struct onnxptq_job *job) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    if (options->state_path != NULL && job->owns_state && !is_part(options) &&
        onnxptq_state_discard(options->state_path, NULL) != ONNXPTQ_OK) {
        oq_log_message(&job->log, ONNXPTQ_LOG_INFO, "'%s' is left", options->state_path);
    }
}
