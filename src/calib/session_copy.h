/*
 * The copy of a model that a session gets: what providers need is added to it and to nothing else,
 * so that the user's model and the output stay as they are.
 */
#ifndef OQ_CALIB_SESSION_COPY_H
#define OQ_CALIB_SESSION_COPY_H

#include "calib/traced_shapes.h"
#include "runtime/runtime.h"

/* A clone of `model` with
 * - the shapes of results that nobody can infer (`shapes` may be NULL: none is known yet);
 * - operators that only a plugin has under the domain that the runtime looks plugins up by;
 * - a seed for operators that draw random numbers and have none: the runtime's own differs from
 *   model to model, so that neither ranges nor the check would mean anything. */
enum onnxptq_status oq_session_copy_create(const struct oq_model *model,
                                           const struct oq_runtime *runtime,
                                           const struct oq_traced_shapes *shapes,
                                           struct oq_model **out, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
