/*
 * Index over a model's graphs: flat arrays of scopes, nodes and values with integer ids.
 *
 * A scope is a graph: the main graph (scope 0) or a body of If, Loop or Scan. A value is a tensor
 * name in the scope that defines it; a body that reads a captured name refers to the outer value.
 * The index is a snapshot: after an edit of the model it is built anew. Bodies of local functions
 * are not indexed; a call of one is a node like any other.
 *
 * oq_graph_build() verifies: every name read is defined and visible, no name is defined twice in
 * the same scope, node order can be made topological (a graph out of order is accepted and listed
 * in order; a cycle is an error), outputs exist.
 */
#ifndef OQ_MODEL_GRAPH_H
#define OQ_MODEL_GRAPH_H

#include "model/model.h"
#include "model/operators.h"

#define OQ_NONE UINT32_MAX

struct oq_scope {
    Onnx__GraphProto *proto;
    uint32_t parent;     /* scope, or OQ_NONE */
    uint32_t owner_node; /* the If, Loop or Scan, or OQ_NONE */
    uint32_t depth;
};

struct oq_node {
    Onnx__NodeProto *proto;
    uint32_t scope;
    uint32_t index;               /* in scope's proto->node */
    const struct oq_operator *op; /* NULL: no row */
    bool foreign;                 /* not of the default domain and without a row */
    bool local_function;          /* calls a function of this model */
    const char *name;             /* the node's name, or "@" + first non-empty output */
    const char *op_name;          /* "Conv" or "custom_domain::DummyOp" */
    const uint32_t *inputs; /* value ids, OQ_NONE for an empty optional input; n = proto->n_input */
    const uint32_t *outputs; /* value ids, OQ_NONE for an empty name; n = proto->n_output */
    uint32_t origin;         /* node of the original graph that it comes from, or OQ_NONE */
};

/* The value of an input; OQ_NONE for one that is empty or not there. */
static inline uint32_t oq_node_input(const struct oq_node *node, size_t index) {
    return index < node->proto->n_input ? node->inputs[index] : OQ_NONE;
}

/* One reading of a value: input `input` of node `node`. */
struct oq_use {
    uint32_t node, input;
};

struct oq_value {
    const char *name;
    uint32_t scope;
    uint32_t producer; /* node id, or OQ_NONE */
    uint32_t producer_output;
    Onnx__TensorProto *initializer; /* NULL when it has none */
    Onnx__SparseTensorProto *sparse_initializer;
    bool is_input;             /* of its scope's graph */
    bool is_output;            /* of its scope's graph, or returned by a body of an inner one */
    const struct oq_use *uses; /* in node order; captures by bodies included */
    uint32_t n_uses;
    bool captured; /* read or returned by a body of an inner scope */
};

struct oq_graph;

enum onnxptq_status oq_graph_build(const struct oq_model *model, struct oq_graph **out,
                                   struct onnxptq_error *error) OQ_MUST_USE;
void oq_graph_destroy(struct oq_graph *graph); /* NULL is allowed */

const struct oq_model *oq_graph_model(const struct oq_graph *graph);
uint32_t oq_graph_n_scopes(const struct oq_graph *graph);
uint32_t oq_graph_n_nodes(const struct oq_graph *graph);
uint32_t oq_graph_n_values(const struct oq_graph *graph);
/* Ids are dense; nodes are numbered scope by scope in topological order (scope 0 first). */
const struct oq_scope *oq_graph_scope(const struct oq_graph *graph, uint32_t scope);
const struct oq_node *oq_graph_node(const struct oq_graph *graph, uint32_t node);
const struct oq_value *oq_graph_value(const struct oq_graph *graph, uint32_t value);
/* The value that `name` means in `scope` (inner first), or OQ_NONE. */
uint32_t oq_graph_find_value(const struct oq_graph *graph, uint32_t scope, const char *name);

/* The constant behind a value, seen through Identity: its initializer, which counts as constant
 * also where a caller could override it as a graph input, or the tensor of a Constant node
 * (attribute value, value_float(s), value_int(s)). NULL when it is not constant. */
const Onnx__TensorProto *oq_graph_constant(const struct oq_graph *graph, uint32_t value);

/* Attributes of a node; the default when absent or of another kind. */
const Onnx__AttributeProto *oq_attribute(const Onnx__NodeProto *node, const char *name);
int64_t oq_attribute_int(const Onnx__NodeProto *node, const char *name, int64_t missing);
float oq_attribute_float(const Onnx__NodeProto *node, const char *name, float missing);
/* NULL with *n = 0 when absent. */
const int64_t *oq_attribute_ints(const Onnx__NodeProto *node, const char *name, size_t *n);

#endif
