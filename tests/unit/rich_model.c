/*
 * A model with tensors in every place that ONNX has for them.
 */
#include "rich_model.h"

#include "model/tensor.h"
#include "model/write.h"
#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static void *make(struct oq_model *model, size_t size) {
    void *made = oq_arena_alloc(oq_model_arena(model), size);
    assert_non_null(made);
    return made;
}

static Onnx__TensorProto *make_large(struct oq_model *model, const char *name, int index) {
    const int64_t shape[] = {8, RICH_FLOATS / 8};
    float data[RICH_FLOATS];
    for (int i = 0; i < RICH_FLOATS; i++) {
        data[i] = (float)(1000 * index + i);
    }
    Onnx__TensorProto *tensor =
        oq_tensor_create(model, name, ONNXPTQ_TYPE_FLOAT, shape, 2, data, sizeof data);
    assert_non_null(tensor);
    return tensor;
}

static Onnx__AttributeProto *add_attribute(struct oq_model *model, Onnx__NodeProto *node,
                                           const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
    assert_true(oq_node_set_int(model, node, name, 0));
    Onnx__AttributeProto *attribute = node->attribute[node->n_attribute - 1];
    attribute->has_i = 0;
    attribute->type = type;
    return attribute;
}

static void add_large_constant(struct oq_model *model, Onnx__GraphProto *graph, const char *name,
                               int index) {
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "Constant", name, "", name);
    add_attribute(model, node, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t =
        make_large(model, "", index);
}

static void add_body(struct oq_model *model, Onnx__GraphProto *graph) {
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "If", "if", "cond", "z");
    Onnx__GraphProto *body = oq_test_add_body(model, node, "then_branch", "then");
    add_large_constant(model, body, "body_constant", 2);
    assert_true(oq_graph_add_initializer(model, body, make_large(model, "body_weight", 3)));
    oq_test_add_node(model, body, "MatMul", "inner", "body_constant,body_weight", "then_out");
    assert_true(oq_graph_add_output(model, body, "then_out"));
    body = oq_test_add_body(model, node, "else_branch", "else");
    oq_test_add_node(model, body, "Identity", "other", "y", "else_out");
    assert_true(oq_graph_add_output(model, body, "else_out"));
}

static void add_custom(struct oq_model *model, Onnx__GraphProto *graph) {
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "my.ops::Blob", "custom", "z,,s", "out");
    add_attribute(model, node, "blob", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t =
        make_large(model, "", 4);
    Onnx__AttributeProto *list =
        add_attribute(model, node, "list", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSORS);
    list->n_tensors = 2;
    list->tensors = make(model, 2 * sizeof *list->tensors);
    list->tensors[0] = make_large(model, "", 5);
    list->tensors[1] = make_large(model, "", 6);
}

static void add_function(struct oq_model *model) {
    Onnx__ModelProto *proto = oq_model_proto(model);
    Onnx__FunctionProto *function = make(model, sizeof *function);
    onnx__function_proto__init(function);
    Onnx__GraphProto holder = ONNX__GRAPH_PROTO__INIT;
    add_large_constant(model, &holder, "function_constant", 7);
    oq_test_add_node(model, &holder, "MatMul", "in_function", "a,function_constant", "b");
    function->name = (char *)"F";
    function->domain = (char *)"local";
    function->node = holder.node;
    function->n_node = holder.n_node;
    proto->functions = make(model, sizeof *proto->functions);
    proto->functions[0] = function;
    proto->n_functions = 1;
}

