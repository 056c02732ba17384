/*
 * Replacing constants; see constant_edit.h.
 */
#include "prepare/constant_edit.h"

#include <stdlib.h>
#include <string.h>

/* One new initializer. */
struct change {
    uint32_t value; /* that it stands for, or OQ_NONE */
    uint32_t scope; /* whose graph gets it */
    const char *base;
    const struct oq_use *uses;
    size_t n_uses;
    struct oq_use own_use; /* when value is OQ_NONE */
    struct oq_spilled data;
};

struct oq_constant_edit {
    struct oq_preparation *preparation;
    const struct oq_graph *graph;
    const bool *removable;
    struct change *changes;
    size_t n_changes, capacity_changes;
    uint32_t *n_readers; /* per value: readings and returns that are left */
    bool *value_gone;    /* per value: nothing defines it any more */
    bool *node_gone;     /* per node */
    uint32_t *stack;     /* values that just lost their last reader; each gets here once */
    size_t depth;
};

struct oq_constant_edit *oq_constant_edit_create(struct oq_preparation *preparation,
                                                 const bool *removable) {
    const struct oq_graph *graph = preparation->graph;
    const size_t n_values = oq_graph_n_values(graph), n_nodes = oq_graph_n_nodes(graph);
    struct oq_constant_edit *edit = calloc(1, sizeof *edit);
    if (edit == NULL) {
        return NULL;
    }
    edit->preparation = preparation;
    edit->graph = graph;
    edit->removable = removable;
    edit->n_readers = calloc(n_values + 1, sizeof *edit->n_readers);
    edit->value_gone = calloc(n_values + 1, sizeof *edit->value_gone);
    edit->node_gone = calloc(n_nodes + 1, sizeof *edit->node_gone);
    edit->stack = calloc(n_values + 1, sizeof *edit->stack);
    if (edit->n_readers == NULL || edit->value_gone == NULL || edit->node_gone == NULL ||
        edit->stack == NULL) {
        oq_constant_edit_destroy(edit);
        return NULL;
    }
    for (uint32_t i = 0; i < n_values; i++) {
        const struct oq_value *value = oq_graph_value(graph, i);
        edit->n_readers[i] = value->n_uses + (value->is_output ? 1 : 0);
    }
    return edit;
}

void oq_constant_edit_destroy(struct oq_constant_edit *edit) {
    if (edit != NULL) {
        free(edit->changes);
        free(edit->n_readers);
        free(edit->value_gone);
        free(edit->node_gone);
        free(edit->stack);
        free(edit);
    }
}

/* ---- Gathering ------------------------------------------------------------------------------ */

static void lose_readers(struct oq_constant_edit *edit, uint32_t value, size_t n) {
    if (value == OQ_NONE || edit->n_readers[value] == 0) {
        return;
    }
    edit->n_readers[value] -= n < edit->n_readers[value] ? (uint32_t)n : edit->n_readers[value];
    if (edit->n_readers[value] == 0) {
        edit->stack[edit->depth++] = value;
    }
}

static void lose_inputs(struct oq_constant_edit *edit, uint32_t id) {
    const struct oq_node *node = oq_graph_node(edit->graph, id);
    edit->node_gone[id] = true;
    for (size_t i = 0; i < node->proto->n_input; i++) {
        lose_readers(edit, node->inputs[i], 1);
    }
}

static bool results_unread(const struct oq_constant_edit *edit, const struct oq_node *node) {
    for (size_t i = 0; i < node->proto->n_output; i++) {
        if (node->outputs[i] != OQ_NONE && edit->n_readers[node->outputs[i]] > 0) {
            return false;
        }
    }
    return true;
}

/* Removes what was only there for the values on the stack. */
static void settle(struct oq_constant_edit *edit) {
    while (edit->depth > 0) {
        const uint32_t id = edit->stack[--edit->depth];
        const struct oq_value *value = oq_graph_value(edit->graph, id);
        if (value->producer == OQ_NONE) {
            edit->value_gone[id] = value->initializer != NULL || value->sparse_initializer != NULL;
            continue;
        }
        const struct oq_node *node = oq_graph_node(edit->graph, value->producer);
        if (!edit->removable[value->producer] || edit->node_gone[value->producer] ||
            !results_unread(edit, node)) {
            continue;
        }
        for (size_t i = 0; i < node->proto->n_output; i++) {
            if (node->outputs[i] != OQ_NONE) {
                edit->value_gone[node->outputs[i]] = true;
            }
        }
        lose_inputs(edit, value->producer);
    }
}

static bool add_change(struct oq_constant_edit *edit, struct change change) {
    void *items = edit->changes;
    if (!oq_grow(&items, &edit->capacity_changes, edit->n_changes + 1, sizeof change)) {
        return false;
    }
    edit->changes = items;
    edit->changes[edit->n_changes++] = change;
    return true;
}

bool oq_constant_edit_replace(struct oq_constant_edit *edit, uint32_t value,
                              const struct oq_use *uses, size_t n_uses, struct oq_spilled data) {
    const struct oq_value *old = oq_graph_value(edit->graph, value);
    if (!add_change(edit, (struct change){.value = value,
                                          .scope = old->scope,
                                          .base = old->name,
                                          .uses = uses,
                                          .n_uses = n_uses,
                                          .data = data})) {
        return false;
    }
    lose_readers(edit, value, n_uses);
    settle(edit);
    return true;
}

bool oq_constant_edit_add(struct oq_constant_edit *edit, uint32_t node, uint32_t input,
                          const char *name, struct oq_spilled data) {
    return add_change(edit, (struct change){.value = OQ_NONE,
                                            .scope = oq_graph_node(edit->graph, node)->scope,
                                            .base = name,
                                            .n_uses = 1,
                                            .own_use = {node, input},
                                            .data = data});
}

