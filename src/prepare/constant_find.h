/*
 * Which nodes compute the same whatever the model is fed.
 */
#ifndef OQ_PREPARE_CONSTANT_FIND_H
#define OQ_PREPARE_CONSTANT_FIND_H

#include "prepare/preparation.h"

/* One flag per node of the preparation's index: a pure node (or a call of a pure local function)
 * all of whose inputs are constant. malloc'ed. Foreign operators never count, nor do Q/DQ, control
 * flow, random numbers and what the user excluded. */
enum onnxptq_status oq_constant_find_nodes(const struct oq_preparation *preparation, bool **out,
                                           struct onnxptq_error *error) OQ_MUST_USE;

/* An initializer, dense or sparse, or the result of a constant node. An initializer that is an
 * input of the model too counts as its value. */
bool oq_constant_find_value(const struct oq_graph *graph, const bool *nodes, uint32_t value);

#endif
