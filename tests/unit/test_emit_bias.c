/*
 * The emitter: int32 biases.
 */
#include "emit_scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static const float WEIGHT[] = {1.27F, -0.5F, 0.635F, 0.25F, -2.54F, 2.0F};

/* X[1,2,4,4] -> op c1 (w, b) -> Y. `w` two numbers a channel, or what w_shape says. */
static struct scene *one_node(const char *op, const char *w_shape, const float *w,
                              const char *b_shape, const float *b) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_floats(model, g, "w", w_shape, w);
    oq_test_add_floats(model, g, "b", b_shape, b);
    oq_test_add_node(model, g, op, "c1", "X,w,b", "Y");
    struct scene *s = scene_create(model);
    scene_see(s, "X", 0.0, 2.55);
    return s;
}

static void quantize(struct scene *s, int axis, size_t channels) {
    uint32_t pair = scene_pair(s, "X", SCENE_UINT8, "c1", 0);
    scene_bias(s, pair, scene_weight(s, axis, "c1", 1), "c1", channels);
}

/* bias scale = scale of input x scale of weight, as float32, and codes that are the nearest
 * integers. */
static void check_bias(struct scene *s, const float *b, size_t n_bias, double factor,
                       size_t channels) {
    struct oq_tensor_view codes = scene_tensor(s, "b_quantized");
    size_t n_scales = scene_tensor(s, "w_scale").n_elements;
    assert_int_equal(codes.type, ONNXPTQ_TYPE_INT32);
    assert_int_equal(codes.rank, 1);
    assert_int_equal(codes.n_elements, channels);
    for (size_t c = 0; c < channels; c++) {
        float scale = scene_float(s, "X_scale", 0) * scene_float(s, "w_scale", c % n_scales);
        assert_true(scene_float(s, "b_scale", n_scales == 1 ? 0 : c) == scale);
        double value = (double)b[n_bias == 1 ? 0 : c] * factor;
        assert_true((double)oq_tensor_view_integer(&codes, c) == rint(value / (double)scale));
    }
}

static void test_conv_per_channel(void **state) {
    (void)state;
    const float b[] = {0.5F, -0.25F, 3.0F};
    struct scene *s = one_node("Conv", "3,2,1,1", WEIGHT, "3", b);
    quantize(s, 0, 3);
    scene_emit(s);
    assert_nodes(s, "QuantizeLinear X,X_scale,X_zero_point -> X_quantized\n"
                    "DequantizeLinear X_quantized,X_scale,X_zero_point -> X_dequantized\n"
                    "DequantizeLinear w_quantized,w_scale,w_zero_point -> w_dequantized {axis 0}\n"
                    "DequantizeLinear b_quantized,b_scale -> b_dequantized {axis 0}\n"
                    "Conv X_dequantized,w_dequantized,b_dequantized -> Y\n");
    assert_initializers(
        s, "X_scale X_zero_point w_quantized w_scale w_zero_point b_quantized b_scale");
    check_bias(s, b, 3, 1.0, 3);
    assert_true(s->result.biases[0]);
    scene_destroy(s);
}

static void test_conv_with_one_scale(void **state) {
    (void)state;
    const float b[] = {0.5F, -0.25F, 3.0F};
    struct scene *s = one_node("Conv", "3,2,1,1", WEIGHT, "3", b);
    quantize(s, -1, 3);
    scene_emit(s);
    assert_int_equal(scene_tensor(s, "b_scale").rank, 0);
    assert_int_equal(scene_graph(s)->node[3]->n_attribute, 0); /* no axis */
    check_bias(s, b, 3, 1.0, 3);
    scene_destroy(s);
}

static void test_gemm_biases_are_broadcast(void **state) {
    (void)state;
    const float b[] = {0.5F, -0.25F, 3.0F};
    const char *shapes[] = {"3", "1,3", "1", "1,1", ""};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct scene *s = one_node("Gemm", "2,3", WEIGHT, shapes[i], b);
        quantize(s, 1, 3);
        scene_emit(s);
        check_bias(s, b, i < 2 ? 3 : 1, 1.0, 3);
        scene_destroy(s);
    }
}

