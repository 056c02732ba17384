/*
 * Used by watch_model.c, beside observers, and for the sessions of the check.
 */
#include "calib/marks.h"

#include "base/arena.h"
#include "model/value_info.h"
#include "runtime/session.h"

#include <stdio.h>
#include <stdlib.h>

static uint32_t first_value(const uint32_t *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (values[i] != OQ_NONE) {
            return values[i];
        }
    }
    return OQ_NONE;
}

struct list {
    struct oq_mark *items;
    size_t n, capacity;
};

static bool add_mark(struct list *list, enum oq_mark_kind kind, uint32_t node, uint32_t value) {
    if (value == OQ_NONE) {
        return true;
    }
    if (!oq_grow((void **)&list->items, &list->capacity, list->n + 1, sizeof *list->items)) {
        return false;
    }
    list->items[list->n++] = (struct oq_mark){.kind = kind, .node = node, .value = value};
    return true;
}

static bool add_around(struct list *list, const struct oq_graph *graph, uint32_t id) {
    const struct oq_node *node = oq_graph_node(graph, id);
    return add_mark(list, OQ_MARK_BEGIN, id, first_value(node->inputs, node->proto->n_input)) &&
           add_mark(list, OQ_MARK_END, id, first_value(node->outputs, node->proto->n_output));
}

/* Results of nodes that are declared as tensors: the runtime refuses a sink on anything else. */
static bool add_outputs(struct list *list, const struct oq_graph *graph, uint32_t scope) {
    const Onnx__GraphProto *proto = oq_graph_scope(graph, scope)->proto;
    for (size_t i = 0; i < proto->n_output; i++) {
        const Onnx__ValueInfoProto *output = proto->output[i];
        if (output->name == NULL || oq_value_info_tensor(output) == NULL) {
            continue;
        }
        uint32_t value = oq_graph_find_value(graph, scope, output->name);
        bool is_result = value != OQ_NONE && oq_graph_value(graph, value)->scope == scope &&
                         oq_graph_value(graph, value)->producer != OQ_NONE;
        if (is_result && !add_mark(list, OQ_MARK_OUTPUT, OQ_NONE, value)) {
            return false;
        }
    }
    return true;
}

static bool add_all(struct list *list, const struct oq_graph *graph,
                    const struct oq_runtime *runtime, bool outputs) {
    bool wanted = oq_runtime_wants_marks(runtime), done = true;
    for (uint32_t i = 0; wanted && done && i < oq_graph_n_nodes(graph); i++) {
        if (oq_runtime_library_of(runtime, oq_graph_node(graph, i)->op_name) != NULL) {
            done = add_around(list, graph, i);
        }
    }
    for (uint32_t i = 0; outputs && done && i < oq_graph_n_scopes(graph); i++) {
        done = add_outputs(list, graph, i);
    }
    return done;
}

enum onnxptq_status oq_marks_list(const struct oq_graph *graph, const struct oq_runtime *runtime,
                                  bool outputs, struct oq_mark **marks, size_t *n,
                                  struct onnxptq_error *error) {
    struct list list = {0};
    if (!oq_runtime_has_accelerators(runtime) && !add_all(&list, graph, runtime, outputs)) {
        free(list.items);
        return oq_fail_memory(error, "the marks of a model");
    }
    *marks = list.items;
    *n = list.n;
    return ONNXPTQ_OK;
}

/* ---- Nodes ---- */

static bool set_node(struct oq_model *model, Onnx__NodeProto *node, const struct oq_node *marked,
                     const struct oq_runtime *runtime) {
    return oq_node_set_text(model, node, "node", marked->name) &&
           oq_node_set_text(model, node, "op", marked->op_name) &&
           oq_node_set_text(model, node, "library",
                            oq_runtime_library_of(runtime, marked->op_name));
}

bool oq_mark_append(struct oq_model *model, const struct oq_graph *graph,
                    const struct oq_runtime *runtime, const struct oq_mark *mark) {
    static const char *const kinds[] = {"begin", "end", "output"};
    bool output = mark->kind == OQ_MARK_OUTPUT;
    const struct oq_value *value = oq_graph_value(graph, mark->value);
    const struct oq_node *marked = output ? NULL : oq_graph_node(graph, mark->node);
    uint32_t scope = output ? value->scope : marked->scope;
    const char *const inputs[] = {value->name};
    char name[64];
    (void)snprintf(name, sizeof name, "onnxptq_%s_%u", kinds[mark->kind],
                   (unsigned)(output ? mark->value : mark->node));
    Onnx__NodeProto *node =
        oq_node_create(model, name, OQ_OWN_DOMAIN, OQ_MARK_TYPE, inputs, 1, NULL, 0);
    if (node == NULL || (mark->kind == OQ_MARK_END && !oq_node_set_int(model, node, "end", 1)) ||
        (mark->kind == OQ_MARK_BEGIN && !set_node(model, node, marked, runtime))) {
        return false;
    }
    return oq_graph_append_node(model, oq_graph_scope(graph, scope)->proto, node);
}

/* ---- A model without observers ---- */

/* Outputs first, and what comes later in a run earlier in the list. */
static int compare_marks(const void *a, const void *b) {
    const struct oq_mark *one = a, *other = b;
    if (one->node != other->node) {
        return one->node > other->node ? -1 : 1; /* OQ_NONE is the largest */
    }
    if (one->kind != other->kind) {
        return one->kind > other->kind ? -1 : 1;
    }
    return one->value > other->value ? -1 : one->value < other->value;
}

static enum onnxptq_status append_all(struct oq_model *model, const struct oq_graph *graph,
                                      const struct oq_runtime *runtime,
                                      struct onnxptq_error *error) {
    struct oq_mark *marks = NULL;
    size_t n = 0;
    OQ_TRY(oq_marks_list(graph, runtime, true, &marks, &n, error));
    bool done = n == 0 || oq_model_import_opset(model, OQ_OWN_DOMAIN, 1);
    if (n > 0) {
        qsort(marks, n, sizeof *marks, compare_marks);
    }
    for (size_t i = 0; i < n && done; i++) {
        done = oq_mark_append(model, graph, runtime, &marks[i]);
    }
    free(marks);
    return done ? ONNXPTQ_OK : oq_fail_memory(error, "the marks of a model");
}

enum onnxptq_status oq_marks_add(struct oq_model *copy, const struct oq_runtime *runtime,
                                 struct onnxptq_error *error) {
    if (!oq_runtime_wants_marks(runtime)) {
        return ONNXPTQ_OK;
    }
    struct oq_graph *graph = NULL;
    OQ_TRY(oq_graph_build(copy, &graph, error));
    enum onnxptq_status status = append_all(copy, graph, runtime, error);
    oq_graph_destroy(graph);
    return status;
}
