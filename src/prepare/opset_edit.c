/*
 * Bodies under construction and the nodes in them; see opset_edit.h. Attributes and constants are
 * in opset_attribute.c.
 */
#include "prepare/opset_edit.h"

#include "base/size.h"
#include "model/walk.h"

#include <stdlib.h>
#include <string.h>

#define NODE_TEXT_SIZE 256

/* ---- Gathering the bodies ---- */

static void destroy_body(struct oq_opset_body *body) {
    if (body == NULL) {
        return;
    }
    oq_map_destroy(body->producers);
    oq_map_destroy(body->tensors);
    free(body->nodes);
    free(body->replaced);
    free(body->constants);
    free(body);
}

void oq_opset_edit_release(struct oq_opset_edit *edit) {
    for (size_t i = 0; i < edit->n_bodies; i++) {
        destroy_body(edit->bodies[i]);
    }
    free(edit->bodies);
    oq_names_destroy(edit->names);
    oq_map_destroy(edit->ranks);
}

static struct oq_opset_body *add_body(struct oq_opset_edit *edit) {
    struct oq_opset_body *body = calloc(1, sizeof *body);
    if (body == NULL || !oq_grow((void **)&edit->bodies, &edit->capacity_bodies, edit->n_bodies + 1,
                                 sizeof(struct oq_opset_body *))) {
        free(body);
        return NULL;
    }
    edit->bodies[edit->n_bodies++] = body;
    body->edit = edit;
    body->producers = oq_map_create();
    body->tensors = oq_map_create();
    return body->producers == NULL || body->tensors == NULL ? NULL : body;
}

static bool gather_graph(struct oq_opset_edit *edit, const struct oq_opset_body *parent,
                         Onnx__GraphProto *graph);

static bool gather_nodes(struct oq_opset_body *body, Onnx__NodeProto *const *nodes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        oq_opset_emit(body, nodes[i]);
    }
    for (size_t i = 0; i < n && !body->edit->out_of_memory; i++) {
        for (size_t j = 0; j < nodes[i]->n_attribute; j++) {
            const Onnx__AttributeProto *attribute = nodes[i]->attribute[j];
            if (!gather_graph(body->edit, body, attribute->g)) {
                return false;
            }
            for (size_t k = 0; k < attribute->n_graphs; k++) {
                if (!gather_graph(body->edit, body, attribute->graphs[k])) {
                    return false;
                }
            }
        }
    }
    body->changed = false;
    return !body->edit->out_of_memory;
}

/* `graph` may be NULL. */
static bool gather_graph(struct oq_opset_edit *edit, const struct oq_opset_body *parent,
                         Onnx__GraphProto *graph) {
    if (graph == NULL) {
        return true;
    }
    struct oq_opset_body *body = add_body(edit);
    if (body == NULL) {
        return false;
    }
    body->parent = parent;
    body->graph = graph;
    body->function = parent == NULL ? NULL : parent->function;
    body->version = parent == NULL ? oq_model_opset(edit->model) : parent->version;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        Onnx__TensorProto *tensor = graph->initializer[i];
        if (tensor->name != NULL &&
            !oq_map_put_name(body->tensors, tensor->name, (size_t)(uintptr_t)tensor)) {
            return false;
        }
    }
    return gather_nodes(body, graph->node, graph->n_node);
}

static bool gather_function(struct oq_opset_edit *edit, Onnx__FunctionProto *function) {
    struct oq_opset_body *body = add_body(edit);
    if (body == NULL) {
        return false;
    }
    body->function = function;
    for (size_t i = 0; i < function->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *import = function->opset_import[i];
        if (oq_is_default_domain(import->domain)) {
            body->version = import->version;
        }
    }
    return gather_nodes(body, function->node, function->n_node);
}

static bool gather_model(struct oq_opset_edit *edit) {
    const Onnx__ModelProto *proto = oq_model_proto(edit->model);
    bool good = gather_graph(edit, NULL, proto->graph);
    for (size_t i = 0; good && i < proto->n_functions; i++) {
        good = gather_function(edit, proto->functions[i]);
    }
    for (size_t i = 0; good && i < proto->n_training_info; i++) {
        good = gather_graph(edit, NULL, proto->training_info[i]->initialization) &&
               gather_graph(edit, NULL, proto->training_info[i]->algorithm);
    }
    return good;
}

