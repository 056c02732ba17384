/*
 * Running the watched model over the samples. The model is made in watch_model.c, the statistics
 * are kept by statistics.c.
 */
#include "calib/watch.h"

#include "calib/watch_model.h"

#include <stdlib.h>

struct watch {
    const struct oq_watch_spec *spec;
    struct oq_statistics *statistics;
    uint32_t *values; /* those of the spec; OQ_NONE where a value turned out to be no tensor */
    bool *unreduced;  /* whose summary is not left to nodes of the graph */
    size_t sample;    /* first of the current run */
    struct oq_measure_scratch *scratch; /* NULL: no histograms */
    bool out_of_memory;
    bool cpu_only;
    struct onnxptq_error *refusal; /* why the providers did not take the model */
    struct oq_observer_hook hook;
    struct oq_session *session;
    struct onnxptq_tensor *inputs;
};

static bool observe(void *user, const struct oq_observed *tensor) {
    struct watch *watch = user;
    const struct oq_watch_spec *spec = watch->spec;
    if (tensor->slot < 0 || (uint64_t)tensor->slot >= spec->n_values) {
        return false;
    }
    if (!oq_statistics_update(&watch->statistics[tensor->slot], tensor, watch->sample,
                              watch->scratch)) {
        watch->out_of_memory = true;
    }
    return !watch->out_of_memory;
}

/* ---- The session ---- */

static enum onnxptq_status create_session(struct watch *watch, struct onnxptq_error *error) {
    const struct oq_watch_spec *spec = watch->spec;
    struct oq_model *model = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    OQ_TRY(oq_watch_model_create(spec, watch->values, watch->unreduced, &model, error));
    enum onnxptq_status status = oq_session_bytes(model, spec->weights, &bytes, &size, error);
    oq_model_destroy(model);
    if (status != ONNXPTQ_OK) {
        return status;
    }
    const struct oq_session_spec session = {
        .model = bytes,
        .size = size,
        .weights_folder = oq_weight_file_folder(spec->weights),
        .optimization = OQ_OPTIMIZE_ALL,
        /* Packing weights pays off from the second run on. */
        .no_prepacking = spec->no_prepacking || spec->max_runs == 1,
        .cpu_only = watch->cpu_only,
        .hook = &watch->hook,
        .purpose = spec->stage,
    };
    status = oq_session_create(spec->runtime, &session, &watch->session, error);
    free(bytes);
    return status;
}

/* Changes what a session was refused for; false when there is nothing to change. Each change is
 * made once, so the attempts come to an end.
 *   - The runtime refuses nodes that summarise a tensor, naming one at a time: an observer takes
 *     their place. It refuses an observer, on a sequence or an optional: that one is dropped.
 *   - Providers that compile the graph may want shapes that only a first run on CPU can tell, and
 *     some lack what the model needs. */
static bool make_way(struct watch *watch, const char *message) {
    const struct oq_watch_spec *spec = watch->spec;
    size_t slot = oq_watch_model_blamed_slot(message, spec->n_values);
    if (slot != SIZE_MAX && spec->reduce != NULL && !watch->unreduced[slot]) {
        watch->unreduced[slot] = true;
        oq_log_message(spec->log, ONNXPTQ_LOG_INFO, "tensor '%s' is read by an observer: %s",
                       oq_graph_value(spec->graph, spec->values[slot])->name, message);
        return true;
    }
    if (slot != SIZE_MAX && watch->values[slot] != OQ_NONE) {
        watch->values[slot] = OQ_NONE;
        return true;
    }
    if (watch->cpu_only || !oq_runtime_has_accelerators(spec->runtime)) {
        return false;
    }
    watch->cpu_only = true;
    (void)oq_fail(watch->refusal, ONNXPTQ_ERROR_RUNTIME, "%s", message);
    oq_log_message(spec->log, ONNXPTQ_LOG_INFO, "%s runs on CPU: %s", spec->stage, message);
    return true;
}

/* Where neither the providers nor CPU take the model, the providers' reason is the one that the
 * user asked for. */
static enum onnxptq_status load_watched(struct watch *watch, struct onnxptq_error *error) {
    struct onnxptq_error *reasons = calloc(2, sizeof *reasons);
    if (reasons == NULL) {
        return oq_fail_memory(error, "a message");
    }
    watch->refusal = &reasons[1];
    enum onnxptq_status status;
    do {
        status = create_session(watch, &reasons[0]);
    } while (status == ONNXPTQ_ERROR_RUNTIME && make_way(watch, reasons[0].message));
    if (status != ONNXPTQ_OK) {
        bool refused = status == ONNXPTQ_ERROR_RUNTIME && reasons[1].message[0] != '\0';
        status = oq_fail(error, status, "%s", reasons[refused ? 1 : 0].message);
    } else if (watch->cpu_only && watch->spec->refusal != NULL) {
        *watch->spec->refusal = reasons[1];
    }
    watch->refusal = NULL;
    free(reasons);
    return status;
}

