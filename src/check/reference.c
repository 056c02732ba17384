/*
 * Keeping the outputs of some runs, and measuring other sessions against them.
 */
#include "check/reference.h"

#include "base/arena.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

struct oq_reference {
    struct oq_arena *arena;
    struct oq_runtime *runtime;
    struct oq_data_source *source;
    const struct oq_data_runs *runs;
    size_t n_runs, n_inputs, n_outputs;
    const char **names; /* of the outputs */
    int *types;
    struct onnxptq_tensor *kept; /* n_outputs for each run; `data` is malloc'ed */
};

/* ---- Keeping ------------------------------------------------------------------------------- */

static enum onnxptq_status keep_tensor(const struct onnxptq_tensor *tensor, size_t *n_bytes,
                                       struct onnxptq_tensor *kept, struct onnxptq_error *error) {
    *kept = *tensor;
    kept->name = NULL; /* of the session */
    kept->data = NULL;
    if (tensor->data == NULL) {
        return ONNXPTQ_OK;
    }
    void *copy = malloc(tensor->size > 0 ? tensor->size : 1);
    if (copy == NULL) {
        return oq_fail_memory(error, "the outputs of the original model");
    }
    memcpy(copy, tensor->data, tensor->size);
    kept->data = copy;
    if (!oq_size_add(*n_bytes, tensor->size, n_bytes)) {
        *n_bytes = SIZE_MAX;
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status run_once(struct oq_session *session, const struct oq_reference *of,
                                    size_t run, struct onnxptq_tensor *inputs,
                                    struct onnxptq_tensor *outputs, struct onnxptq_error *error) {
    size_t first = of->runs->first[run], n = of->runs->first[run + 1] - first;
    const size_t *samples = of->runs->samples + first;
    OQ_TRY(oq_data_read(of->source, samples, n, inputs, error));
    oq_runtime_tell_run(of->runtime, "choose", samples[0], n);
    return oq_prefix(error, oq_session_run(session, inputs, outputs, error),
                     "cannot measure with sample %zu: ", samples[0]);
}

static enum onnxptq_status tell(const struct oq_reference_progress *progress, size_t n_samples,
                                struct onnxptq_error *error) {
    return oq_log_progress(progress->log, progress->stage, progress->done + n_samples,
                           progress->total, error);
}

/* Where the tensors of one run are put. */
struct buffers {
    struct onnxptq_tensor *inputs, *outputs;
};

static bool create_buffers(const struct oq_reference *of, struct buffers *buffers) {
    buffers->inputs = calloc(of->n_inputs + 1, sizeof *buffers->inputs);
    buffers->outputs = calloc(of->n_outputs + 1, sizeof *buffers->outputs);
    return buffers->inputs != NULL && buffers->outputs != NULL;
}

static void destroy_buffers(struct buffers *buffers) {
    free(buffers->inputs);
    free(buffers->outputs);
}

static enum onnxptq_status keep_runs(struct oq_reference *reference,
                                     const struct oq_reference_spec *spec,
                                     const struct oq_reference_progress *progress,
                                     const struct buffers *buffers, struct onnxptq_error *error) {
    size_t n = reference->n_outputs, n_bytes = 0;
    for (size_t run = 0; run < spec->runs->n_runs; run++) {
        if (run > 0 && n_bytes > spec->max_bytes) {
            break;
        }
        OQ_TRY(run_once(spec->session, reference, run, buffers->inputs, buffers->outputs, error));
        reference->n_runs = run + 1;
        for (size_t i = 0; i < n; i++) {
            OQ_TRY(
                keep_tensor(&buffers->outputs[i], &n_bytes, &reference->kept[run * n + i], error));
        }
        OQ_TRY(tell(progress, spec->runs->first[run + 1], error));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status allocate(struct oq_reference *reference, struct oq_session *session,
                                    struct onnxptq_error *error) {
    size_t n = reference->n_outputs, n_kept = 0;
    struct oq_arena *arena = reference->arena = oq_arena_create();
    bool good = arena != NULL && oq_size_mul(n, reference->runs->n_runs, &n_kept);
    reference->kept = good ? oq_arena_array(arena, n_kept, sizeof *reference->kept) : NULL;
    reference->names = good ? oq_arena_array(arena, n, sizeof *reference->names) : NULL;
    reference->types = good ? oq_arena_array(arena, n, sizeof *reference->types) : NULL;
    if (reference->kept == NULL || reference->names == NULL || reference->types == NULL) {
        return oq_fail_memory(error, "the outputs of the original model");
    }
    for (size_t i = 0; i < n; i++) {
        const struct onnxptq_tensor *declared = oq_session_output(session, i);
        reference->types[i] = (int)declared->type;
        reference->names[i] = oq_arena_strdup(arena, declared->name);
        if (reference->names[i] == NULL) {
            return oq_fail_memory(error, "the outputs of the original model");
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_reference_create(const struct oq_reference_spec *spec,
                                        const struct oq_reference_progress *progress,
                                        struct oq_reference **out, struct onnxptq_error *error) {
    struct buffers buffers = {0};
    enum onnxptq_status status = ONNXPTQ_OK;
    struct oq_reference *reference = calloc(1, sizeof *reference);
    if (reference == NULL) {
        return oq_fail_memory(error, "the outputs of the original model");
    }
    reference->runtime = spec->runtime;
    reference->source = spec->source;
    reference->runs = spec->runs;
    reference->n_inputs = oq_session_n_inputs(spec->session);
    reference->n_outputs = oq_session_n_outputs(spec->session);
    OQ_TRY_DONE(allocate(reference, spec->session, error));
    if (!create_buffers(reference, &buffers)) {
        status = oq_fail_memory(error, "the outputs of the original model");
        goto done;
    }
    OQ_TRY_DONE(keep_runs(reference, spec, progress, &buffers, error));
    *out = reference;
    reference = NULL;
done:
    destroy_buffers(&buffers);
    oq_reference_destroy(reference);
    return status;
}

void oq_reference_destroy(struct oq_reference *reference) {
    if (reference == NULL) {
        return;
    }
    for (size_t i = 0; reference->kept != NULL && i < reference->n_runs * reference->n_outputs;
         i++) {
        free((void *)(uintptr_t)reference->kept[i].data);
    }
    oq_arena_destroy(reference->arena);
    free(reference);
}

size_t oq_reference_n_outputs(const struct oq_reference *reference) {
    return reference->n_outputs;
}

size_t oq_reference_n_samples(const struct oq_reference *reference) {
    return reference->runs->first[reference->n_runs];
}

/* ---- Comparing ----------------------------------------------------------------------------- */

static enum onnxptq_status
compare_runs(const struct oq_reference *reference, struct oq_session *candidate,
             const struct oq_reference_progress *progress, const struct buffers *buffers,
             struct oq_output_quality *quality, struct onnxptq_error *error) {
    size_t n = reference->n_outputs;
    for (size_t run = 0; run < reference->n_runs; run++) {
        OQ_TRY(run_once(candidate, reference, run, buffers->inputs, buffers->outputs, error));
        for (size_t i = 0; i < n; i++) {
            oq_quality_add(&quality[i], &reference->kept[run * n + i], &buffers->outputs[i]);
        }
        OQ_TRY(tell(progress, reference->runs->first[run + 1], error));
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_reference_compare(const struct oq_reference *reference,
                                         struct oq_session *candidate,
                                         const struct oq_reference_progress *progress,
                                         struct oq_output_quality *quality,
                                         struct onnxptq_error *error) {
    if (oq_session_n_inputs(candidate) != reference->n_inputs ||
        oq_session_n_outputs(candidate) != reference->n_outputs) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot compare the models: the numbers of their inputs or outputs differ");
    }
    for (size_t i = 0; i < reference->n_outputs; i++) {
        oq_quality_init(&quality[i], reference->names[i], reference->types[i]);
    }
    struct buffers buffers = {0};
    enum onnxptq_status status =
        create_buffers(reference, &buffers)
            ? compare_runs(reference, candidate, progress, &buffers, quality, error)
            : oq_fail_memory(error, "the check");
    destroy_buffers(&buffers);
    return status;
}
