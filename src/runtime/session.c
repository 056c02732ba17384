/*
 * Building a session and reading its declarations. Running it is in session_run.c.
 */
#include "runtime/session.h"

#include "base/size.h"
#include "model/value_info.h"
#include "runtime/ort.h"
#include "runtime/session_options.h"
#include "runtime/session_state.h"
#include "runtime/value.h"

#include <stdlib.h>
#include <string.h>

/* What the runtime calls a warning (a kernel it would rather have, an unused initializer) is about
 * the user's model, not about what we do with it: detail. */
static void ORT_API_CALL log_message(void *param, OrtLoggingLevel severity, const char *category,
                                     const char *logid, const char *location, const char *message) {
    struct oq_session_logger *logger = param;
    (void)category;
    (void)logid;
    (void)location;
    (void)pthread_mutex_lock(&logger->lock);
    oq_log_message(logger->log,
                   severity >= ORT_LOGGING_LEVEL_ERROR ? ONNXPTQ_LOG_INFO : ONNXPTQ_LOG_DEBUG,
                   "ONNX Runtime: %s", message);
    (void)pthread_mutex_unlock(&logger->lock);
}

/* ---- Declarations ---- */

typedef OrtStatus *(ORT_API_CALL *count_fn)(const OrtSession *, size_t *);
typedef OrtStatus *(ORT_API_CALL *name_fn)(const OrtSession *, size_t, OrtAllocator *, char **);
typedef OrtStatus *(ORT_API_CALL *type_fn)(const OrtSession *, size_t, OrtTypeInfo **);

static enum onnxptq_status read_name(const struct oq_session *session, name_fn get, size_t index,
                                     const char **out, struct onnxptq_error *error) {
    OrtAllocator *allocator = NULL;
    char *theirs = NULL;
    OrtStatus *ort = session->api->GetAllocatorWithDefaultOptions(&allocator);
    if (ort == NULL) {
        ort = get(session->session, index, allocator, &theirs);
    }
    OQ_TRY(oq_ort_check(session->api, ort, ONNXPTQ_ERROR_RUNTIME, error,
                        "cannot read the names of a model's inputs and outputs"));
    char *ours = theirs != NULL ? strdup(theirs) : NULL;
    ort = session->api->AllocatorFree(allocator, theirs);
    if (ort != NULL) {
        session->api->ReleaseStatus(ort);
    }
    if (ours == NULL) {
        return oq_fail_memory(error, "a name");
    }
    *out = ours;
    return ONNXPTQ_OK;
}

static enum onnxptq_status read_type(const struct oq_session *session, type_fn get, size_t index,
                                     struct onnxptq_tensor *out, struct onnxptq_error *error) {
    OrtTypeInfo *info = NULL;
    OQ_TRY(oq_ort_check(session->api, get(session->session, index, &info), ONNXPTQ_ERROR_RUNTIME,
                        error, "cannot read the type of '%s'", out->name));
    enum onnxptq_status status = oq_value_read_declaration(session->api, info, out, error);
    session->api->ReleaseTypeInfo(info);
    return status;
}

static enum onnxptq_status read_edge(const struct oq_session *session, count_fn count, name_fn name,
                                     type_fn type, struct oq_session_edge *edge,
                                     struct onnxptq_error *error) {
    size_t n = 0;
    OQ_TRY(oq_ort_check(session->api, count(session->session, &n), ONNXPTQ_ERROR_RUNTIME, error,
                        "cannot count a model's inputs and outputs"));
    edge->tensors = calloc(n + 1, sizeof *edge->tensors);
    edge->names = calloc(n + 1, sizeof *edge->names);
    edge->values = calloc(n + 1, sizeof *edge->values);
    if (edge->tensors == NULL || edge->names == NULL || edge->values == NULL) {
        return oq_fail_memory(error, "the inputs and outputs of a session");
    }
    edge->n = n;
    for (size_t i = 0; i < n; i++) {
        OQ_TRY(read_name(session, name, i, &edge->names[i], error));
        edge->tensors[i].name = edge->names[i];
        OQ_TRY(read_type(session, type, i, &edge->tensors[i], error));
    }
    return ONNXPTQ_OK;
}

