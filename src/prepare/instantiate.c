/*
 * Copying a function's body for a call; see instantiate.h.
 */
#include "prepare/instantiate.h"

#include "base/map.h"

#include <stdlib.h>
#include <string.h>

/* Names defined in the body or in one graph of it. */
struct scope {
    const struct scope *outer;
    struct oq_map *names; /* formal or inner name -> index in `given` */
    const char **given;   /* names in the model; "" for an input that the call leaves out */
    size_t n_given, capacity_given;
};

struct instance {
    struct oq_preparation *preparation;
    struct oq_model *model;
    const Onnx__NodeProto *call;
    const Onnx__FunctionProto *function;
    const char *prefix;
    size_t n_actual; /* names of the body's scope up to here are the call's own */
    struct onnxptq_error *error;
};

static enum onnxptq_status no_memory(const struct instance *instance) {
    return oq_fail_memory(instance->error, "the body of a function");
}

static enum onnxptq_status broken(const struct instance *instance, const char *fact,
                                  const char *name) {
    return oq_fail(instance->error, ONNXPTQ_ERROR_MODEL,
                   "cannot inline function '%s' at node '%s': %s '%s'",
                   oq_text(instance->function->name), instance->prefix, fact, name);
}

/* ---- Names ---------------------------------------------------------------------------------- */

static bool init_scope(struct scope *scope, const struct scope *outer) {
    *scope = (struct scope){.outer = outer, .names = oq_map_create()};
    return scope->names != NULL;
}

static void reset_scope(struct scope *scope) {
    oq_map_destroy(scope->names);
    free(scope->given);
}

static const char *find_name(const struct scope *scope, const char *name) {
    for (; scope != NULL; scope = scope->outer) {
        size_t index;
        if (scope->given != NULL && oq_map_get_name(scope->names, name, &index)) {
            return scope->given[index];
        }
    }
    return NULL;
}

static bool put_name(struct scope *scope, const char *name, const char *given) {
    void *items = scope->given;
    if (!oq_grow(&items, &scope->capacity_given, scope->n_given + 1, sizeof *scope->given)) {
        return false;
    }
    scope->given = items;
    scope->given[scope->n_given] = given;
    return oq_map_put_name(scope->names, name, scope->n_given++);
}

/* "<call>/<name>", or like it. */
static const char *new_name(const struct instance *instance, const char *name) {
    const char *base =
        oq_arena_printf(oq_model_arena(instance->model), "%s/%s", instance->prefix, name);
    return base == NULL ? NULL : oq_names_unique(instance->preparation->names, base);
}

/* Gives a new name to what the scope defines, once; "" is none. */
static enum onnxptq_status define(const struct instance *instance, struct scope *scope,
                                  const char *name) {
    if (name[0] == '\0' || oq_map_get_name(scope->names, name, NULL)) {
        return ONNXPTQ_OK;
    }
    const char *given = new_name(instance, name);
    return given != NULL && put_name(scope, name, given) ? ONNXPTQ_OK : no_memory(instance);
}

static enum onnxptq_status define_results(const struct instance *instance, struct scope *scope,
                                          Onnx__NodeProto *const *nodes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < nodes[i]->n_output; j++) {
            OQ_TRY(define(instance, scope, oq_text(nodes[i]->output[j])));
        }
    }
    return ONNXPTQ_OK;
}

/* Replaces a name that is read. */
static enum onnxptq_status rename_read(const struct instance *instance, const struct scope *scope,
                                       char **name) {
    if (oq_text(*name)[0] == '\0') {
        return ONNXPTQ_OK;
    }
    const char *given = find_name(scope, *name);
    if (given == NULL) {
        return broken(instance, "its body reads what nothing in it defines:", *name);
    }
    *name = (char *)(uintptr_t)given; /* in the model's arena, or the call's own text */
    return ONNXPTQ_OK;
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static const Onnx__AttributeProto *find_attribute(Onnx__AttributeProto *const *attributes, size_t n,
                                                  const char *name) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(oq_text(attributes[i]->name), name) == 0) {
            return attributes[i];
        }
    }
    return NULL;
}

