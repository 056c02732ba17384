/*
 * Topological order of the nodes of each scope; see graph_build.h.
 *
 * Depth first over the nodes in the model's order, each after those it reads from: an order that is
 * topological already stays as it is. Iterative, since chains are thousands of nodes long.
 */
#include "base/size.h"
#include "model/graph_build.h"

#include <stdlib.h>
#include <string.h>

enum mark { UNSEEN, OPEN, LISTED };

struct sorter {
    struct oq_graph *graph;
    const struct oq_graph_edge *edges; /* by node: those of node i are [first[i], first[i + 1]) */
    uint32_t *first;
    uint32_t *next;   /* of each open node: the edge to look at next */
    uint32_t *stack;  /* open nodes */
    uint32_t *order;  /* new position -> old id */
    uint32_t *new_id; /* old id -> new position */
    uint8_t *marks;
    size_t n_listed;
    struct onnxptq_error *error;
};

static bool is_sorted(const struct oq_graph *graph, const struct oq_graph_edge *edges, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (graph->values[edges[i].value].producer >= edges[i].node) {
            return false;
        }
    }
    return true;
}

/* Counting sort by node. `sorted` has room for n. */
static void group_edges(struct sorter *sorter, const struct oq_graph_edge *edges, size_t n,
                        struct oq_graph_edge *sorted) {
    const size_t n_nodes = sorter->graph->n_nodes;
    for (size_t i = 0; i < n; i++) {
        sorter->first[edges[i].node + 1]++;
    }
    for (size_t i = 0; i < n_nodes; i++) {
        sorter->first[i + 1] += sorter->first[i];
        sorter->next[i] = sorter->first[i];
    }
    for (size_t i = 0; i < n; i++) {
        sorted[sorter->next[edges[i].node]++] = edges[i];
    }
    memcpy(sorter->next, sorter->first, n_nodes * sizeof *sorter->next);
    sorter->edges = sorted;
}

static enum onnxptq_status cycle(const struct sorter *sorter, const struct oq_graph_edge *edge) {
    const struct oq_value *value = &sorter->graph->values[edge->value];
    return oq_fail(
        sorter->error, ONNXPTQ_ERROR_MODEL,
        "its nodes form a cycle: node '%s' reads tensor '%s' of node '%s', which depends "
        "on it",
        sorter->graph->nodes[edge->node].name, value->name,
        sorter->graph->nodes[value->producer].name);
}

static enum onnxptq_status list_from(struct sorter *sorter, uint32_t start) {
    size_t depth = 0;
    if (sorter->marks[start] == UNSEEN) {
        sorter->marks[start] = OPEN;
        sorter->stack[depth++] = start;
    }
    while (depth > 0) {
        const uint32_t node = sorter->stack[depth - 1];
        if (sorter->next[node] == sorter->first[node + 1]) {
            sorter->marks[node] = LISTED;
            sorter->new_id[node] = (uint32_t)sorter->n_listed;
            sorter->order[sorter->n_listed++] = node;
            depth--;
            continue;
        }
        const struct oq_graph_edge *edge = &sorter->edges[sorter->next[node]++];
        const uint32_t producer = sorter->graph->values[edge->value].producer;
        if (sorter->marks[producer] == OPEN) {
            return cycle(sorter, edge);
        }
        if (sorter->marks[producer] == UNSEEN) {
            sorter->marks[producer] = OPEN;
            sorter->stack[depth++] = producer;
        }
    }
    return ONNXPTQ_OK;
}

static void renumber(struct sorter *sorter, struct oq_node *scratch) {
    struct oq_graph *graph = sorter->graph;
    memcpy(scratch, graph->nodes, graph->n_nodes * sizeof *scratch);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i] = scratch[sorter->order[i]];
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        uint32_t *producer = &graph->values[i].producer;
        *producer = *producer == OQ_NONE ? OQ_NONE : sorter->new_id[*producer];
    }
    for (size_t i = 0; i < graph->n_scopes; i++) {
        uint32_t *owner = &graph->scopes[i].owner_node;
        *owner = *owner == OQ_NONE ? OQ_NONE : sorter->new_id[*owner];
    }
}

static enum onnxptq_status sort(struct sorter *sorter, const struct oq_graph_edge *edges,
                                size_t n_edges, struct oq_arena *scratch) {
    const size_t n = sorter->graph->n_nodes;
    struct oq_graph_edge *sorted = oq_arena_array(scratch, n_edges, sizeof *sorted);
    struct oq_node *nodes = oq_arena_array(scratch, n, sizeof *nodes);
    sorter->first = oq_arena_array(scratch, n + 1, sizeof *sorter->first);
    sorter->next = oq_arena_array(scratch, n, sizeof *sorter->next);
    sorter->stack = oq_arena_array(scratch, n, sizeof *sorter->stack);
    sorter->order = oq_arena_array(scratch, n, sizeof *sorter->order);
    sorter->new_id = oq_arena_array(scratch, n, sizeof *sorter->new_id);
    sorter->marks = oq_arena_array(scratch, n, sizeof *sorter->marks);
    if (sorted == NULL || nodes == NULL || sorter->first == NULL || sorter->next == NULL ||
        sorter->stack == NULL || sorter->order == NULL || sorter->new_id == NULL ||
        sorter->marks == NULL) {
        return oq_fail_memory(sorter->error, "the order of nodes");
    }
    group_edges(sorter, edges, n_edges, sorted);
    /* Edges stay inside a scope, whose nodes are contiguous: so is what is listed. */
    for (uint32_t node = 0; node < n; node++) {
        OQ_TRY(list_from(sorter, node));
    }
    renumber(sorter, nodes);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_graph_sort(struct oq_graph *graph, const struct oq_graph_edge *edges,
                                  size_t n_edges, struct onnxptq_error *error) {
    if (is_sorted(graph, edges, n_edges)) {
        return ONNXPTQ_OK;
    }
    struct sorter sorter = {.graph = graph, .error = error};
    struct oq_arena *scratch = oq_arena_create();
    if (scratch == NULL || n_edges > UINT32_MAX) {
        oq_arena_destroy(scratch);
        return oq_fail_memory(error, "the order of nodes");
    }
    const enum onnxptq_status status = sort(&sorter, edges, n_edges, scratch);
    oq_arena_destroy(scratch);
    return status;
}
