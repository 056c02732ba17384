/*
 * Edits: what they add and remove survives writing and reading; unique names are unique.
 */
#include "model/edit.h"
#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static void test_nodes(void **state) {
    (void)state;
    static const char *const inputs[] = {"a", NULL, "b"};
    static const char *const outputs[] = {"c"};
    struct oq_model *model = oq_test_model_create(17);
    Onnx__NodeProto *node = oq_node_create(model, "n", "my.domain", "Op", inputs, 3, outputs, 1);
    assert_true(oq_node_set_int(model, node, "axis", 1));
    assert_true(oq_node_set_int(model, node, "axis", 2));
    assert_true(oq_node_set_int(model, node, "other", 3));
    assert_true(oq_graph_append_node(model, oq_test_main_graph(model), node));
    node = oq_node_create(model, NULL, "", "Relu", outputs, 1, NULL, 0);
    assert_true(oq_graph_append_node(model, oq_test_main_graph(model), node));
    model = oq_test_model_reload(model);
    const Onnx__GraphProto *graph = oq_test_main_graph(model);
    assert_int_equal(graph->n_node, 2);
    node = graph->node[0];
    assert_string_equal(node->name, "n");
    assert_string_equal(node->domain, "my.domain");
    assert_string_equal(node->op_type, "Op");
    assert_int_equal(node->n_input, 3);
    assert_string_equal(node->input[1], "");
    assert_string_equal(node->input[2], "b");
    assert_int_equal(node->n_attribute, 2);
    assert_int_equal(oq_attribute_int(node, "axis", 0), 2);
    assert_int_equal(oq_attribute_int(node, "other", 0), 3);
    assert_null(graph->node[1]->domain);
    assert_int_equal(graph->node[1]->n_output, 0);
    oq_model_destroy(model);
}

static void test_many(void **state) {
    enum { COUNT = 5000 };
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        const char *names[] = {name};
        Onnx__NodeProto *node = oq_node_create(model, name, NULL, "Neg", names, 1, names, 1);
        assert_true(oq_graph_append_node(model, graph, node));
        assert_true(oq_graph_add_output(model, graph, name));
    }
    /* Doubling: far from one new array per node. */
    assert_true(oq_arena_used(oq_model_arena(model)) < COUNT * 1000u);
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        assert_string_equal(graph->node[i]->name, name);
        assert_string_equal(graph->output[i]->name, name);
        assert_null(graph->output[i]->type);
    }
    oq_model_destroy(model);
}

/* An array that came from a file has no room: appending must not write behind it. */
static void test_append_to_read_arrays(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    for (int i = 0; i < 3; i++) {
        oq_test_add_node(model, oq_test_main_graph(model), "Neg", "n", "x", "y");
    }
    model = oq_test_model_reload(model);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    Onnx__NodeProto *first = graph->node[0];
    oq_test_add_node(model, graph, "Neg", "fourth", "x", "z");
    assert_int_equal(graph->n_node, 4);
    assert_ptr_equal(graph->node[0], first);
    assert_string_equal(graph->node[3]->name, "fourth");
    oq_model_destroy(model);
}

static void test_set_nodes(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_node(model, graph, "Neg", "a", "x", "y");
    oq_test_add_node(model, graph, "Neg", "b", "y", "z");
    Onnx__NodeProto *swapped[] = {graph->node[1], graph->node[0]};
    assert_true(oq_graph_set_nodes(model, graph, swapped, 2));
    swapped[0] = NULL;
    assert_string_equal(graph->node[0]->name, "b");
    assert_string_equal(graph->node[1]->name, "a");
    oq_test_add_node(model, graph, "Neg", "c", "z", "w");
    assert_int_equal(graph->n_node, 3);
    assert_true(oq_graph_set_nodes(model, graph, NULL, 0));
    assert_int_equal(graph->n_node, 0);
    oq_model_destroy(model);
}