/* One number a row is no bias of the channels, even when the counts agree. */
static void test_a_column_is_left_float(void **state) {
    (void)state;
    const float b[] = {0.5F, -0.25F, 3.0F};
    struct scene *s = one_node("Gemm", "2,3", WEIGHT, "3,1", b);
    quantize(s, 1, 3);
    scene_emit(s);
    assert_nodes(s, "Gemm X,w,b -> Y\n");
    assert_note(s, "bias 'b'");
    scene_destroy(s);
}

static void test_beta_is_folded(void **state) {
    (void)state;
    const float b[] = {0.5F, -0.25F, 3.0F};
    struct scene *s = one_node("Gemm", "2,3", WEIGHT, "3", b);
    oq_test_set_float(s->model, oq_test_main_graph(s->model)->node[0], "beta", 0.5F);
    quantize(s, 1, 3);
    s->plan->biases[0].factor = 0.5;
    scene_emit(s);
    check_bias(s, b, 3, 0.5, 3);
    const Onnx__NodeProto *gemm = scene_graph(s)->node[4];
    assert_true(gemm->attribute[0]->f == 1.0F);
    assert_true(oq_test_main_graph(s->model)->node[0]->attribute[0]->f ==
                0.5F); /* the original stays */
    scene_destroy(s);
}

/* ConvTranspose with groups: w is [in, out / group, ...], and each group's channels repeat the
 * scales. */
static void test_grouped_transposed_convolution(void **state) {
    (void)state;
    const float b[] = {0.5F, -0.25F, 3.0F, 1.0F, 2.0F, -4.0F};
    struct scene *s = one_node("ConvTranspose", "2,3,1,1", WEIGHT, "6", b);
    quantize(s, 1, 6);
    scene_emit(s);
    assert_int_equal(scene_tensor(s, "w_scale").n_elements, 3);
    assert_int_equal(scene_tensor(s, "b_scale").n_elements, 6);
    check_bias(s, b, 6, 1.0, 6);
    scene_destroy(s);
}

/* Each node has scales of its own, so a shared bias becomes two. */
static void test_a_shared_bias(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    const float b[] = {1.0F, -1.0F};
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_floats(model, g, "w", "2,2,1,1", WEIGHT);
    oq_test_add_floats(model, g, "b", "2", b);
    oq_test_add_node(model, g, "Conv", "c1", "X,w,b", "a");
    oq_test_add_node(model, g, "Conv", "c2", "a,w,b", "Y");
    struct scene *s = scene_create(model);
    scene_see(s, "X", 0.0, 2.55);
    scene_see(s, "a", 0.0, 127.5);
    scene_bias(s, scene_pair(s, "X", SCENE_UINT8, "c1", 0), scene_weight(s, 0, "c1", 1), "c1", 2);
    scene_bias(s, scene_pair(s, "a", SCENE_UINT8, "c2", 0), scene_weight(s, 0, "c2", 1), "c2", 2);
    scene_emit(s);
    check_bias(s, b, 2, 1.0, 2);
    assert_true(scene_float(s, "b_scale_1", 0) ==
                scene_float(s, "a_scale", 0) * scene_float(s, "w_scale", 0));
    assert_null(oq_test_initializer(scene_graph(s), "b"));
    assert_null(oq_test_initializer(scene_graph(s), "w_quantized_1")); /* the weight stays one */
    scene_destroy(s);
}

/* ---- Biases too large for int32 ------------------------------------------------------------- */

static void assert_close(struct scene *s, const float *b, size_t channels) {
    struct oq_tensor_view codes = scene_tensor(s, "b_quantized");
    for (size_t c = 0; c < channels; c++) {
        double code = (double)oq_tensor_view_integer(&codes, c);
        double back = code * (double)scene_float(s, "b_scale", c);
        assert_true(fabs(code) <= OQ_BIAS_CODE_MAX);
        assert_true(fabs(back - (double)b[c]) <= 1e-6 * fabs((double)b[c]));
    }
}

