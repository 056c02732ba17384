/*
 * The arithmetic of folding BatchNormalization, and where constants are kept until the model takes
 * them.
 */
#include "model_builder.h"
#include "prepare/fold.h"

#include "base/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static struct onnxptq_error error;

struct bench {
    char folder[64], path[96];
    struct oq_model *model;
    struct oq_arena *arena;
    struct oq_spill *spill;
    struct oq_fold fold;
};

static int set_up(void **state) {
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    snprintf(bench->folder, sizeof bench->folder, "/tmp/onnxptq-fold-XXXXXX");
    assert_non_null(mkdtemp(bench->folder));
    snprintf(bench->path, sizeof bench->path, "%s/out.onnx", bench->folder);
    bench->model = oq_test_model_create(17);
    bench->arena = oq_arena_create();
    bench->spill = oq_spill_create(bench->path, bench->arena);
    assert_non_null(bench->spill);
    bench->fold = (struct oq_fold){.model = bench->model, .groups = 1, .epsilon = 0};
    *state = bench;
    return 0;
}

static int tear_down(void **state) {
    struct bench *bench = *state;
    oq_spill_destroy(bench->spill);
    oq_arena_destroy(bench->arena);
    oq_model_destroy(bench->model);
    assert_int_equal(rmdir(bench->folder), 0); /* nothing is left behind */
    free(bench);
    return 0;
}

static Onnx__TensorProto *tensor(struct bench *bench, int type, const int64_t *shape, size_t rank,
                                 const void *data) {
    size_t n = 1;
    for (size_t i = 0; i < rank; i++) {
        n *= (size_t)shape[i];
    }
    Onnx__TensorProto *made =
        oq_tensor_create(bench->model, "t", type, shape, rank, data, n * oq_type_size(type));
    assert_non_null(made);
    return made;
}

/* scale, B, mean and variance of n channels: factor i + 1, shift bias * factor - i. */
static void set_norm(struct bench *bench, size_t n) {
    float values[4][64];
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) {
        values[0][i] = 2 * (float)(i + 1);
        values[1][i] = -(float)i;
        values[2][i] = 0;
        values[3][i] = 4;
    }
    const int64_t shape[] = {(int64_t)n};
    for (size_t i = 0; i < 4; i++) {
        bench->fold.norm[i + 1] = tensor(bench, ONNXPTQ_TYPE_FLOAT, shape, 1, values[i]);
    }
}

static bool compute(struct bench *bench) {
    bool exact = true;
    assert_int_equal(oq_fold_compute(&bench->fold, bench->spill, &exact, &error), ONNXPTQ_OK);
    return exact;
}

static void read_back(struct bench *bench, const struct oq_spilled *spilled, float *out, size_t n) {
    struct oq_tensor_view view;
    const Onnx__TensorProto *made = oq_spill_tensor(bench->spill, bench->model, spilled, "made");
    assert_non_null(made);
    assert_int_equal(oq_tensor_view(bench->model, made, &view, &error), ONNXPTQ_OK);
    assert_int_equal(view.n_elements, n);
    oq_tensor_view_floats(&view, 0, n, out);
}

static void test_each_channel_has_its_factor(void **state) {
    struct bench *bench = *state;
    const float w[] = {1, 2, 3, 4}, b[] = {10, 20};
    bench->fold.weight = tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 2, 1}, 3, w);
    bench->fold.bias = tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2}, 1, b);
    set_norm(bench, 2);
    const float mean[] = {1, 2};
    bench->fold.norm[3] = tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2}, 1, mean);
    assert_true(compute(bench));
    float weight[4], bias[2];
    read_back(bench, &bench->fold.new_weight, weight, 4);
    read_back(bench, &bench->fold.new_bias, bias, 2);
    const float wanted[] = {1, 2, 6, 8}, wanted_bias[] = {9, 35};
    assert_memory_equal(weight, wanted, sizeof wanted);
    assert_memory_equal(bias, wanted_bias, sizeof wanted_bias);
}

/* 4 input channels in 2 groups, 3 output channels each: row r and column c make channel r / 2 * 3 +
 * c. */
static void test_groups_of_a_transposed_convolution(void **state) {
    struct bench *bench = *state;
    float w[4 * 3 * 2], weight[4 * 3 * 2], bias[6];
    for (size_t i = 0; i < 24; i++) {
        w[i] = 1;
    }
    bench->fold.transposed = true;
    bench->fold.groups = 2;
    bench->fold.weight = tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){4, 3, 2}, 3, w);
    set_norm(bench, 6);
    assert_true(compute(bench));
    read_back(bench, &bench->fold.new_weight, weight, 24);
    read_back(bench, &bench->fold.new_bias, bias, 6);
    for (size_t row = 0; row < 4; row++) {
        for (size_t column = 0; column < 3; column++) {
            const size_t channel = row / 2 * 3 + column;
            const float factor = (float)(channel + 1);
            assert_true(weight[(row * 3 + column) * 2] == factor);
            assert_true(weight[(row * 3 + column) * 2 + 1] == factor);
        }
    }
    for (size_t i = 0; i < 6; i++) {
        assert_true(bias[i] == -(float)i);
    }
}

