/*
 * Attributes and constants of nodes under construction; see opset_edit.h.
 */
#include "prepare/opset_edit.h"

#include "base/number.h"
#include "model/tensor.h"

#include <string.h>

/* ---- Setting attributes ---- */

/* An attribute of that name without a value; replaces the one of the node. NULL: out of memory. */
static Onnx__AttributeProto *new_attribute(struct oq_opset_body *body, Onnx__NodeProto *node,
                                           const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
    struct oq_arena *arena = oq_model_arena(body->edit->model);
    Onnx__AttributeProto *attribute = oq_arena_alloc(arena, sizeof *attribute);
    Onnx__AttributeProto **all =
        node == NULL ? NULL : oq_arena_array(arena, node->n_attribute + 1, sizeof(void *));
    char *own_name = oq_arena_strdup(arena, name);
    if (attribute == NULL || all == NULL || own_name == NULL) {
        body->edit->out_of_memory = true;
        return NULL;
    }
    onnx__attribute_proto__init(attribute);
    attribute->name = own_name;
    attribute->has_type = 1;
    attribute->type = type;
    oq_opset_remove_attribute(node, name);
    if (node->n_attribute > 0) {
        memcpy(all, node->attribute, node->n_attribute * sizeof(void *));
    }
    all[node->n_attribute++] = attribute;
    node->attribute = all;
    return attribute;
}

