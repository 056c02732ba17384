/*
 * Execution providers: what the user wrote, checked against what this runtime has, appended to
 * sessions.
 *
 * NAME[:OPTION[;OPTION]...], an option being a device number or key=value. NAME is the runtime's
 * name, with or without "ExecutionProvider", in any case: "cpu", "cuda:0",
 * "openvino:device_type=CPU"; "trt" is TensorRT.
 *
 * Order: the runtime offers each node to the providers in the user's order and the first that can
 * run it takes it. CPU comes last unless it is listed; providers listed after it only get what CPU
 * cannot run.
 */
#ifndef OQ_RUNTIME_PROVIDERS_H
#define OQ_RUNTIME_PROVIDERS_H

#include "base/error.h"

#include <onnxruntime_c_api.h>

struct oq_provider {
    char *text;    /* as the user wrote it */
    char *name;    /* as the runtime calls it, e.g. "CUDAExecutionProvider" */
    char *options; /* what `keys` and `values` point into */
    const char **keys, **values;
    size_t n_options;
};

/* Appends CPU at a place of its own; an export of the runtime library beside its API. */
typedef OrtStatus *(ORT_API_CALL *oq_append_cpu_fn)(OrtSessionOptions *options, int use_arena);

struct oq_providers {
    struct oq_provider *items; /* without duplicates */
    size_t n;
    oq_append_cpu_fn append_cpu; /* NULL: CPU cannot come before others */
};

/* n == 0 is CPU. A provider that this runtime does not have is an error that lists those it has. */
enum onnxptq_status oq_providers_parse(struct oq_providers *providers, const OrtApi *api,
                                       const char *const *texts, size_t n,
                                       struct onnxptq_error *error) OQ_MUST_USE;
void oq_providers_reset(struct oq_providers *providers);

enum onnxptq_status oq_providers_append(const struct oq_providers *providers, const OrtApi *api,
                                        OrtSessionOptions *options, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
