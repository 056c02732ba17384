/*
 * The options of a session, from the user's options and what the session is for.
 */
#ifndef OQ_RUNTIME_SESSION_OPTIONS_H
#define OQ_RUNTIME_SESSION_OPTIONS_H

#include "runtime/ort.h"
#include "runtime/session.h"

/* Libraries, providers, threads and the settings of `spec`; no observer yet. */
enum onnxptq_status oq_session_options_create(const struct oq_runtime *runtime,
                                              const struct oq_session_spec *spec,
                                              OrtSessionOptions **out, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
