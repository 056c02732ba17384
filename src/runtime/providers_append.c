/*
 * Appending execution providers to session options: those with calls of their own, and the others
 * by name.
 */
#include "runtime/ort.h"

#include <string.h>

/* The runtime wants pointers to texts that it does not change. */
static const char *const *keys(const struct oq_provider *provider) {
    return (const char *const *)provider->keys;
}

static const char *const *values(const struct oq_provider *provider) {
    return (const char *const *)provider->values;
}

static OrtStatus *append_cuda(const struct oq_provider *provider, const OrtApi *api,
                              OrtSessionOptions *options) {
    OrtCUDAProviderOptionsV2 *cuda = NULL;
    OrtStatus *ort = api->CreateCUDAProviderOptions(&cuda);
    if (ort == NULL && provider->n_options > 0) {
        ort = api->UpdateCUDAProviderOptions(cuda, keys(provider), values(provider),
                                             provider->n_options);
    }
    if (ort == NULL) {
        ort = api->SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda);
    }
    if (cuda != NULL) {
        api->ReleaseCUDAProviderOptions(cuda);
    }
    return ort;
}

static OrtStatus *append_tensorrt(const struct oq_provider *provider, const OrtApi *api,
                                  OrtSessionOptions *options) {
    OrtTensorRTProviderOptionsV2 *tensorrt = NULL;
    OrtStatus *ort = api->CreateTensorRTProviderOptions(&tensorrt);
    if (ort == NULL && provider->n_options > 0) {
        ort = api->UpdateTensorRTProviderOptions(tensorrt, keys(provider), values(provider),
                                                 provider->n_options);
    }
    if (ort == NULL) {
        ort = api->SessionOptionsAppendExecutionProvider_TensorRT_V2(options, tensorrt);
    }
    if (tensorrt != NULL) {
        api->ReleaseTensorRTProviderOptions(tensorrt);
    }
    return ort;
}

static OrtStatus *append_dnnl(const struct oq_provider *provider, const OrtApi *api,
                              OrtSessionOptions *options) {
    OrtDnnlProviderOptions *dnnl = NULL;
    OrtStatus *ort = api->CreateDnnlProviderOptions(&dnnl);
    if (ort == NULL && provider->n_options > 0) {
        ort = api->UpdateDnnlProviderOptions(dnnl, keys(provider), values(provider),
                                             provider->n_options);
    }
    if (ort == NULL) {
        ort = api->SessionOptionsAppendExecutionProvider_Dnnl(options, dnnl);
    }
    if (dnnl != NULL) {
        api->ReleaseDnnlProviderOptions(dnnl);
    }
    return ort;
}

/* The call by name wants the name without "ExecutionProvider", and of some another spelling. */
static const char *name_for_call(const char *name, char stem[128]) {
    static const char *const spelled[][2] = {
        {"Azure", "AZURE"}, {"Xnnpack", "XNNPACK"}, {"Dml", "DML"},
        {"WebNN", "WEBNN"}, {"WebGpu", "WebGPU"},   {"NvTensorRTRTX", "NvTensorRtRtx"}};
    size_t n = strlen(name), suffix = strlen("ExecutionProvider");
    if (n > suffix && strcmp(name + n - suffix, "ExecutionProvider") == 0) {
        n -= suffix;
    }
    n = n < 128 ? n : 127;
    memcpy(stem, name, n);
    stem[n] = '\0';
    for (size_t i = 0; i < sizeof spelled / sizeof spelled[0]; i++) {
        if (strcmp(stem, spelled[i][0]) == 0) {
            return spelled[i][1];
        }
    }
    return stem;
}

static OrtStatus *append_by_name(const struct oq_provider *provider, const OrtApi *api,
                                 OrtSessionOptions *options) {
    char stem[128];
    return api->SessionOptionsAppendExecutionProvider(options, name_for_call(provider->name, stem),
                                                      keys(provider), values(provider),
                                                      provider->n_options);
}

static const struct {
    const char *name;
    OrtStatus *(*append)(const struct oq_provider *, const OrtApi *, OrtSessionOptions *);
} own_calls[] = {
    {OQ_PROVIDER_CUDA, append_cuda},
    {OQ_PROVIDER_TENSORRT, append_tensorrt},
    {OQ_PROVIDER_DNNL, append_dnnl},
};

static OrtStatus *append_one(const struct oq_provider *provider, const OrtApi *api,
                             OrtSessionOptions *options) {
    for (size_t i = 0; i < sizeof own_calls / sizeof own_calls[0]; i++) {
        if (strcmp(provider->name, own_calls[i].name) == 0) {
            return own_calls[i].append(provider, api, options);
        }
    }
    return append_by_name(provider, api, options);
}

/* The runtime tells the reason of some failures to its log alone. */
static enum onnxptq_status check_append(const struct oq_provider *provider, const OrtApi *api,
                                        OrtStatus *ort, struct onnxptq_error *error) {
    char options[512];
    oq_provider_list_options(provider, options, sizeof options);
    enum onnxptq_status status = oq_ort_check(api, ort, ONNXPTQ_ERROR_RUNTIME, error,
                                              "cannot use execution provider '%s'", provider->text);
    return oq_suffix(error, status,
                     "; check its options (%s), and that its own libraries are there", options);
}

enum onnxptq_status oq_providers_append(const struct oq_providers *providers,
                                        oq_append_cpu_fn append_cpu, const OrtApi *api,
                                        OrtSessionOptions *options, struct onnxptq_error *error) {
    for (size_t i = 0; i < providers->n; i++) {
        const struct oq_provider *provider = &providers->items[i];
        OrtStatus *ort = NULL;
        if (strcmp(provider->name, OQ_PROVIDER_CPU) != 0) {
            ort = append_one(provider, api, options);
        } else if (i + 1 < providers->n && append_cpu != NULL) {
            ort = append_cpu(options, 1); /* as the last it is appended by the runtime itself */
        }
        OQ_TRY(check_append(provider, api, ort, error));
    }
    return ONNXPTQ_OK;
}
