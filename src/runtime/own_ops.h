/*
 * The operators of our own domain (session.h), which are registered in process: sinks of one or
 * more tensors, without outputs.
 */
#ifndef OQ_RUNTIME_OWN_OPS_H
#define OQ_RUNTIME_OWN_OPS_H

#include "runtime/activity.h"
#include "runtime/session.h"

#include <onnxruntime_c_api.h>

/* The runtime keeps the address of the operator and hands it back to each callback, so what a
 * kernel needs rides behind it. */
struct oq_own_op {
    OrtCustomOp base; /* first member */
    const OrtApi *api;
    const char *type;
    size_t n_inputs;
    const void *user; /* what its kernels are for */
};

/* Outlives the session. */
struct oq_own_ops {
    struct oq_own_op observe, observe_reduced, mark;
    const OrtApi *api;
    OrtCustomOpDomain *domain;
};

/* Fills `ops` and registers them with `options`. `hook` may be NULL where no observer is in the
 * model, `activity` where no mark is. */
enum onnxptq_status oq_own_ops_register(struct oq_own_ops *ops, const OrtApi *api,
                                        const struct oq_observer_hook *hook,
                                        struct oq_activity *activity, OrtSessionOptions *options,
                                        struct onnxptq_error *error) OQ_MUST_USE;
/* After the session is gone. */
void oq_own_ops_reset(struct oq_own_ops *ops);

#endif