static enum onnxptq_status rename_graph(const struct instance *instance, const struct scope *outer,
                                        Onnx__GraphProto *graph);

static enum onnxptq_status rename_bodies(const struct instance *instance, const struct scope *scope,
                                         Onnx__AttributeProto *attribute) {
    if (attribute->g != NULL) {
        OQ_TRY(rename_graph(instance, scope, attribute->g));
    }
    for (size_t i = 0; i < attribute->n_graphs; i++) {
        OQ_TRY(rename_graph(instance, scope, attribute->graphs[i]));
    }
    return ONNXPTQ_OK;
}

/* What stands for a reference to an attribute of the call; NULL in `out` when neither call nor
 * function have a value. A graph that comes from the call speaks of the call's tensors already. */
static enum onnxptq_status resolve(const struct instance *instance, const struct scope *scope,
                                   const Onnx__AttributeProto *reference,
                                   Onnx__AttributeProto **out) {
    const char *wanted = reference->ref_attr_name;
    const Onnx__AttributeProto *value =
        find_attribute(instance->call->attribute, instance->call->n_attribute, wanted);
    const bool from_call = value != NULL;
    if (!from_call) {
        value = find_attribute(instance->function->attribute_proto,
                               instance->function->n_attribute_proto, wanted);
    }
    *out = NULL;
    if (value == NULL) {
        return ONNXPTQ_OK;
    }
    Onnx__AttributeProto *copy = oq_message_copy(instance->model, &value->base);
    if (copy == NULL) {
        return no_memory(instance);
    }
    copy->name = reference->name;
    *out = copy;
    return from_call ? ONNXPTQ_OK : rename_bodies(instance, scope, copy);
}

static enum onnxptq_status settle_attributes(const struct instance *instance,
                                             const struct scope *scope, Onnx__NodeProto *node) {
    size_t kept = 0;
    for (size_t i = 0; i < node->n_attribute; i++) {
        Onnx__AttributeProto *attribute = node->attribute[i];
        if (oq_text(attribute->ref_attr_name)[0] != '\0') {
            OQ_TRY(resolve(instance, scope, attribute, &attribute));
        } else {
            OQ_TRY(rename_bodies(instance, scope, attribute));
        }
        if (attribute != NULL) {
            node->attribute[kept++] = attribute;
        }
    }
    node->n_attribute = kept;
    return ONNXPTQ_OK;
}

/* ---- Nodes and graphs ----------------------------------------------------------------------- */

static enum onnxptq_status rename_node(const struct instance *instance, const struct scope *scope,
                                       Onnx__NodeProto *node) {
    node->has_origin = instance->call->has_origin;
    node->origin = instance->call->origin;
    for (size_t i = 0; i < node->n_input; i++) {
        OQ_TRY(rename_read(instance, scope, &node->input[i]));
    }
    for (size_t i = 0; i < node->n_output; i++) {
        OQ_TRY(rename_read(instance, scope, &node->output[i]));
    }
    if (oq_text(node->name)[0] != '\0') {
        node->name = (char *)(uintptr_t)new_name(instance, node->name);
        if (node->name == NULL) {
            return no_memory(instance);
        }
    }
    return settle_attributes(instance, scope, node);
}

static enum onnxptq_status define_graph(const struct instance *instance, struct scope *scope,
                                        const Onnx__GraphProto *graph) {
    for (size_t i = 0; i < graph->n_input; i++) {
        OQ_TRY(define(instance, scope, oq_text(graph->input[i]->name)));
    }
    for (size_t i = 0; i < graph->n_initializer; i++) {
        OQ_TRY(define(instance, scope, oq_text(graph->initializer[i]->name)));
    }
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__TensorProto *values = graph->sparse_initializer[i]->values;
        OQ_TRY(define(instance, scope, values == NULL ? "" : oq_text(values->name)));
    }
    return define_results(instance, scope, graph->node, graph->n_node);
}

