/*
 * The emitter: versions, shapes of foreign results, order of nodes, large weights, equal bytes.
 */
#include "emit_scene.h"
#include "quantize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static const float EIGHT[] = {1.27F, -0.5F, 0.0F, 0.25F, -2.54F, 2.0F, 0.02F, -1.0F};

/* Before IR 4 initializers are inputs too. The new ones are not, so the version rises, and what was
 * constant stays so. */
static void test_ir_3(void **state) {
    (void)state;
    for (int64_t ir = 3; ir <= 8; ir += 5) {
        struct oq_model *model = oq_test_model_create(13);
        Onnx__GraphProto *g = oq_test_main_graph(model);
        oq_model_proto(model)->ir_version = ir;
        oq_test_add_input(model, g, "w", ONNXPTQ_TYPE_FLOAT, "2,4");
        oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,2");
        oq_test_add_input(model, g, "k", ONNXPTQ_TYPE_FLOAT, "4");
        oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,4");
        oq_test_add_floats(model, g, "w", "2,4", EIGHT);
        oq_test_add_floats(model, g, "k", "4", EIGHT);
        oq_test_add_node(model, g, "MatMul", "m1", "X,w", "a");
        oq_test_add_node(model, g, "Add", "add", "a,k", "Y");
        struct scene *s = scene_create(model);
        scene_see(s, "X", -1.0, 1.0);
        scene_pair(s, "X", SCENE_INT8, "m1", 0);
        scene_weight(s, 1, "m1", 1);
        scene_emit(s);
        assert_int_equal(oq_model_proto(s->result.model)->ir_version, ir == 3 ? 4 : 8);
        assert_int_equal(scene_graph(s)->n_input, ir == 3 ? 1 : 2);
        assert_string_equal(scene_graph(s)->input[0]->name, "X");
        assert_non_null(oq_test_initializer(scene_graph(s), "k"));
        if (ir == 3) {
            assert_note(s, "IR version");
        }
        assert_int_equal(oq_test_main_graph(s->model)->n_input, 3); /* the original stays */
        scene_destroy(s);
    }
}

/* X[n or 2, 2] -> my::Op f -> d, i -> MatMul -> Y */
static struct scene *foreign(const char *input_shape) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, input_shape);
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_output(model, g, "o", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_floats(model, g, "w", "2,4", EIGHT);
    oq_test_add_node(model, g, "my::Op", "f", "X", "d,,i,o,v");
    oq_test_add_node(model, g, "MatMul", "m1", "d,w", "a");
    oq_test_add_node(model, g, "my::Op", "f2", "a,i,v", "Y");
    struct scene *s = scene_create(model);
    const char *names[] = {"d", "i", "o", "v"};
    for (size_t k = 0; k < 4; k++) {
        struct oq_statistics *seen = &s->ranges[oq_test_value(s->graph, names[k])];
        scene_see(s, names[k], -1.0, 1.0);
        seen->rank = 2;
        seen->shape[0] = 2;
        seen->shape[1] = 7;
        s->trace[oq_test_value(s->graph, names[k])] = *seen;
    }
    s->ranges[oq_test_value(s->graph, "i")].type = ONNXPTQ_TYPE_INT64;
    s->trace[oq_test_value(s->graph, "i")].type = ONNXPTQ_TYPE_INT64;
    s->ranges[oq_test_value(s->graph, "i")].dim_varies[1] = true;
    s->ranges[oq_test_value(s->graph, "v")].rank_varies = true;
    return s;
}

static void assert_recorded(struct scene *s, size_t index, const char *name, int type,
                            int64_t first, int64_t second) {
    const Onnx__ValueInfoProto *info = scene_graph(s)->value_info[index];
    const Onnx__TypeProto__Tensor *tensor = info->type->tensor_type;
    const int64_t expected[] = {first, second};
    assert_string_equal(info->name, name);
    assert_int_equal(tensor->elem_type, type);
    assert_int_equal(tensor->shape->n_dim, 2);
    for (size_t i = 0; i < 2; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
        bool fixed = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        assert_int_equal(fixed, expected[i] >= 0);
        assert_true(!fixed || dim->dim_value == expected[i]);
    }
}

