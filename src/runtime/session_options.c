/*
 * Used by session.c alone: so no session lacks a library or a provider.
 */
#include "runtime/session_options.h"

static OrtStatus *set_config(const OrtApi *api, OrtSessionOptions *options,
                             const struct oq_session_spec *spec) {
    /* Two sessions take turns when models are compared: the one at rest must leave the processors
     * alone. */
    OrtStatus *ort = api->AddSessionConfigEntry(options, "session.force_spinning_stop", "1");
    if (ort == NULL && spec->no_prepacking) {
        ort = api->AddSessionConfigEntry(options, "session.disable_prepacking", "1");
    }
    if (ort == NULL && spec->optimization == OQ_OPTIMIZE_FLOAT) {
        ort = api->AddSessionConfigEntry(options, "session.disable_quant_qdq", "1");
    }
    if (ort == NULL && spec->weights_folder != NULL) {
        ort = api->AddSessionConfigEntry(
            options, "session.model_external_initializers_file_folder_path", spec->weights_folder);
    }
    return ort;
}

static OrtStatus *set_execution(const OrtApi *api, OrtSessionOptions *options,
                                const struct oq_session_spec *spec, int threads) {
    GraphOptimizationLevel level =
        spec->optimization == OQ_OPTIMIZE_NONE ? ORT_DISABLE_ALL : ORT_ENABLE_ALL;
    OrtStatus *ort = api->SetSessionGraphOptimizationLevel(options, level);
    if (ort == NULL) {
        ort = api->SetSessionExecutionMode(options, ORT_SEQUENTIAL);
    }
    if (ort == NULL && threads > 0) {
        ort = api->SetIntraOpNumThreads(options, threads);
    }
    return ort != NULL ? ort : set_config(api, options, spec);
}

enum onnxptq_status oq_session_options_create(const struct oq_runtime *runtime,
                                              const struct oq_session_spec *spec,
                                              OrtSessionOptions **out,
                                              struct onnxptq_error *error) {
    const OrtApi *api = runtime->api;
    OrtSessionOptions *options = NULL;
    OQ_TRY(oq_ort_options_create(runtime, &options, error));
    enum onnxptq_status status =
        oq_ort_check(api, set_execution(api, options, spec, runtime->threads),
                     ONNXPTQ_ERROR_RUNTIME, error, "cannot set the options of a session");
    if (status == ONNXPTQ_OK && !spec->cpu_only) {
        status = oq_providers_append(&runtime->providers, runtime->append_cpu, api, options, error);
    }
    if (status != ONNXPTQ_OK) {
        api->ReleaseSessionOptions(options);
        return status;
    }
    *out = options;
    return ONNXPTQ_OK;
}
