/*
 * The emitter: Q/DQ pairs, weights, what they are called, where they stand, and what stays as it
 * was.
 */
#include "emit_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static const float EIGHT[] = {1.27F, -0.5F, 0.0F, 0.25F, -2.54F, 2.0F, 0.02F, -1.0F};

/* X[2,2] -> MatMul m1 (w[2,4]) -> a -> Relu -> Y */
static struct scene *one_matmul(void) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,4");
    oq_test_add_floats(model, g, "w", "2,4", EIGHT);
    oq_test_add_node(model, g, "MatMul", "m1", "X,w", "a");
    oq_test_add_node(model, g, "Relu", "r1", "a", "Y");
    return scene_create(model);
}

static void test_matmul(void **state) {
    (void)state;
    struct scene *s = one_matmul();
    scene_see(s, "X", -2.0, 1.0);
    scene_pair(s, "X", SCENE_INT8, "m1", 0);
    scene_weight(s, 1, "m1", 1);
    scene_emit(s);
    assert_nodes(s, "QuantizeLinear X,X_scale,X_zero_point -> X_quantized\n"
                    "DequantizeLinear X_quantized,X_scale,X_zero_point -> X_dequantized\n"
                    "DequantizeLinear w_quantized,w_scale,w_zero_point -> w_dequantized {axis 1}\n"
                    "MatMul X_dequantized,w_dequantized -> a\n"
                    "Relu a -> Y\n");
    assert_initializers(s, "X_scale X_zero_point w_quantized w_scale w_zero_point");
    assert_true(scene_float(s, "X_scale", 0) == 2.0F / 127.0F);
    struct oq_tensor_view zero = scene_tensor(s, "X_zero_point");
    assert_int_equal(zero.type, ONNXPTQ_TYPE_INT8);
    assert_int_equal(zero.rank, 0);
    assert_int_equal(oq_tensor_view_integer(&zero, 0), 0);
    struct oq_tensor_view codes = scene_tensor(s, "w_quantized");
    assert_int_equal(codes.type, ONNXPTQ_TYPE_INT8);
    assert_int_equal(codes.rank, 2);
    const int8_t expected[] = {63, -32, 0, 32, -127, 127, 127, -127}; /* 63.5, -31.75, 0, 31.75 */
    assert_in_range(oq_tensor_view_integer(&codes, 0), 63, 64);
    assert_memory_equal(codes.data + 1, expected + 1, 7);
    assert_int_equal(scene_tensor(s, "w_scale").n_elements, 4);
    assert_int_equal(scene_tensor(s, "w_zero_point").n_elements, 4);
    assert_true(scene_float(s, "w_scale", 1) == 2.0F / 127.0F);
    /* numbers for the report */
    assert_true(s->result.pairs[0].scale == 2.0F / 127.0F);
    assert_int_equal(s->result.weight_channels[0], 4);
    assert_true(s->result.weight_scale_min[0] == 0.02F / 127.0F);
    assert_true(s->result.weight_scale_max[0] == 2.54F / 127.0F);
    assert_int_equal(s->result.n_notes, 0);
    scene_destroy(s);
}

static void test_an_empty_plan_changes_nothing(void **state) {
    (void)state;
    struct scene *s = one_matmul();
    scene_emit(s);
    const Onnx__ModelProto *was = oq_model_proto(s->model);
    const Onnx__ModelProto *is = oq_model_proto(s->result.model);
    size_t size = onnx__model_proto__get_packed_size(was);
    assert_int_equal(onnx__model_proto__get_packed_size(is), size);
    uint8_t *bytes = malloc(size * 2);
    assert_non_null(bytes);
    onnx__model_proto__pack(was, bytes);
    onnx__model_proto__pack(is, bytes + size);
    assert_memory_equal(bytes, bytes + size, size);
    free(bytes);
    scene_destroy(s);
}

static void test_one_scale_for_the_whole_weight(void **state) {
    (void)state;
    struct scene *s = one_matmul();
    scene_weight(s, -1, "m1", 1);
    scene_emit(s);
    assert_nodes(s, "DequantizeLinear w_quantized,w_scale,w_zero_point -> w_dequantized\n"
                    "MatMul X,w_dequantized -> a\n"
                    "Relu a -> Y\n");
    assert_int_equal(scene_tensor(s, "w_scale").rank, 0);
    assert_int_equal(scene_tensor(s, "w_zero_point").rank, 0);
    scene_destroy(s);
}