static bool lacks_shape(Onnx__ValueInfoProto *const *infos, size_t n, const char *name) {
    const Onnx__TypeProto__Tensor *declared =
        oq_value_info_tensor(oq_value_info_find(infos, n, name));
    return declared != NULL && declared->shape == NULL;
}

static bool has_scalar(const struct oq_session_edge *edge) {
    for (size_t i = 0; i < edge->n; i++) {
        if (edge->tensors[i].rank == 0 && edge->tensors[i].type != ONNXPTQ_TYPE_UNDEFINED) {
            return true;
        }
    }
    return false;
}

static void mark_unknown(struct oq_session_edge *edge, Onnx__ValueInfoProto *const *infos,
                         size_t n) {
    for (size_t i = 0; i < edge->n; i++) {
        if (edge->tensors[i].rank == 0 && lacks_shape(infos, n, edge->names[i])) {
            edge->tensors[i].type = ONNXPTQ_TYPE_UNDEFINED;
        }
    }
}

/* The runtime's answer for a declaration without a shape is that for a scalar; the model itself
 * tells them apart. */
static enum onnxptq_status find_unknown_ranks(struct oq_session *session,
                                              const struct oq_session_spec *spec,
                                              struct onnxptq_error *error) {
    if (!has_scalar(&session->inputs) && !has_scalar(&session->outputs)) {
        return ONNXPTQ_OK;
    }
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, spec->size, spec->model);
    if (model == NULL) {
        return oq_fail_memory(error, "the declarations of a model");
    }
    const Onnx__GraphProto *graph = model->graph;
    if (graph != NULL) {
        mark_unknown(&session->inputs, graph->input, graph->n_input);
        mark_unknown(&session->outputs, graph->output, graph->n_output);
    }
    onnx__model_proto__free_unpacked(model, NULL);
    return ONNXPTQ_OK;
}

/* A run has to fetch one output; unknown dimensions count as large. */
static size_t find_smallest(const struct oq_session_edge *outputs) {
    size_t best = 0, best_elements = SIZE_MAX;
    for (size_t i = 0; i < outputs->n; i++) {
        const struct onnxptq_tensor *output = &outputs->tensors[i];
        size_t elements;
        if (output->type != ONNXPTQ_TYPE_UNDEFINED &&
            oq_shape_elements(output->shape, output->rank, &elements) && elements < best_elements) {
            best = i;
            best_elements = elements;
        }
    }
    return best;
}

/* ---- Creation ---- */

/* The runtime knows the operator, and no provider of the session runs it: a library may have made
 * its kernel for another one. */
#define NO_KERNEL "Could not find an implementation for"
static enum onnxptq_status explain_no_kernel(const struct oq_runtime *runtime,
                                             const struct oq_session_spec *spec,
                                             enum onnxptq_status status,
                                             struct onnxptq_error *error) {
    char chosen[256], available[1024];
    oq_providers_list(&runtime->providers, spec->cpu_only, chosen, sizeof chosen);
    oq_providers_list_available(runtime->api, available, sizeof available);
    return oq_suffix(error, status,
                     "; the providers of this session (%s) have no kernel for it: if it is a "
                     "custom operator made for another provider, name that with --providers (this "
                     "runtime has %s), else it lacks these element types",
                     chosen, available);
}

static enum onnxptq_status load_model(struct oq_session *session, struct oq_runtime *runtime,
                                      const struct oq_session_spec *spec,
                                      OrtSessionOptions *options, struct onnxptq_error *error) {
    const OrtApi *api = session->api;
    OQ_TRY(oq_own_ops_register(&session->own, api, spec->hook, &runtime->activity, options, error));
    OrtStatus *ort = api->SetUserLoggingFunction(options, log_message, &session->logger);
    if (ort == NULL) {
        ort = api->SetSessionLogSeverityLevel(options, ORT_LOGGING_LEVEL_WARNING);
    }
    if (ort == NULL) {
        ort = api->CreateSessionFromArray(runtime->env, spec->model, spec->size, options,
                                          &session->session);
    }
    bool no_kernel = ort != NULL && strstr(api->GetErrorMessage(ort), NO_KERNEL) != NULL;
    enum onnxptq_status status =
        oq_ort_check(api, ort, ONNXPTQ_ERROR_RUNTIME, error,
                     "cannot load the model in ONNX Runtime for %s", session->purpose);
    return no_kernel ? explain_no_kernel(runtime, spec, status, error) : status;
}

