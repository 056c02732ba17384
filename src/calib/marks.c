/*
 * Used by watch_model.c, beside observers, and for the sessions of the check.
 */
#include "calib/marks.h"

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

static size_t add_marks(const struct oq_graph *graph, uint32_t id, struct oq_mark *marks) {
    const struct oq_node *node = oq_graph_node(graph, id);
    const uint32_t values[] = {first_value(node->inputs, node->proto->n_input),
                               first_value(node->outputs, node->proto->n_output)};
    size_t n = 0;
    for (size_t i = 0; i < 2; i++) {
        if (values[i] != OQ_NONE) {
            marks[n++] = (struct oq_mark){.node = id, .value = values[i], .begins = i == 0};
        }
    }
    return n;
}

enum onnxptq_status oq_marks_list(const struct oq_graph *graph, const struct oq_runtime *runtime,
                                  struct oq_mark **out, size_t *n, struct onnxptq_error *error) {
    uint32_t n_nodes = oq_runtime_wants_marks(runtime) ? oq_graph_n_nodes(graph) : 0;
    struct oq_mark *marks = calloc((size_t)n_nodes * 2 + 1, sizeof *marks);
    if (marks == NULL) {
        return oq_fail_memory(error, "the marks of a model");
    }
    *n = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (oq_runtime_library_of(runtime, oq_graph_node(graph, i)->op_name) != NULL) {
            *n += add_marks(graph, i, marks + *n);
        }
    }
    *out = marks;
    return ONNXPTQ_OK;
}

bool oq_mark_append(struct oq_model *model, const struct oq_graph *graph,
                    const struct oq_runtime *runtime, const struct oq_mark *mark) {
    const struct oq_node *marked = oq_graph_node(graph, mark->node);
    const char *const inputs[] = {oq_graph_value(graph, mark->value)->name};
    char name[64];
    (void)snprintf(name, sizeof name, "onnxptq_%s_%u", mark->begins ? "begin" : "end",
                   (unsigned)mark->node);
    Onnx__NodeProto *node =
        oq_node_create(model, name, OQ_OWN_DOMAIN, OQ_MARK_TYPE, inputs, 1, NULL, 0);
    if (node == NULL ||
        (mark->begins &&
         (!oq_node_set_text(model, node, "node", marked->name) ||
          !oq_node_set_text(model, node, "op", marked->op_name) ||
          !oq_node_set_text(model, node, "library",
                            oq_runtime_library_of(runtime, marked->op_name))))) {
        return false;
    }
    return oq_graph_append_node(model, oq_graph_scope(graph, marked->scope)->proto, node);
}

static enum onnxptq_status add_all(struct oq_model *model, const struct oq_graph *graph,
                                   const struct oq_runtime *runtime, struct onnxptq_error *error) {
    struct oq_mark *marks = NULL;
    size_t n = 0;
    OQ_TRY(oq_marks_list(graph, runtime, &marks, &n, error));
    bool done = n == 0 || oq_model_import_opset(model, OQ_OWN_DOMAIN, 1);
    for (size_t i = n; i > 0 && done; i--) {
        done = oq_mark_append(model, graph, runtime, &marks[i - 1]);
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
    enum onnxptq_status status = add_all(copy, graph, runtime, error);
    oq_graph_destroy(graph);
    return status;
}