/* Only the listed inputs read the pair: another reader, a foreign one, and the other input of the
 * same node do not. */
static void test_only_listed_uses_are_rewired(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_output(model, g, "Z", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_floats(model, g, "w", "2,2", EIGHT);
    oq_test_add_node(model, g, "Tanh", "t", "X", "a");
    oq_test_add_node(model, g, "MatMul", "m1", "a,w", "b");
    oq_test_add_node(model, g, "my::Op", "f", "a,,w", "c");
    oq_test_add_node(model, g, "Mul", "square", "a,a", "Y");
    oq_test_add_node(model, g, "MatMul", "m2", "c,w", "d");
    oq_test_add_node(model, g, "Add", "add", "b,d", "Z");
    struct scene *s = scene_create(model);
    scene_see(s, "a", -1.0, 1.0);
    scene_see(s, "c", -1.0, 1.0);
    scene_pair(s, "a", SCENE_INT8, "m1", 0);
    scene_pair(s, "a", SCENE_INT8, "square", 1);
    scene_pair(s, "c", SCENE_INT8, "m2", 0);
    scene_weight(s, 1, "m2", 1);
    scene_weight(s, 1, "m1", 1);
    scene_emit(s);
    assert_nodes(s, "Tanh X -> a\n"
                    "QuantizeLinear a,a_scale,a_zero_point -> a_quantized\n"
                    "DequantizeLinear a_quantized,a_scale,a_zero_point -> a_dequantized\n"
                    "DequantizeLinear w_quantized,w_scale,w_zero_point -> w_dequantized {axis 1}\n"
                    "MatMul a_dequantized,w_dequantized -> b\n"
                    "Op a,,w -> c\n"
                    "QuantizeLinear c,c_scale,c_zero_point -> c_quantized\n"
                    "DequantizeLinear c_quantized,c_scale,c_zero_point -> c_dequantized\n"
                    "Mul a,a_dequantized -> Y\n"
                    "MatMul c_dequantized,w_dequantized -> d\n"
                    "Add b,d -> Z\n");
    assert_memory_equal(scene_tensor(s, "w").data, EIGHT,
                        4 * sizeof(float)); /* for the foreign operator */
    scene_destroy(s);
}

static void test_a_group_shares_one_scale(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "A", ONNXPTQ_TYPE_FLOAT, "2");
    oq_test_add_input(model, g, "B", ONNXPTQ_TYPE_FLOAT, "2");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "4");
    Onnx__NodeProto *concat = oq_test_add_node(model, g, "Concat", "cat", "A,B", "Y");
    assert_true(oq_node_set_int(model, concat, "axis", 0));
    struct scene *s = scene_create(model);
    scene_see(s, "A", 0.5, 3.0);
    scene_see(s, "B", -1.0, 0.1);
    uint32_t a = scene_pair(s, "A", SCENE_UINT8, "cat", 0);
    uint32_t b = scene_pair(s, "B", SCENE_UINT8, "cat", 1);
    oq_plan_join_groups(s->plan, a, b);
    scene_emit(s);
    assert_nodes(s, "QuantizeLinear A,A_scale,A_zero_point -> A_quantized\n"
                    "DequantizeLinear A_quantized,A_scale,A_zero_point -> A_dequantized\n"
                    "QuantizeLinear B,A_scale,A_zero_point -> B_quantized\n"
                    "DequantizeLinear B_quantized,A_scale,A_zero_point -> B_dequantized\n"
                    "Concat A_dequantized,B_dequantized -> Y {axis 0}\n");
    assert_initializers(s, "A_scale A_zero_point");
    assert_true(scene_float(s, "A_scale", 0) == 4.0F / 255.0F);
    struct oq_tensor_view zero = scene_tensor(s, "A_zero_point");
    assert_int_equal(zero.type, ONNXPTQ_TYPE_UINT8);
    assert_int_equal(oq_tensor_view_integer(&zero, 0), 64);
    scene_destroy(s);
}

static void test_fixed_ranges_need_no_data(void **state) {
    (void)state;
    struct scene *s = one_matmul();
    uint32_t id = scene_pair(s, "a", SCENE_UINT8, "r1", 0);
    struct oq_plan_pair *pair = &s->plan->pairs[id];
    pair->has_fixed_range = true;
    pair->fixed_min = 0.0;
    pair->fixed_max = 1.0;
    scene_emit(s);
    assert_true(scene_float(s, "a_scale", 0) == 1.0F / 255.0F);
    scene_destroy(s);
}