/* The scale of the channel that needs it is raised, and no other. */
static void test_tiny_weights_beside_a_bias(void **state) {
    (void)state;
    const float w[] = {1e-7F, -1e-7F, 1.0F, 1.0F, 1e-9F, 0.0F};
    const float b[] = {5.0F, -4.5F, 3.0F};
    struct scene *s = one_node("Conv", "3,2,1,1", w, "3", b);
    quantize(s, 0, 3);
    scene_emit(s);
    assert_close(s, b, 3);
    assert_true(scene_float(s, "w_scale", 0) > 10.0F * 1e-7F / 127.0F);
    assert_true(scene_float(s, "w_scale", 1) == 1.0F / 127.0F);
    assert_note(s, "weight 'w'");
    assert_note(s, "2 of 3");
    scene_destroy(s);
}

/* Two nodes share a weight, one bias is large: the other node's scales stay what they were. */
static void test_a_shared_weight_is_not_spoilt(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(model);
    const float w[] = {1e-7F, -1e-7F, 1e-7F, 2e-7F};
    const float large[] = {5.0F, -4.5F};
    const float small[] = {1e-7F, 2e-7F};
    oq_test_add_input(model, g, "X", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_output(model, g, "Y", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_output(model, g, "Z", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_floats(model, g, "w", "2,2,1,1", w);
    oq_test_add_floats(model, g, "b", "2", large);
    oq_test_add_floats(model, g, "k", "2", small);
    oq_test_add_node(model, g, "Conv", "c1", "X,w,b", "Y");
    oq_test_add_node(model, g, "Conv", "c2", "X,w,k", "Z");
    struct scene *s = scene_create(model);
    scene_see(s, "X", 0.0, 2.55);
    uint32_t pair = scene_pair(s, "X", SCENE_UINT8, "c1", 0);
    scene_pair(s, "X", SCENE_UINT8, "c2", 0);
    scene_bias(s, pair, scene_weight(s, 0, "c1", 1), "c1", 2);
    scene_bias(s, pair, scene_weight(s, 0, "c2", 1), "c2", 2);
    scene_emit(s);
    assert_close(s, large, 2);
    assert_true(scene_float(s, "w_scale", 0) == 1e-7F / 127.0F);
    assert_true(scene_float(s, "w_scale_1", 0) > 10.0F * 1e-7F / 127.0F);
    assert_string_equal(scene_graph(s)->node[4]->input[1], "w_dequantized_1");
    assert_true(s->result.weight_scale_min[0] == 1e-7F / 127.0F);
    assert_true(s->result.weight_scale_max[0] >= scene_float(s, "w_scale_1", 0));
    scene_destroy(s);
}

static void test_dead_channels_keep_their_bias(void **state) {
    (void)state;
    const float w[] = {0.0F, 0.0F, 1.0F, 0.5F, 1e-42F, 0.0F};
    const float b[] = {3.0F, 0.25F, -2.0F};
    struct scene *s = one_node("Conv", "3,2,1,1", w, "3", b);
    scene_see(s, "X", 0.0, 2000.0);
    quantize(s, 0, 3);
    scene_emit(s);
    check_bias(s, b, 3, 1.0, 3);
    struct oq_tensor_view codes = scene_tensor(s, "b_quantized");
    assert_true(oq_tensor_view_integer(&codes, 0) > 10); /* with a scale of 1 it would be 0 */
    scene_destroy(s);
}

/* A channel whose product of scales is not a normal float, without a bias to speak of. */
static void test_a_nearly_dead_channel(void **state) {
    (void)state;
    const float w[] = {1e-35F, 0.0F, 1.0F, 0.5F, 0.3F, 0.0F};
    const float b[] = {0.0F, 0.25F, -2.0F};
    struct scene *s = one_node("Conv", "3,2,1,1", w, "3", b);
    scene_see(s, "X", 0.0, 1e-3);
    quantize(s, 0, 3);
    scene_emit(s);
    check_bias(s, b, 3, 1.0, 3);
    assert_true(isnormal(scene_float(s, "b_scale", 0)));
    assert_true(scene_float(s, "w_scale", 1) == 1.0F / 127.0F);
    scene_destroy(s);
}

static void test_what_cannot_be_quantized_leaves_the_node_float(void **state) {
    (void)state;
    const float b[] = {0.5F, NAN, 3.0F};
    struct scene *s = one_node("Conv", "3,2,1,1", WEIGHT, "3", b);
    quantize(s, 0, 3);
    scene_emit(s);
    assert_nodes(s, "Conv X,w,b -> Y\n");
    assert_initializers(s, "w b");
    assert_note(s, "node 'c1' stays float: its bias 'b'");
    assert_false(s->result.biases[0]);
    assert_true(s->result.pairs[0].scale == 0.0F);
    scene_destroy(s);
}

static void test_a_bias_whose_input_was_never_seen(void **state) {
    (void)state;
    const float b[] = {0.5F, 1.0F, 3.0F};
    struct scene *s = one_node("Conv", "3,2,1,1", WEIGHT, "3", b);
    oq_statistics_init(&s->ranges[oq_test_value(s->graph, "X")]);
    quantize(s, 0, 3);
    scene_emit(s);
    assert_nodes(s, "Conv X,w,b -> Y\n");
    assert_note(s, "no calibration sample");
    scene_destroy(s);
}

/* A bias that stays float is no reason to let a runtime clip it when it quantizes biases itself. */
static void test_tiny_weights_beside_a_float_bias(void **state) {
    (void)state;
    const float w[] = {1e-7F, -1e-7F, 1.0F, 1.0F, 1e-9F, 0.0F};
    const float b[] = {5.0F, -4.5F, 3.0F};
    for (int with_pair = 0; with_pair < 2; with_pair++) {
        struct scene *s = one_node("Conv", "3,2,1,1", w, "3", b);
        if (with_pair) {
            scene_pair(s, "X", SCENE_INT8, "c1", 0);
        }
        scene_weight(s, 0, "c1", 1);
        scene_emit(s);
        float scale = scene_float(s, "w_scale", 0);
        if (with_pair) {
            double product = (double)(scene_float(s, "X_scale", 0) * scale);
            assert_true(5.0 / product <= OQ_BIAS_CODE_MAX &&
                        5.0 / product > 0.99 * OQ_BIAS_CODE_MAX);
            assert_note(s, "bias 'b'");
        } else {
            assert_true(scale == 1e-7F / 127.0F);
        }
        assert_true(scene_float(s, "w_scale", 1) == 1.0F / 127.0F);
        assert_memory_equal(scene_tensor(s, "b").data, b, sizeof b);
        scene_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_per_channel),
        cmocka_unit_test(test_conv_with_one_scale),
        cmocka_unit_test(test_gemm_biases_are_broadcast),
        cmocka_unit_test(test_a_column_is_left_float),
        cmocka_unit_test(test_beta_is_folded),
        cmocka_unit_test(test_grouped_transposed_convolution),
        cmocka_unit_test(test_a_shared_bias),
        cmocka_unit_test(test_tiny_weights_beside_a_bias),
        cmocka_unit_test(test_a_shared_weight_is_not_spoilt),
        cmocka_unit_test(test_tiny_weights_beside_a_float_bias),
        cmocka_unit_test(test_dead_channels_keep_their_bias),
        cmocka_unit_test(test_a_nearly_dead_channel),
        cmocka_unit_test(test_what_cannot_be_quantized_leaves_the_node_float),
        cmocka_unit_test(test_a_bias_whose_input_was_never_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
