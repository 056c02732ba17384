/*
 * What a graph says of its tensors: inputs, outputs and value_info, which are lists of the same
 * message.
 */
#ifndef OQ_MODEL_VALUE_INFO_H
#define OQ_MODEL_VALUE_INFO_H

#include "model/model.h"

/* The entry of that name, or NULL. */
Onnx__ValueInfoProto *oq_value_info_find(Onnx__ValueInfoProto *const *infos, size_t n,
                                         const char *name);
/* Element type and shape (may be NULL) of a tensor; NULL when nothing is declared, or no tensor.
 * `info` may be NULL. */
const Onnx__TypeProto__Tensor *oq_value_info_tensor(const Onnx__ValueInfoProto *info);
/* True when it is a tensor all of whose dimensions are numbers. */
bool oq_value_info_is_fixed(const Onnx__ValueInfoProto *info);
/* Removes what the graph's value_info says of that name. */
void oq_value_info_remove(Onnx__GraphProto *graph, const char *name);

#endif