enum onnxptq_status oq_opset_edit_init(struct oq_opset_edit *edit, struct oq_model *model,
                                       int64_t target, struct onnxptq_error *error) {
    *edit = (struct oq_opset_edit){.model = model,
                                   .target = target,
                                   .names = oq_names_create(model),
                                   .ranks = oq_map_create()};
    if (edit->names == NULL || edit->ranks == NULL || !gather_model(edit)) {
        return oq_fail_memory(error, "the opset conversion");
    }
    return ONNXPTQ_OK;
}

/* ---- Putting them into the model ---- */

static void *join(struct oq_arena *arena, const void *first, size_t n_first, const void *second,
                  size_t n_second) {
    size_t n;
    if (!oq_size_add(n_first, n_second, &n)) {
        return NULL;
    }
    void **all = oq_arena_array(arena, n, sizeof(void *));
    if (all != NULL && n_first > 0) {
        memcpy(all, first, n_first * sizeof(void *));
    }
    if (all != NULL && n_second > 0) {
        memcpy(all + n_first, second, n_second * sizeof(void *));
    }
    return all;
}

static void set_nodes(struct oq_opset_body *body, Onnx__NodeProto **nodes) {
    if (body->graph != NULL) {
        body->graph->node = nodes;
        body->graph->n_node = body->n_nodes;
    } else {
        body->function->node = nodes;
        body->function->n_node = body->n_nodes;
    }
}

