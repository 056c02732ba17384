/*
 * Measuring one output of two models against each other.
 */
#include "base/number.h"
#include "check/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct onnxptq_tensor tensor(enum onnxptq_type type, size_t n, const void *data) {
    return (struct onnxptq_tensor){.name = "y",
                                   .type = type,
                                   .rank = 2,
                                   .shape = {1, (int64_t)n},
                                   .data = data,
                                   .size = n * oq_type_size((int)type)};
}

static struct oq_output_quality measure(enum onnxptq_type type, size_t n, const void *reference,
                                        const void *candidate) {
    struct oq_output_quality quality;
    struct onnxptq_tensor a = tensor(type, n, reference), b = tensor(type, n, candidate);
    oq_quality_init(&quality, "y", (int)type);
    oq_quality_add(&quality, &a, &b);
    return quality;
}

static void sums_over_all_samples(void **state) {
    (void)state;
    const float ref[] = {3, 4}, got[] = {3, 4.5f}, ref2[] = {0, 5}, got2[] = {-1, 5};
    struct oq_output_quality quality;
    double db = 0;
    oq_quality_init(&quality, "y", ONNXPTQ_TYPE_FLOAT);
    struct onnxptq_tensor a = tensor(ONNXPTQ_TYPE_FLOAT, 2, ref),
                          b = tensor(ONNXPTQ_TYPE_FLOAT, 2, got);
    oq_quality_add(&quality, &a, &b);
    a.data = ref2;
    b.data = got2;
    oq_quality_add(&quality, &a, &b);
    assert_true(quality.signal == 50 && quality.noise == 1.25 && quality.max_abs_error == 1);
    assert_int_equal(quality.n_elements, 4);
    assert_true(quality.comparable && !quality.exact && quality.n_nonfinite == 0);
    assert_true(oq_quality_sqnr(&quality, &db));
    assert_true(fabs(db - 10 * log10(40)) < 1e-12);
}

static void equal_outputs(void **state) {
    (void)state;
    const float ref[] = {1, -2, NAN, INFINITY, -INFINITY};
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_FLOAT, 5, ref, ref);
    double db = 0;
    assert_true(quality.exact && quality.noise == 0 && quality.n_nonfinite == 0);
    assert_true(oq_quality_sqnr(&quality, &db));
    assert_true(isinf(db) && db > 0);
}

static void nans_need_not_be_the_same_bits(void **state) {
    (void)state;
    const uint32_t ref[] = {0x7fc00000, 0x3f800000}, got[] = {0xffc00001, 0x3f800000};
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_FLOAT, 2, ref, got);
    assert_false(quality.exact);
    assert_true(quality.n_nonfinite == 0 && quality.noise == 0 && quality.signal == 1);
}

static void a_candidate_that_is_not_finite_is_worst(void **state) {
    (void)state;
    const float ref[] = {1, 2}, got[] = {1, NAN};
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_FLOAT, 2, ref, got);
    double db = 0;
    assert_int_equal(quality.n_nonfinite, 1);
    assert_true(isinf(quality.max_abs_error));
    assert_true(oq_quality_sqnr(&quality, &db));
    assert_true(isinf(db) && db < 0);
}

static void a_reference_that_is_not_finite_is_left_out(void **state) {
    (void)state;
    const float ref[] = {2, -INFINITY, NAN, INFINITY}, got[] = {2, -1e30f, 0, -INFINITY};
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_FLOAT, 4, ref, got);
    assert_int_equal(quality.n_nonfinite, 3);
    assert_true(quality.signal == 4 && quality.noise == 0 && !quality.exact);
}

static void a_zero_reference_has_no_ratio(void **state) {
    (void)state;
    const float ref[] = {0, 0}, got[] = {0, 0.25f};
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_FLOAT, 2, ref, got);
    double db = 77;
    assert_false(oq_quality_sqnr(&quality, &db));
    assert_true(db == 77 && quality.max_abs_error == 0.25);
}

