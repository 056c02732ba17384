/*
 * Multiply-accumulates from traced shapes.
 */
#include "quant/macs.h"

/* Dimensions of a value; false when they are not known. */
static bool dims_of(const struct oq_graph *graph, const struct oq_statistics *trace, uint32_t value,
                    const int64_t **dims, size_t *rank) {
    const Onnx__TensorProto *constant = value == OQ_NONE ? NULL : oq_graph_constant(graph, value);
    if (value == OQ_NONE) {
        return false;
    }
    *dims = constant != NULL ? constant->dims : trace[value].shape;
    *rank = constant != NULL ? constant->n_dims : trace[value].rank;
    return constant != NULL || (trace[value].seen > 0 && !trace[value].rank_varies);
}

static double product(const int64_t *dims, size_t from, size_t to) {
    double n = 1.0;
    for (size_t i = from; i < to; i++) {
        n *= dims[i] > 0 ? (double)dims[i] : 0.0;
    }
    return n;
}

double oq_node_macs(const struct oq_graph *graph, const struct oq_statistics *trace,
                    uint32_t node) {
    const struct oq_node *n = oq_graph_node(graph, node);
    const int64_t *out, *in, *weight;
    size_t out_rank, in_rank, weight_rank;
    if (trace == NULL || !oq_operator_is_weighted(n->op) || n->proto->n_output == 0 ||
        !dims_of(graph, trace, n->outputs[0], &out, &out_rank) ||
        !dims_of(graph, trace, oq_node_input(n, 0), &in, &in_rank) ||
        !dims_of(graph, trace, oq_node_input(n, 1), &weight, &weight_rank)) {
        return 0.0;
    }
    const double results = product(out, 0, out_rank);
    switch (n->op->role) {
    case OQ_ROLE_CONV: return results * product(weight, 1, weight_rank);
    case OQ_ROLE_CONV_TRANSPOSE: return product(in, 0, in_rank) * product(weight, 1, weight_rank);
    case OQ_ROLE_GEMM: {
        const bool transposed = oq_attribute_int(n->proto, "transA", 0) != 0;
        return in_rank == 2 ? results * (double)in[transposed ? 0 : 1] : 0.0;
    }
    default: return in_rank > 0 ? results * (double)in[in_rank - 1] : 0.0;
    }
}
