/*
 * Operators between two quantized tensors, which an integer kernel of ONNX Runtime can take over.
 */
#ifndef OQ_QUANT_BRIDGE_H
#define OQ_QUANT_BRIDGE_H

#include "quant/planner.h"

/* Joins operators between pairs into the quantized region, until nothing more can be joined. */
enum onnxptq_status oq_plan_bridges(struct oq_planner *planner, struct onnxptq_error *error);

/* Results of joined operators and of convolutions. */

/* The tensor to quantize for `value`: behind a Relu or Clip that the pair makes redundant (then
 * `activation` is that node), else `value` itself. */
uint32_t oq_bridge_fold(const struct oq_planner *planner, uint32_t value, uint32_t *activation);
/* Why a result cannot be quantized for all its readers, or NULL. */
const char *oq_bridge_output_obstacle(const struct oq_planner *planner, uint32_t value);
/* Adds a pair that all readers of a result read, the graph's output included. */
void oq_bridge_output_pair(struct oq_planner *planner, uint32_t value, const char *rule,
                           const char *reason);

#endif
