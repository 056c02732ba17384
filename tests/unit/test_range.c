/*
 * Ranges of small tensors: what every method must do whatever the values are. That the methods are
 * what they claim to be is tested from outside, against numpy.
 */
#include "base/number.h"
#include "calib/range.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct oq_range_codes int8 = {-128, 127, true};
static const struct oq_range_codes uint8 = {0, 255, false};
static const struct oq_range_codes int16 = {-32768, 32767, true};
static const struct oq_range_codes uint16 = {0, 65535, false};

static const enum onnxptq_method methods[] = {ONNXPTQ_METHOD_MAX, ONNXPTQ_METHOD_PERCENTILE,
                                              ONNXPTQ_METHOD_ENTROPY, ONNXPTQ_METHOD_MSE};
#define N_METHODS (sizeof methods / sizeof *methods)

static struct oq_statistics see(int type, const void *data, size_t n) {
    struct oq_statistics seen;
    const int64_t shape[] = {(int64_t)n};
    struct oq_observed tensor = {
        .type = type, .rank = 1, .shape = shape, .n_elements = n, .data = data};
    struct oq_measure_scratch *scratch = oq_measure_scratch_create();
    assert_non_null(scratch);
    oq_statistics_init(&seen);
    assert_true(oq_statistics_update(&seen, &tensor, 0, scratch));
    oq_measure_scratch_destroy(scratch);
    return seen;
}

static struct oq_range choose(enum onnxptq_method kind, const struct oq_range_codes *codes,
                              const struct oq_statistics *seen) {
    const struct oq_range_method method = {kind, 99.99};
    struct onnxptq_error error;
    struct oq_range range = {0};
    assert_int_equal(oq_range_choose(&method, codes, seen, &range, &error), ONNXPTQ_OK);
    return range;
}

/* Every method and code, on a few floats: the range, widened to hold zero, ends at `low` and `high`
 * up to the width of a bin, or for symmetric codes at the larger of them. */
static void assert_ranges(const float *values, size_t n, double low, double high) {
    struct oq_statistics seen = see(ONNXPTQ_TYPE_FLOAT, values, n);
    const struct oq_range_codes *codes[] = {&int8, &uint8, &int16, &uint16};
    double largest = fmax(-low, high);
    for (size_t i = 0; i < N_METHODS; i++) {
        for (size_t c = 0; c < 4; c++) {
            struct oq_range range = choose(methods[i], codes[c], &seen);
            double extent = codes[c]->symmetric ? fmax(-range.min, range.max) : fmax(range.max, 0);
            double wanted = codes[c]->symmetric ? largest : high;
            assert_true(fabs(extent - wanted) <= largest * 0.01);
            assert_true(codes[c]->symmetric || fabs(fmin(range.min, 0) - low) <= largest * 0.01);
        }
    }
    oq_statistics_reset(&seen);
}

static void test_few_values(void **state) {
    (void)state;
    const float one[] = {3.5F}, negative[] = {-2.0F}, both[] = {-1.0F, 2.0F, 0.5F};
    const float constant[] = {-0.75F, -0.75F, -0.75F, -0.75F};
    assert_ranges(one, 1, 0.0, 3.5);
    assert_ranges(negative, 1, -2.0, 0.0);
    assert_ranges(both, 3, -1.0, 2.0);
    assert_ranges(constant, 4, -0.75, 0.0);
}

static void test_extreme_values(void **state) {
    (void)state;
    const float zeros[] = {0.0F, -0.0F, 0.0F};
    const float denormal[] = {1e-42F, -1e-41F, 0.0F};
    const float huge[] = {FLT_MAX, -FLT_MAX, FLT_MAX / 2, -FLT_MAX / 3};
    const float tiny[] = {0x1p-126F, -0x1p-125F};
    assert_ranges(zeros, 3, 0.0, 0.0);
    assert_ranges(denormal, 3, (double)denormal[1], (double)denormal[0]);
    assert_ranges(huge, 4, -(double)FLT_MAX, (double)FLT_MAX);
    assert_ranges(tiny, 2, -0x1p-125, 0x1p-126);
}

static void test_nothing_finite(void **state) {
    (void)state;
    const float values[] = {NAN, INFINITY};
    struct oq_statistics seen = see(ONNXPTQ_TYPE_FLOAT, values, 2);
    for (size_t i = 0; i < N_METHODS; i++) {
        struct oq_range range = choose(methods[i], &int8, &seen);
        assert_true(range.min > range.max);
    }
    oq_statistics_reset(&seen);
}

/* ---- Masks ---- */

static void assert_observed(int type, const void *data, size_t n, double low, double high,
                            uint64_t n_masked) {
    struct oq_statistics seen = see(type, data, n);
    struct oq_range range = oq_range_observed(&seen);
    assert_true(range.min == low && range.max == high);
    assert_int_equal(range.n_masked, n_masked);
    oq_statistics_reset(&seen);
}