/* A constant operand: its range is its own. */
static void test_a_pair_on_a_constant(void **state) {
    (void)state;
    struct scene *s = one_matmul();
    scene_pair(s, "w", SCENE_INT8, "m1", 1);
    scene_emit(s);
    assert_nodes(s, "QuantizeLinear w,w_scale,w_zero_point -> w_quantized\n"
                    "DequantizeLinear w_quantized,w_scale,w_zero_point -> w_dequantized\n"
                    "MatMul X,w_dequantized -> a\n"
                    "Relu a -> Y\n");
    assert_true(scene_float(s, "w_scale", 0) == 2.54F / 127.0F);
    scene_destroy(s);
}

/* The DequantizeLinear owns a graph output's name; who reads float reads the renamed tensor. */
static void test_a_pair_takes_the_name(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2");
    oq_test_add_output(model, g, "a", ONNXPTQ_TYPE_FLOAT, "2");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2");
    assert_true(
        oq_graph_add_value_info(model, g, "a", ONNXPTQ_TYPE_FLOAT, (const int64_t[]){2}, 1));
    oq_test_add_node(model, g, "Neg", "n", "X", "a");
    oq_test_add_node(model, g, "Mul", "mul", "a,a", "b");
    oq_test_add_node(model, g, "my::Op", "f", "b,a", "Y");
    struct scene *s = scene_create(model);
    scene_see(s, "a", -1.0, 1.0);
    uint32_t pair = scene_pair(s, "a", SCENE_INT8, "mul", 0);
    s->plan->pairs[pair].takes_name = true;
    scene_emit(s);
    assert_nodes(s, "Neg X -> a_float\n"
                    "QuantizeLinear a_float,a_scale,a_zero_point -> a_quantized\n"
                    "DequantizeLinear a_quantized,a_scale,a_zero_point -> a\n"
                    "Mul a,a_float -> b\n"
                    "Op b,a_float -> Y\n");
    assert_string_equal(scene_graph(s)->value_info[0]->name, "a_float");
    assert_string_equal(scene_graph(s)->output[0]->name, "a");
    scene_destroy(s);
}

/* main: X -> Neg -> a; If(c) { then: MatMul(a, w) ; else: Abs(MatMul(a, w)) } -> Y */
static struct scene *captured(void) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_input(model, g, "c", ONNXPTQ_TYPE_BOOL, "");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,4");
    oq_test_add_floats(model, g, "w", "2,4", EIGHT);
    oq_test_add_node(model, g, "Neg", "n", "X", "a");
    Onnx__NodeProto *branch = oq_test_add_node(model, g, "If", "if", "c", "Y");
    Onnx__GraphProto *then_body = oq_test_add_body(model, branch, "then_branch", "then");
    Onnx__GraphProto *else_body = oq_test_add_body(model, branch, "else_branch", "else");
    oq_test_add_node(model, then_body, "MatMul", "m1", "a,w", "t");
    oq_test_add_output(model, then_body, "t", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_node(model, else_body, "MatMul", "m2", "a,w", "p");
    oq_test_add_node(model, else_body, "Abs", "abs", "p", "e");
    oq_test_add_output(model, else_body, "e", ONNXPTQ_TYPE_FLOAT, NULL);
    return scene_create(model);
}

static void test_bodies_get_a_dequantize_of_their_own(void **state) {
    (void)state;
    struct scene *s = captured();
    scene_see(s, "a", -1.0, 1.0);
    scene_see(s, "p", -1.0, 1.0);
    scene_pair(s, "a", SCENE_UINT8, "m1", 0);
    scene_pair(s, "a", SCENE_UINT8, "m2", 0);
    scene_pair(s, "p", SCENE_UINT8, "abs", 0);
    scene_weight(s, 1, "m1", 1);
    scene_weight(s, 1, "m2", 1);
    scene_emit(s);
    assert_nodes(s,
                 "Neg X -> a\n"
                 "QuantizeLinear a,a_scale,a_zero_point -> a_quantized\n"
                 "If c -> Y\n"
                 "  DequantizeLinear a_quantized,a_scale,a_zero_point -> a_dequantized\n"
                 "  DequantizeLinear w_quantized,w_scale,w_zero_point -> w_dequantized {axis 1}\n"
                 "  MatMul a_dequantized,w_dequantized -> t\n"
                 "  DequantizeLinear a_quantized,a_scale,a_zero_point -> a_dequantized_1\n"
                 "  DequantizeLinear w_quantized,w_scale,w_zero_point -> w_dequantized_1 {axis 1}\n"
                 "  MatMul a_dequantized_1,w_dequantized_1 -> p\n"
                 "  QuantizeLinear p,p_scale,p_zero_point -> p_quantized\n"
                 "  DequantizeLinear p_quantized,p_scale,p_zero_point -> p_dequantized\n"
                 "  Abs p_dequantized -> e\n");
    assert_initializers(
        s, "a_scale a_zero_point p_scale p_zero_point w_quantized w_scale w_zero_point");
    scene_destroy(s);
}

