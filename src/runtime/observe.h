/*
 * The operator onnxptq::Observe: hands each tensor it is given to a hook. One input of any tensor
 * type, no output, attribute `slot`.
 */
#ifndef OQ_RUNTIME_OBSERVE_H
#define OQ_RUNTIME_OBSERVE_H

#include "runtime/session.h"

#include <onnxruntime_c_api.h>

/* The runtime keeps the address of the operator and hands it back to each callback, so what a
 * kernel needs rides behind it. Outlives the session. */
struct oq_observe_op {
    OrtCustomOp base; /* first member */
    const OrtApi *api;
    const struct oq_observer_hook *hook;
    OrtCustomOpDomain *domain;
};

/* Fills `op` and registers it with `options`. */
enum onnxptq_status oq_observe_register(struct oq_observe_op *op, const OrtApi *api,
                                        const struct oq_observer_hook *hook,
                                        OrtSessionOptions *options, struct onnxptq_error *error)
    OQ_MUST_USE;
/* After the session is gone. */
void oq_observe_reset(struct oq_observe_op *op);

#endif