static void test_masks_of_float(void **state) {
    (void)state;
    const float lowest[] = {1.0F, -FLT_MAX, -2.0F, -FLT_MAX};
    const float billion[] = {1.0F, -1e9F - 64.0F, 7.5F, 1e9F};
    const float alone[] = {0.0F, -1e9F};
    const float near[] = {300.0F, 0x1p24F};     /* 16 bits would hold both */
    const float legible[] = {0x1p9F, -0x1p24F}; /* just not 2^16 times as large */
    const float not_far[] = {1e-3F, 0x1.fffffep23F};
    assert_observed(ONNXPTQ_TYPE_FLOAT, lowest, 4, -2.0, 1.0, 2);
    assert_observed(ONNXPTQ_TYPE_FLOAT, billion, 4, 1.0, 7.5, 2);
    assert_observed(ONNXPTQ_TYPE_FLOAT, alone, 2, -1e9, 0.0, 0);
    assert_observed(ONNXPTQ_TYPE_FLOAT, near, 2, 300.0, 0x1p24, 0);
    assert_observed(ONNXPTQ_TYPE_FLOAT, legible, 2, -0x1p24, 0x1p9, 0);
    assert_observed(ONNXPTQ_TYPE_FLOAT, not_far, 2, (double)1e-3F, 0x1.fffffep23, 0);
}

static void test_masks_of_other_types(void **state) {
    (void)state;
    const uint16_t half[] = {oq_float_to_half(1.5F), oq_float_to_half(-65504.0F)};
    const uint16_t large[] = {oq_float_to_half(1.5F), oq_float_to_half(-65000.0F)};
    const uint16_t wide[] = {oq_float_to_half(300.0F), oq_float_to_half(-65504.0F)};
    const uint16_t brain[] = {oq_float_to_bfloat16(1.5F), oq_float_to_bfloat16(-1e9F)};
    const double doubles[] = {0.5, -1e300};
    assert_observed(ONNXPTQ_TYPE_FLOAT16, half, 2, 1.5, 1.5, 1);
    assert_observed(ONNXPTQ_TYPE_FLOAT16, large, 2, -64992.0, 1.5, 0);
    assert_observed(ONNXPTQ_TYPE_FLOAT16, wide, 2, -65504.0, 300.0, 0);
    assert_observed(ONNXPTQ_TYPE_BFLOAT16, brain, 2, 1.5, 1.5, 1);
    assert_observed(ONNXPTQ_TYPE_DOUBLE, doubles, 2, 0.5, 0.5, 1);
}

/* A mask in the histogram takes no part either, whatever the method. */
static void test_masks_saturate(void **state) {
    (void)state;
    float values[3000];
    for (size_t i = 0; i < 3000; i++) {
        values[i] = i % 3 == 0 ? -FLT_MAX : (float)(i % 100) * 0.01F - 0.3F;
    }
    assert_ranges(values, 3000, -0.3, 0.69);
}

/* ---- Histograms ---- */

static void test_methods_say_what_they_need(void **state) {
    (void)state;
    const float values[] = {1.0F, 2.0F};
    struct oq_statistics seen = see(ONNXPTQ_TYPE_FLOAT, values, 2);
    oq_histogram_destroy(seen.histogram);
    seen.histogram = NULL;
    for (size_t i = 0; i < N_METHODS; i++) {
        const struct oq_range_method method = {methods[i], 99.99};
        struct onnxptq_error error;
        struct oq_range range;
        bool needed = oq_range_needs_histogram(methods[i]);
        assert_int_equal(oq_range_choose(&method, &int8, &seen, &range, &error),
                         needed ? ONNXPTQ_ERROR_DATA : ONNXPTQ_OK);
    }
}

static void test_percentile_of_exact_ranks(void **state) {
    (void)state;
    float values[10000];
    for (size_t i = 0; i < 10000; i++) {
        values[i] = (float)(i + 1);
    }
    struct oq_statistics seen = see(ONNXPTQ_TYPE_FLOAT, values, 10000);
    const struct {
        double percentile, limit;
    } cases[] = {{99.99, 9999}, {99.9, 9990}, {50, 5000}, {75.005, 7501}, {100, 10000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct oq_range_method method = {ONNXPTQ_METHOD_PERCENTILE, cases[i].percentile};
        struct oq_range range;
        assert_int_equal(oq_range_choose(&method, &uint8, &seen, &range, NULL), ONNXPTQ_OK);
        /* The end of the value's bin. */
        assert_true(range.max >= cases[i].limit);
        assert_true(range.max <= cases[i].limit * (1 + 0x1p-11));
        assert_true(range.min == 0.0);
    }
    oq_statistics_reset(&seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_values),
        cmocka_unit_test(test_extreme_values),
        cmocka_unit_test(test_nothing_finite),
        cmocka_unit_test(test_masks_of_float),
        cmocka_unit_test(test_masks_of_other_types),
        cmocka_unit_test(test_masks_saturate),
        cmocka_unit_test(test_methods_say_what_they_need),
        cmocka_unit_test(test_percentile_of_exact_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
