/*
 * Used by probe.c. Function bodies are not in the graph index, so they are walked here.
 */
#include "runtime/probe_list.h"

#include "base/map.h"
#include "model/walk.h"

#include <stdlib.h>

/* A local function of the model. Overloads of one name are called together. */
struct function {
    Onnx__FunctionProto *proto;
    size_t next_overload, next_called; /* indices, or NOTHING */
    bool called;
};

#define NOTHING SIZE_MAX

struct walk {
    const struct oq_graph *graph;
    struct oq_arena *names; /* the model's */
    struct function *functions;
    struct oq_map *function_of; /* operator's name to the first overload */
    size_t called;              /* bodies still to be walked: head of a list */
    struct oq_map *entry_of;    /* operator's name to its entry */
    struct oq_probe_list *list;
};

/* Where nodes come from: their opset imports. */
struct origin {
    Onnx__OperatorSetIdProto **imports;
    size_t n_imports;
};

static bool add_function(struct walk *walk, size_t index, Onnx__FunctionProto *proto) {
    struct function *function = &walk->functions[index];
    const char *op_name = oq_operator_name(walk->names, proto->domain, proto->name);
    *function = (struct function){.proto = proto, .next_overload = NOTHING, .next_called = NOTHING};
    if (op_name == NULL) {
        return false;
    }
    size_t first;
    if (!oq_map_get_name(walk->function_of, op_name, &first)) {
        return oq_map_put_name(walk->function_of, op_name, index);
    }
    function->next_overload = walk->functions[first].next_overload;
    walk->functions[first].next_overload = index;
    return true;
}

/* True when `op_name` is a local function; its body is queued. */
static bool call_function(struct walk *walk, const char *op_name) {
    size_t index;
    if (!oq_map_get_name(walk->function_of, op_name, &index)) {
        return false;
    }
    struct function *function = &walk->functions[index];
    if (!function->called) {
        function->called = true;
        function->next_called = walk->called;
        walk->called = index;
    }
    return true;
}

static bool add_entry(struct walk *walk, const struct oq_probe_entry *entry) {
    struct oq_probe_list *list = walk->list;
    size_t index;
    if (list->entries != NULL && oq_map_get_name(walk->entry_of, entry->op_name, &index)) {
        list->entries[index].count++;
        return true;
    }
    if (!oq_grow((void **)&list->entries, &list->capacity, list->n + 1, sizeof *list->entries) ||
        !oq_map_put_name(walk->entry_of, entry->op_name, list->n)) {
        return false;
    }
    list->entries[list->n++] = *entry;
    return true;
}

static struct oq_probe_entry make_entry(const Onnx__NodeProto *proto, struct origin origin,
                                        const char *op_name, const char *first_node) {
    return (struct oq_probe_entry){.domain = oq_text(proto->domain),
                                   .type = oq_text(proto->op_type),
                                   .imports = origin.imports,
                                   .n_imports = origin.n_imports,
                                   .op_name = op_name,
                                   .first_node = first_node,
                                   .count = 1};
}

static bool walk_graph_nodes(struct walk *walk) {
    const Onnx__ModelProto *model = oq_model_proto(oq_graph_model(walk->graph));
    struct origin origin = {model->opset_import, model->n_opset_import};
    for (uint32_t i = 0; i < oq_graph_n_nodes(walk->graph); i++) {
        const struct oq_node *node = oq_graph_node(walk->graph, i);
        if (call_function(walk, node->op_name)) {
            continue;
        }
        struct oq_probe_entry entry = make_entry(node->proto, origin, node->op_name, node->name);
        entry.foreign = node->foreign;
        if (!add_entry(walk, &entry)) {
            return false;
        }
    }
    return true;
}

/* The nodes of one function's body. */
struct body {
    struct walk *walk;
    struct origin origin;
};

static bool walk_body_node(void *user, Onnx__NodeProto *node) {
    const struct body *body = user;
    struct oq_arena *names = body->walk->names;
    const char *op_name = oq_operator_name(names, node->domain, node->op_type);
    const char *name = oq_node_name(names, node);
    if (op_name == NULL || name == NULL) {
        return false;
    }
    if (call_function(body->walk, op_name)) {
        return true;
    }
    struct oq_probe_entry entry = make_entry(node, body->origin, op_name, name);
    entry.foreign =
        !oq_is_default_domain(node->domain) && oq_operator_find(node->domain, entry.type) == NULL;
    return add_entry(body->walk, &entry);
}

static bool walk_functions(struct walk *walk) {
    while (walk->called != NOTHING) {
        size_t index = walk->called;
        walk->called = walk->functions[index].next_called;
        for (; index != NOTHING; index = walk->functions[index].next_overload) {
            Onnx__FunctionProto *proto = walk->functions[index].proto;
            struct body body = {walk, {proto->opset_import, proto->n_opset_import}};
            if (!oq_visit_nodes(proto->node, proto->n_node, walk_body_node, &body)) {
                return false;
            }
        }
    }
    return true;
}

static bool walk_model(struct walk *walk, const Onnx__ModelProto *model) {
    for (size_t i = 0; i < model->n_functions; i++) {
        if (!add_function(walk, i, model->functions[i])) {
            return false;
        }
    }
    return walk_graph_nodes(walk) && walk_functions(walk);
}

enum onnxptq_status oq_probe_list_build(const struct oq_graph *graph, struct oq_probe_list *list,
                                        struct onnxptq_error *error) {
    const Onnx__ModelProto *model = oq_model_proto(oq_graph_model(graph));
    *list = (struct oq_probe_list){0};
    struct walk walk = {.graph = graph,
                        .names = oq_model_arena(oq_graph_model(graph)),
                        .functions = calloc(model->n_functions + 1, sizeof *walk.functions),
                        .function_of = oq_map_create(),
                        .called = NOTHING,
                        .entry_of = oq_map_create(),
                        .list = list};
    bool done = walk.functions != NULL && walk.function_of != NULL && walk.entry_of != NULL &&
                walk_model(&walk, model);
    oq_map_destroy(walk.function_of);
    oq_map_destroy(walk.entry_of);
    free(walk.functions);
    return done ? ONNXPTQ_OK : oq_fail_memory(error, "the list of operators");
}

void oq_probe_list_reset(struct oq_probe_list *list) {
    free(list->entries);
    *list = (struct oq_probe_list){0};
}