void oq_opset_set_int(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                      int64_t value) {
    Onnx__AttributeProto *attribute =
        new_attribute(body, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (attribute != NULL) {
        attribute->has_i = 1;
        attribute->i = value;
    }
}

void oq_opset_set_ints(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                       const int64_t *values, size_t n) {
    Onnx__AttributeProto *attribute =
        new_attribute(body, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    int64_t *copy = oq_arena_array(oq_model_arena(body->edit->model), n, sizeof *copy);
    if (attribute == NULL || copy == NULL) {
        body->edit->out_of_memory = true;
        return;
    }
    if (n > 0) {
        memcpy(copy, values, n * sizeof *copy);
    }
    attribute->ints = copy;
    attribute->n_ints = n;
}

void oq_opset_set_string(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                         const char *value) {
    Onnx__AttributeProto *attribute =
        new_attribute(body, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    char *copy = oq_arena_strdup(oq_model_arena(body->edit->model), value);
    if (attribute == NULL || copy == NULL) {
        body->edit->out_of_memory = true;
        return;
    }
    attribute->has_s = 1;
    attribute->s = (ProtobufCBinaryData){strlen(copy), (uint8_t *)copy};
}

void oq_opset_set_tensor(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                         Onnx__TensorProto *value) {
    Onnx__AttributeProto *attribute =
        new_attribute(body, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    if (value == NULL) {
        body->edit->out_of_memory = true;
    } else if (attribute != NULL) {
        attribute->t = value;
    }
}

void oq_opset_set_graph(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                        Onnx__GraphProto *value) {
    Onnx__AttributeProto *attribute =
        new_attribute(body, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    if (attribute != NULL) {
        attribute->g = value;
    }
}

void oq_opset_remove_attribute(Onnx__NodeProto *node, const char *name) {
    size_t kept = 0;
    for (size_t i = 0; node != NULL && i < node->n_attribute; i++) {
        const char *own = node->attribute[i]->name;
        if (own == NULL || strcmp(own, name) != 0) {
            node->attribute[kept++] = node->attribute[i];
        }
    }
    if (node != NULL) {
        node->n_attribute = kept;
    }
}

bool oq_opset_is_string(const Onnx__NodeProto *node, const char *name, const char *missing,
                        const char *value) {
    const Onnx__AttributeProto *attribute = oq_attribute(node, name);
    if (attribute == NULL || !attribute->has_s) {
        return strcmp(missing, value) == 0;
    }
    return attribute->s.len == strlen(value) &&
           memcmp(attribute->s.data, value, attribute->s.len) == 0;
}

/* ---- Attributes that a function takes from its caller ---- */

static bool is_reference(const Onnx__AttributeProto *attribute) {
    return attribute != NULL && attribute->ref_attr_name != NULL &&
           attribute->ref_attr_name[0] != '\0';
}

enum onnxptq_status oq_opset_require_values(const struct oq_opset_body *body,
                                            const Onnx__NodeProto *node, const char *const *names,
                                            struct onnxptq_error *error) {
    for (size_t i = 0; names[i] != NULL; i++) {
        if (node != NULL && is_reference(oq_attribute(node, names[i]))) {
            return oq_opset_refuse(body, node, error,
                                   "an attribute of it is set by the caller of the function that "
                                   "it lies in; export the model again with that opset");
        }
    }
    return ONNXPTQ_OK;
}

static bool same_text(const char *a, const char *b) {
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

static bool is_call(const Onnx__NodeProto *node, const Onnx__FunctionProto *function) {
    return same_text(node->op_type, function->name) &&
           same_text(node->overload, function->overload) &&
           (same_text(node->domain, function->domain) ||
            (oq_is_default_domain(node->domain) && oq_is_default_domain(function->domain)));
}

static bool all_calls_set(Onnx__NodeProto *const *nodes, size_t n,
                          const Onnx__FunctionProto *function, const char *attribute) {
    for (size_t i = 0; i < n; i++) {
        if (is_call(nodes[i], function)) {
            const Onnx__AttributeProto *set = oq_attribute(nodes[i], attribute);
            if (set == NULL || is_reference(set)) {
                return false;
            }
        }
    }
    return true;
}

/* Whether the function has a value for its attribute in every call. Otherwise the attribute that
 * refers to it is absent in some calls, which a constant cannot be. */
static bool is_always_set(const struct oq_opset_body *body, const char *attribute) {
    if (body->function == NULL) {
        return false;
    }
    for (size_t i = 0; i < body->function->n_attribute_proto; i++) {
        if (same_text(body->function->attribute_proto[i]->name, attribute)) {
            return true;
        }
    }
    for (size_t i = 0; i < body->edit->n_bodies; i++) {
        const struct oq_opset_body *other = body->edit->bodies[i];
        if (!all_calls_set(other->nodes, other->n_nodes, body->function, attribute) ||
            !all_calls_set(other->replaced, other->n_replaced, body->function, attribute)) {
            return false;
        }
    }
    return true;
}

/* A Constant node whose attribute `form` is that attribute of the function. */
static enum onnxptq_status refer(struct oq_opset_body *body, Onnx__NodeProto *node,
                                 const Onnx__AttributeProto *attribute, const char *form,
                                 size_t input, struct onnxptq_error *error) {
    /* Constant has had these forms since opset 12. */
    if (body->edit->target < 12 || !is_always_set(body, attribute->ref_attr_name)) {
        const char *const names[] = {attribute->name, NULL};
        return oq_opset_require_values(body, node, names, error);
    }
    Onnx__NodeProto *constant = oq_opset_add_node(body, node, "Constant", NULL, 0);
    Onnx__AttributeProto *value =
        constant == NULL ? NULL : new_attribute(body, constant, form, attribute->type);
    if (value != NULL) {
        value->ref_attr_name = attribute->ref_attr_name;
    }
    oq_opset_set_input(body, node, input, oq_opset_output(constant, 0));
    return ONNXPTQ_OK;
}

/* ---- Constants ---- */

static void add_initializer(struct oq_opset_body *body, Onnx__TensorProto *tensor) {
    if (tensor == NULL ||
        !oq_grow((void **)&body->constants, &body->capacity_constants, body->n_constants + 1,
                 sizeof(Onnx__TensorProto *)) ||
        !oq_map_put_name(body->tensors, tensor->name, (size_t)(uintptr_t)tensor)) {
        body->edit->out_of_memory = true;
        return;
    }
    body->constants[body->n_constants++] = tensor;
}

const char *oq_opset_constant(struct oq_opset_body *body, const Onnx__NodeProto *near,
                              const char *suffix, int type, const int64_t *shape, size_t rank,
                              const void *data, size_t size) {
    const char *name = oq_opset_unique(body, near, suffix);
    Onnx__TensorProto *tensor =
        oq_tensor_create(body->edit->model, name, type, shape, rank, data, size);
    if (body->function == NULL) {
        add_initializer(body, tensor);
        return name;
    }
    Onnx__NodeProto *node =
        oq_node_create(body->edit->model, "", "", "Constant", NULL, 0, &name, 1);
    oq_opset_set_tensor(body, node, "value", tensor);
    oq_opset_emit(body, node);
    return name;
}

const char *oq_opset_constant_ints(struct oq_opset_body *body, const Onnx__NodeProto *near,
                                   const char *suffix, const int64_t *values, size_t n) {
    const int64_t shape[] = {(int64_t)n};
    return oq_opset_constant(body, near, suffix, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, shape, 1,
                             values, n * sizeof *values);
}

const char *oq_opset_constant_float(struct oq_opset_body *body, const Onnx__NodeProto *near,
                                    const char *suffix, int type, float value) {
    uint8_t data[sizeof(double)];
    oq_store_float(type, (double)value, data);
    return oq_opset_constant(body, near, suffix, type, NULL, 0, data, oq_type_size(type));
}

/* ---- From attribute to input ---- */

enum onnxptq_status oq_opset_move_ints(struct oq_opset_body *body, Onnx__NodeProto *node,
                                       const char *attribute, size_t input,
                                       struct onnxptq_error *error) {
    const Onnx__AttributeProto *old = node == NULL ? NULL : oq_attribute(node, attribute);
    if (old == NULL) {
        return ONNXPTQ_OK;
    }
    if (is_reference(old)) {
        OQ_TRY(refer(body, node, old, "value_ints", input, error));
    } else {
        oq_opset_set_input(body, node, input,
                           oq_opset_constant_ints(body, node, attribute, old->ints, old->n_ints));
    }
    oq_opset_remove_attribute(node, attribute);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_move_scalar(struct oq_opset_body *body, Onnx__NodeProto *node,
                                         const char *attribute, int type, size_t input,
                                         struct onnxptq_error *error) {
    const Onnx__AttributeProto *old = node == NULL ? NULL : oq_attribute(node, attribute);
    if (old == NULL) {
        return ONNXPTQ_OK;
    }
    const bool integer = type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    if (is_reference(old)) {
        if (!integer && type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) {
            const char *const names[] = {attribute, NULL};
            return oq_opset_require_values(body, node, names, error);
        }
        OQ_TRY(refer(body, node, old, integer ? "value_int" : "value_float", input, error));
    } else if (integer) {
        oq_opset_set_input(
            body, node, input,
            oq_opset_constant(body, node, attribute, type, NULL, 0, &old->i, sizeof old->i));
    } else {
        oq_opset_set_input(body, node, input,
                           oq_opset_constant_float(body, node, attribute, type, old->f));
    }
    oq_opset_remove_attribute(node, attribute);
    return ONNXPTQ_OK;
}
