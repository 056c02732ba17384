/*
 * Which nodes are constant; see constant_find.h.
 */
#include "prepare/constant_find.h"

#include "prepare/functions.h"

#include <stdlib.h>

bool oq_constant_find_value(const struct oq_graph *graph, const bool *nodes, uint32_t id) {
    const struct oq_value *value = oq_graph_value(graph, id);
    if (value->producer != OQ_NONE) {
        return nodes[value->producer];
    }
    /* What a loop or scan feeds to its body replaces the initializer. */
    return (value->initializer != NULL || value->sparse_initializer != NULL) &&
           (value->scope == 0 || !value->is_input);
}

static bool is_constant(const struct oq_preparation *preparation,
                        const struct oq_functions *functions, const bool *nodes, uint32_t id) {
    const struct oq_graph *graph = preparation->graph;
    const struct oq_node *node = oq_graph_node(graph, id);
    const struct oq_function *called = oq_functions_called(functions, node->proto);
    if ((called != NULL ? !called->pure : !oq_node_is_pure(node->proto)) ||
        oq_preparation_excludes(preparation, node->proto)) {
        return false;
    }
    for (size_t i = 0; i < node->proto->n_input; i++) {
        if (node->inputs[i] != OQ_NONE && !oq_constant_find_value(graph, nodes, node->inputs[i])) {
            return false;
        }
    }
    return true;
}

enum onnxptq_status oq_constant_find_nodes(const struct oq_preparation *preparation, bool **out,
                                           struct onnxptq_error *error) {
    const struct oq_graph *graph = preparation->graph;
    struct oq_functions functions;
    OQ_TRY(oq_functions_init(&functions, oq_graph_model(graph), error));
    bool *nodes = calloc((size_t)oq_graph_n_nodes(graph) + 1, sizeof *nodes);
    /* Producers come before readers, and outer scopes before inner ones. */
    for (uint32_t i = 0; nodes != NULL && i < oq_graph_n_nodes(graph); i++) {
        nodes[i] = is_constant(preparation, &functions, nodes, i);
    }
    oq_functions_reset(&functions);
    if (nodes == NULL) {
        return oq_fail_memory(error, "constants");
    }
    *out = nodes;
    return ONNXPTQ_OK;
}
