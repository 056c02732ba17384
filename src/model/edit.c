/*
 * Edits of a model; see edit.h. Unique names are in names.c.
 */
#include "model/edit.h"

#include "base/size.h"
#include "model/model_make.h"
#include "model/value_info.h"

#include <string.h>

/* ---- Arrays of messages in the arena ---- */

/* Appends to an array of a message. Arrays made here have room to double; how much is noted in the
 * model under the array's address, since the messages have no field for it. */
static bool append(struct oq_model *model, void *array, size_t *n, void *item) {
    void **items;
    memcpy(&items, array, sizeof(void *));
    struct oq_map *notes = oq_model_notes(model);
    size_t capacity = 0;
    if (items != NULL && !oq_map_get(notes, &items, sizeof(void *), &capacity)) {
        capacity = 0;
    }
    if (*n >= capacity) {
        if (!oq_size_mul(*n, 2, &capacity) || !oq_size_add(capacity, 8, &capacity)) {
            return false;
        }
        void **grown = oq_arena_array(oq_model_arena(model), capacity, sizeof(void *));
        if (grown == NULL || !oq_map_put_copy(notes, &grown, sizeof(void *), capacity)) {
            return false;
        }
        if (items != NULL && *n > 0) {
            memcpy(grown, items, *n * sizeof(void *));
        }
        items = grown;
        memcpy(array, &items, sizeof(void *));
    }
    items[(*n)++] = item;
    return true;
}

static char **copy_names(struct oq_model *model, const char *const *names, size_t n) {
    struct oq_arena *arena = oq_model_arena(model);
    char **copies = oq_arena_array(arena, n, sizeof(char *));
    for (size_t i = 0; copies != NULL && i < n; i++) {
        copies[i] = oq_arena_strdup(arena, oq_text(names[i]));
        if (copies[i] == NULL) {
            return NULL;
        }
    }
    return copies;
}

/* ---- Nodes ---- */

Onnx__NodeProto *oq_node_create(struct oq_model *model, const char *name, const char *domain,
                                const char *type, const char *const *inputs, size_t n_inputs,
                                const char *const *outputs, size_t n_outputs) {
    struct oq_arena *arena = oq_model_arena(model);
    Onnx__NodeProto *node = oq_arena_alloc(arena, sizeof *node);
    if (node == NULL) {
        return NULL;
    }
    onnx__node_proto__init(node);
    node->name = oq_arena_strdup(arena, oq_text(name));
    node->op_type = oq_arena_strdup(arena, type);
    node->input = copy_names(model, inputs, n_inputs);
    node->output = copy_names(model, outputs, n_outputs);
    const bool has_domain = domain != NULL && domain[0] != '\0';
    node->domain = has_domain ? oq_arena_strdup(arena, domain) : NULL;
    if (node->name == NULL || node->op_type == NULL || node->input == NULL ||
        node->output == NULL || (has_domain && node->domain == NULL)) {
        return NULL;
    }
    node->n_input = n_inputs;
    node->n_output = n_outputs;
    return node;
}

static Onnx__AttributeProto *create_attribute(struct oq_model *model, const char *name,
                                              Onnx__AttributeProto__AttributeType type) {
    struct oq_arena *arena = oq_model_arena(model);
    Onnx__AttributeProto *attribute = oq_arena_alloc(arena, sizeof *attribute);
    if (attribute == NULL) {
        return NULL;
    }
    onnx__attribute_proto__init(attribute);
    attribute->name = oq_arena_strdup(arena, name);
    attribute->has_type = 1;
    attribute->type = type;
    return attribute->name != NULL ? attribute : NULL;
}

/* In the place of one of the same name. */
static bool set_attribute(struct oq_model *model, Onnx__NodeProto *node,
                          Onnx__AttributeProto *attribute) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        const char *name = node->attribute[i]->name;
        if (name != NULL && strcmp(name, attribute->name) == 0) {
            node->attribute[i] = attribute;
            return true;
        }
    }
    return append(model, &node->attribute, &node->n_attribute, attribute);
}

