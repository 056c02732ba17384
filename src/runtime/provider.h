/*
 * Execution providers as the user wrote them.
 *
 * NAME[:OPTION[;OPTION]...], an option being a device number or key=value. NAME is the runtime's
 * name, with or without "ExecutionProvider", in any case: "cpu", "cuda:0",
 * "openvino:device_type=CPU"; "trt" is TensorRT.
 */
#ifndef OQ_RUNTIME_PROVIDER_H
#define OQ_RUNTIME_PROVIDER_H

#include "base/error.h"

struct oq_provider {
    char *text;            /* as the user wrote it */
    char *name;            /* as the runtime calls it, e.g. "CUDAExecutionProvider" */
    char **keys, **values; /* malloc'ed texts; no key twice */
    size_t n_options, capacity_keys, capacity_values;
};

struct oq_providers {
    struct oq_provider *items; /* malloc'ed, without duplicates */
    size_t n;
};

#define OQ_PROVIDER_CPU "CPUExecutionProvider"
#define OQ_PROVIDER_CUDA "CUDAExecutionProvider"
#define OQ_PROVIDER_TENSORRT "TensorrtExecutionProvider"
#define OQ_PROVIDER_DNNL "DnnlExecutionProvider"

void oq_provider_reset(struct oq_provider *provider);
void oq_providers_reset(struct oq_providers *providers);

/* "cpu", "CPUExecutionProvider", "trt", any case: does `text` (its first n bytes) mean the provider
 * that the runtime calls `name`? */
bool oq_provider_is_called(const char *name, const char *text, size_t n);
/* True for providers whose tensors do not lie in host memory. */
bool oq_provider_has_own_memory(const struct oq_provider *provider);

/* For messages: those of the user as written, "cpu" where there are none; */
void oq_providers_list(const struct oq_providers *providers, bool cpu_only, char *text,
                       size_t size);
/* names of the runtime's, "cpu (CPUExecutionProvider), ..."; */
void oq_provider_list_names(char *text, size_t size, char **names, int n);
/* options of one: "a=1, b=2", "none". */
void oq_provider_list_options(const struct oq_provider *provider, char *text, size_t size);

/* ---- Options ---- */

/* Those written behind the name: "0", "device_type=CPU;num_streams=2". */
enum onnxptq_status oq_provider_add_inline(struct oq_provider *provider, const char *text,
                                           struct onnxptq_error *error) OQ_MUST_USE;
/* Those of provider_options, then those of TensorRT. */
enum onnxptq_status oq_providers_add_options(struct oq_providers *providers,
                                             const struct onnxptq_runtime_options *options,
                                             struct onnxptq_error *error) OQ_MUST_USE;
/* Those of trt_plugins and trt_profile_* alone (provider_tensorrt.c). */
enum onnxptq_status oq_providers_add_tensorrt(struct oq_providers *providers,
                                              const struct onnxptq_runtime_options *options,
                                              struct onnxptq_error *error) OQ_MUST_USE;
/* Adds an option, or changes it; `value` is copied. */
enum onnxptq_status oq_provider_set(struct oq_provider *provider, const char *key,
                                    const char *value, struct onnxptq_error *error) OQ_MUST_USE;

#endif