static enum onnxptq_status read_declarations(struct oq_session *session,
                                             const struct oq_session_spec *spec,
                                             struct onnxptq_error *error) {
    const OrtApi *api = session->api;
    OQ_TRY(read_edge(session, api->SessionGetInputCount, api->SessionGetInputName,
                     api->SessionGetInputTypeInfo, &session->inputs, error));
    OQ_TRY(read_edge(session, api->SessionGetOutputCount, api->SessionGetOutputName,
                     api->SessionGetOutputTypeInfo, &session->outputs, error));
    OQ_TRY(find_unknown_ranks(session, spec, error));
    session->smallest = find_smallest(&session->outputs);
    session->copies = calloc(session->inputs.n + 1, sizeof *session->copies);
    if (session->copies == NULL) {
        return oq_fail_memory(error, "a session");
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status build_session(struct oq_session *session, struct oq_runtime *runtime,
                                         const struct oq_session_spec *spec,
                                         struct onnxptq_error *error) {
    const OrtApi *api = session->api;
    if (session->purpose == NULL) {
        return oq_fail_memory(error, "a session");
    }
    OQ_TRY(oq_ort_check(
        api, api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &session->memory),
        ONNXPTQ_ERROR_RUNTIME, error, "cannot describe memory to ONNX Runtime"));
    OrtSessionOptions *options = NULL;
    oq_activity_tell_run(session->activity, session->purpose, 0, 0);
    OQ_TRY(oq_session_options_create(runtime, spec, &options, error));
    enum onnxptq_status status = load_model(session, runtime, spec, options, error);
    api->ReleaseSessionOptions(options);
    oq_activity_tell_rest(session->activity);
    return status != ONNXPTQ_OK ? status : read_declarations(session, spec, error);
}

enum onnxptq_status oq_session_create(struct oq_runtime *runtime,
                                      const struct oq_session_spec *spec, struct oq_session **out,
                                      struct onnxptq_error *error) {
    struct oq_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return oq_fail_memory(error, "a session");
    }
    session->api = runtime->api;
    session->activity = &runtime->activity;
    session->logger.log = runtime->log;
    session->purpose = strdup(spec->purpose != NULL ? spec->purpose : "running");
    if (pthread_mutex_init(&session->logger.lock, NULL) != 0) {
        free(session->purpose);
        free(session);
        return oq_fail_memory(error, "a session");
    }
    enum onnxptq_status status = build_session(session, runtime, spec, error);
    if (status != ONNXPTQ_OK) {
        oq_session_destroy(session);
        return status;
    }
    *out = session;
    return ONNXPTQ_OK;
}

static void reset_edge(const OrtApi *api, struct oq_session_edge *edge) {
    for (size_t i = 0; i < edge->n; i++) {
        if (edge->values[i] != NULL) {
            api->ReleaseValue(edge->values[i]);
        }
        free((void *)(uintptr_t)edge->names[i]);
    }
    free(edge->tensors);
    free(edge->names);
    free(edge->values);
}

void oq_session_destroy(struct oq_session *session) {
    if (session == NULL) {
        return;
    }
    for (size_t i = 0; session->copies != NULL && i < session->inputs.n; i++) {
        free(session->copies[i]);
    }
    free(session->copies);
    reset_edge(session->api, &session->inputs);
    reset_edge(session->api, &session->outputs);
    if (session->session != NULL) {
        oq_activity_tell_close(session->activity);
        session->api->ReleaseSession(session->session);
        oq_activity_tell_rest(session->activity);
    }
    if (session->memory != NULL) {
        session->api->ReleaseMemoryInfo(session->memory);
    }
    oq_own_ops_reset(&session->own);
    (void)pthread_mutex_destroy(&session->logger.lock);
    free(session->purpose);
    free(session);
}

size_t oq_session_n_inputs(const struct oq_session *session) {
    return session->inputs.n;
}

size_t oq_session_n_outputs(const struct oq_session *session) {
    return session->outputs.n;
}

const struct onnxptq_tensor *oq_session_input(const struct oq_session *session, size_t index) {
    return &session->inputs.tensors[index];
}

const struct onnxptq_tensor *oq_session_output(const struct oq_session *session, size_t index) {
    return &session->outputs.tensors[index];
}