bool oq_node_set_int(struct oq_model *model, Onnx__NodeProto *node, const char *name,
                     int64_t value) {
    Onnx__AttributeProto *attribute =
        create_attribute(model, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (attribute == NULL) {
        return false;
    }
    attribute->has_i = 1;
    attribute->i = value;
    return set_attribute(model, node, attribute);
}

bool oq_node_set_float(struct oq_model *model, Onnx__NodeProto *node, const char *name,
                       float value) {
    Onnx__AttributeProto *attribute =
        create_attribute(model, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    if (attribute == NULL) {
        return false;
    }
    attribute->has_f = 1;
    attribute->f = value;
    return set_attribute(model, node, attribute);
}

bool oq_node_set_text(struct oq_model *model, Onnx__NodeProto *node, const char *name,
                      const char *value) {
    Onnx__AttributeProto *attribute =
        create_attribute(model, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    if (attribute == NULL) {
        return false;
    }
    attribute->has_s = 1;
    attribute->s.len = strlen(value);
    attribute->s.data = (uint8_t *)oq_arena_strdup(oq_model_arena(model), value);
    return attribute->s.data != NULL && set_attribute(model, node, attribute);
}

bool oq_graph_append_node(struct oq_model *model, Onnx__GraphProto *graph, Onnx__NodeProto *node) {
    return append(model, &graph->node, &graph->n_node, node);
}

bool oq_graph_set_nodes(struct oq_model *model, Onnx__GraphProto *graph,
                        Onnx__NodeProto *const *nodes, size_t n) {
    Onnx__NodeProto **copy = oq_arena_array(oq_model_arena(model), n, sizeof(Onnx__NodeProto *));
    if (copy == NULL) {
        return false;
    }
    if (n > 0) {
        memcpy(copy, nodes, n * sizeof(Onnx__NodeProto *));
    }
    graph->node = copy;
    graph->n_node = n;
    return true;
}

/* ---- Initializers, inputs, outputs ---- */

bool oq_graph_add_initializer(struct oq_model *model, Onnx__GraphProto *graph,
                              Onnx__TensorProto *tensor) {
    return append(model, &graph->initializer, &graph->n_initializer, tensor);
}

static Onnx__ValueInfoProto *create_value_info(struct oq_arena *arena, const char *name) {
    Onnx__ValueInfoProto *info = oq_arena_alloc(arena, sizeof *info);
    if (info != NULL) {
        onnx__value_info_proto__init(info);
        info->name = oq_arena_strdup(arena, name);
    }
    return info == NULL || info->name == NULL ? NULL : info;
}

bool oq_graph_add_output(struct oq_model *model, Onnx__GraphProto *graph, const char *name) {
    Onnx__ValueInfoProto *info = create_value_info(oq_model_arena(model), name);
    return info != NULL && append(model, &graph->output, &graph->n_output, info);
}

static Onnx__TensorShapeProto *create_shape(struct oq_arena *arena, const int64_t *shape,
                                            size_t rank) {
    Onnx__TensorShapeProto *proto = oq_arena_alloc(arena, sizeof *proto);
    Onnx__TensorShapeProto__Dimension **dims = oq_arena_array(arena, rank, sizeof(void *));
    if (proto == NULL || dims == NULL) {
        return NULL;
    }
    onnx__tensor_shape_proto__init(proto);
    for (size_t i = 0; i < rank; i++) {
        dims[i] = oq_arena_alloc(arena, sizeof *dims[i]);
        if (dims[i] == NULL) {
            return NULL;
        }
        onnx__tensor_shape_proto__dimension__init(dims[i]);
        if (shape[i] >= 0) {
            dims[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dims[i]->dim_value = shape[i];
        }
    }
    proto->dim = dims;
    proto->n_dim = rank;
    return proto;
}

static Onnx__TypeProto *create_type(struct oq_arena *arena, int type, const int64_t *shape,
                                    size_t rank) {
    Onnx__TypeProto *proto = oq_arena_alloc(arena, sizeof *proto);
    Onnx__TypeProto__Tensor *tensor = oq_arena_alloc(arena, sizeof *tensor);
    if (proto == NULL || tensor == NULL) {
        return NULL;
    }
    onnx__type_proto__init(proto);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    tensor->shape = create_shape(arena, shape, rank);
    proto->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    proto->tensor_type = tensor;
    return tensor->shape == NULL ? NULL : proto;
}

bool oq_graph_add_value_info(struct oq_model *model, Onnx__GraphProto *graph, const char *name,
                             int type, const int64_t *shape, size_t rank) {
    struct oq_arena *arena = oq_model_arena(model);
    Onnx__TypeProto *proto = create_type(arena, type, shape, rank);
    if (proto == NULL) {
        return false;
    }
    Onnx__ValueInfoProto *info = oq_value_info_find(graph->value_info, graph->n_value_info, name);
    if (info != NULL) {
        info->type = proto;
        return true;
    }
    info = create_value_info(arena, name);
    if (info == NULL) {
        return false;
    }
    info->type = proto;
    return append(model, &graph->value_info, &graph->n_value_info, info);
}

/* ---- Operator sets ---- */

/* `imports` is the model's list or a function's. */
static bool import_opset(struct oq_model *model, Onnx__OperatorSetIdProto ***imports, size_t *n,
                         const char *domain, int64_t version) {
    struct oq_arena *arena = oq_model_arena(model);
    bool found = false;
    for (size_t i = 0; i < *n; i++) {
        Onnx__OperatorSetIdProto *import = (*imports)[i];
        if (oq_same_domain(import->domain, domain)) {
            found = true;
            import->has_version = 1;
            import->version = import->version > version ? import->version : version;
        }
    }
    if (found) {
        return true;
    }
    Onnx__OperatorSetIdProto *import = oq_arena_alloc(arena, sizeof *import);
    if (import == NULL) {
        return false;
    }
    onnx__operator_set_id_proto__init(import);
    import->domain = oq_arena_strdup(arena, oq_is_default_domain(domain) ? "" : domain);
    import->has_version = 1;
    import->version = version;
    return import->domain != NULL && append(model, imports, n, import);
}

bool oq_model_import_opset(struct oq_model *model, const char *domain, int64_t version) {
    Onnx__ModelProto *proto = oq_model_proto(model);
    return import_opset(model, &proto->opset_import, &proto->n_opset_import, domain, version);
}

bool oq_function_import_opset(struct oq_model *model, Onnx__FunctionProto *function,
                              const char *domain, int64_t version) {
    return import_opset(model, &function->opset_import, &function->n_opset_import, domain, version);
}

/* ---- IR version ---- */

static struct oq_map *list_initializers(const Onnx__GraphProto *graph) {
    struct oq_map *names = oq_map_create();
    bool done = names != NULL;
    for (size_t i = 0; done && i < graph->n_initializer; i++) {
        done = oq_map_put_name(names, oq_text(graph->initializer[i]->name), i);
    }
    if (!done) {
        oq_map_destroy(names);
        return NULL;
    }
    return names;
}

bool oq_model_free_initializers(struct oq_model *model) {
    Onnx__ModelProto *proto = oq_model_proto(model);
    Onnx__GraphProto *graph = proto->graph;
    if (proto->ir_version >= OQ_IR_FREE_INITIALIZERS) {
        return true;
    }
    struct oq_map *initializers = list_initializers(graph);
    if (initializers == NULL) {
        return false;
    }
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_input; i++) {
        if (!oq_map_get_name(initializers, oq_text(graph->input[i]->name), NULL)) {
            graph->input[kept++] = graph->input[i];
        }
    }
    graph->n_input = kept;
    proto->has_ir_version = 1;
    proto->ir_version = OQ_IR_FREE_INITIALIZERS;
    oq_map_destroy(initializers);
    return true;
}
