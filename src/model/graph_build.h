/*
 * Inside of the graph index; for the files of this folder that build it.
 */
#ifndef OQ_MODEL_GRAPH_BUILD_H
#define OQ_MODEL_GRAPH_BUILD_H

#include "base/map.h"
#include "model/graph.h"

struct oq_graph {
    const struct oq_model *model;
    struct oq_arena *arena; /* inputs, outputs and names of nodes; uses */
    struct oq_scope *scopes;
    size_t n_scopes, capacity_scopes;
    struct oq_map **names; /* per scope: name -> value */
    size_t capacity_names;
    struct oq_node *nodes;
    size_t n_nodes, capacity_nodes;
    struct oq_value *values;
    size_t n_values, capacity_values;
    struct oq_map *functions; /* "domain\nname\noverload" of the model's functions */
    /* Filled when first asked for: the constant behind each value, `unknown` before. */
    const Onnx__TensorProto **constants;
};

/* Marks a value whose constant was not looked for yet. */
extern const Onnx__TensorProto oq_graph_unknown_constant;

/* `node` reads, itself or in a body of it, `value`, which a node of the same scope produces. */
struct oq_graph_edge {
    uint32_t node, value;
};

/* Puts the nodes of each scope, which are contiguous, in topological order, keeping the model's
 * order where it is one. One edge per reading. Renumbers the nodes. */
enum onnxptq_status oq_graph_sort(struct oq_graph *graph, const struct oq_graph_edge *edges,
                                  size_t n_edges, struct onnxptq_error *error) OQ_MUST_USE;

#endif
