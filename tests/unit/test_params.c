/*
 * Scales, zero points and codes against the formulas of docs/formulas.md.
 */
#include "base/number.h"
#include "quant/params.h"
#include "quantize.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static const struct oq_quant_spec INT8 = {.type = ONNXPTQ_TYPE_INT8, .symmetric = true};
static const struct oq_quant_spec INT8_WEIGHT = {
    .type = ONNXPTQ_TYPE_INT8, .symmetric = true, .narrow = true};
static const struct oq_quant_spec INT8_ASYMMETRIC = {.type = ONNXPTQ_TYPE_INT8};
static const struct oq_quant_spec UINT8 = {.type = ONNXPTQ_TYPE_UINT8};
static const struct oq_quant_spec UINT8_SYMMETRIC = {.type = ONNXPTQ_TYPE_UINT8, .symmetric = true};
static const struct oq_quant_spec INT16 = {.type = ONNXPTQ_TYPE_INT16, .symmetric = true};
static const struct oq_quant_spec UINT16 = {.type = ONNXPTQ_TYPE_UINT16};

static void assert_params(const struct oq_quant_spec *spec, double min, double max, float scale,
                          int32_t zero_point) {
    struct oq_quant_params params = oq_quant_params_from_range(spec, min, max);
    if (params.scale != scale || params.zero_point != zero_point) {
        fail_msg("[%g, %g]: scale %.9g, zero point %d; expected %.9g, %d", min, max,
                 (double)params.scale, params.zero_point, (double)scale, zero_point);
    }
}

static void test_ranges(void **state) {
    (void)state;
    assert_params(&INT8, -2.0, 1.0, 2.0F / 127.0F, 0);
    assert_params(&INT8_WEIGHT, -2.0, 1.0, 2.0F / 127.0F, 0);
    assert_params(&INT8, 0.5, 3.0, 3.0F / 127.0F, 0);
    assert_params(&INT16, -1.0, 0.0, 1.0F / 32767.0F, 0);
    assert_params(&UINT8, -1.0, 3.0, 4.0F / 255.0F, 64); /* 63.75 */
    assert_params(&UINT8, 0.0, 6.0, 6.0F / 255.0F, 0);
    assert_params(&UINT8, 2.0, 6.0, 6.0F / 255.0F, 0);     /* widened to zero */
    assert_params(&UINT8, -6.0, -2.0, 6.0F / 255.0F, 255); /* widened to zero */
    assert_params(&UINT8_SYMMETRIC, -1.0, 3.0, 6.0F / 255.0F, 128);
    assert_params(&UINT16, 0.0, 1.0, 1.0F / 65535.0F, 0);
    assert_params(&INT8_ASYMMETRIC, 0.0, 2.55, (float)(2.55 / 255.0), -128);
    assert_params(&INT8_ASYMMETRIC, -1.0, 1.55, (float)(2.55 / 255.0), -28);
}

static void test_ranges_without_extent(void **state) {
    (void)state;
    assert_params(&INT8, 0.0, 0.0, 1.0F, 0);
    assert_params(&UINT8, 0.0, 0.0, 1.0F, 0);
    assert_params(&UINT8_SYMMETRIC, 0.0, 0.0, 1.0F, 128);
    assert_params(&INT8_ASYMMETRIC, 0.0, 0.0, 1.0F, 0);
    assert_params(&UINT8, INFINITY, -INFINITY, 1.0F, 0); /* nothing was seen */
    assert_params(&UINT8, NAN, 1.0, 1.0F, 0);
    assert_params(&INT8, 0.0, 1e-40, 1.0F, 0); /* the scale would not be normal */
    assert_params(&UINT8, -1e-310, 1e-310, 1.0F, 0);
}

/* Whatever the range: a normal scale, zero exact, and the ends come back finite and within a few
 * steps. */