enum onnxptq_status oq_opset_edit_commit(struct oq_opset_edit *edit, struct onnxptq_error *error) {
    struct oq_arena *arena = oq_model_arena(edit->model);
    void ***lists = oq_arena_array(arena, edit->n_bodies, 2 * sizeof(void **));
    if (lists == NULL) {
        return oq_fail_memory(error, "the opset conversion");
    }
    for (size_t i = 0; i < edit->n_bodies; i++) {
        const struct oq_opset_body *body = edit->bodies[i];
        lists[2 * i] = join(arena, body->nodes, body->n_nodes, NULL, 0);
        if (body->graph != NULL) {
            lists[2 * i + 1] = join(arena, body->graph->initializer, body->graph->n_initializer,
                                    body->constants, body->n_constants);
        }
        if (lists[2 * i] == NULL || (body->graph != NULL && lists[2 * i + 1] == NULL)) {
            return oq_fail_memory(error, "the opset conversion");
        }
    }
    for (size_t i = 0; i < edit->n_bodies; i++) {
        struct oq_opset_body *body = edit->bodies[i];
        if (body->changed) {
            set_nodes(body, (Onnx__NodeProto **)lists[2 * i]);
        }
        if (body->graph != NULL && body->n_constants > 0) {
            body->graph->initializer = (Onnx__TensorProto **)lists[2 * i + 1];
            body->graph->n_initializer += body->n_constants;
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_refuse(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                                    struct onnxptq_error *error, const char *fact) {
    char name[NODE_TEXT_SIZE];
    oq_node_text(node, name, sizeof name);
    return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                   "cannot convert node '%s' (%s) from opset %lld to %lld: %s", name, node->op_type,
                   (long long)body->version, (long long)body->edit->target, fact);
}

/* ---- Nodes ---- */

Onnx__NodeProto *oq_opset_copy_node(struct oq_opset_body *body, const Onnx__NodeProto *node) {
    struct oq_arena *arena = oq_model_arena(body->edit->model);
    Onnx__NodeProto *copy = oq_arena_alloc(arena, sizeof *copy);
    if (copy == NULL) {
        body->edit->out_of_memory = true;
        return NULL;
    }
    *copy = *node;
    copy->input = join(arena, node->input, node->n_input, NULL, 0);
    copy->output = join(arena, node->output, node->n_output, NULL, 0);
    copy->attribute = join(arena, node->attribute, node->n_attribute, NULL, 0);
    if (copy->input == NULL || copy->output == NULL || copy->attribute == NULL) {
        body->edit->out_of_memory = true;
        return NULL;
    }
    return copy;
}

void oq_opset_emit(struct oq_opset_body *body, Onnx__NodeProto *node) {
    if (node == NULL || body->edit->out_of_memory) {
        return;
    }
    bool good = oq_grow((void **)&body->nodes, &body->capacity_nodes, body->n_nodes + 1,
                        sizeof(Onnx__NodeProto *));
    if (good) {
        body->nodes[body->n_nodes++] = node;
        body->changed = true;
    }
    for (size_t i = 0; good && i < node->n_output; i++) {
        good = oq_map_put_name(body->producers, node->output[i], (size_t)(uintptr_t)node);
    }
    body->edit->out_of_memory = !good;
}

const char *oq_opset_output(const Onnx__NodeProto *node, size_t index) {
    return node == NULL || index >= node->n_output || node->output[index] == NULL
               ? ""
               : node->output[index];
}

const char *oq_opset_input(const Onnx__NodeProto *node, size_t index) {
    return node == NULL || index >= node->n_input || node->input[index] == NULL
               ? ""
               : node->input[index];
}

const char *oq_opset_unique(struct oq_opset_body *body, const Onnx__NodeProto *near,
                            const char *suffix) {
    const char *base = near == NULL ? NULL : near->name;
    for (size_t i = 0; near != NULL && i < near->n_output && (base == NULL || *base == '\0'); i++) {
        base = near->output[i];
    }
    const char *wish = oq_arena_printf(oq_model_arena(body->edit->model), "%s_%s",
                                       base == NULL ? "" : base, suffix);
    const char *name = wish == NULL ? NULL : oq_names_unique(body->edit->names, wish);
    if (name == NULL) {
        body->edit->out_of_memory = true;
    }
    return name == NULL ? "" : name;
}

Onnx__NodeProto *oq_opset_add_node(struct oq_opset_body *body, const Onnx__NodeProto *near,
                                   const char *type, const char *const *inputs, size_t n_inputs) {
    const char *name = oq_opset_unique(body, near, type);
    const char *output = oq_opset_unique(body, near, type);
    Onnx__NodeProto *node =
        oq_node_create(body->edit->model, name, "", type, inputs, n_inputs, &output, 1);
    if (node == NULL) {
        body->edit->out_of_memory = true;
    }
    oq_opset_emit(body, node);
    return node;
}

const char *oq_opset_apply(struct oq_opset_body *body, const Onnx__NodeProto *near,
                           const char *type, const char *input, const char *second) {
    const char *const inputs[] = {input, second};
    return oq_opset_output(oq_opset_add_node(body, near, type, inputs, second == NULL ? 1 : 2), 0);
}

void oq_opset_set_input(struct oq_opset_body *body, Onnx__NodeProto *node, size_t index,
                        const char *name) {
    struct oq_arena *arena = oq_model_arena(body->edit->model);
    char *copy = oq_arena_strdup(arena, name);
    if (node != NULL && index >= node->n_input) {
        char **longer = oq_arena_array(arena, index + 1, sizeof(char *));
        for (size_t i = 0; longer != NULL && i < index + 1; i++) {
            longer[i] = i < node->n_input ? node->input[i] : (char *)protobuf_c_empty_string;
        }
        if (longer == NULL) {
            body->edit->out_of_memory = true;
            return;
        }
        node->input = longer;
        node->n_input = index + 1;
    }
    if (node == NULL || copy == NULL) {
        body->edit->out_of_memory = true;
        return;
    }
    node->input[index] = copy;
}

void oq_opset_set_type(struct oq_opset_body *body, Onnx__NodeProto *node, const char *type) {
    char *copy = oq_arena_strdup(oq_model_arena(body->edit->model), type);
    if (node == NULL || copy == NULL) {
        body->edit->out_of_memory = true;
        return;
    }
    node->op_type = copy;
}

static bool nodes_read(Onnx__NodeProto *const *nodes, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < nodes[i]->n_input; j++) {
            if (strcmp(oq_opset_input(nodes[i], j), name) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool body_returns(const struct oq_opset_body *body, const char *name) {
    const size_t n = body->graph != NULL ? body->graph->n_output : body->function->n_output;
    for (size_t i = 0; i < n; i++) {
        const char *output =
            body->graph != NULL ? body->graph->output[i]->name : body->function->output[i];
        if (output != NULL && strcmp(output, name) == 0) {
            return true;
        }
    }
    return false;
}

bool oq_opset_is_read(const struct oq_opset_edit *edit, const char *name) {
    for (size_t i = 0; i < edit->n_bodies; i++) {
        const struct oq_opset_body *body = edit->bodies[i];
        if (body_returns(body, name) || nodes_read(body->nodes, body->n_nodes, name) ||
            nodes_read(body->replaced, body->n_replaced, name)) {
            return true;
        }
    }
    return false;
}