static void test_a_weight_that_a_body_still_reads_stays(void **state) {
    (void)state;
    struct scene *s = captured();
    scene_weight(s, 1, "m1", 1);
    scene_emit(s);
    assert_initializers(s, "w w_quantized w_scale w_zero_point");
    scene_destroy(s);
}

static void test_a_captured_value_is_never_renamed(void **state) {
    (void)state;
    struct scene *s = captured();
    scene_see(s, "a", -1.0, 1.0);
    uint32_t pair = scene_pair(s, "a", SCENE_INT8, NULL, 0);
    s->plan->pairs[pair].takes_name = true;
    struct onnxptq_error error = {0};
    assert_int_equal(scene_try_emit(s, &error), ONNXPTQ_ERROR_INTERNAL);
    assert_non_null(strstr(error.message, "'a'"));
    scene_destroy(s);
}

/* Constant and Identity nodes in front of a weight go with it, and so do their names in value_info.
 */
static void test_constants_behind_identities_are_removed(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_constant(model, g, "k", "2,2", EIGHT);
    oq_test_add_floats(model, g, "w", "2,2", EIGHT + 4);
    oq_test_add_node(model, g, "Identity", "i1", "k", "k1");
    oq_test_add_node(model, g, "Identity", "i2", "k1", "k2");
    oq_test_add_node(model, g, "Identity", "i3", "w", "w1");
    oq_test_add_node(model, g, "MatMul", "m1", "X,k2", "a");
    oq_test_add_node(model, g, "MatMul", "m2", "a,w1", "b");
    oq_test_add_node(model, g, "MatMul", "m3", "b,w1", "Y");
    assert_true(
        oq_graph_add_value_info(model, g, "k1", ONNXPTQ_TYPE_FLOAT, (const int64_t[]){2, 2}, 2));
    assert_true(
        oq_graph_add_value_info(model, g, "a", ONNXPTQ_TYPE_FLOAT, (const int64_t[]){2, 2}, 2));
    struct scene *s = scene_create(model);
    scene_weight(s, 1, "m1", 1);
    scene_weight(s, 1, "m2", 1);
    scene_emit(s);
    assert_nodes(s,
                 "Identity w -> w1\n"
                 "DequantizeLinear k2_quantized,k2_scale,k2_zero_point -> k2_dequantized {axis 1}\n"
                 "MatMul X,k2_dequantized -> a\n"
                 "DequantizeLinear w1_quantized,w1_scale,w1_zero_point -> w1_dequantized {axis 1}\n"
                 "MatMul a,w1_dequantized -> b\n"
                 "MatMul b,w1 -> Y\n");
    assert_int_equal(scene_graph(s)->n_value_info, 1);
    assert_non_null(oq_test_initializer(scene_graph(s), "w"));
    scene_destroy(s);
}

static void test_a_weight_that_is_an_output_stays(void **state) {
    (void)state;
    struct scene *s = one_matmul();
    Onnx__GraphProto *g = oq_test_main_graph(s->model);
    oq_test_add_output(s->model, g, "w", ONNXPTQ_TYPE_FLOAT, "2,4");
    scene_weight(s, 1, "m1", 1);
    scene_emit(s);
    assert_initializers(s, "w w_quantized w_scale w_zero_point");
    scene_destroy(s);
}

/* One weight read along two axes is two int8 weights; two names of one constant read alike are one.
 */