static void all_float_types(void **state) {
    (void)state;
    const uint16_t half[] = {0x3c00, 0x4000}, half_off[] = {0x3c00, 0x4100};
    const uint16_t brain[] = {0x3f80, 0x4000}, brain_off[] = {0x3f80, 0x4020};
    const double wide[] = {1, 2}, wide_off[] = {1, 2.5};
    struct oq_output_quality found[] = {measure(ONNXPTQ_TYPE_FLOAT16, 2, half, half_off),
                                        measure(ONNXPTQ_TYPE_BFLOAT16, 2, brain, brain_off),
                                        measure(ONNXPTQ_TYPE_DOUBLE, 2, wide, wide_off)};
    for (size_t i = 0; i < 3; i++) {
        assert_true(found[i].signal == 5 && found[i].noise == 0.25);
    }
}

static void integers_and_bools(void **state) {
    (void)state;
    const int64_t ref[] = {-5, INT64_MAX}, off[] = {-3, INT64_MAX}, near[] = {-5, INT64_MAX - 1};
    const int8_t small[] = {-128, 127}, small_off[] = {-127, 127};
    const uint8_t bytes[] = {200, 1}, bytes_off[] = {100, 1};
    const uint8_t bools[] = {0, 1};
    assert_true(measure(ONNXPTQ_TYPE_INT64, 2, ref, ref).exact);
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_INT64, 2, ref, off);
    assert_true(!quality.exact && quality.noise == 4 && quality.max_abs_error == 2);
    quality = measure(ONNXPTQ_TYPE_INT64, 2, ref, near); /* the same double, other bits */
    assert_true(!quality.exact && quality.noise == 0);
    assert_true(measure(ONNXPTQ_TYPE_INT8, 2, small, small_off).noise == 1);
    assert_true(measure(ONNXPTQ_TYPE_UINT8, 2, bytes, bytes_off).noise == 10000);
    assert_true(measure(ONNXPTQ_TYPE_BOOL, 2, bools, bools).exact);
}

static void other_shapes_and_types_cannot_be_compared(void **state) {
    (void)state;
    const float data[] = {1, 2, 3, 4};
    double db = 0;
    struct onnxptq_tensor a = tensor(ONNXPTQ_TYPE_FLOAT, 4, data), others[6];
    for (size_t i = 0; i < 6; i++) {
        others[i] = a;
    }
    others[0].shape[1] = 2, others[0].size = 8;
    others[1].rank = 1, others[1].shape[0] = 4;
    others[2].type = ONNXPTQ_TYPE_INT32;
    others[3].data = NULL;
    others[4].size = 12;
    others[5].type = ONNXPTQ_TYPE_STRING, others[5].data = NULL;
    for (size_t i = 0; i < 6; i++) {
        struct oq_output_quality quality;
        oq_quality_init(&quality, "y", ONNXPTQ_TYPE_FLOAT);
        oq_quality_add(&quality, &a, &a);
        oq_quality_add(&quality, &a, &others[i]);
        assert_true(!quality.comparable && !quality.exact);
        assert_false(oq_quality_sqnr(&quality, &db));
    }
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_STRING, 0, NULL, NULL);
    assert_false(quality.comparable);
}

static void empty_outputs_are_equal(void **state) {
    (void)state;
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_FLOAT, 0, NULL, NULL);
    assert_true(quality.comparable && quality.exact && quality.n_elements == 0);
}

/* Sums of many elements are not those of the last block alone. */
static void long_outputs(void **state) {
    (void)state;
    enum { N = 5001 };
    static float ref[N], got[N];
    for (size_t i = 0; i < N; i++) {
        ref[i] = 2;
        got[i] = i % 2 ? 2 : 3;
    }
    struct oq_output_quality quality = measure(ONNXPTQ_TYPE_FLOAT, N, ref, got);
    assert_true(quality.signal == 4.0 * N && quality.noise == 2501);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_over_all_samples),
        cmocka_unit_test(equal_outputs),
        cmocka_unit_test(nans_need_not_be_the_same_bits),
        cmocka_unit_test(a_candidate_that_is_not_finite_is_worst),
        cmocka_unit_test(a_reference_that_is_not_finite_is_left_out),
        cmocka_unit_test(a_zero_reference_has_no_ratio),
        cmocka_unit_test(all_float_types),
        cmocka_unit_test(integers_and_bools),
        cmocka_unit_test(other_shapes_and_types_cannot_be_compared),
        cmocka_unit_test(empty_outputs_are_equal),
        cmocka_unit_test(long_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