static void test_types(void **state) {
    struct bench *bench = *state;
    const int types[] = {ONNXPTQ_TYPE_FLOAT16, ONNXPTQ_TYPE_BFLOAT16, ONNXPTQ_TYPE_DOUBLE};
    const uint16_t halves[] = {oq_float_to_half(1.5F), oq_float_to_half(-2)};
    const uint16_t brains[] = {oq_float_to_bfloat16(1.5F), oq_float_to_bfloat16(-2)};
    const double doubles[] = {1.5, -2};
    const void *const data[] = {halves, brains, doubles};
    set_norm(bench, 2);
    for (size_t i = 0; i < 3; i++) {
        float weight[2];
        bench->fold.weight = tensor(bench, types[i], (int64_t[]){2, 1, 1}, 3, data[i]);
        assert_true(compute(bench));
        assert_int_equal(bench->fold.new_weight.type, types[i]);
        assert_int_equal(bench->fold.new_bias.type, types[i]);
        read_back(bench, &bench->fold.new_weight, weight, 2);
        assert_true(weight[0] == 1.5F && weight[1] == -4);
    }
}

/* More than is kept in memory: through the file, which the model still reads when the spill is
 * gone. */
static void test_large_weights_lie_in_a_file(void **state) {
    struct bench *bench = *state;
    enum { N = 48, INNER = 97 };
    static float w[N * INNER], weight[N * INNER];
    for (size_t i = 0; i < N * INNER; i++) {
        w[i] = (float)i;
    }
    bench->fold.weight = tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){N, INNER, 1}, 3, w);
    set_norm(bench, N);
    assert_true(compute(bench));
    assert_null(bench->fold.new_weight.bytes);
    assert_int_equal(oq_spill_attach(bench->spill, bench->model, &error), ONNXPTQ_OK);
    const Onnx__TensorProto *made =
        oq_spill_tensor(bench->spill, bench->model, &bench->fold.new_weight, "w");
    assert_non_null(made);
    oq_spill_destroy(bench->spill);
    bench->spill = NULL;
    struct oq_tensor_view view;
    assert_int_equal(oq_tensor_view(bench->model, made, &view, &error), ONNXPTQ_OK);
    oq_tensor_view_floats(&view, 0, N * INNER, weight);
    for (size_t i = 0; i < N * INNER; i++) {
        const size_t channel = i / INNER;
        assert_true(weight[i] == w[i] * (float)(channel + 1));
    }
}

static void test_what_does_not_fit_is_refused(void **state) {
    struct bench *bench = *state;
    const float w[24] = {1, 1, 1, 1};
    const int64_t integers[4] = {1, 1, 1, 1};
    set_norm(bench, 2);
    const struct {
        Onnx__TensorProto *weight, *bias;
        bool transposed;
        int64_t groups;
    } cases[] = {
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){3, 1, 1}, 3, w), NULL, false, 1},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 2}, 2, w), NULL, false, 1},
        {tensor(bench, ONNXPTQ_TYPE_INT64, (int64_t[]){2, 1, 1}, 3, integers), NULL, false, 1},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 0, 1}, 3, NULL), NULL, false, 1},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 1, 0}, 3, NULL), NULL, false, 1},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 1, 1}, 3, w),
         tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){3}, 1, w), false, 1},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 1, 1}, 3, w),
         tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){1, 2}, 2, w), false, 1},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){3, 1, 1}, 3, w), NULL, true, 2},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 1, 1}, 3, w), NULL, true, INT64_MAX},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 1, 1}, 3, w), NULL, true, 0},
        {tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 1, 1}, 3, w), NULL, true, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench->fold.weight = cases[i].weight;
        bench->fold.bias = cases[i].bias;
        bench->fold.transposed = cases[i].transposed;
        bench->fold.groups = cases[i].groups;
        assert_false(compute(bench));
    }
}

static void set_parameter(struct bench *bench, size_t index, float value) {
    const float values[] = {1, value};
    bench->fold.norm[index] = tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2}, 1, values);
}

static void test_results_that_are_not_finite_are_refused(void **state) {
    struct bench *bench = *state;
    const float w[] = {1, 1}, big[] = {1, 3e38F};
    const uint16_t halves[] = {oq_float_to_half(1), oq_float_to_half(60000)};
    const struct {
        size_t index; /* 0: none */
        float value;
    } cases[] = {{1, INFINITY}, {2, NAN}, {3, -INFINITY}, {4, 0}, {4, -1}, {4, NAN}};
    bench->fold.weight = tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 1, 1}, 3, w);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_norm(bench, 2);
        assert_true(compute(bench));
        set_parameter(bench, cases[i].index, cases[i].value);
        assert_false(compute(bench));
    }
    set_norm(bench, 2);
    bench->fold.weight = tensor(bench, ONNXPTQ_TYPE_FLOAT, (int64_t[]){2, 1, 1}, 3, big);
    assert_false(compute(bench)); /* times 2: above the largest float */
    bench->fold.weight = tensor(bench, ONNXPTQ_TYPE_FLOAT16, (int64_t[]){2, 1, 1}, 3, halves);
    assert_false(compute(bench));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_channel_has_its_factor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_groups_of_a_transposed_convolution, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_types, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large_weights_lie_in_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_does_not_fit_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_results_that_are_not_finite_are_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