static void test_any_range_gives_usable_parameters(void **state) {
    (void)state;
    const double ends[] = {0.0, 5e-324, 1e-45, 1e-40, 1.4e-36,         1e-30, 1e-6,    0.37,
                           1.0, 3.0,    1e6,   1e30,  (double)FLT_MAX, 1e300, INFINITY};
    const struct oq_quant_spec *specs[] = {
        &INT8, &INT8_WEIGHT, &INT8_ASYMMETRIC, &UINT8, &UINT8_SYMMETRIC, &INT16, &UINT16};
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            for (size_t j = 0; j < sizeof ends / sizeof *ends; j++) {
                struct oq_quant_params p = oq_quant_params_from_range(specs[k], -ends[i], ends[j]);
                int32_t low, high;
                oq_quant_code_range(specs[k], &low, &high);
                assert_true(isnormal(p.scale) && p.scale > 0.0F);
                assert_in_range(p.zero_point - low, 0, high - low);
                assert_int_equal(quantize_value(specs[k], p, 0.0F), p.zero_point);
                float top = (float)fmin(ends[j], (double)FLT_MAX);
                int32_t code = quantize_value(specs[k], p, top);
                float back = (float)(code - p.zero_point) * p.scale;
                assert_true(isfinite(back) && fabsf(back / p.scale - top / p.scale) < 4.0F);
            }
        }
    }
}

/* The same where the float type is a half: its largest number is 65504. */
static void test_half_precision_ends_come_back_finite(void **state) {
    (void)state;
    const double ends[] = {0.0, 1e-9, 1e-3, 1.0, 1000.0, 65000.0, 65504.0};
    for (int symmetric = 0; symmetric < 2; symmetric++) {
        struct oq_quant_spec spec = {.type = symmetric ? ONNXPTQ_TYPE_INT8 : ONNXPTQ_TYPE_UINT8,
                                     .symmetric = symmetric,
                                     .float_type = ONNXPTQ_TYPE_FLOAT16};
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            for (size_t j = 0; j < sizeof ends / sizeof *ends; j++) {
                struct oq_quant_params p = oq_quant_params_from_range(&spec, -ends[i], ends[j]);
                int32_t code = quantize_value(&spec, p, (float)ends[j]);
                assert_true(p.scale > 0.0F);
                assert_true(fabsf((float)(code - p.zero_point) * p.scale) <= 65504.0F);
            }
        }
    }
}

static void test_rounding_is_half_to_even_and_saturates(void **state) {
    (void)state;
    struct oq_quant_params p = {1.0F, 0};
    assert_int_equal(quantize_value(&INT8, p, 0.5F), 0);
    assert_int_equal(quantize_value(&INT8, p, 1.5F), 2);
    assert_int_equal(quantize_value(&INT8, p, -2.5F), -2);
    assert_int_equal(quantize_value(&INT8, p, 1e30F), 127);
    assert_int_equal(quantize_value(&INT8, p, -INFINITY), -128);
    assert_int_equal(quantize_value(&INT8_WEIGHT, p, -1000.0F), -127);
    assert_int_equal(quantize_value(&INT8, p, NAN), 0);
    p = (struct oq_quant_params){1.0F, 3};
    assert_int_equal(quantize_value(&UINT8, p, 0.5F),
                     3); /* rounded before the zero point is added */
    assert_int_equal(quantize_value(&UINT8, p, -4.0F), 0);
    assert_int_equal(quantize_value(&UINT8, p, 300.0F), 255);
}

static void test_a_constant_is_reproduced(void **state) {
    (void)state;
    const struct oq_quant_spec *specs[] = {&INT8, &UINT8, &UINT8_SYMMETRIC, &INT16, &UINT16};
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        struct oq_quant_params p = oq_quant_params_from_range(specs[k], 3.0, 3.0);
        int32_t code = quantize_value(specs[k], p, 3.0F);
        float back = (float)(code - p.zero_point) * p.scale;
        assert_true(fabsf(back - 3.0F) <
                    (specs[k] == &UINT8_SYMMETRIC ? 0.5F * p.scale + 1e-6F : 1e-6F));
    }
}

static void test_bias_codes(void **state) {
    (void)state;
    int32_t code = 7;
    assert_true(oq_bias_quantize(2.5, 1.0F, &code));
    assert_int_equal(code, 2);
    assert_true(oq_bias_quantize(-1073741824.0, 1.0F, &code));
    assert_int_equal(code, -OQ_BIAS_CODE_MAX);
    assert_false(oq_bias_quantize(1073741825.0, 1.0F, &code));
    assert_false(oq_bias_quantize(5.0, 1e-12F, &code));
    assert_false(oq_bias_quantize(NAN, 1.0F, &code));
    assert_false(oq_bias_quantize(INFINITY, 1.0F, &code));
}

