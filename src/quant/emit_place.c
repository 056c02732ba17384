/*
 * Where new nodes go, who reads what, and what goes away: the edits of the graph that pairs,
 * weights and biases share.
 */
#include "base/number.h"
#include "model/value_info.h"
#include "quant/emitter.h"

#include <stdlib.h>
#include <string.h>

/* ---- Order ---------------------------------------------------------------------------------- */

/* Ids are in topological order, which is the file's order wherever that is topological already. */
static void find_positions(struct oq_emitter *emitter, uint32_t *next) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(emitter->graph); i++) {
        const struct oq_node *node = oq_graph_node(emitter->graph, i);
        emitter->position[i] = next[node->scope]++;
        if (emitter->position[i] != node->index) {
            emitter->scope_unsorted[node->scope] = true;
        }
    }
}

static void count_returns(struct oq_emitter *emitter, uint32_t scope) {
    const Onnx__GraphProto *graph = oq_graph_scope(emitter->graph, scope)->proto;
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name;
        uint32_t value = name ? oq_graph_find_value(emitter->graph, scope, name) : OQ_NONE;
        if (value != OQ_NONE) {
            emitter->n_returns[value]++;
        }
    }
}

static bool allocate_place(struct oq_emitter *emitter, size_t n_slots) {
    size_t n_nodes = oq_graph_n_nodes(emitter->graph);
    size_t n_values = oq_graph_n_values(emitter->graph);
    struct oq_arena *arena = emitter->scratch;
    emitter->position = oq_arena_array(arena, n_nodes, sizeof *emitter->position);
    emitter->scope_unsorted =
        oq_arena_array(arena, oq_graph_n_scopes(emitter->graph), sizeof(bool));
    emitter->node_removed = oq_arena_array(arena, n_nodes, sizeof(bool));
    emitter->first_slot = oq_arena_array(arena, n_nodes, sizeof *emitter->first_slot);
    emitter->slot_taken = oq_arena_array(arena, n_slots, sizeof(bool));
    emitter->n_readers = oq_arena_array(arena, n_values, sizeof *emitter->n_readers);
    emitter->n_returns = oq_arena_array(arena, n_values, sizeof *emitter->n_returns);
    emitter->value_removed = oq_arena_array(arena, n_values, sizeof(bool));
    emitter->float_name = oq_arena_array(arena, n_values, sizeof *emitter->float_name);
    return emitter->position && emitter->scope_unsorted && emitter->node_removed &&
           emitter->first_slot && emitter->slot_taken && emitter->n_readers && emitter->n_returns &&
           emitter->value_removed && emitter->float_name;
}

enum onnxptq_status oq_emit_place_init(struct oq_emitter *emitter, struct onnxptq_error *error) {
    const struct oq_graph *graph = emitter->graph;
    size_t n_slots = 0;
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        n_slots += oq_graph_node(graph, i)->proto->n_input;
    }
    uint32_t *next = oq_arena_array(emitter->scratch, oq_graph_n_scopes(graph), sizeof *next);
    if (!next || !allocate_place(emitter, n_slots)) {
        return oq_fail_memory(error, "tables of the emitter");
    }
    size_t slot = 0;
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        const struct oq_node *node = oq_graph_node(graph, i);
        emitter->first_slot[i] = slot;
        slot += node->proto->n_input;
        for (size_t k = 0; k < node->proto->n_input; k++) {
            if (node->inputs[k] != OQ_NONE) {
                emitter->n_readers[node->inputs[k]]++;
            }
        }
    }
    for (uint32_t i = 0; i < oq_graph_n_scopes(graph); i++) {
        count_returns(emitter, i);
    }
    find_positions(emitter, next);
    return ONNXPTQ_OK;
}

uint32_t oq_emit_first_reader(const struct oq_emitter *emitter, const struct oq_use *uses, size_t n,
                              uint32_t scope) {
    uint32_t first = OQ_NONE;
    for (size_t i = 0; i < n; i++) {
        if (oq_graph_node(emitter->graph, uses[i].node)->scope == scope &&
            emitter->position[uses[i].node] < first) {
            first = emitter->position[uses[i].node];
        }
    }
    return first;
}

