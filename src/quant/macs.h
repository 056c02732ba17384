/*
 * Work of matrix operators.
 */
#ifndef OQ_QUANT_MACS_H
#define OQ_QUANT_MACS_H

#include "calib/statistics.h"
#include "model/graph.h"

/* Multiply-accumulates of a Conv, Gemm or MatMul in the traced sample; 0 for other operators, and
 * where a shape is not known. `trace`: one per value. */
double oq_node_macs(const struct oq_graph *graph, const struct oq_statistics *trace, uint32_t node);

#endif