static enum onnxptq_status rename_infos(const struct instance *instance, const struct scope *scope,
                                        Onnx__ValueInfoProto *const *infos, size_t n) {
    for (size_t i = 0; i < n; i++) {
        OQ_TRY(rename_read(instance, scope, &infos[i]->name));
        if (oq_text(infos[i]->name)[0] == '\0') {
            return broken(instance, "a graph in it returns an input that the call leaves out:",
                          oq_text(instance->call->op_type));
        }
    }
    return ONNXPTQ_OK;
}

/* Descriptions of tensors that are not there are dropped. */
static void rename_value_info(const struct scope *scope, Onnx__GraphProto *graph) {
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_value_info; i++) {
        const char *given = find_name(scope, oq_text(graph->value_info[i]->name));
        if (given != NULL && given[0] != '\0') {
            graph->value_info[i]->name = (char *)(uintptr_t)given;
            graph->value_info[kept++] = graph->value_info[i];
        }
    }
    graph->n_value_info = kept;
}

static enum onnxptq_status rename_graph_parts(const struct instance *instance, struct scope *scope,
                                              Onnx__GraphProto *graph) {
    OQ_TRY(define_graph(instance, scope, graph));
    OQ_TRY(rename_infos(instance, scope, graph->input, graph->n_input));
    for (size_t i = 0; i < graph->n_initializer; i++) {
        OQ_TRY(rename_read(instance, scope, &graph->initializer[i]->name));
    }
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        if (graph->sparse_initializer[i]->values != NULL) {
            OQ_TRY(rename_read(instance, scope, &graph->sparse_initializer[i]->values->name));
        }
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        OQ_TRY(rename_node(instance, scope, graph->node[i]));
    }
    graph->n_quantization_annotation = 0; /* speaks of names that are gone */
    rename_value_info(scope, graph);
    return rename_infos(instance, scope, graph->output, graph->n_output);
}

static enum onnxptq_status rename_graph(const struct instance *instance, const struct scope *outer,
                                        Onnx__GraphProto *graph) {
    struct scope scope;
    if (!init_scope(&scope, outer)) {
        return no_memory(instance);
    }
    const enum onnxptq_status status = rename_graph_parts(instance, &scope, graph);
    reset_scope(&scope);
    return status;
}

/* ---- The body ------------------------------------------------------------------------------- */

static enum onnxptq_status bind_inputs(const struct instance *instance, struct scope *scope) {
    const Onnx__FunctionProto *function = instance->function;
    const Onnx__NodeProto *call = instance->call;
    if (call->n_input > function->n_input || call->n_output > function->n_output) {
        return broken(instance, "the call has more inputs or outputs than function",
                      oq_text(function->name));
    }
    for (size_t i = 0; i < function->n_input; i++) {
        const char *actual = i < call->n_input ? oq_text(call->input[i]) : "";
        if (!put_name(scope, oq_text(function->input[i]), actual)) {
            return no_memory(instance);
        }
    }
    return ONNXPTQ_OK;
}