static void test_weights_are_stored_once_per_kind_of_use(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_floats(model, g, "w", "2,2", EIGHT);
    oq_test_add_node(model, g, "Identity", "i", "w", "v");
    oq_test_add_node(model, g, "MatMul", "m1", "X,w", "a");
    oq_test_add_node(model, g, "Gemm", "m2", "a,w", "b");
    oq_test_add_node(model, g, "MatMul", "m3", "b,v", "Y");
    struct scene *s = scene_create(model);
    scene_weight(s, 1, "m1", 1);
    scene_weight(s, 0, "m2", 1);
    scene_weight(s, 1, "m3", 1);
    scene_emit(s);
    assert_nodes(
        s, "DequantizeLinear w_quantized,w_scale,w_zero_point -> w_dequantized {axis 1}\n"
           "MatMul X,w_dequantized -> a\n"
           "DequantizeLinear w_quantized_1,w_scale_1,w_zero_point_1 -> w_dequantized_1 {axis 0}\n"
           "Gemm a,w_dequantized_1 -> b\n"
           "MatMul b,w_dequantized -> Y\n");
    assert_int_equal(s->result.weight_channels[2], 2);
    scene_destroy(s);
}

static void test_names_in_use_are_avoided(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_output(model, g, "X_scale", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_floats(model, g, "w", "2,2", EIGHT);
    oq_test_add_floats(model, g, "X_zero_point", "2,2", EIGHT);
    oq_test_add_node(model, g, "MatMul", "X_QuantizeLinear", "X,w", "X_quantized");
    oq_test_add_node(model, g, "Mul", "X_DequantizeLinear", "X_quantized,X_zero_point", "w_scale");
    oq_test_add_node(model, g, "Neg", "X_dequantized", "w_scale", "X_scale");
    struct scene *s = scene_create(model);
    scene_see(s, "X", -1.0, 1.0);
    scene_pair(s, "X", SCENE_INT8, "X_QuantizeLinear", 0);
    scene_weight(s, 1, "X_QuantizeLinear", 1);
    scene_emit(s);
    struct oq_graph *again = oq_test_graph(s->result.model); /* no name twice, none missing */
    Onnx__NodeProto *node = oq_graph_node(again, oq_test_node(again, "X_QuantizeLinear"))->proto;
    assert_string_equal(node->op_type, "MatMul");
    assert_string_equal(node->output[0], "X_quantized");
    oq_graph_destroy(again);
    for (size_t i = 0; i < scene_graph(s)->n_node; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(scene_graph(s)->node[i]->name, scene_graph(s)->node[k]->name);
        }
    }
    scene_destroy(s);
}

/* ---- What the numbers forbid ---------------------------------------------------------------- */

