/*
 * The user's execution providers, checked against what this runtime has and appended to sessions.
 *
 * Order: the runtime offers each node to the providers in the user's order and the first that can
 * run it takes it. CPU comes last unless it is listed; providers listed after it only get what CPU
 * cannot run.
 */
#ifndef OQ_RUNTIME_PROVIDERS_H
#define OQ_RUNTIME_PROVIDERS_H

#include "runtime/provider.h"

#include <onnxruntime_c_api.h>

/* Providers and their options as the caller gave them; none is CPU. A provider that this runtime
 * does not have is an error that lists those it has. */
enum onnxptq_status oq_providers_parse(struct oq_providers *providers, const OrtApi *api,
                                       const struct onnxptq_runtime_options *options,
                                       struct onnxptq_error *error) OQ_MUST_USE;
/* For messages: those that this runtime has. */
void oq_providers_list_available(const OrtApi *api, char *text, size_t size);

/* Appends CPU at a place of its own; an export of the runtime library beside its API. */
typedef OrtStatus *(ORT_API_CALL *oq_append_cpu_fn)(OrtSessionOptions *options, int use_arena);

/* `append_cpu` NULL: CPU cannot come before others. */
enum onnxptq_status oq_providers_append(const struct oq_providers *providers,
                                        oq_append_cpu_fn append_cpu, const OrtApi *api,
                                        OrtSessionOptions *options, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
