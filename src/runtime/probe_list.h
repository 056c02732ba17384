/*
 * The distinct operators of a model: those of all scopes and of the bodies of the local functions
 * that are called.
 */
#ifndef OQ_RUNTIME_PROBE_LIST_H
#define OQ_RUNTIME_PROBE_LIST_H

#include "model/graph.h"

struct oq_probe_entry {
    const char *domain, *type;
    Onnx__OperatorSetIdProto **imports; /* of the model or of the function */
    size_t n_imports;
    const char *op_name, *first_node; /* owned by the graph's model */
    size_t count;
    bool foreign;
    bool runnable; /* for the caller, as is `library` */
    size_t library;
};

struct oq_probe_list {
    struct oq_probe_entry *entries; /* in the order of the model */
    size_t n, capacity;
};

enum onnxptq_status oq_probe_list_build(const struct oq_graph *graph, struct oq_probe_list *list,
                                        struct onnxptq_error *error) OQ_MUST_USE;
void oq_probe_list_reset(struct oq_probe_list *list);

#endif