/* ---- Weights -------------------------------------------------------------------------------- */

struct weight {
    struct oq_tensor_view view;
    int64_t shape[4];
    uint8_t *bytes; /* one byte in front, so that no element is aligned */
};

static struct weight make_weight(const int64_t *shape, size_t rank) {
    struct weight w = {.view = {.type = ONNXPTQ_TYPE_FLOAT, .rank = rank, .n_elements = 1}};
    for (size_t i = 0; i < rank; i++) {
        w.shape[i] = shape[i];
        w.view.n_elements *= (size_t)shape[i];
    }
    w.view.size = w.view.n_elements * sizeof(float);
    w.bytes = malloc(w.view.size + 1);
    assert_non_null(w.bytes);
    uint32_t seed = 1;
    for (size_t i = 0; i < w.view.n_elements; i++) {
        seed = seed * 1664525U + 1013904223U;
        float x = ((float)(seed >> 8) / 8388608.0F - 1.0F) * (float)(1 + i % 7);
        memcpy(w.bytes + 1 + i * sizeof x, &x, sizeof x);
    }
    w.view.data = w.bytes + 1;
    return w;
}

static float element(const struct weight *w, size_t i) {
    return oq_load_f32(w->view.data + i * sizeof(float));
}

static void set_element(struct weight *w, size_t i, float x) {
    memcpy(w->bytes + 1 + i * sizeof x, &x, sizeof x);
}

static size_t channel_of(const struct weight *w, int axis, size_t index) {
    if (axis < 0) {
        return 0;
    }
    for (size_t i = w->view.rank; i-- > (size_t)axis + 1;) {
        index /= (size_t)w->shape[i];
    }
    return index % (size_t)w->shape[axis];
}

static void quantize_weight(const struct oq_tensor_view *weight, int axis, float *scales,
                            int8_t *codes) {
    assert_int_equal(oq_weight_scales(weight, axis, scales, NULL), ONNXPTQ_OK);
    oq_weight_codes(weight, axis, scales, 0, weight->n_elements, codes);
}

/* The plain formulas. */
static void check_weight(struct weight *w, int axis) {
    w->view.shape = w->shape;
    size_t n_scales = oq_weight_n_scales(&w->view, axis);
    assert_int_equal(n_scales, axis < 0 ? 1 : w->shape[axis]);
    float *scales = calloc(n_scales, sizeof *scales);
    float *amax = calloc(n_scales, sizeof *amax);
    int8_t *codes = malloc(w->view.n_elements + 1);
    assert_non_null(scales);
    assert_non_null(amax);
    assert_non_null(codes);
    codes[w->view.n_elements] = 99;
    quantize_weight(&w->view, axis, scales, codes);
    for (size_t i = 0; i < w->view.n_elements; i++) {
        size_t c = channel_of(w, axis, i);
        amax[c] = fmaxf(amax[c], fabsf(element(w, i)));
    }
    for (size_t c = 0; c < n_scales; c++) {
        assert_true(scales[c] == amax[c] / 127.0F);
    }
    for (size_t i = 0; i < w->view.n_elements; i++) {
        float scale = scales[channel_of(w, axis, i)];
        struct oq_quant_params params = {scale, 0};
        assert_int_equal(codes[i], quantize_value(&INT8_WEIGHT, params, element(w, i)));
    }
    assert_int_equal(codes[w->view.n_elements], 99);
    /* in pieces that fall inside runs */
    int8_t *piece = malloc(w->view.n_elements + 1);
    assert_non_null(piece);
    for (size_t first = 0; first < w->view.n_elements; first += 1001) {
        size_t n = w->view.n_elements - first < 1001 ? w->view.n_elements - first : 1001;
        oq_weight_codes(&w->view, axis, scales, first, n, piece);
        assert_memory_equal(piece, codes + first, n);
    }
    free(piece);
    free(codes);
    free(amax);
    free(scales);
}

