/*
 * Running a session once. Values live until the next run.
 */
#include "base/number.h"
#include "runtime/ort.h"
#include "runtime/session.h"
#include "runtime/session_state.h"
#include "runtime/value.h"

#include <stdlib.h>
#include <string.h>

static void release_values(const OrtApi *api, struct oq_session_edge *edge) {
    for (size_t i = 0; i < edge->n; i++) {
        if (edge->values[i] != NULL) {
            api->ReleaseValue(edge->values[i]);
        }
        edge->values[i] = NULL;
    }
}

static void release_inputs(struct oq_session *session) {
    release_values(session->api, &session->inputs);
    for (size_t i = 0; i < session->inputs.n; i++) {
        free(session->copies[i]);
        session->copies[i] = NULL;
    }
}

/* Kernels read whole elements: data that does not lie on a multiple of their size is copied. */
static enum onnxptq_status align_input(struct oq_session *session, size_t index,
                                       struct onnxptq_tensor *tensor, struct onnxptq_error *error) {
    size_t element = oq_type_size((int)tensor->type);
    if (element <= 1 || tensor->size == 0 || (uintptr_t)tensor->data % element == 0) {
        return ONNXPTQ_OK;
    }
    void *copy = malloc(tensor->size);
    if (copy == NULL) {
        return oq_fail_memory(error, "an input of the model");
    }
    memcpy(copy, tensor->data, tensor->size);
    session->copies[index] = copy;
    tensor->data = copy;
    return ONNXPTQ_OK;
}

static enum onnxptq_status feed_inputs(struct oq_session *session,
                                       const struct onnxptq_tensor *inputs,
                                       struct onnxptq_error *error) {
    for (size_t i = 0; i < session->inputs.n; i++) {
        struct onnxptq_tensor tensor = inputs[i];
        tensor.name = session->inputs.names[i];
        OQ_TRY(align_input(session, i, &tensor, error));
        OQ_TRY(oq_value_create(session->api, session->memory, &tensor, &session->inputs.values[i],
                               error));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status run_model(struct oq_session *session, bool all_outputs,
                                     struct onnxptq_error *error) {
    size_t first = all_outputs ? 0 : session->smallest;
    size_t n = all_outputs ? session->outputs.n : 1;
    if (n > session->outputs.n) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL, "cannot run the model: it has no output");
    }
    return oq_ort_check(session->api,
                        session->api->Run(session->session, NULL, session->inputs.names,
                                          (const OrtValue *const *)session->inputs.values,
                                          session->inputs.n, session->outputs.names + first, n,
                                          session->outputs.values + first),
                        ONNXPTQ_ERROR_RUNTIME, error, "cannot run the model in ONNX Runtime for %s",
                        session->purpose);
}

/* The runtime does not name the node that an exception came from when it does not know its type. */
static void name_running_node(const struct oq_session *session, enum onnxptq_status status,
                              struct onnxptq_error *error) {
    const struct onnxptq_activity *now = &session->activity->now;
    if (now->node != NULL && error != NULL && strstr(error->message, now->node) == NULL) {
        (void)oq_suffix(error, status, " while running %s node. Name:'%s'", now->op, now->node);
    }
}

static enum onnxptq_status read_outputs(struct oq_session *session, struct onnxptq_tensor *outputs,
                                        struct onnxptq_error *error) {
    for (size_t i = 0; i < session->outputs.n; i++) {
        outputs[i] = (struct onnxptq_tensor){.name = session->outputs.names[i]};
        OQ_TRY(oq_value_read(session->api, session->outputs.values[i], &outputs[i], error));
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_session_run(struct oq_session *session, const struct onnxptq_tensor *inputs,
                                   struct onnxptq_tensor *outputs, struct onnxptq_error *error) {
    release_values(session->api, &session->outputs);
    release_inputs(session); /* only now: an output may be an input's own memory */
    OQ_TRY(feed_inputs(session, inputs, error));
    enum onnxptq_status status = run_model(session, outputs != NULL, error);
    if (status != ONNXPTQ_OK) {
        name_running_node(session, status, error);
    }
    oq_activity_tell_rest(session->activity);
    OQ_TRY(status);
    if (outputs != NULL) {
        return read_outputs(session, outputs, error);
    }
    release_values(session->api, &session->outputs);
    return ONNXPTQ_OK;
}