/* ---- Reading -------------------------------------------------------------------------------- */

enum onnxptq_status oq_emit_rewire(struct oq_emitter *emitter, struct oq_use use, uint32_t value,
                                   const char *name, struct onnxptq_error *error) {
    const struct oq_node *node = oq_graph_node(emitter->graph, use.node);
    bool *taken = &emitter->slot_taken[emitter->first_slot[use.node] + use.input];
    if (node->inputs[use.input] != value || *taken) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot apply plan to node '%s': input %u %s; this is a bug", node->name,
                       use.input, *taken ? "is quantized twice" : "is another tensor");
    }
    *taken = true;
    emitter->n_readers[value]--;
    node->proto->input[use.input] = (char *)name; /* the message owns nothing: its arena does */
    return ONNXPTQ_OK;
}

void oq_emit_rename(struct oq_emitter *emitter) {
    for (uint32_t i = 0; i < oq_graph_n_values(emitter->graph); i++) {
        char *name = (char *)emitter->float_name[i];
        if (!name) {
            continue;
        }
        const struct oq_value *value = oq_graph_value(emitter->graph, i);
        oq_graph_node(emitter->graph, value->producer)->proto->output[value->producer_output] =
            name;
        for (uint32_t k = 0; k < value->n_uses; k++) {
            struct oq_use use = value->uses[k];
            if (!emitter->slot_taken[emitter->first_slot[use.node] + use.input]) {
                oq_graph_node(emitter->graph, use.node)->proto->input[use.input] = name;
            }
        }
        const Onnx__GraphProto *graph = oq_graph_scope(emitter->graph, value->scope)->proto;
        Onnx__ValueInfoProto *info =
            oq_value_info_find(graph->value_info, graph->n_value_info, value->name);
        if (info != NULL) {
            info->name = name;
        }
    }
}

/* ---- Adding --------------------------------------------------------------------------------- */

const char *oq_emit_name(struct oq_emitter *emitter, const char *tensor, const char *suffix) {
    const char *base = oq_arena_printf(emitter->scratch, "%s%s", tensor, suffix);
    return base ? oq_names_unique(emitter->names, base) : NULL;
}

const char *oq_emit_initializer(struct oq_emitter *emitter, uint32_t scope, const char *tensor,
                                const char *suffix, int type, const int64_t *shape, size_t rank,
                                const void *data, size_t size) {
    const char *name = oq_emit_name(emitter, tensor, suffix);
    Onnx__TensorProto *made =
        name ? oq_tensor_create(emitter->model, name, type, shape, rank, data, size) : NULL;
    if (!made || !oq_graph_add_initializer(emitter->model,
                                           oq_graph_scope(emitter->graph, scope)->proto, made)) {
        return NULL;
    }
    emitter->added_initializer = true;
    return name;
}

const char *oq_emit_scales(struct oq_emitter *emitter, uint32_t scope, const char *tensor,
                           enum onnxptq_type float_type, size_t rank, const float *scales,
                           size_t n) {
    const int64_t shape[] = {(int64_t)n};
    const size_t width = oq_type_size((int)float_type);
    uint8_t *data = oq_arena_array(emitter->scratch, n, width);
    for (size_t i = 0; data != NULL && i < n; i++) {
        oq_store_float((int)float_type, (double)scales[i], data + i * width);
    }
    return data != NULL ? oq_emit_initializer(emitter, scope, tensor, "_scale", (int)float_type,
                                              shape, rank, data, n * width)
                        : NULL;
}

