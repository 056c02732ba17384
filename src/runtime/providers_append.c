/*
 * Appending execution providers to session options: those with calls of their own, and the others
 * by name.
 */
#include "runtime/ort.h"

#include <string.h>

static OrtStatus *append_cpu(const struct oq_providers *all, const struct oq_provider *provider,
                             const OrtApi *api, OrtSessionOptions *options) {
    (void)api;
    bool last = provider == &all->items[all->n - 1];
    /* The runtime appends CPU by itself at the end. */
    return last || all->append_cpu == NULL ? NULL : all->append_cpu(options, 1);
}

static OrtStatus *append_cuda(const struct oq_providers *all, const struct oq_provider *provider,
                              const OrtApi *api, OrtSessionOptions *options) {
    (void)all;
    OrtCUDAProviderOptionsV2 *cuda = NULL;
    OrtStatus *ort = api->CreateCUDAProviderOptions(&cuda);
    if (ort == NULL && provider->n_options > 0) {
        ort = api->UpdateCUDAProviderOptions(cuda, provider->keys, provider->values,
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

static OrtStatus *append_tensorrt(const struct oq_providers *all,
                                  const struct oq_provider *provider, const OrtApi *api,
                                  OrtSessionOptions *options) {
    (void)all;
    OrtTensorRTProviderOptionsV2 *tensorrt = NULL;
    OrtStatus *ort = api->CreateTensorRTProviderOptions(&tensorrt);
    if (ort == NULL && provider->n_options > 0) {
        ort = api->UpdateTensorRTProviderOptions(tensorrt, provider->keys, provider->values,
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

static OrtStatus *append_dnnl(const struct oq_providers *all, const struct oq_provider *provider,
                              const OrtApi *api, OrtSessionOptions *options) {
    (void)all;
    OrtDnnlProviderOptions *dnnl = NULL;
    OrtStatus *ort = api->CreateDnnlProviderOptions(&dnnl);
    if (ort == NULL && provider->n_options > 0) {
        ort = api->UpdateDnnlProviderOptions(dnnl, provider->keys, provider->values,
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

/* The call by name wants the name without "ExecutionProvider", some in capitals. */
static OrtStatus *append_by_name(const struct oq_providers *all, const struct oq_provider *provider,
                                 const OrtApi *api, OrtSessionOptions *options) {
    (void)all;
    char stem[128];
    size_t n = strlen(provider->name), suffix = strlen("ExecutionProvider");
    if (n > suffix && strcmp(provider->name + n - suffix, "ExecutionProvider") == 0) {
        n -= suffix;
    }
    if (n >= sizeof stem) {
        n = sizeof stem - 1;
    }
    memcpy(stem, provider->name, n);
    stem[n] = '\0';
    const char *name = strcmp(stem, "Azure") == 0     ? "AZURE"
                       : strcmp(stem, "Xnnpack") == 0 ? "XNNPACK"
                                                      : stem;
    return api->SessionOptionsAppendExecutionProvider(options, name, provider->keys,
                                                      provider->values, provider->n_options);
}

static const struct {
    const char *name;
    OrtStatus *(*append)(const struct oq_providers *, const struct oq_provider *, const OrtApi *,
                         OrtSessionOptions *);
} own_calls[] = {
    {"CPUExecutionProvider", append_cpu},
    {"CUDAExecutionProvider", append_cuda},
    {"TensorrtExecutionProvider", append_tensorrt},
    {"DnnlExecutionProvider", append_dnnl},
};

static OrtStatus *append_one(const struct oq_providers *all, const struct oq_provider *provider,
                             const OrtApi *api, OrtSessionOptions *options) {
    for (size_t i = 0; i < sizeof own_calls / sizeof own_calls[0]; i++) {
        if (strcmp(provider->name, own_calls[i].name) == 0) {
            return own_calls[i].append(all, provider, api, options);
        }
    }
    return append_by_name(all, provider, api, options);
}

enum onnxptq_status oq_providers_append(const struct oq_providers *providers, const OrtApi *api,
                                        OrtSessionOptions *options, struct onnxptq_error *error) {
    for (size_t i = 0; i < providers->n; i++) {
        OQ_TRY(oq_ort_check(api, append_one(providers, &providers->items[i], api, options),
                            ONNXPTQ_ERROR_RUNTIME, error, "cannot use execution provider '%s'",
                            providers->items[i].text));
    }
    return ONNXPTQ_OK;
}
