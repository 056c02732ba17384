/*
 * Building the graph index: scopes are collected breadth first, so that the nodes and values of
 * each are contiguous; then every name read is resolved; then nodes are sorted; last, the uses of
 * each value are listed.
 */
#include "model/graph_build.h"

#include "model/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_TEXT 256

struct builder {
    struct oq_graph *graph;
    struct oq_graph_edge *edges;
    size_t n_edges, capacity_edges;
    struct onnxptq_error *error;
};

static enum onnxptq_status no_memory(const struct builder *builder) {
    return oq_fail_memory(builder->error, "the graph's index");
}

/* Makes room for one more item in an array that is limited to 32-bit ids. */
static bool grow(void *array, size_t *capacity, size_t n, size_t item_size) {
    void *items;
    memcpy(&items, array, sizeof(void *));
    const bool grown = n < OQ_NONE - 1 && oq_grow(&items, capacity, n + 1, item_size);
    memcpy(array, &items, sizeof(void *));
    return grown;
}

/* ---- Values ---- */

static enum onnxptq_status twice(const struct builder *builder, const char *name,
                                 const char *what) {
    return oq_fail(builder->error, ONNXPTQ_ERROR_MODEL,
                   "tensor '%s' is defined twice in the same graph (the second time as %s)", name,
                   what);
}

/* Adds a value; `known` receives its id when the name is there already, else OQ_NONE. */
static enum onnxptq_status define(struct builder *builder, uint32_t scope, const char *name,
                                  uint32_t *id, bool *known) {
    struct oq_graph *graph = builder->graph;
    size_t found;
    *known = oq_map_get_name(graph->names[scope], name, &found);
    if (*known) {
        *id = (uint32_t)found;
        return ONNXPTQ_OK;
    }
    if (!grow(&graph->values, &graph->capacity_values, graph->n_values, sizeof *graph->values) ||
        !oq_map_put_name(graph->names[scope], name, graph->n_values)) {
        return no_memory(builder);
    }
    *id = (uint32_t)graph->n_values++;
    graph->values[*id] = (struct oq_value){.name = name, .scope = scope, .producer = OQ_NONE};
    return ONNXPTQ_OK;
}

static enum onnxptq_status define_inputs(struct builder *builder, uint32_t scope,
                                         const Onnx__GraphProto *proto) {
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = oq_text(proto->input[i]->name);
        uint32_t id = 0;
        bool known = false;
        if (name[0] == '\0') {
            return oq_fail(builder->error, ONNXPTQ_ERROR_MODEL,
                           "input %zu of graph '%s' has no name", i, oq_text(proto->name));
        }
        OQ_TRY(define(builder, scope, name, &id, &known));
        if (known) {
            return twice(builder, name, "a graph input");
        }
        builder->graph->values[id].is_input = true;
    }
    return ONNXPTQ_OK;
}

/* A name may be a graph input and an initializer, which is then its default. */
static enum onnxptq_status define_initializer(struct builder *builder, uint32_t scope,
                                              const char *name, struct oq_value **out) {
    uint32_t id = 0;
    bool known = false;
    if (name[0] == '\0') {
        return oq_fail(builder->error, ONNXPTQ_ERROR_MODEL,
                       "an initializer of graph '%s' has no name",
                       oq_text(builder->graph->scopes[scope].proto->name));
    }
    OQ_TRY(define(builder, scope, name, &id, &known));
    struct oq_value *value = &builder->graph->values[id];
    if (value->initializer != NULL || value->sparse_initializer != NULL) {
        return twice(builder, name, "an initializer");
    }
    *out = value;
    return ONNXPTQ_OK;
}