static void test_value_info(void **state) {
    (void)state;
    static const int64_t shape[] = {-1, 3};
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    assert_true(oq_graph_add_value_info(model, graph, "v", ONNXPTQ_TYPE_INT64, NULL, 0));
    assert_true(oq_graph_add_value_info(model, graph, "v", ONNXPTQ_TYPE_FLOAT, shape, 2));
    assert_true(oq_graph_add_value_info(model, graph, "scalar", ONNXPTQ_TYPE_FLOAT, NULL, 0));
    model = oq_test_model_reload(model);
    graph = oq_test_main_graph(model);
    assert_int_equal(graph->n_value_info, 2); /* the second "v" took the place of the first */
    const Onnx__TypeProto *type = graph->value_info[0]->type;
    assert_int_equal(type->value_case, ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE);
    assert_int_equal(type->tensor_type->elem_type, ONNXPTQ_TYPE_FLOAT);
    assert_int_equal(type->tensor_type->shape->n_dim, 2);
    assert_int_equal(type->tensor_type->shape->dim[0]->value_case,
                     ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET);
    assert_int_equal(type->tensor_type->shape->dim[1]->dim_value, 3);
    type = graph->value_info[1]->type;
    assert_non_null(type->tensor_type->shape);
    assert_int_equal(type->tensor_type->shape->n_dim, 0);
    oq_model_destroy(model);
}

static void test_opsets(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(13);
    assert_true(oq_model_import_opset(model, "ai.onnx", 12));
    assert_int_equal(oq_model_opset(model), 13);
    assert_true(oq_model_import_opset(model, "", 19));
    assert_int_equal(oq_model_opset(model), 19);
    assert_true(oq_model_import_opset(model, "my.ops", 2));
    assert_true(oq_model_import_opset(model, "my.ops", 1));
    assert_int_equal(oq_model_proto(model)->n_opset_import, 2);
    assert_string_equal(oq_model_proto(model)->opset_import[1]->domain, "my.ops");
    assert_int_equal(oq_model_proto(model)->opset_import[1]->version, 2);
    assert_true(oq_is_default_domain(NULL) && oq_is_default_domain("") &&
                oq_is_default_domain("ai.onnx"));
    assert_false(oq_is_default_domain("ai.onnx.ml"));
    oq_model_destroy(model);
}

static void test_names(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "x", ONNXPTQ_TYPE_FLOAT, "2");
    oq_test_add_floats(model, graph, "w", "2", NULL);
    Onnx__NodeProto *branch = oq_test_add_node(model, graph, "If", "if", "x", "y");
    Onnx__GraphProto *body = oq_test_add_body(model, branch, "then_branch", "then");
    oq_test_add_node(model, body, "Neg", "inner", "w", "z");
    oq_test_add_node(model, graph, "Neg", "n", "x", "x_scale_1");
    assert_true(oq_graph_add_value_info(model, graph, "info", ONNXPTQ_TYPE_FLOAT, NULL, 0));
    struct oq_names *names = oq_names_create(model);
    assert_non_null(names);
    assert_string_equal(oq_names_unique(names, "fresh"), "fresh");
    assert_string_equal(oq_names_unique(names, "fresh"), "fresh_1");
    assert_string_equal(oq_names_unique(names, "fresh"), "fresh_2");
    assert_string_equal(oq_names_unique(names, "fresh_1"), "fresh_1_1");
    assert_string_equal(oq_names_unique(names, "x_scale"), "x_scale");
    assert_string_equal(oq_names_unique(names, "x_scale"), "x_scale_2");
    static const char *const taken[] = {"x", "w", "y", "z", "if", "inner", "info"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        assert_string_not_equal(oq_names_unique(names, taken[i]), taken[i]);
    }
    assert_string_not_equal(oq_names_unique(names, ""), "");
    oq_names_destroy(names);
    oq_names_destroy(NULL);
    oq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_append_to_read_arrays),
        cmocka_unit_test(test_set_nodes),
        cmocka_unit_test(test_value_info),
        cmocka_unit_test(test_opsets),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