/* An output that is an input, or that is listed twice, needs a node that copies it. */
static enum onnxptq_status bind_outputs(const struct instance *instance, struct scope *scope,
                                        bool *needs_copy) {
    const Onnx__FunctionProto *function = instance->function;
    for (size_t i = 0; i < instance->call->n_output; i++) {
        const char *formal = oq_text(function->output[i]);
        const char *actual = oq_text(instance->call->output[i]);
        needs_copy[i] = actual[0] != '\0' && oq_map_get_name(scope->names, formal, NULL);
        if (actual[0] != '\0' && !needs_copy[i] && !put_name(scope, formal, actual)) {
            return no_memory(instance);
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status copy_output(const struct instance *instance, const struct scope *scope,
                                       size_t index, Onnx__NodeProto **out) {
    const char *const in[] = {find_name(scope, oq_text(instance->function->output[index]))};
    const char *const copy[] = {instance->call->output[index]};
    if (in[0] == NULL || in[0][0] == '\0') {
        return broken(instance, "it returns an input that the call leaves out:",
                      oq_text(instance->function->output[index]));
    }
    *out = oq_node_create(instance->model, "", "", "Identity", in, 1, copy, 1);
    if (*out == NULL) {
        return no_memory(instance);
    }
    (*out)->has_origin = instance->call->has_origin;
    (*out)->origin = instance->call->origin;
    return ONNXPTQ_OK;
}

static enum onnxptq_status make_nodes(const struct instance *instance, const struct scope *scope,
                                      const bool *needs_copy, struct oq_instance *out) {
    const Onnx__FunctionProto *function = instance->function;
    for (size_t i = 0; i < function->n_node; i++) {
        Onnx__NodeProto *node = oq_message_copy(instance->model, &function->node[i]->base);
        if (node == NULL) {
            return no_memory(instance);
        }
        OQ_TRY(rename_node(instance, scope, node));
        out->nodes[out->n_nodes++] = node;
    }
    for (size_t i = 0; i < instance->call->n_output; i++) {
        if (needs_copy[i]) {
            OQ_TRY(copy_output(instance, scope, i, &out->nodes[out->n_nodes]));
            out->n_nodes++;
        }
    }
    return ONNXPTQ_OK;
}

/* What the call reads and writes is described where the call stands. */
static enum onnxptq_status make_infos(const struct instance *instance, const struct scope *scope,
                                      struct oq_instance *out) {
    const Onnx__FunctionProto *function = instance->function;
    for (size_t i = 0; i < function->n_value_info; i++) {
        size_t index;
        if (!oq_map_get_name(scope->names, oq_text(function->value_info[i]->name), &index) ||
            index < instance->n_actual || index >= scope->n_given) {
            continue;
        }
        Onnx__ValueInfoProto *info =
            oq_message_copy(instance->model, &function->value_info[i]->base);
        if (info == NULL) {
            return no_memory(instance);
        }
        info->name = (char *)(uintptr_t)scope->given[index];
        out->infos[out->n_infos++] = info;
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status fill(struct instance *instance, struct scope *scope,
                                struct oq_instance *out) {
    const Onnx__FunctionProto *function = instance->function;
    struct oq_arena *arena = oq_model_arena(instance->model);
    bool *needs_copy = oq_arena_array(arena, function->n_output, sizeof *needs_copy);
    out->nodes = oq_arena_array(arena, function->n_node + function->n_output, sizeof(void *));
    out->infos = oq_arena_array(arena, function->n_value_info, sizeof(void *));
    if (needs_copy == NULL || out->nodes == NULL || out->infos == NULL) {
        return no_memory(instance);
    }
    OQ_TRY(bind_inputs(instance, scope));
    OQ_TRY(bind_outputs(instance, scope, needs_copy));
    instance->n_actual = scope->n_given;
    OQ_TRY(define_results(instance, scope, function->node, function->n_node));
    OQ_TRY(make_nodes(instance, scope, needs_copy, out));
    return make_infos(instance, scope, out);
}

enum onnxptq_status oq_instantiate(struct oq_preparation *preparation, const Onnx__NodeProto *call,
                                   const Onnx__FunctionProto *function, struct oq_instance *out,
                                   struct onnxptq_error *error) {
    const char *name = oq_text(call->name);
    struct instance instance = {.preparation = preparation,
                                .model = preparation->model,
                                .call = call,
                                .function = function,
                                .prefix = name[0] == '\0' ? oq_text(function->name) : name,
                                .error = error};
    struct scope scope;
    if (!init_scope(&scope, NULL)) {
        return no_memory(&instance);
    }
    *out = (struct oq_instance){0};
    const enum onnxptq_status status = fill(&instance, &scope, out);
    reset_scope(&scope);
    return status;
}