static void test_shapes_of_foreign_results(void **state) {
    (void)state;
    struct scene *s = foreign("2,2");
    scene_emit(s);
    assert_int_equal(scene_graph(s)->n_value_info, 2);
    assert_recorded(s, 0, "d", ONNXPTQ_TYPE_FLOAT, 2, 7);
    assert_recorded(s, 1, "i", ONNXPTQ_TYPE_INT64, 2, -1);
    scene_destroy(s);
}

/* An open dimension of an input may be any dimension of a result. */
static void test_shapes_with_open_inputs(void **state) {
    (void)state;
    const char *shapes[] = {"n,2", NULL};
    for (size_t i = 0; i < 2; i++) {
        struct scene *s = foreign(shapes[i]);
        scene_emit(s);
        assert_recorded(s, 0, "d", ONNXPTQ_TYPE_FLOAT, -1, -1);
        scene_destroy(s);
    }
}

static void test_shapes_seen_once(void **state) {
    (void)state;
    struct scene *s = foreign("2,2");
    s->ranges[oq_test_value(s->graph, "d")].seen = 1;
    scene_emit(s);
    assert_recorded(s, 0, "d", ONNXPTQ_TYPE_FLOAT, -1, -1);
    scene_destroy(s);
}

static void test_described_results_are_left_alone(void **state) {
    (void)state;
    struct scene *s = foreign("2,2");
    assert_true(oq_graph_add_value_info(s->model, oq_test_main_graph(s->model), "d",
                                        ONNXPTQ_TYPE_FLOAT, (const int64_t[]){-1, 9}, 2));
    scene_emit(s);
    assert_int_equal(scene_graph(s)->n_value_info, 2);
    assert_recorded(s, 0, "d", ONNXPTQ_TYPE_FLOAT, -1, 9);
    scene_destroy(s);
}

/* A list out of order comes out in order, captures counted. */
static void test_nodes_out_of_order(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,2");
    oq_test_add_input(model, g, "c", ONNXPTQ_TYPE_BOOL, "");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,2");
    Onnx__NodeProto *branch = oq_test_add_node(model, g, "If", "if", "c", "Y");
    oq_test_add_node(model, g, "Neg", "n", "X", "a");
    Onnx__GraphProto *then_body = oq_test_add_body(model, branch, "then_branch", "then");
    Onnx__GraphProto *else_body = oq_test_add_body(model, branch, "else_branch", "else");
    oq_test_add_node(model, then_body, "Abs", "abs", "t", "u");
    oq_test_add_node(model, then_body, "Neg", "neg", "a", "t");
    oq_test_add_output(model, then_body, "u", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_node(model, else_body, "Identity", "id", "a", "e");
    oq_test_add_output(model, else_body, "e", ONNXPTQ_TYPE_FLOAT, NULL);
    struct scene *s = scene_create(model);
    scene_see(s, "a", -1.0, 1.0);
    scene_pair(s, "a", SCENE_INT8, "neg", 0);
    scene_emit(s);
    assert_nodes(s, "Neg X -> a\n"
                    "QuantizeLinear a,a_scale,a_zero_point -> a_quantized\n"
                    "If c -> Y\n"
                    "  DequantizeLinear a_quantized,a_scale,a_zero_point -> a_dequantized\n"
                    "  Neg a_dequantized -> t\n"
                    "  Abs t -> u\n"
                    "  Identity a -> e\n");
    scene_destroy(s);
}

/* ---- Large weights -------------------------------------------------------------------------- */

enum { ROWS = 300, COLUMNS = 257 };

static float large_element(size_t i) {
    return (float)((double)((i * 2654435761U) % 2001U) / 1000.0 - 1.0);
}

/* X -> MatMul m1 (w) -> a -> MatMul m2 (v) -> Y, both weights too large to be kept in memory */
static struct scene *large(void) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    float *data = malloc((size_t)ROWS * COLUMNS * sizeof *data);
    assert_non_null(data);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        data[i] = large_element(i);
    }
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,300");
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,300");
    oq_test_add_floats(model, g, "w", "300,257", data);
    oq_test_add_floats(model, g, "v", "257,300", data);
    oq_test_add_node(model, g, "MatMul", "m1", "X,w", "a");
    oq_test_add_node(model, g, "MatMul", "m2", "a,v", "Y");
    free(data);
    struct scene *s = scene_create(oq_test_model_reload(model));
    scene_weight(s, 1, "m1", 1);
    scene_weight(s, 1, "m2", 1);
    return s;
}

