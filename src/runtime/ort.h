/*
 * What the files of this folder share: the loaded runtime and how its errors are passed on. Not
 * for other folders, which never see the runtime's own header.
 */
#ifndef OQ_RUNTIME_ORT_H
#define OQ_RUNTIME_ORT_H

#include "runtime/activity.h"
#include "runtime/custom_ops.h"
#include "runtime/plugins.h"
#include "runtime/providers.h"
#include "runtime/runtime.h"

/* Everything called here is in version 17 of the C API (the last addition is
 * KernelContext_ParallelFor); weights beside a model in memory need release 1.21. */
#define OQ_ORT_API_VERSION 17
#define OQ_ORT_MINOR_MINIMUM 21

struct oq_runtime {
    const OrtApiBase *base; /* the library stays loaded as long as the process */
    const OrtApi *api;
    OrtEnv *env;
    char *path;
    const char *version;
    const struct oq_log *log;
    int threads;
    struct oq_custom_ops custom_ops;
    struct oq_providers providers;
    oq_append_cpu_fn append_cpu; /* NULL: not in this library */
    struct oq_plugins plugins;
    struct oq_activity activity;
};

/* OK for NULL; else stores "<formatted text>: <the runtime's message, on one line>" with `status`
 * and releases `ort`. The text says "cannot <verb> <what>". */
enum onnxptq_status oq_ort_check(const OrtApi *api, OrtStatus *ort, enum onnxptq_status status,
                                 struct onnxptq_error *error, const char *format, ...)
    OQ_PRINTF(5, 6) OQ_MUST_USE;

/* Options of a throw-away session with some of the custom-op libraries, by index, on one thread. */
enum onnxptq_status oq_ort_trial_options(const struct oq_runtime *runtime, const size_t *libraries,
                                         size_t n, OrtSessionOptions **out,
                                         struct onnxptq_error *error) OQ_MUST_USE;

/* Options with all custom-op libraries registered, and nothing else. */
enum onnxptq_status oq_ort_options_create(const struct oq_runtime *runtime, OrtSessionOptions **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;

#endif