Onnx__NodeProto *oq_emit_dequantize(struct oq_emitter *emitter, const char *tensor,
                                    const char *quantized, const char *scale,
                                    const char *zero_point, int axis, const char *output) {
    const char *name = oq_emit_name(emitter, tensor, "_DequantizeLinear");
    const char *inputs[] = {quantized, scale, zero_point};
    Onnx__NodeProto *node = name ? oq_node_create(emitter->model, name, "", "DequantizeLinear",
                                                  inputs, zero_point ? 3 : 2, &output, 1)
                                 : NULL;
    if (!node || (axis >= 0 && !oq_node_set_int(emitter->model, node, "axis", axis))) {
        return NULL;
    }
    return node;
}

bool oq_emit_insert(struct oq_emitter *emitter, uint32_t scope, uint32_t slot,
                    Onnx__NodeProto *node) {
    void *insertions = emitter->insertions;
    if (!oq_grow(&insertions, &emitter->capacity_insertions, emitter->n_insertions + 1,
                 sizeof *emitter->insertions)) {
        return false;
    }
    emitter->insertions = insertions;
    emitter->insertions[emitter->n_insertions] =
        (struct oq_emit_insertion){scope, slot, (uint32_t)emitter->n_insertions, node};
    emitter->n_insertions++;
    return true;
}

static int compare_insertions(const void *a, const void *b) {
    const struct oq_emit_insertion *x = a;
    const struct oq_emit_insertion *y = b;
    if (x->scope != y->scope) {
        return x->scope < y->scope ? -1 : 1;
    }
    if (x->slot != y->slot) {
        return x->slot < y->slot ? -1 : 1;
    }
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* The scope's old nodes by position; a removed one leaves NULL. */
static Onnx__NodeProto **old_nodes(struct oq_emitter *emitter, uint32_t scope, size_t n,
                                   bool *changed) {
    Onnx__NodeProto **nodes = oq_arena_array(emitter->scratch, n, sizeof *nodes);
    *changed = emitter->scope_unsorted[scope];
    for (uint32_t i = 0; nodes && i < oq_graph_n_nodes(emitter->graph); i++) {
        const struct oq_node *node = oq_graph_node(emitter->graph, i);
        if (node->scope != scope) {
            continue;
        }
        *changed = *changed || emitter->node_removed[i];
        nodes[emitter->position[i]] = emitter->node_removed[i] ? NULL : node->proto;
    }
    return nodes;
}

/* Merges the old nodes and the insertions [first, end), sorted, of one scope. */
static bool place_scope(struct oq_emitter *emitter, uint32_t scope, size_t first, size_t end) {
    Onnx__GraphProto *graph = oq_graph_scope(emitter->graph, scope)->proto;
    size_t n_old = graph->n_node;
    bool changed;
    Onnx__NodeProto **old = old_nodes(emitter, scope, n_old, &changed);
    Onnx__NodeProto **merged =
        oq_arena_array(emitter->scratch, n_old + (end - first), sizeof *merged);
    if (!old || !merged) {
        return false;
    }
    if (!changed && first == end) {
        return true;
    }
    size_t n = 0;
    for (size_t slot = 0; slot <= n_old; slot++) {
        for (; first < end && emitter->insertions[first].slot == slot; first++) {
            merged[n++] = emitter->insertions[first].node;
        }
        if (slot < n_old && old[slot]) {
            merged[n++] = old[slot];
        }
    }
    return oq_graph_set_nodes(emitter->model, graph, merged, n);
}

enum onnxptq_status oq_emit_place(struct oq_emitter *emitter, struct onnxptq_error *error) {
    if (emitter->n_insertions > 1) {
        qsort(emitter->insertions, emitter->n_insertions, sizeof *emitter->insertions,
              compare_insertions);
    }
    size_t first = 0;
    for (uint32_t scope = 0; scope < oq_graph_n_scopes(emitter->graph); scope++) {
        size_t end = first;
        while (end < emitter->n_insertions && emitter->insertions[end].scope == scope) {
            end++;
        }
        if (!place_scope(emitter, scope, first, end)) {
            return oq_fail_memory(error, "list of nodes");
        }
        first = end;
    }
    return ONNXPTQ_OK;
}
