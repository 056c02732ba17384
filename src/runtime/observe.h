/*
 * The operators onnxptq::Observe and ObserveReduced (session.h): hand each tensor, or what was
 * computed of it, to a hook.
 */
#ifndef OQ_RUNTIME_OBSERVE_H
#define OQ_RUNTIME_OBSERVE_H

#include "runtime/own_ops.h"

struct oq_observe_kernel {
    const OrtApi *api;
    const struct oq_observer_hook *hook;
    int64_t slot, type; /* type: of ObserveReduced alone */
};

OrtStatus *oq_observe_create(const struct oq_own_op *op, const OrtKernelInfo *info, void **out);
OrtStatus *ORT_API_CALL oq_observe_compute(void *kernel, OrtKernelContext *context);

OrtStatus *oq_observe_reduced_create(const struct oq_own_op *op, const OrtKernelInfo *info,
                                     void **out);
OrtStatus *ORT_API_CALL oq_observe_reduced_compute(void *kernel, OrtKernelContext *context);

#define OQ_OBSERVED_RANK 64 /* at most */
/* Type, rank, shape (into `shape`) and number of elements of a value. */
OrtStatus *oq_observe_read_shape(const OrtApi *api, const OrtValue *value,
                                 struct oq_observed *tensor, int64_t shape[OQ_OBSERVED_RANK]);

#endif