static void test_large_weights_go_to_a_file(void **state) {
    (void)state;
    char folder[] = "/tmp/onnxptq-emit-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char beside[64];
    snprintf(beside, sizeof beside, "%s/out.onnx", folder);
    struct scene *s = large();
    s->spill_beside = beside;
    scene_emit(s);
    const Onnx__TensorProto *w = oq_test_initializer(scene_graph(s), "w_quantized");
    assert_true(w->has_data_length && !w->has_raw_data);
    assert_int_not_equal(rmdir(folder), 0); /* as long as the model lives */
    struct oq_tensor_view codes = scene_tensor(s, "w_quantized");
    assert_int_equal(codes.n_elements, ROWS * COLUMNS);
    for (size_t i = 0; i < codes.n_elements; i++) {
        struct oq_quant_params params = {scene_float(s, "w_scale", i % COLUMNS), 0};
        assert_int_equal((int8_t)codes.data[i],
                         quantize_value(&SCENE_WEIGHT, params, large_element(i)));
    }
    scene_destroy(s);
    assert_int_equal(rmdir(folder), 0); /* nothing is left */
}

static void test_in_memory_and_in_a_file_are_the_same_numbers(void **state) {
    (void)state;
    char folder[] = "/tmp/onnxptq-emit-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char beside[64];
    snprintf(beside, sizeof beside, "%s/out.onnx", folder);
    struct scene *a = large();
    struct scene *b = large();
    a->spill_beside = beside;
    scene_emit(a);
    scene_emit(b);
    assert_true(oq_test_initializer(scene_graph(b), "w_quantized")->has_raw_data);
    const char *names[] = {"w_quantized", "v_quantized", "w_scale", "v_scale"};
    for (size_t i = 0; i < 4; i++) {
        struct oq_tensor_view x = scene_tensor(a, names[i]);
        struct oq_tensor_view y = scene_tensor(b, names[i]);
        assert_int_equal(x.size, y.size);
        assert_memory_equal(x.data, y.data, x.size);
    }
    scene_destroy(a);
    scene_destroy(b);
    assert_int_equal(rmdir(folder), 0);
}

static void test_an_unwritable_place_is_an_error(void **state) {
    (void)state;
    struct scene *s = large();
    s->spill_beside = "/nonexistent/folder/out.onnx";
    struct onnxptq_error error = {0};
    assert_int_equal(scene_try_emit(s, &error), ONNXPTQ_ERROR_IO);
    assert_null(s->result.model);
    scene_destroy(s);
}

/* ---- Equal input, equal bytes --------------------------------------------------------------- */

static uint8_t *packed(struct scene *s, size_t *size) {
    const Onnx__ModelProto *proto = oq_model_proto(s->result.model);
    *size = onnx__model_proto__get_packed_size(proto);
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    onnx__model_proto__pack(proto, bytes);
    return bytes;
}

static void test_equal_bytes(void **state) {
    (void)state;
    uint8_t *bytes[2];
    size_t sizes[2];
    for (size_t i = 0; i < 2; i++) {
        struct scene *s = foreign("2,2");
        scene_pair(s, "d", SCENE_INT8, "m1", 0);
        scene_weight(s, 1, "m1", 1);
        scene_emit(s);
        scene_emit(s); /* the plan and the graph stay as they are */
        bytes[i] = packed(s, &sizes[i]);
        scene_destroy(s);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ir_3),
        cmocka_unit_test(test_shapes_of_foreign_results),
        cmocka_unit_test(test_shapes_with_open_inputs),
        cmocka_unit_test(test_shapes_seen_once),
        cmocka_unit_test(test_described_results_are_left_alone),
        cmocka_unit_test(test_nodes_out_of_order),
        cmocka_unit_test(test_large_weights_go_to_a_file),
        cmocka_unit_test(test_in_memory_and_in_a_file_are_the_same_numbers),
        cmocka_unit_test(test_an_unwritable_place_is_an_error),
        cmocka_unit_test(test_equal_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
