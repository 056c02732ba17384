/*
 * The runtime's errors and the root of every session's options.
 */
#include "runtime/ort.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PREFIX_SIZE 1024

/* A message of ours is one line; the runtime's may hold line breaks. */
static void copy_one_line(char *to, size_t size, const char *from) {
    size_t n = 0;
    for (; *from != '\0' && n + 1 < size; from++) {
        bool space = *from == '\n' || *from == '\r' || *from == '\t' || *from == ' ';
        if (!space) {
            to[n++] = *from;
        } else if (n > 0 && to[n - 1] != ' ') {
            to[n++] = ' ';
        }
    }
    while (n > 0 && to[n - 1] == ' ') {
        n--;
    }
    to[n] = '\0';
}

enum onnxptq_status oq_ort_check(const OrtApi *api, OrtStatus *ort, enum onnxptq_status status,
                                 struct onnxptq_error *error, const char *format, ...) {
    if (ort == NULL) {
        return ONNXPTQ_OK;
    }
    char what[PREFIX_SIZE];
    char reason[ONNXPTQ_ERROR_MESSAGE_SIZE - PREFIX_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    copy_one_line(reason, sizeof reason, api->GetErrorMessage(ort));
    api->ReleaseStatus(ort);
    return oq_fail(error, status, "%s: %s", what, reason[0] != '\0' ? reason : "no reason given");
}

static enum onnxptq_status create_empty(const struct oq_runtime *runtime, OrtSessionOptions **out,
                                        struct onnxptq_error *error) {
    return oq_ort_check(runtime->api, runtime->api->CreateSessionOptions(out),
                        ONNXPTQ_ERROR_RUNTIME, error, "cannot create session options");
}

enum onnxptq_status oq_ort_trial_options(const struct oq_runtime *runtime, const size_t *libraries,
                                         size_t n, OrtSessionOptions **out,
                                         struct onnxptq_error *error) {
    const OrtApi *api = runtime->api;
    OrtSessionOptions *options = NULL;
    OQ_TRY(create_empty(runtime, &options, error));
    enum onnxptq_status status =
        oq_ort_check(api, api->SetIntraOpNumThreads(options, 1), ONNXPTQ_ERROR_RUNTIME, error,
                     "cannot set the threads of a session");
    for (size_t i = 0; i < n && status == ONNXPTQ_OK; i++) {
        status = oq_custom_op_register(&runtime->custom_ops, libraries[i], runtime->base, api,
                                       options, error);
    }
    if (status != ONNXPTQ_OK) {
        api->ReleaseSessionOptions(options);
        return status;
    }
    *out = options;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_ort_options_create(const struct oq_runtime *runtime, OrtSessionOptions **out,
                                          struct onnxptq_error *error) {
    OrtSessionOptions *options = NULL;
    OQ_TRY(create_empty(runtime, &options, error));
    enum onnxptq_status status =
        oq_custom_ops_register(&runtime->custom_ops, runtime->base, runtime->api, options, error);
    if (status != ONNXPTQ_OK) {
        runtime->api->ReleaseSessionOptions(options);
        return status;
    }
    *out = options;
    return ONNXPTQ_OK;
}
