/*
 * onnxptq::Mark: tells that a node begins, or has ended (activity.h). It reads a tensor that the
 * node reads, or gives.
 */
#ifndef OQ_RUNTIME_MARK_H
#define OQ_RUNTIME_MARK_H

#include "runtime/own_ops.h"

OrtStatus *oq_mark_create(const struct oq_own_op *op, const OrtKernelInfo *info, void **kernel);
OrtStatus *ORT_API_CALL oq_mark_compute(void *kernel, OrtKernelContext *context);
void ORT_API_CALL oq_mark_destroy(void *kernel);

#endif