static void test_a_tensor_never_seen_leaves_its_readers_float(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "A", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_input(model, g, "B", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,4");
    oq_test_add_output(model, g, "Z", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_floats(model, g, "w", "2,4", EIGHT);
    oq_test_add_node(model, g, "MatMul", "m1", "A,w", "Y");
    oq_test_add_node(model, g, "Add", "add", "A,B", "Z");
    struct scene *s = scene_create(model);
    scene_see(s, "B", -1.0, 1.0);
    struct oq_statistics *a = &s->ranges[oq_test_value(s->graph, "A")];
    a->seen = a->n_empty = 3;
    a->type = ONNXPTQ_TYPE_FLOAT;
    scene_pair(s, "A", SCENE_INT8, "m1", 0);
    scene_pair(s, "A", SCENE_INT8, "add", 0);
    scene_pair(s, "B", SCENE_INT8, "add", 1);
    scene_weight(s, 1, "m1", 1);
    scene_emit(s);
    assert_nodes(s, "MatMul A,w -> Y\nAdd A,B -> Z\n");
    assert_initializers(s, "w");
    assert_note(s, "tensor 'A'");
    assert_note(s, "empty in every calibration sample");
    assert_true(s->result.pairs[0].scale == 0.0F && s->result.pairs[1].scale == 0.0F);
    assert_int_equal(s->result.weight_channels[0], 0);
    assert_true(s->result.nodes_left_float[oq_test_node(s->graph, "m1")]);
    assert_true(s->result.nodes_left_float[oq_test_node(s->graph, "add")]);
    scene_destroy(s);
}

static void test_a_weight_that_is_not_finite_leaves_its_readers_float(void **state) {
    (void)state;
    struct scene *s = one_matmul();
    Onnx__TensorProto *w = oq_test_main_graph(s->model)->initializer[0];
    memcpy(w->raw_data.data + 4, (const uint8_t[]){0, 0, 0xc0, 0x7f}, 4); /* NaN */
    scene_see(s, "X", -1.0, 1.0);
    scene_pair(s, "X", SCENE_INT8, "m1", 0);
    scene_weight(s, 1, "m1", 1);
    scene_emit(s);
    assert_nodes(s, "MatMul X,w -> a\nRelu a -> Y\n");
    assert_note(s, "weight 'w'");
    scene_destroy(s);
}

static void test_other_element_types_stay(void **state) {
    (void)state;
    struct scene *s = one_matmul();
    scene_see(s, "X", -1.0, 1.0);
    s->ranges[oq_test_value(s->graph, "X")].type = ONNXPTQ_TYPE_DOUBLE;
    scene_pair(s, "X", SCENE_INT8, "m1", 0);
    scene_emit(s);
    assert_nodes(s, "MatMul X,w -> a\nRelu a -> Y\n");
    assert_note(s, "its element type is not the planned one");
    scene_destroy(s);
}

/* ---- Plans that do not fit ------------------------------------------------------------------ */

static void test_plans_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct onnxptq_error error = {0};
    struct scene *s = one_matmul();
    scene_see(s, "X", -1.0, 1.0);
    uint32_t pair = scene_pair(s, "X", SCENE_INT8, "m1", 0);
    s->plan->pairs[pair].uses[0].input = 1;
    assert_int_equal(scene_try_emit(s, &error), ONNXPTQ_ERROR_INTERNAL);
    s->plan->pairs[pair].uses[0].input = 2;
    assert_int_equal(scene_try_emit(s, &error), ONNXPTQ_ERROR_INTERNAL);
    s->plan->pairs[pair].uses[0] = (struct oq_use){9, 0};
    assert_int_equal(scene_try_emit(s, &error), ONNXPTQ_ERROR_INTERNAL);
    s->plan->pairs[pair].uses[0] = (struct oq_use){oq_test_node(s->graph, "m1"), 0};
    assert_int_equal(scene_try_emit(s, &error), ONNXPTQ_OK);
    scene_pair(s, "X", SCENE_UINT8, "m1", 0); /* one input, two pairs */
    assert_int_equal(scene_try_emit(s, &error), ONNXPTQ_ERROR_INTERNAL);
    assert_non_null(strstr(error.message, "'m1'"));
    scene_destroy(s);
}

static void test_old_opsets_are_refused(void **state) {
    (void)state;
    const struct {
        int64_t opset;
        int axis;
        enum onnxptq_status expected;
    } cases[] = {{12, 1, ONNXPTQ_ERROR_INTERNAL},
                 {12, -1, ONNXPTQ_OK},
                 {10, -1, ONNXPTQ_OK},
                 {9, -1, ONNXPTQ_ERROR_INTERNAL},
                 {13, 1, ONNXPTQ_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *s = one_matmul();
        oq_model_proto(s->model)->opset_import[0]->version = cases[i].opset;
        scene_weight(s, cases[i].axis, "m1", 1);
        assert_int_equal(scene_try_emit(s, NULL), cases[i].expected);
        scene_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_an_empty_plan_changes_nothing),
        cmocka_unit_test(test_one_scale_for_the_whole_weight),
        cmocka_unit_test(test_only_listed_uses_are_rewired),
        cmocka_unit_test(test_a_group_shares_one_scale),
        cmocka_unit_test(test_fixed_ranges_need_no_data),
        cmocka_unit_test(test_a_pair_on_a_constant),
        cmocka_unit_test(test_a_pair_takes_the_name),
        cmocka_unit_test(test_bodies_get_a_dequantize_of_their_own),
        cmocka_unit_test(test_a_weight_that_a_body_still_reads_stays),
        cmocka_unit_test(test_a_captured_value_is_never_renamed),
        cmocka_unit_test(test_constants_behind_identities_are_removed),
        cmocka_unit_test(test_a_weight_that_is_an_output_stays),
        cmocka_unit_test(test_weights_are_stored_once_per_kind_of_use),
        cmocka_unit_test(test_names_in_use_are_avoided),
        cmocka_unit_test(test_a_tensor_never_seen_leaves_its_readers_float),
        cmocka_unit_test(test_a_weight_that_is_not_finite_leaves_its_readers_float),
        cmocka_unit_test(test_other_element_types_stay),
        cmocka_unit_test(test_plans_that_do_not_fit_are_refused),
        cmocka_unit_test(test_old_opsets_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
