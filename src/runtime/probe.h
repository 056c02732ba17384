/*
 * Which operators can this runtime, with these libraries, run? A one-node stub model per
 * (domain, type, opset) is offered to it and the answer read.
 */
#ifndef OQ_RUNTIME_PROBE_H
#define OQ_RUNTIME_PROBE_H

#include "model/graph.h"
#include "runtime/session.h"

struct oq_probe_result {
    const char *op_name;    /* as in oq_node.op_name; borrowed from the graph */
    const char *first_node; /* name of the first node of that type; borrowed from the graph */
    size_t count;           /* nodes, in all scopes */
    bool foreign;
    bool runnable;
    size_t library; /* index of the custom-op library that has it, or OQ_NO_LIBRARY */
};
#define OQ_NO_LIBRARY SIZE_MAX

/* One result per distinct (domain, type) in all scopes and in the bodies of local functions, calls
 * of local functions themselves left out. malloc'ed array. Standard-domain operators are probed
 * too. */
enum onnxptq_status oq_probe_operators(struct oq_runtime *runtime, const struct oq_graph *graph,
                                       struct oq_probe_result **results, size_t *n,
                                       struct onnxptq_error *error) OQ_MUST_USE;

/* ONNXPTQ_ERROR_MISSING_OPERATOR with one message naming every missing domain::Type, its node
 * count, the first node's name, and "--custom-op-lib"; names the libraries already given. */
enum onnxptq_status oq_probe_require_all(struct oq_runtime *runtime, const struct oq_graph *graph,
                                         struct onnxptq_error *error) OQ_MUST_USE;
#endif
