/*
 * Called for every stage that fails.
 */
#include "api/blame.h"

#include <string.h>

/* How the runtime names the node whose kernel failed. */
#define NAMED "Name:'"

static bool is_named(const char *message, const char *name) {
    size_t n = strlen(name);
    for (const char *at = strstr(message, NAMED); at != NULL; at = strstr(at + 1, NAMED)) {
        const char *text = at + strlen(NAMED);
        if (strncmp(text, name, n) == 0 && text[n] == '\'') {
            return true;
        }
    }
    return false;
}

/* What a kernel says while it is made comes without a name. */
#define UNNAMED "Exception during initialization"

static bool is_unnamed(const char *message) {
    return strstr(message, UNNAMED) != NULL && strstr(message, NAMED) == NULL;
}

/* NULL: the graph has none of its operators. */
static const struct oq_node *first_node_of(const struct oq_graph *graph,
                                           const struct oq_runtime *runtime, const char *library) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        const struct oq_node *node = oq_graph_node(graph, i);
        if (node->foreign && oq_runtime_library_of(runtime, node->op_name) == library) {
            return node;
        }
    }
    return NULL;
}

static enum onnxptq_status list_suspects(const struct oq_graph *graph,
                                         const struct oq_runtime *runtime,
                                         enum onnxptq_status status, struct onnxptq_error *error) {
    const char *before = "; perhaps from";
    for (size_t i = 0; i < oq_runtime_n_libraries(runtime); i++) {
        const char *library = oq_runtime_library_name(runtime, i);
        const struct oq_node *node = first_node_of(graph, runtime, library);
        if (node != NULL) {
            status = oq_suffix(error, status, "%s node '%s' (%s) of custom operator library '%s'",
                               before, node->name, node->op_name, library);
            before = ", or from";
        }
    }
    return status;
}

enum onnxptq_status oq_blame_library(const struct oq_graph *graph, const struct oq_runtime *runtime,
                                     enum onnxptq_status status, struct onnxptq_error *error) {
    if (graph == NULL || runtime == NULL || error == NULL || status != ONNXPTQ_ERROR_RUNTIME) {
        return status;
    }
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        const struct oq_node *node = oq_graph_node(graph, i);
        const char *library = node->foreign ? oq_runtime_library_of(runtime, node->op_name) : NULL;
        if (library != NULL && is_named(error->message, node->name)) {
            return oq_suffix(error, status, "; %s is of custom operator library '%s'",
                             node->op_name, library);
        }
    }
    bool theirs = is_unnamed(error->message) && !oq_runtime_has_accelerators(runtime);
    return theirs ? list_suspects(graph, runtime, status, error) : status;
}