/* ---- The runs ---- */

static enum onnxptq_status prefix_samples(const struct watch *watch, const size_t *samples,
                                          size_t n, enum onnxptq_status status,
                                          struct onnxptq_error *error) {
    const char *stage = watch->spec->stage;
    char text[OQ_SAMPLE_TEXT_SIZE];
    if (n == 1) {
        return oq_prefix(error, status, "cannot %s with sample %s: ", stage,
                         oq_data_describe_sample(watch->spec->source, samples[0], text));
    }
    return oq_prefix(error, status, "cannot %s with samples %zu to %zu: ", stage, samples[0],
                     samples[n - 1]);
}

static enum onnxptq_status run_samples(struct watch *watch, const size_t *samples, size_t n,
                                       struct onnxptq_error *error) {
    watch->sample = samples[0];
    OQ_TRY(oq_data_read(watch->spec->source, samples, n, watch->inputs, error));
    oq_runtime_tell_run(watch->spec->runtime, watch->spec->stage, samples[0], n);
    enum onnxptq_status status = oq_session_run(watch->session, watch->inputs, NULL, error);
    if (watch->out_of_memory) {
        return oq_fail_memory(error, "the statistics of a tensor");
    }
    return status == ONNXPTQ_OK ? status : prefix_samples(watch, samples, n, status, error);
}

static enum onnxptq_status run_all(struct watch *watch, struct onnxptq_error *error) {
    const struct oq_watch_spec *spec = watch->spec;
    const struct oq_data_runs *runs = spec->runs;
    size_t n = runs->n_runs;
    if (spec->max_runs > 0 && spec->max_runs < n) {
        n = spec->max_runs;
    }
    for (size_t i = 0; i < n; i++) {
        size_t first = runs->first[i], end = runs->first[i + 1];
        OQ_TRY(run_samples(watch, runs->samples + first, end - first, error));
        enum onnxptq_status status =
            oq_log_progress(spec->log, spec->stage, end, runs->first[n], error);
        if (spec->keep != NULL) {
            bool last = i + 1 == n || status != ONNXPTQ_OK;
            OQ_TRY(spec->keep(spec->keep_user, watch->statistics, i + 1, last, error));
        }
        OQ_TRY(status);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status prepare_watch(struct watch *watch, struct onnxptq_error *error) {
    const struct oq_watch_spec *spec = watch->spec;
    watch->hook = (struct oq_observer_hook){.observe = observe, .user = watch};
    watch->values = calloc(spec->n_values, sizeof *watch->values);
    watch->unreduced = calloc(spec->n_values, sizeof *watch->unreduced);
    if (watch->values == NULL || watch->unreduced == NULL) {
        return oq_fail_memory(error, "the watched tensors");
    }
    for (size_t i = 0; i < spec->n_values; i++) {
        bool skip = oq_watch_model_is_no_tensor(spec->graph, spec->values[i]);
        watch->values[i] = skip ? OQ_NONE : spec->values[i];
    }
    OQ_TRY(load_watched(watch, error));
    size_t n = oq_session_n_inputs(watch->session);
    watch->inputs = calloc(n > 0 ? n : 1, sizeof *watch->inputs);
    return watch->inputs != NULL ? ONNXPTQ_OK : oq_fail_memory(error, "the inputs of the model");
}

static enum onnxptq_status watch_all(struct watch *watch, struct onnxptq_error *error) {
    const struct oq_watch_spec *spec = watch->spec;
    if (spec->histograms) {
        watch->scratch = oq_measure_scratch_create();
        if (watch->scratch == NULL) {
            return oq_fail_memory(error, "the histograms");
        }
    }
    OQ_TRY(prepare_watch(watch, error));
    return run_all(watch, error);
}

enum onnxptq_status oq_watch(const struct oq_watch_spec *spec, struct oq_statistics *statistics,
                             struct onnxptq_error *error) {
    if (spec->n_values == 0) {
        return ONNXPTQ_OK;
    }
    for (size_t i = 0; !spec->continues && i < spec->n_values; i++) {
        oq_statistics_init(&statistics[i]);
    }
    struct watch watch = {.spec = spec, .statistics = statistics};
    enum onnxptq_status status = watch_all(&watch, error);
    for (size_t i = 0; status != ONNXPTQ_OK && i < spec->n_values; i++) {
        oq_statistics_reset(&statistics[i]);
    }
    oq_session_destroy(watch.session);
    oq_measure_scratch_destroy(watch.scratch);
    free(watch.inputs);
    free(watch.unreduced);
    free(watch.values);
    return status;
}
