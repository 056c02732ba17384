/*
 * Visiting every graph, node and tensor of a model: main graph, bodies of control flow, local
 * functions, training graphs. One place knows where things can lie, and what they are called.
 */
#ifndef OQ_MODEL_WALK_H
#define OQ_MODEL_WALK_H

#include "model/model.h"

/* Where a tensor was found, for messages. */
struct oq_tensor_site {
    const char *graph;           /* name of the innermost graph or function; may be empty */
    const Onnx__NodeProto *node; /* whose attribute holds it, or NULL */
    const char *attribute;       /* its name, or NULL */
    bool sparse;                 /* part of a sparse tensor */
};

/* Unused functions may be NULL. A status other than OK ends the walk. */
struct oq_visitor {
    void *user;
    enum onnxptq_status (*graph)(void *user, Onnx__GraphProto *graph, struct onnxptq_error *error);
    enum onnxptq_status (*function)(void *user, Onnx__FunctionProto *function,
                                    struct onnxptq_error *error);
    enum onnxptq_status (*node)(void *user, Onnx__NodeProto *node, struct onnxptq_error *error);
    enum onnxptq_status (*tensor)(void *user, const struct oq_tensor_site *site,
                                  Onnx__TensorProto *tensor, struct onnxptq_error *error);
};

enum onnxptq_status oq_walk_model(Onnx__ModelProto *model, const struct oq_visitor *visitor,
                                  struct onnxptq_error *error) OQ_MUST_USE;

/* "initializer 'w'" or "tensor in attribute 'value' of node 'n'", written into `text`. */
void oq_tensor_site_text(const struct oq_tensor_site *site, const Onnx__TensorProto *tensor,
                         char *text, size_t size);

/* Calls `visit` for each node, those in the bodies of control flow included, each before what it
 * holds. Ends with false when a call does. */
bool oq_visit_nodes(Onnx__NodeProto *const *nodes, size_t n,
                    bool (*visit)(void *user, Onnx__NodeProto *node), void *user);

/* Name of a node for messages and patterns: its own, or "@" + its first output that has a name.
 * Borrowed from the node or made in `arena`; NULL when out of memory. */
const char *oq_node_name(struct oq_arena *arena, const Onnx__NodeProto *node);
/* The same, written into `text`. */
void oq_node_text(const Onnx__NodeProto *node, char *text, size_t size);
/* "Conv" or "custom_domain::DummyOp". Borrowed or made as above. */
const char *oq_operator_name(struct oq_arena *arena, const char *domain, const char *type);

#endif
