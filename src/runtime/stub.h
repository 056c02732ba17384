/*
 * Models of one node, to ask the runtime a question.
 */
#ifndef OQ_RUNTIME_STUB_H
#define OQ_RUNTIME_STUB_H

#include "base/error.h"
#include "onnx.pb-c.h"

struct oq_stub {
    const char *domain, *type;
    Onnx__OperatorSetIdProto **imports; /* of the model or function that the node comes from */
    size_t n_imports;
};

/* A node of that type without inputs, followed by one that reads its output and is of OQ_STUB_END,
 * which nobody provides: such a model never loads, and what the runtime complains about first tells
 * whether it knows the type. No kernel is made, so no code of a library runs. `bytes` is malloc'ed.
 */
#define OQ_STUB_END_DOMAIN "onnxptq.end"
#define OQ_STUB_END_TYPE "End"
enum onnxptq_status oq_stub_operator(const struct oq_stub *stub, uint8_t **bytes, size_t *size,
                                     struct onnxptq_error *error) OQ_MUST_USE;

/* A model that every runtime loads: one constant. */
enum onnxptq_status oq_stub_constant(uint8_t **bytes, size_t *size, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
