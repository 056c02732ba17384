/*
 * Reading the graph index; see graph.h. It is built in graph_build.c.
 */
#include "model/graph.h"

#include "model/graph_build.h"
#include "model/tensor.h"

#include <stdlib.h>
#include <string.h>

const Onnx__TensorProto oq_graph_unknown_constant = ONNX__TENSOR_PROTO__INIT;

void oq_graph_destroy(struct oq_graph *graph) {
    if (graph == NULL) {
        return;
    }
    for (size_t i = 0; i < graph->n_scopes; i++) {
        oq_map_destroy(graph->names[i]);
    }
    oq_map_destroy(graph->functions);
    free(graph->names);
    free(graph->scopes);
    free(graph->nodes);
    free(graph->values);
    oq_arena_destroy(graph->arena);
    free(graph);
}

const struct oq_model *oq_graph_model(const struct oq_graph *graph) {
    return graph->model;
}

uint32_t oq_graph_n_scopes(const struct oq_graph *graph) {
    return (uint32_t)graph->n_scopes;
}

uint32_t oq_graph_n_nodes(const struct oq_graph *graph) {
    return (uint32_t)graph->n_nodes;
}

uint32_t oq_graph_n_values(const struct oq_graph *graph) {
    return (uint32_t)graph->n_values;
}

const struct oq_scope *oq_graph_scope(const struct oq_graph *graph, uint32_t scope) {
    return &graph->scopes[scope];
}

const struct oq_node *oq_graph_node(const struct oq_graph *graph, uint32_t node) {
    return &graph->nodes[node];
}

const struct oq_value *oq_graph_value(const struct oq_graph *graph, uint32_t value) {
    return &graph->values[value];
}

uint32_t oq_graph_find_value(const struct oq_graph *graph, uint32_t scope, const char *name) {
    for (; scope != OQ_NONE; scope = graph->scopes[scope].parent) {
        size_t found;
        if (oq_map_get_name(graph->names[scope], name, &found)) {
            return (uint32_t)found;
        }
    }
    return OQ_NONE;
}

/* ---- Attributes ---- */

const Onnx__AttributeProto *oq_attribute(const Onnx__NodeProto *node, const char *name) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->attribute[i];
        if (attribute->name != NULL && strcmp(attribute->name, name) == 0) {
            return attribute;
        }
    }
    return NULL;
}

/* Of that kind by its declared type or, in models older than the type field, by the field in use.
 */
static bool is_kind(const Onnx__AttributeProto *attribute, Onnx__AttributeProto__AttributeType type,
                    bool in_use) {
    if (attribute == NULL) {
        return false;
    }
    return attribute->has_type ? attribute->type == type : in_use;
}

int64_t oq_attribute_int(const Onnx__NodeProto *node, const char *name, int64_t missing) {
    const Onnx__AttributeProto *attribute = oq_attribute(node, name);
    return is_kind(attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
                   attribute != NULL && attribute->has_i)
               ? attribute->i
               : missing;
}

float oq_attribute_float(const Onnx__NodeProto *node, const char *name, float missing) {
    const Onnx__AttributeProto *attribute = oq_attribute(node, name);
    return is_kind(attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
                   attribute != NULL && attribute->has_f)
               ? attribute->f
               : missing;
}

const int64_t *oq_attribute_ints(const Onnx__NodeProto *node, const char *name, size_t *n) {
    const Onnx__AttributeProto *attribute = oq_attribute(node, name);
    *n = 0;
    if (!is_kind(attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
                 attribute != NULL && attribute->n_ints > 0)) {
        return NULL;
    }
    *n = attribute->n_ints;
    return attribute->ints;
}

/* ---- Constants ---- */

static const Onnx__TensorProto *make_constant(const struct oq_graph *graph, const char *name,
                                              int type, const size_t *length, const void *data,
                                              size_t size) {
    int64_t shape = length == NULL ? 0 : (int64_t)*length;
    return oq_tensor_create_in(oq_model_arena(graph->model), name, type, &shape,
                               length == NULL ? 0 : 1, data, size);
}

static const Onnx__TensorProto *constant_of_node(const struct oq_graph *graph,
                                                 const struct oq_value *value,
                                                 const Onnx__NodeProto *node) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        const char *name = oq_text(a->name);
        if (strcmp(name, "value") == 0 && a->t != NULL) {
            return a->t;
        }
        if (strcmp(name, "value_float") == 0) {
            return make_constant(graph, value->name, ONNXPTQ_TYPE_FLOAT, NULL, &a->f, sizeof a->f);
        }
        if (strcmp(name, "value_int") == 0) {
            return make_constant(graph, value->name, ONNXPTQ_TYPE_INT64, NULL, &a->i, sizeof a->i);
        }
        if (strcmp(name, "value_floats") == 0) {
            return make_constant(graph, value->name, ONNXPTQ_TYPE_FLOAT, &a->n_floats, a->floats,
                                 a->n_floats * sizeof *a->floats);
        }
        if (strcmp(name, "value_ints") == 0) {
            return make_constant(graph, value->name, ONNXPTQ_TYPE_INT64, &a->n_ints, a->ints,
                                 a->n_ints * sizeof *a->ints);
        }
    }
    return NULL;
}

/* The node that produces a value, when it is of that type in the default domain. */
static const struct oq_node *producer_of_type(const struct oq_graph *graph,
                                              const struct oq_value *value, const char *type) {
    if (value->producer == OQ_NONE) {
        return NULL;
    }
    const struct oq_node *node = &graph->nodes[value->producer];
    const bool is = oq_is_default_domain(node->proto->domain) && !node->local_function &&
                    node->proto->op_type != NULL && strcmp(node->proto->op_type, type) == 0;
    return is ? node : NULL;
}

static const Onnx__TensorProto *find_constant(const struct oq_graph *graph, uint32_t value) {
    for (;;) {
        const struct oq_value *current = &graph->values[value];
        if (current->initializer != NULL) {
            return current->initializer;
        }
        const struct oq_node *node = producer_of_type(graph, current, "Constant");
        if (node != NULL) {
            return constant_of_node(graph, current, node->proto);
        }
        node = producer_of_type(graph, current, "Identity");
        if (node == NULL || node->proto->n_input == 0 || node->inputs[0] == OQ_NONE) {
            return NULL;
        }
        value = node->inputs[0];
    }
}

const Onnx__TensorProto *oq_graph_constant(const struct oq_graph *graph, uint32_t value) {
    const Onnx__TensorProto **slot = &graph->constants[value];
    if (*slot == &oq_graph_unknown_constant) {
        *slot = find_constant(graph, value);
    }
    return *slot;
}