static enum onnxptq_status define_initializers(struct builder *builder, uint32_t scope,
                                               const Onnx__GraphProto *proto) {
    struct oq_value *value;
    for (size_t i = 0; i < proto->n_initializer; i++) {
        OQ_TRY(define_initializer(builder, scope, oq_text(proto->initializer[i]->name), &value));
        value->initializer = proto->initializer[i];
    }
    for (size_t i = 0; i < proto->n_sparse_initializer; i++) {
        Onnx__SparseTensorProto *sparse = proto->sparse_initializer[i];
        const char *name = sparse->values == NULL ? "" : oq_text(sparse->values->name);
        OQ_TRY(define_initializer(builder, scope, name, &value));
        value->sparse_initializer = sparse;
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status define_outputs(struct builder *builder, uint32_t id) {
    struct oq_node *node = &builder->graph->nodes[id];
    const Onnx__NodeProto *proto = node->proto;
    uint32_t *outputs = oq_arena_array(builder->graph->arena, proto->n_output, sizeof *outputs);
    if (outputs == NULL) {
        return no_memory(builder);
    }
    node->outputs = outputs;
    for (size_t i = 0; i < proto->n_output; i++) {
        const char *name = oq_text(proto->output[i]);
        bool known = false;
        outputs[i] = OQ_NONE;
        if (name[0] == '\0') {
            continue;
        }
        OQ_TRY(define(builder, node->scope, name, &outputs[i], &known));
        if (known) {
            char text[NODE_TEXT];
            snprintf(text, sizeof text, "output of node '%s'", node->name);
            return twice(builder, name, text);
        }
        struct oq_value *value = &builder->graph->values[outputs[i]];
        value->producer = id;
        value->producer_output = (uint32_t)i;
    }
    return ONNXPTQ_OK;
}

/* ---- Scopes and nodes ---- */

static enum onnxptq_status add_scope(struct builder *builder, Onnx__GraphProto *proto,
                                     uint32_t parent, uint32_t owner) {
    struct oq_graph *graph = builder->graph;
    struct oq_map *names = oq_map_create();
    if (names == NULL ||
        !grow(&graph->scopes, &graph->capacity_scopes, graph->n_scopes, sizeof *graph->scopes) ||
        !grow(&graph->names, &graph->capacity_names, graph->n_scopes, sizeof(struct oq_map *))) {
        oq_map_destroy(names);
        return no_memory(builder);
    }
    graph->names[graph->n_scopes] = names;
    graph->scopes[graph->n_scopes] = (struct oq_scope){
        proto, parent, owner, parent == OQ_NONE ? 0 : graph->scopes[parent].depth + 1};
    graph->n_scopes++;
    return ONNXPTQ_OK;
}

static bool calls_function(const struct oq_graph *graph, const Onnx__NodeProto *proto) {
    if (graph->functions == NULL) {
        return false;
    }
    const char *domain = oq_is_default_domain(proto->domain) ? "" : proto->domain;
    const char *key = oq_arena_printf(graph->arena, "%s\n%s\n%s", domain, oq_text(proto->op_type),
                                      oq_text(proto->overload));
    return key != NULL && oq_map_get_name(graph->functions, key, NULL);
}

static bool describe(const struct oq_graph *graph, struct oq_node *node) {
    const Onnx__NodeProto *proto = node->proto;
    const bool standard = oq_is_default_domain(proto->domain);
    node->op = oq_operator_find(standard ? "" : proto->domain, oq_text(proto->op_type));
    node->foreign = !standard && node->op == NULL;
    node->local_function = calls_function(graph, proto);
    node->origin = proto->has_origin && proto->origin > 0 ? proto->origin - 1 : OQ_NONE;
    node->op_name = oq_operator_name(graph->arena, proto->domain, proto->op_type);
    node->name = oq_node_name(graph->arena, proto);
    return node->op_name != NULL && node->name != NULL;
}

static enum onnxptq_status add_bodies(struct builder *builder, uint32_t scope, uint32_t owner) {
    const Onnx__NodeProto *node = builder->graph->nodes[owner].proto;
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->attribute[i];
        if (attribute->g != NULL) {
            OQ_TRY(add_scope(builder, attribute->g, scope, owner));
        }
        for (size_t j = 0; j < attribute->n_graphs; j++) {
            OQ_TRY(add_scope(builder, attribute->graphs[j], scope, owner));
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status add_node(struct builder *builder, uint32_t scope, size_t index) {
    struct oq_graph *graph = builder->graph;
    if (!grow(&graph->nodes, &graph->capacity_nodes, graph->n_nodes, sizeof *graph->nodes)) {
        return no_memory(builder);
    }
    const uint32_t id = (uint32_t)graph->n_nodes++;
    graph->nodes[id] = (struct oq_node){
        .proto = graph->scopes[scope].proto->node[index], .scope = scope, .index = (uint32_t)index};
    if (!describe(graph, &graph->nodes[id])) {
        return no_memory(builder);
    }
    OQ_TRY(define_outputs(builder, id));
    return add_bodies(builder, scope, id);
}

static enum onnxptq_status collect_scope(struct builder *builder, uint32_t scope) {
    const Onnx__GraphProto *proto = builder->graph->scopes[scope].proto;
    OQ_TRY(define_inputs(builder, scope, proto));
    OQ_TRY(define_initializers(builder, scope, proto));
    for (size_t i = 0; i < proto->n_node; i++) {
        OQ_TRY(add_node(builder, scope, i));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status collect_functions(struct builder *builder) {
    struct oq_graph *graph = builder->graph;
    const Onnx__ModelProto *proto = oq_model_proto(graph->model);
    if (proto->n_functions == 0) {
        return ONNXPTQ_OK;
    }
    graph->functions = oq_map_create();
    for (size_t i = 0; graph->functions != NULL && i < proto->n_functions; i++) {
        const Onnx__FunctionProto *function = proto->functions[i];
        const char *domain = oq_is_default_domain(function->domain) ? "" : function->domain;
        const char *key = oq_arena_printf(graph->arena, "%s\n%s\n%s", domain,
                                          oq_text(function->name), oq_text(function->overload));
        if (key == NULL || !oq_map_put_name(graph->functions, key, i)) {
            return no_memory(builder);
        }
    }
    return graph->functions == NULL ? no_memory(builder) : ONNXPTQ_OK;
}

static enum onnxptq_status collect(struct builder *builder) {
    OQ_TRY(collect_functions(builder));
    OQ_TRY(add_scope(builder, oq_model_proto(builder->graph->model)->graph, OQ_NONE, OQ_NONE));
    for (uint32_t scope = 0; scope < builder->graph->n_scopes; scope++) {
        OQ_TRY(collect_scope(builder, scope));
    }
    return ONNXPTQ_OK;
}

/* ---- Readings ---- */

/* The node in `scope` that is `node` or holds it in its bodies. */
static uint32_t ancestor_in(const struct oq_graph *graph, uint32_t node, uint32_t scope) {
    while (graph->nodes[node].scope != scope) {
        node = graph->scopes[graph->nodes[node].scope].owner_node;
    }
    return node;
}

static enum onnxptq_status add_edge(struct builder *builder, uint32_t node, uint32_t value) {
    const struct oq_value *read = &builder->graph->values[value];
    if (read->producer == OQ_NONE) {
        return ONNXPTQ_OK;
    }
    void *items = builder->edges;
    if (!oq_grow(&items, &builder->capacity_edges, builder->n_edges + 1, sizeof *builder->edges)) {
        return no_memory(builder);
    }
    builder->edges = items;
    builder->edges[builder->n_edges++] =
        (struct oq_graph_edge){ancestor_in(builder->graph, node, read->scope), value};
    return ONNXPTQ_OK;
}

static enum onnxptq_status resolve_inputs(struct builder *builder, uint32_t id) {
    struct oq_graph *graph = builder->graph;
    struct oq_node *node = &graph->nodes[id];
    const Onnx__NodeProto *proto = node->proto;
    uint32_t *inputs = oq_arena_array(graph->arena, proto->n_input, sizeof *inputs);
    if (inputs == NULL) {
        return no_memory(builder);
    }
    node->inputs = inputs;
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = oq_text(proto->input[i]);
        inputs[i] = name[0] == '\0' ? OQ_NONE : oq_graph_find_value(graph, node->scope, name);
        if (name[0] == '\0') {
            continue;
        }
        if (inputs[i] == OQ_NONE) {
            return oq_fail(builder->error, ONNXPTQ_ERROR_MODEL,
                           "node '%s' (%s) reads tensor '%s', which nothing in the model defines",
                           node->name, node->op_name, name);
        }
        struct oq_value *value = &graph->values[inputs[i]];
        value->n_uses++;
        value->captured = value->captured || value->scope != node->scope;
        OQ_TRY(add_edge(builder, id, inputs[i]));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status resolve_outputs(struct builder *builder, uint32_t id) {
    struct oq_graph *graph = builder->graph;
    const struct oq_scope *scope = &graph->scopes[id];
    for (size_t i = 0; i < scope->proto->n_output; i++) {
        const char *name = oq_text(scope->proto->output[i]->name);
        const uint32_t found = name[0] == '\0' ? OQ_NONE : oq_graph_find_value(graph, id, name);
        if (found == OQ_NONE) {
            return oq_fail(builder->error, ONNXPTQ_ERROR_MODEL,
                           "output '%s' of graph '%s' is defined by nothing in the model", name,
                           oq_text(scope->proto->name));
        }
        struct oq_value *value = &graph->values[found];
        value->is_output = true;
        if (value->scope != id) {
            value->captured = true;
            OQ_TRY(add_edge(builder, scope->owner_node, found));
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status resolve(struct builder *builder) {
    for (uint32_t node = 0; node < builder->graph->n_nodes; node++) {
        OQ_TRY(resolve_inputs(builder, node));
    }
    for (uint32_t scope = 0; scope < builder->graph->n_scopes; scope++) {
        OQ_TRY(resolve_outputs(builder, scope));
    }
    return ONNXPTQ_OK;
}

/* ---- Uses ---- */

static enum onnxptq_status list_uses(struct builder *builder) {
    struct oq_graph *graph = builder->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        struct oq_value *value = &graph->values[i];
        value->uses = oq_arena_array(graph->arena, value->n_uses, sizeof *value->uses);
        if (value->uses == NULL) {
            return no_memory(builder);
        }
        value->n_uses = 0; /* counts up again below */
    }
    for (uint32_t id = 0; id < graph->n_nodes; id++) {
        const struct oq_node *node = &graph->nodes[id];
        for (size_t i = 0; i < node->proto->n_input; i++) {
            if (node->inputs[i] != OQ_NONE) {
                struct oq_value *value = &graph->values[node->inputs[i]];
                struct oq_use *uses = (struct oq_use *)(uintptr_t)value->uses;
                uses[value->n_uses++] = (struct oq_use){id, (uint32_t)i};
            }
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status build(struct builder *builder) {
    struct oq_graph *graph = builder->graph;
    OQ_TRY(collect(builder));
    OQ_TRY(resolve(builder));
    OQ_TRY(oq_graph_sort(graph, builder->edges, builder->n_edges, builder->error));
    OQ_TRY(list_uses(builder));
    graph->constants = oq_arena_array(graph->arena, graph->n_values, sizeof(void *));
    if (graph->constants == NULL) {
        return no_memory(builder);
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        graph->constants[i] = &oq_graph_unknown_constant;
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_graph_build(const struct oq_model *model, struct oq_graph **out,
                                   struct onnxptq_error *error) {
    struct builder builder = {.graph = calloc(1, sizeof *builder.graph), .error = error};
    enum onnxptq_status status;
    if (builder.graph == NULL) {
        return no_memory(&builder);
    }
    builder.graph->model = model;
    builder.graph->arena = oq_arena_create();
    status = builder.graph->arena == NULL ? no_memory(&builder) : build(&builder);
    free(builder.edges);
    if (status != ONNXPTQ_OK) {
        oq_graph_destroy(builder.graph);
        return oq_prefix(error, status, "cannot use model '%s': ", oq_model_path(model));
    }
    *out = builder.graph;
    return ONNXPTQ_OK;
}
