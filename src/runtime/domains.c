/*
 * Called once by runtime.c, when the libraries are loaded.
 */
#include "runtime/domains.h"

#include "runtime/ort.h"
#include "runtime/stub.h"

#include <stdlib.h>
#include <string.h>

struct trial {
    const struct oq_runtime *runtime;
    uint8_t *model;
    size_t size;
};

/* A session with the chosen libraries; what the runtime says of it goes to `ort`. */
static enum onnxptq_status try_libraries(const struct trial *trial, const size_t *chosen, size_t n,
                                         OrtStatus **ort, struct onnxptq_error *error) {
    const struct oq_runtime *runtime = trial->runtime;
    OrtSessionOptions *options = NULL;
    OrtSession *session = NULL;
    OQ_TRY(oq_ort_trial_options(runtime, chosen, n, &options, error));
    *ort = runtime->api->CreateSessionFromArray(runtime->env, trial->model, trial->size, options,
                                                &session);
    if (session != NULL) {
        runtime->api->ReleaseSession(session);
    }
    runtime->api->ReleaseSessionOptions(options);
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_alone(const struct trial *trial, size_t library,
                                       struct onnxptq_error *error) {
    OrtStatus *ort = NULL;
    oq_activity_tell_load(trial->runtime->custom_ops.activity,
                          oq_runtime_library_name(trial->runtime, library));
    OQ_TRY(try_libraries(trial, &library, 1, &ort, error));
    return oq_ort_check(trial->runtime->api, ort, ONNXPTQ_ERROR_LIBRARY, error,
                        "cannot use the operators of custom operator library '%s'",
                        oq_runtime_library_name(trial->runtime, library));
}

static enum onnxptq_status check_pair(const struct trial *trial, size_t first, size_t second,
                                      struct onnxptq_error *error) {
    const OrtApi *api = trial->runtime->api;
    const char *one = oq_runtime_library_name(trial->runtime, first);
    const char *other = oq_runtime_library_name(trial->runtime, second);
    const size_t chosen[] = {first, second};
    OrtStatus *ort = NULL;
    oq_activity_tell_load(trial->runtime->custom_ops.activity, NULL);
    OQ_TRY(try_libraries(trial, chosen, 2, &ort, error));
    if (ort != NULL && strstr(api->GetErrorMessage(ort), "Domain already set") != NULL) {
        api->ReleaseStatus(ort);
        return oq_fail(error, ONNXPTQ_ERROR_LIBRARY,
                       "cannot use custom operator libraries '%s' and '%s' together: both register "
                       "the same domain, and ONNX Runtime takes a domain from one library only; "
                       "pass one of them, or link their operators into one library",
                       one, other);
    }
    return oq_ort_check(api, ort, ONNXPTQ_ERROR_LIBRARY, error,
                        "cannot use custom operator libraries '%s' and '%s' together", one, other);
}

static enum onnxptq_status check_all(const struct trial *trial, struct onnxptq_error *error) {
    size_t n = oq_runtime_n_libraries(trial->runtime);
    for (size_t i = 0; i < n; i++) {
        OQ_TRY(check_alone(trial, i, error));
        for (size_t j = 0; j < i; j++) {
            OQ_TRY(check_pair(trial, j, i, error));
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_domains_check(const struct oq_runtime *runtime,
                                     struct onnxptq_error *error) {
    struct trial trial = {.runtime = runtime};
    if (oq_runtime_n_libraries(runtime) == 0) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_stub_constant(&trial.model, &trial.size, error));
    enum onnxptq_status status = check_all(&trial, error);
    free(trial.model);
    return status;
}
