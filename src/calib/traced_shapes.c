/*
 * Used for the sessions' copies of a model (session_copy.c) and by the emitter.
 */
#include "calib/traced_shapes.h"

#include "base/map.h"
#include "model/edit.h"
#include "model/value_info.h"
#include "model/walk.h"

#include <stdlib.h>
#include <string.h>

/* What statistics tell of a shape. */
struct evidence {
    uint64_t seen;
    bool many; /* more than one sample */
    bool varies, dim_varies[ONNXPTQ_MAX_RANK];
    struct oq_traced_shape shape;
};

/* Siblings among the bodies of control flow may use a name twice: what is declared must hold for
 * both. */
struct entry {
    struct evidence evidence;
    bool unseen; /* one of that name was never produced */
};

struct oq_traced_shapes {
    struct oq_map *entry_of; /* name to index */
    struct entry *entries;
    size_t n;
    bool fixed_inputs;
    bool all; /* not only what nobody can infer */
};

/* ---- One tensor ---- */

bool oq_traced_inputs_are_fixed(const struct oq_graph *graph) {
    const Onnx__GraphProto *main_graph = oq_graph_scope(graph, 0)->proto;
    for (size_t i = 0; i < main_graph->n_input; i++) {
        const char *name = main_graph->input[i]->name;
        uint32_t value = name ? oq_graph_find_value(graph, 0, name) : OQ_NONE;
        bool constant = value != OQ_NONE && oq_graph_constant(graph, value);
        if (!constant && !oq_value_info_is_fixed(main_graph->input[i])) {
            return false;
        }
    }
    return true;
}

static void add_statistics(struct evidence *evidence, const struct oq_statistics *seen) {
    struct oq_traced_shape *shape = &evidence->shape;
    if (seen->seen == 0) {
        return;
    }
    if (evidence->seen == 0) {
        shape->type = seen->type;
        shape->rank = seen->rank;
        memcpy(shape->shape, seen->shape, sizeof shape->shape);
    }
    evidence->seen += seen->seen;
    evidence->varies = evidence->varies || seen->type_varies || seen->rank_varies ||
                       seen->type != shape->type || seen->rank != shape->rank;
    for (size_t i = 0; i < shape->rank && !evidence->varies; i++) {
        evidence->dim_varies[i] =
            evidence->dim_varies[i] || seen->dim_varies[i] || seen->shape[i] != shape->shape[i];
    }
}

/* `trace` and `ranges` may be NULL. */
static void add_evidence(struct evidence *evidence, const struct oq_statistics *trace,
                         const struct oq_statistics *ranges) {
    if (trace != NULL) {
        add_statistics(evidence, trace);
    }
    if (ranges != NULL) {
        add_statistics(evidence, ranges);
        evidence->many = evidence->many || ranges->seen > 1;
    }
}

static bool conclude(const struct evidence *evidence, bool fixed_inputs,
                     struct oq_traced_shape *out) {
    if (evidence->seen == 0 || evidence->varies || evidence->shape.type == 0) {
        return false;
    }
    *out = evidence->shape;
    for (size_t i = 0; i < out->rank; i++) {
        if (!fixed_inputs || !evidence->many || evidence->dim_varies[i]) {
            out->shape[i] = -1;
        }
    }
    return true;
}

bool oq_traced_shape_find(const struct oq_statistics *trace, const struct oq_statistics *ranges,
                          bool fixed_inputs, struct oq_traced_shape *out) {
    struct evidence evidence = {0};
    add_evidence(&evidence, trace, ranges);
    return conclude(&evidence, fixed_inputs, out);
}

/* ---- All of a model ---- */

static bool add_entry(struct oq_traced_shapes *shapes, const char *name,
                      const struct oq_statistics *trace, const struct oq_statistics *ranges) {
    size_t index = shapes->n;
    if (!oq_map_get_name(shapes->entry_of, name, &index)) {
        if (!oq_map_put_name(shapes->entry_of, name, index)) {
            return false;
        }
        shapes->n++;
    }
    struct entry *entry = &shapes->entries[index];
    entry->unseen = entry->unseen || trace->seen == 0;
    add_evidence(&entry->evidence, trace, ranges);
    return true;
}

