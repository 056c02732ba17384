/*
 * What the operators alone say of a value: its constant, rank and element type. Nothing is inferred
 * beyond what holds in every run.
 */
#ifndef OQ_PREPARE_OPSET_VALUE_H
#define OQ_PREPARE_OPSET_VALUE_H

#include "prepare/opset_edit.h"

/* The tensor behind a name: an initializer that no caller can replace, or a Constant; else NULL. */
const Onnx__TensorProto *oq_opset_find_constant(const struct oq_opset_body *body, const char *name);
/* False when unknown. */
bool oq_opset_find_rank(const struct oq_opset_body *body, const char *name, size_t *rank);
/* TensorProto.DataType; FLOAT when unknown, which the runtime refuses where it is wrong. */
int oq_opset_find_type(const struct oq_opset_body *body, const char *name);

#endif