bool oq_constant_edit_remove(struct oq_constant_edit *edit, uint32_t node) {
    if (!edit->node_gone[node]) {
        lose_inputs(edit, node);
        settle(edit);
    }
    return true;
}

/* ---- Applying ------------------------------------------------------------------------------- */

static bool read_instead(struct oq_constant_edit *edit, struct oq_use use, const char *name) {
    Onnx__NodeProto *node = oq_graph_node(edit->graph, use.node)->proto;
    struct oq_arena *arena = oq_model_arena(edit->preparation->model);
    if (use.input >= node->n_input) {
        char **inputs = oq_arena_array(arena, (size_t)use.input + 1, sizeof(char *));
        if (inputs == NULL) {
            return false;
        }
        for (size_t i = 0; i <= use.input; i++) {
            inputs[i] = i < node->n_input ? node->input[i] : oq_arena_strdup(arena, "");
            if (inputs[i] == NULL) {
                return false;
            }
        }
        node->input = inputs;
        node->n_input = (size_t)use.input + 1;
    }
    node->input[use.input] = oq_arena_strdup(arena, name);
    return node->input[use.input] != NULL;
}

/* The first that replaces a value which goes takes its name; that of the others is new. */
static const char *choose_name(struct oq_constant_edit *edit, const struct change *change,
                               bool *name_taken) {
    if (change->value != OQ_NONE && edit->value_gone[change->value] && !name_taken[change->value]) {
        name_taken[change->value] = true;
        return change->base;
    }
    return oq_names_unique(edit->preparation->names, change->base);
}

static bool add_initializer(struct oq_constant_edit *edit, const struct oq_spill *spill,
                            const struct change *change, bool *name_taken) {
    struct oq_model *model = edit->preparation->model;
    Onnx__GraphProto *graph = oq_graph_scope(edit->graph, change->scope)->proto;
    const char *name = choose_name(edit, change, name_taken);
    Onnx__TensorProto *tensor =
        name == NULL ? NULL : oq_spill_tensor(spill, model, &change->data, name);
    if (tensor == NULL || !oq_graph_add_initializer(model, graph, tensor)) {
        return false;
    }
    for (size_t i = 0; i < change->n_uses; i++) {
        const struct oq_use use = change->value == OQ_NONE ? change->own_use : change->uses[i];
        if (!read_instead(edit, use, name)) {
            return false;
        }
    }
    return true;
}

/* Values of this very scope; what an inner scope hides is another value. */
static bool is_gone(const struct oq_constant_edit *edit, uint32_t scope, const char *name) {
    const uint32_t value = oq_graph_find_value(edit->graph, scope, oq_text(name));
    return value != OQ_NONE && oq_graph_value(edit->graph, value)->scope == scope &&
           edit->value_gone[value];
}

static void remove_infos(const struct oq_constant_edit *edit, uint32_t scope,
                         Onnx__ValueInfoProto **infos, size_t *n) {
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if (!is_gone(edit, scope, infos[i]->name)) {
            infos[kept++] = infos[i];
        }
    }
    *n = kept;
}

static void remove_values(const struct oq_constant_edit *edit, uint32_t scope) {
    Onnx__GraphProto *graph = oq_graph_scope(edit->graph, scope)->proto;
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (!is_gone(edit, scope, graph->initializer[i]->name)) {
            graph->initializer[kept++] = graph->initializer[i];
        }
    }
    graph->n_initializer = kept;
    kept = 0;
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__TensorProto *values = graph->sparse_initializer[i]->values;
        if (values == NULL || !is_gone(edit, scope, values->name)) {
            graph->sparse_initializer[kept++] = graph->sparse_initializer[i];
        }
    }
    graph->n_sparse_initializer = kept;
    remove_infos(edit, scope, graph->input, &graph->n_input);
    remove_infos(edit, scope, graph->value_info, &graph->n_value_info);
}

static void remove_nodes(const struct oq_constant_edit *edit) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(edit->graph); i++) {
        const struct oq_node *node = oq_graph_node(edit->graph, i);
        if (edit->node_gone[i]) {
            oq_graph_scope(edit->graph, node->scope)->proto->node[node->index] = NULL;
        }
    }
    for (uint32_t scope = 0; scope < oq_graph_n_scopes(edit->graph); scope++) {
        Onnx__GraphProto *graph = oq_graph_scope(edit->graph, scope)->proto;
        size_t kept = 0;
        for (size_t i = 0; i < graph->n_node; i++) {
            if (graph->node[i] != NULL) {
                graph->node[kept++] = graph->node[i];
            }
        }
        graph->n_node = kept;
    }
}

enum onnxptq_status oq_constant_edit_apply(struct oq_constant_edit *edit,
                                           const struct oq_spill *spill,
                                           struct onnxptq_error *error) {
    bool *name_taken = calloc((size_t)oq_graph_n_values(edit->graph) + 1, sizeof *name_taken);
    bool done = name_taken != NULL;
    for (uint32_t scope = 0; done && scope < oq_graph_n_scopes(edit->graph); scope++) {
        remove_values(edit, scope);
    }
    for (size_t i = 0; done && i < edit->n_changes; i++) {
        done = add_initializer(edit, spill, &edit->changes[i], name_taken);
    }
    free(name_taken);
    if (!done) {
        return oq_fail_memory(error, "constants");
    }
    remove_nodes(edit);
    return ONNXPTQ_OK;
}