static void test_weights_along_every_axis(void **state) {
    (void)state;
    const int64_t shapes[][4] = {{5, 3, 7, 2},   {64, 32, 3, 3},  {1, 9000, 1, 3},
                                 {33, 1, 1, 40}, {2, 2, 2, 4099}, {3, 1, 1, 1}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct weight w = make_weight(shapes[k], 4);
        for (int axis = -1; axis < 4; axis++) {
            check_weight(&w, axis);
        }
        free(w.bytes);
    }
    struct weight vector = make_weight((const int64_t[]){17}, 1);
    check_weight(&vector, 0);
    check_weight(&vector, -1);
    free(vector.bytes);
}

static void test_dead_channels_take_the_largest_scale(void **state) {
    (void)state;
    struct weight w = make_weight((const int64_t[]){4, 3}, 2);
    w.view.shape = w.shape;
    for (size_t i = 0; i < 3; i++) {
        set_element(&w, i, 0.0F);
        set_element(&w, 3 + i, 1e-42F);
        set_element(&w, 6 + i, i == 0 ? -2.54F : 0.1F);
        set_element(&w, 9 + i, 0.127F);
    }
    float scales[4];
    int8_t codes[12];
    quantize_weight(&w.view, 0, scales, codes);
    float largest = 2.54F / 127.0F;
    assert_true(scales[0] == largest && scales[1] == largest && scales[2] == largest);
    assert_true(scales[3] == 0.127F / 127.0F);
    const int8_t expected[] = {0, 0, 0, 0, 0, 0, -127, 5, 5, 127, 127, 127};
    assert_memory_equal(codes, expected, sizeof expected);
    for (size_t i = 0; i < 12; i++) {
        set_element(&w, i, 0.0F);
    }
    quantize_weight(&w.view, 0, scales, codes);
    assert_true(scales[0] == 1.0F && scales[3] == 1.0F);
    free(w.bytes);
}

static void test_extreme_weights(void **state) {
    (void)state;
    struct weight w = make_weight((const int64_t[]){2, 2}, 2);
    w.view.shape = w.shape;
    set_element(&w, 0, FLT_MAX);
    set_element(&w, 1, -FLT_MAX);
    set_element(&w, 2, 2e-36F); /* its scale is just normal */
    set_element(&w, 3, -1e-36F);
    float scales[2];
    int8_t codes[4];
    quantize_weight(&w.view, 0, scales, codes);
    assert_true(isnormal(scales[0]) && isnormal(scales[1]));
    assert_int_equal(codes[0], 127);
    assert_int_equal(codes[1], -127);
    assert_int_equal(codes[2], 127);
    assert_in_range(-codes[3], 63, 64);
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        set_element(&w, 3, bad[i]);
        struct onnxptq_error error = {0};
        assert_int_equal(oq_weight_scales(&w.view, 0, scales, &error), ONNXPTQ_ERROR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "NaN or infinity"));
    }
    w.view.type = ONNXPTQ_TYPE_INT64;
    assert_int_equal(oq_weight_scales(&w.view, 0, scales, NULL), ONNXPTQ_ERROR_UNSUPPORTED);
    free(w.bytes);
}

static void test_larger_scales_can_be_given(void **state) {
    (void)state;
    struct weight w = make_weight((const int64_t[]){1, 3}, 2);
    w.view.shape = w.shape;
    set_element(&w, 0, 1.0F);
    set_element(&w, 1, -3.0F);
    set_element(&w, 2, 5.0F);
    int8_t codes[3];
    oq_weight_codes(&w.view, 0, (const float[]){2.0F}, 0, 3, codes);
    assert_int_equal(codes[0], 0); /* 0.5 to even */
    assert_int_equal(codes[1], -2);
    assert_int_equal(codes[2], 2);
    free(w.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_ranges_without_extent),
        cmocka_unit_test(test_any_range_gives_usable_parameters),
        cmocka_unit_test(test_half_precision_ends_come_back_finite),
        cmocka_unit_test(test_rounding_is_half_to_even_and_saturates),
        cmocka_unit_test(test_a_constant_is_reproduced),
        cmocka_unit_test(test_bias_codes),
        cmocka_unit_test(test_weights_along_every_axis),
        cmocka_unit_test(test_dead_channels_take_the_largest_scale),
        cmocka_unit_test(test_extreme_weights),
        cmocka_unit_test(test_larger_scales_can_be_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