static bool collect(struct oq_traced_shapes *shapes, const struct oq_graph *graph,
                    const struct oq_statistics *trace, const struct oq_statistics *ranges) {
    for (uint32_t i = 0; i < oq_graph_n_values(graph); i++) {
        const struct oq_value *value = oq_graph_value(graph, i);
        const struct oq_node *node =
            value->producer != OQ_NONE ? oq_graph_node(graph, value->producer) : NULL;
        bool inferable = node != NULL && !node->foreign && !node->local_function;
        if (node == NULL || (inferable && !shapes->all)) {
            continue;
        }
        if (!add_entry(shapes, value->name, &trace[i], ranges != NULL ? &ranges[i] : NULL)) {
            return false;
        }
    }
    return true;
}

enum onnxptq_status oq_traced_shapes_create(const struct oq_graph *graph,
                                            const struct oq_statistics *trace,
                                            const struct oq_statistics *ranges, bool all,
                                            struct oq_traced_shapes **out,
                                            struct onnxptq_error *error) {
    struct oq_traced_shapes *shapes = calloc(1, sizeof *shapes);
    if (shapes == NULL) {
        return oq_fail_memory(error, "traced shapes");
    }
    shapes->entry_of = oq_map_create();
    shapes->entries = calloc((size_t)oq_graph_n_values(graph) + 1, sizeof *shapes->entries);
    shapes->all = all;
    shapes->fixed_inputs = oq_traced_inputs_are_fixed(graph);
    if (shapes->entry_of == NULL || shapes->entries == NULL ||
        !collect(shapes, graph, trace, ranges)) {
        oq_traced_shapes_destroy(shapes);
        return oq_fail_memory(error, "traced shapes");
    }
    *out = shapes;
    return ONNXPTQ_OK;
}

void oq_traced_shapes_destroy(struct oq_traced_shapes *shapes) {
    if (shapes == NULL) {
        return;
    }
    oq_map_destroy(shapes->entry_of);
    free(shapes->entries);
    free(shapes);
}

/* ---- Declaring ---- */

struct declaring {
    const struct oq_traced_shapes *shapes;
    struct oq_model *model;
};

static enum onnxptq_status declare(const struct declaring *declaring, Onnx__GraphProto *graph,
                                   const char *name, struct onnxptq_error *error) {
    const struct oq_traced_shapes *shapes = declaring->shapes;
    struct oq_traced_shape shape;
    size_t index;
    if (!oq_map_get_name(shapes->entry_of, name, &index) || shapes->entries[index].unseen ||
        oq_value_info_find(graph->value_info, graph->n_value_info, name) != NULL ||
        oq_value_info_find(graph->output, graph->n_output, name) != NULL ||
        !conclude(&shapes->entries[index].evidence, shapes->fixed_inputs, &shape)) {
        return ONNXPTQ_OK;
    }
    return oq_graph_add_value_info(declaring->model, graph, name, shape.type, shape.shape,
                                   shape.rank)
               ? ONNXPTQ_OK
               : oq_fail_memory(error, "value_info");
}

static enum onnxptq_status declare_graph(void *user, Onnx__GraphProto *graph,
                                         struct onnxptq_error *error) {
    const struct declaring *declaring = user;
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        bool skipped = !declaring->shapes->all && oq_is_default_domain(node->domain);
        for (size_t k = 0; k < node->n_output && !skipped; k++) {
            OQ_TRY(declare(declaring, graph, node->output[k], error));
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_traced_shapes_declare(const struct oq_traced_shapes *shapes,
                                             struct oq_model *model, struct onnxptq_error *error) {
    struct declaring declaring = {.shapes = shapes, .model = model};
    const struct oq_visitor visitor = {.user = &declaring, .graph = declare_graph};
    return shapes->n > 0 ? oq_walk_model(oq_model_proto(model), &visitor, error) : ONNXPTQ_OK;
}