static void add_sparse(struct oq_model *model, Onnx__GraphProto *graph) {
    Onnx__SparseTensorProto *sparse = make(model, sizeof *sparse);
    const int64_t length = RICH_FLOATS;
    int64_t indices[RICH_FLOATS];
    for (int i = 0; i < RICH_FLOATS; i++) {
        indices[i] = 2 * i;
    }
    onnx__sparse_tensor_proto__init(sparse);
    sparse->values = make_large(model, "s", 8);
    sparse->values->n_dims = 1;
    sparse->values->dims[0] = length;
    sparse->indices =
        oq_tensor_create(model, "", ONNXPTQ_TYPE_INT64, &length, 1, indices, sizeof indices);
    assert_non_null(sparse->indices);
    sparse->n_dims = 1;
    sparse->dims = make(model, sizeof *sparse->dims);
    sparse->dims[0] = 1000;
    graph->sparse_initializer = make(model, sizeof *graph->sparse_initializer);
    graph->sparse_initializer[0] = sparse;
    graph->n_sparse_initializer = 1;
}

static void add_training(struct oq_model *model) {
    Onnx__ModelProto *proto = oq_model_proto(model);
    Onnx__TrainingInfoProto *training = make(model, sizeof *training);
    onnx__training_info_proto__init(training);
    training->algorithm = make(model, sizeof *training->algorithm);
    onnx__graph_proto__init(training->algorithm);
    assert_true(oq_graph_add_initializer(model, training->algorithm, make_large(model, "t", 10)));
    proto->training_info = make(model, sizeof *proto->training_info);
    proto->training_info[0] = training;
    proto->n_training_info = 1;
}

static struct oq_model *build(void) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    assert_true(oq_model_import_opset(model, "my.ops", 1));
    assert_true(oq_model_import_opset(model, "local", 1));
    graph->doc_string = (char *)"all kinds of tensors";
    oq_test_add_input(model, graph, "x", ONNXPTQ_TYPE_FLOAT, "n,8");
    oq_test_add_input(model, graph, "cond", ONNXPTQ_TYPE_BOOL, "");
    assert_true(oq_graph_add_initializer(model, graph, make_large(model, "w", 0)));
    oq_test_add_floats(model, graph, "small", "3", NULL);
    oq_test_add_node(model, graph, "MatMul", "first", "x,w", "y");
    add_large_constant(model, graph, "constant", 1);
    oq_test_add_node(model, graph, "local::F", "call", "constant", "unused");
    add_body(model, graph);
    add_sparse(model, graph);
    add_custom(model, graph);
    oq_test_add_output(model, graph, "out", ONNXPTQ_TYPE_FLOAT, NULL);
    add_function(model);
    add_training(model);
    return model;
}

struct file_bytes make_rich_model(void) {
    /* Field 2047, of the kind with a length: "abc". */
    static const uint8_t unknown[] = {0xfa, 0x7f, 3, 'a', 'b', 'c'};
    struct oq_model *model = build();
    const size_t size = onnx__model_proto__get_packed_size(oq_model_proto(model));
    struct file_bytes bytes = {malloc(size + sizeof unknown), size + sizeof unknown};
    assert_non_null(bytes.data);
    onnx__model_proto__pack(oq_model_proto(model), bytes.data);
    memcpy(bytes.data + size, unknown, sizeof unknown);
    oq_model_destroy(model);
    return bytes;
}

struct file_bytes normalize_model(struct file_bytes bytes) {
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, bytes.size, bytes.data);
    assert_non_null(proto);
    free_bytes(&bytes);
    const size_t size = onnx__model_proto__get_packed_size(proto);
    struct file_bytes normal = {malloc(size), size};
    assert_non_null(normal.data);
    onnx__model_proto__pack(proto, normal.data);
    onnx__model_proto__free_unpacked(proto, NULL);
    return normal;
}

struct file_bytes written_model(const struct oq_model *model) {
    char *folder = make_folder();
    char *path = path_in(folder, "written.onnx");
    struct oq_writer *writer = NULL;
    struct onnxptq_error error;
    if (oq_writer_create(path, &writer, &error) != ONNXPTQ_OK ||
        oq_model_write(model, writer, &error) != ONNXPTQ_OK ||
        oq_writer_finish(writer, &error) != ONNXPTQ_OK ||
        oq_writer_commit(writer, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    oq_writer_destroy(writer);
    struct file_bytes bytes = read_bytes(path);
    free(path);
    remove_folder(folder);
    return bytes;
}
