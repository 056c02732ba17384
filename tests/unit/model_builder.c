/*
 * Small models made in memory, for unit tests.
 */
#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

#define MAX_LIST 32

/* Splits at commas, in the arena. "" is no item; "a,,b" are three. */
static size_t split(struct oq_model *model, const char *text, const char *items[MAX_LIST]) {
    if (text == NULL || *text == '\0') {
        return 0;
    }
    size_t n = 0;
    while (true) {
        size_t length = strcspn(text, ",");
        assert_true(n < MAX_LIST);
        items[n] = oq_arena_strndup(oq_model_arena(model), text, length);
        assert_non_null(items[n]);
        n++;
        if (text[length] == '\0') {
            return n;
        }
        text += length + 1;
    }
}

static size_t parse_shape(struct oq_model *model, const char *text, int64_t shape[MAX_LIST]) {
    const char *items[MAX_LIST];
    size_t n = split(model, text, items);
    for (size_t i = 0; i < n; i++) {
        shape[i] = strtoll(items[i], NULL, 10);
    }
    return n;
}

static void *make(struct oq_model *model, size_t size) {
    void *made = oq_arena_alloc(oq_model_arena(model), size);
    assert_non_null(made);
    return made;
}

struct oq_model *oq_test_model_create(int64_t opset) {
    Onnx__ModelProto proto = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__OperatorSetIdProto import = ONNX__OPERATOR_SET_ID_PROTO__INIT;
    Onnx__OperatorSetIdProto *imports[] = {&import};
    import.domain = (char *)"";
    import.has_version = 1;
    import.version = opset;
    graph.name = (char *)"g";
    proto.has_ir_version = 1;
    proto.ir_version = 8;
    proto.graph = &graph;
    proto.opset_import = imports;
    proto.n_opset_import = 1;
    uint8_t bytes[256];
    size_t size = onnx__model_proto__pack(&proto, bytes);
    struct oq_model *model = NULL;
    struct onnxptq_error error = {0};
    if (oq_model_read_memory(bytes, size, NULL, &model, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return model;
}

struct oq_model *oq_test_model_reload(struct oq_model *model) {
    const Onnx__ModelProto *proto = oq_model_proto(model);
    size_t size = onnx__model_proto__get_packed_size(proto);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    onnx__model_proto__pack(proto, bytes);
    struct oq_model *read = NULL;
    struct onnxptq_error error = {0};
    if (oq_model_read_memory(bytes, size, NULL, &read, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    free(bytes);
    oq_model_destroy(model);
    return read;
}

Onnx__GraphProto *oq_test_main_graph(struct oq_model *model) {
    return oq_model_proto(model)->graph;
}

/* ---- Inputs and outputs --------------------------------------------------------------------- */

static Onnx__TensorShapeProto *make_shape(struct oq_model *model, const char *text) {
    const char *items[MAX_LIST];
    Onnx__TensorShapeProto *shape = make(model, sizeof *shape);
    onnx__tensor_shape_proto__init(shape);
    shape->n_dim = split(model, text, items);
    shape->dim = make(model, (shape->n_dim + 1) * sizeof(void *));
    for (size_t i = 0; i < shape->n_dim; i++) {
        Onnx__TensorShapeProto__Dimension *dim = make(model, sizeof *dim);
        onnx__tensor_shape_proto__dimension__init(dim);
        char *end;
        dim->dim_value = strtoll(items[i], &end, 10);
        dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        if (*end != '\0') {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = (char *)items[i];
        }
        shape->dim[i] = dim;
    }
    return shape;
}

static Onnx__ValueInfoProto *make_value_info(struct oq_model *model, const char *name, int type,
                                             const char *shape) {
    Onnx__ValueInfoProto *info = make(model, sizeof *info);
    onnx__value_info_proto__init(info);
    info->name = oq_arena_strdup(oq_model_arena(model), name);
    info->type = make(model, sizeof *info->type);
    onnx__type_proto__init(info->type);
    Onnx__TypeProto__Tensor *tensor = make(model, sizeof *tensor);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    tensor->shape = shape ? make_shape(model, shape) : NULL;
    info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    info->type->tensor_type = tensor;
    return info;
}

static void append(struct oq_model *model, Onnx__ValueInfoProto ***list, size_t *n,
                   Onnx__ValueInfoProto *info) {
    Onnx__ValueInfoProto **grown = make(model, (*n + 1) * sizeof *grown);
    for (size_t i = 0; i < *n; i++) {
        grown[i] = (*list)[i];
    }
    grown[(*n)++] = info;
    *list = grown;
}

void oq_test_add_input(struct oq_model *model, Onnx__GraphProto *graph, const char *name, int type,
                       const char *shape) {
    append(model, &graph->input, &graph->n_input, make_value_info(model, name, type, shape));
}

void oq_test_add_output(struct oq_model *model, Onnx__GraphProto *graph, const char *name, int type,
                        const char *shape) {
    append(model, &graph->output, &graph->n_output, make_value_info(model, name, type, shape));
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

Onnx__NodeProto *oq_test_add_node(struct oq_model *model, Onnx__GraphProto *graph, const char *op,
                                  const char *name, const char *inputs, const char *outputs) {
    const char *in[MAX_LIST];
    const char *out[MAX_LIST];
    size_t n_in = split(model, inputs, in);
    size_t n_out = split(model, outputs, out);
    const char *colons = strstr(op, "::");
    const char *domain =
        colons ? oq_arena_strndup(oq_model_arena(model), op, (size_t)(colons - op)) : "";
    const char *type = colons ? colons + 2 : op;
    Onnx__NodeProto *node = oq_node_create(model, name, domain, type, in, n_in, out, n_out);
    assert_non_null(node);
    assert_true(oq_graph_append_node(model, graph, node));
    if (colons) {
        assert_true(oq_model_import_opset(model, domain, 1));
    }
    return node;
}

static Onnx__AttributeProto *add_attribute(struct oq_model *model, Onnx__NodeProto *node,
                                           const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
    Onnx__AttributeProto *attribute = make(model, sizeof *attribute);
    onnx__attribute_proto__init(attribute);
    attribute->name = oq_arena_strdup(oq_model_arena(model), name);
    attribute->has_type = 1;
    attribute->type = type;
    Onnx__AttributeProto **grown = make(model, (node->n_attribute + 1) * sizeof *grown);
    for (size_t i = 0; i < node->n_attribute; i++) {
        grown[i] = node->attribute[i];
    }
    grown[node->n_attribute++] = attribute;
    node->attribute = grown;
    return attribute;
}

Onnx__GraphProto *oq_test_add_body(struct oq_model *model, Onnx__NodeProto *node,
                                   const char *attribute, const char *name) {
    Onnx__AttributeProto *made =
        add_attribute(model, node, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    made->g = make(model, sizeof *made->g);
    onnx__graph_proto__init(made->g);
    made->g->name = oq_arena_strdup(oq_model_arena(model), name);
    return made->g;
}

void oq_test_set_float(struct oq_model *model, Onnx__NodeProto *node, const char *name,
                       float value) {
    Onnx__AttributeProto *made =
        add_attribute(model, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    made->has_f = 1;
    made->f = value;
}

/* ---- Constants ------------------------------------------------------------------------------ */

static Onnx__TensorProto *make_floats(struct oq_model *model, const char *name, const char *text,
                                      const float *data) {
    int64_t shape[MAX_LIST];
    size_t rank = parse_shape(model, text, shape);
    size_t n = 1;
    for (size_t i = 0; i < rank; i++) {
        n *= (size_t)shape[i];
    }
    Onnx__TensorProto *tensor =
        oq_tensor_create(model, name, ONNXPTQ_TYPE_FLOAT, shape, rank, data, n * sizeof(float));
    assert_non_null(tensor);
    return tensor;
}

Onnx__TensorProto *oq_test_add_floats(struct oq_model *model, Onnx__GraphProto *graph,
                                      const char *name, const char *shape, const float *data) {
    Onnx__TensorProto *tensor = make_floats(model, name, shape, data);
    assert_true(oq_graph_add_initializer(model, graph, tensor));
    return tensor;
}

void oq_test_add_constant(struct oq_model *model, Onnx__GraphProto *graph, const char *name,
                          const char *shape, const float *data) {
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "Constant", name, "", name);
    Onnx__AttributeProto *value =
        add_attribute(model, node, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    value->t = make_floats(model, "", shape, data);
}

/* ---- Looking -------------------------------------------------------------------------------- */

struct oq_graph *oq_test_graph(const struct oq_model *model) {
    struct oq_graph *graph = NULL;
    struct onnxptq_error error = {0};
    if (oq_graph_build(model, &graph, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return graph;
}

uint32_t oq_test_value(const struct oq_graph *graph, const char *name) {
    for (uint32_t i = 0; i < oq_graph_n_values(graph); i++) {
        if (strcmp(oq_graph_value(graph, i)->name, name) == 0) {
            return i;
        }
    }
    fail_msg("no tensor '%s'", name);
    return OQ_NONE;
}

uint32_t oq_test_node(const struct oq_graph *graph, const char *name) {
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        if (strcmp(oq_graph_node(graph, i)->name, name) == 0) {
            return i;
        }
    }
    fail_msg("no node '%s'", name);
    return OQ_NONE;
}

const Onnx__TensorProto *oq_test_initializer(const Onnx__GraphProto *graph, const char *name) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (strcmp(graph->initializer[i]->name, name) == 0) {
            return graph->initializer[i];
        }
    }
    return NULL;
}
