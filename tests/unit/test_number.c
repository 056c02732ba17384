/*
 * Element types and half precision. Rounding is checked against its definition, for every pair of
 * neighbours.
 */
#include "base/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static void test_types(void **state) {
    (void)state;
    assert_int_equal(oq_type_size(ONNXPTQ_TYPE_FLOAT), 4);
    assert_int_equal(oq_type_size(ONNXPTQ_TYPE_BOOL), 1);
    assert_int_equal(oq_type_size(ONNXPTQ_TYPE_BFLOAT16), 2);
    assert_int_equal(oq_type_size(15), 16); /* complex128 */
    assert_int_equal(oq_type_size(ONNXPTQ_TYPE_STRING), 0);
    assert_int_equal(oq_type_size(22), 0); /* int4 */
    assert_int_equal(oq_type_bits(22), 4);
    assert_int_equal(oq_type_bits(27), 6);
    assert_int_equal(oq_type_bits(-1), 0);
    assert_int_equal(oq_type_bits(1000), 0);
    assert_string_equal(oq_type_name(22), "int4");
    assert_string_equal(oq_type_name(-5), "unknown");
    assert_string_equal(oq_type_name(28), "float6e3m2");
    assert_true(oq_type_is_float(ONNXPTQ_TYPE_DOUBLE));
    assert_false(oq_type_is_float(ONNXPTQ_TYPE_INT32));
}

static void check_half(float value, unsigned expected) {
    const unsigned got = oq_float_to_half(value);
    if (got != expected) {
        fail_msg("%a became 0x%04x, expected 0x%04x", (double)value, got, expected);
    }
}

static void check_bfloat16(float value, unsigned expected) {
    const unsigned got = oq_float_to_bfloat16(value);
    if (got != expected) {
        fail_msg("%a became 0x%04x, expected 0x%04x", (double)value, got, expected);
    }
}

static void test_half_values(void **state) {
    (void)state;
    assert_true(oq_half_to_float(0x3c00) == 1.0F);
    assert_true(oq_half_to_float(0xc000) == -2.0F);
    assert_true(oq_half_to_float(0x7bff) == 65504.0F);
    assert_true(oq_half_to_float(0x0001) == 0x1p-24F);
    assert_true(oq_half_to_float(0x0400) == 0x1p-14F);
    assert_true(isinf(oq_half_to_float(0xfc00)));
    assert_true(isnan(oq_half_to_float(0x7c01)));
    assert_true(signbit(oq_half_to_float(0x8000)));
    check_half(65519.996F, 0x7bff);
    check_half(65520.0F, 0x7c00);
    check_half(-INFINITY, 0xfc00);
    check_half(-0.0F, 0x8000);
    check_half(0x1p-25F, 0x0000);
    check_half(0x1.8p-25F, 0x0001);
    check_half(FLT_MIN, 0x0000);
    assert_true(isnan(oq_half_to_float(oq_float_to_half(NAN))));
}

/* Half way between neighbours rounds to the even one, and a bit more or less to the nearer. */
static void test_half_rounding(void **state) {
    (void)state;
    for (unsigned low = 0; low < 0x7bff; low++) {
        const unsigned high = low + 1;
        const float a = oq_half_to_float((uint16_t)low), b = oq_half_to_float((uint16_t)high);
        const float middle = (a + b) / 2;
        check_half(a, low);
        check_half(-b, high | 0x8000u);
        check_half(middle, low % 2 == 0 ? low : high);
        check_half(nextafterf(middle, 0), low);
        check_half(-nextafterf(middle, INFINITY), high | 0x8000u);
    }
}

static void test_bfloat16_rounding(void **state) {
    (void)state;
    for (unsigned low = 0; low < 0x7f7f; low++) {
        const unsigned high = low + 1;
        const float a = oq_bfloat16_to_float((uint16_t)low),
                    b = oq_bfloat16_to_float((uint16_t)high);
        const float middle = (float)(((double)a + (double)b) / 2);
        check_bfloat16(a, low);
        check_bfloat16(-b, high | 0x8000u);
        check_bfloat16(middle, low % 2 == 0 ? low : high);
        check_bfloat16(nextafterf(middle, 0), low);
        check_bfloat16(nextafterf(middle, INFINITY), high);
    }
    check_bfloat16(FLT_MAX, 0x7f80);
    check_bfloat16(INFINITY, 0x7f80);
    assert_true(isnan(oq_bfloat16_to_float(oq_float_to_bfloat16(NAN))));
    assert_true(isnan(oq_bfloat16_to_float(oq_float_to_bfloat16(-NAN))));
}

static void test_double_to_float(void **state) {
    (void)state;
    assert_true(oq_double_to_float(1.5) == 1.5F);
    assert_true(oq_double_to_float(1e300) == INFINITY);
    assert_true(oq_double_to_float(-1e300) == -INFINITY);
    assert_true(oq_double_to_float((double)FLT_MAX * (1 + 1e-9)) == FLT_MAX);
    assert_true(oq_double_to_float(-(double)FLT_MAX * (1 + 1e-9)) == -FLT_MAX);
    assert_true(isnan(oq_double_to_float(NAN)));
}

/* Every source type, from an odd address. */
static void test_convert(void **state) {
    (void)state;
    static const float floats[] = {1.5F, -2.25F, 0.0F};
    static const double doubles[] = {1.5, -2.25, 0.0};
    static const uint16_t halves[] = {0x3e00, 0xc080, 0};
    static const uint16_t bfloats[] = {0x3fc0, 0xc010, 0};
    static const struct {
        int type;
        const void *data;
        size_t size;
    } cases[] = {
        {ONNXPTQ_TYPE_FLOAT, floats, sizeof floats},
        {ONNXPTQ_TYPE_DOUBLE, doubles, sizeof doubles},
        {ONNXPTQ_TYPE_FLOAT16, halves, sizeof halves},
        {ONNXPTQ_TYPE_BFLOAT16, bfloats, sizeof bfloats},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char buffer[32];
        float as_float[3];
        double as_double[3];
        memcpy(buffer + 1, cases[i].data, cases[i].size);
        oq_convert_to_float(cases[i].type, buffer + 1, 3, as_float);
        oq_convert_to_double(cases[i].type, buffer + 1, 3, as_double);
        assert_memory_equal(as_float, floats, sizeof floats);
        assert_memory_equal(as_double, doubles, sizeof doubles);
    }
    oq_convert_to_float(ONNXPTQ_TYPE_FLOAT, NULL, 0, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),           cmocka_unit_test(test_half_values),
        cmocka_unit_test(test_half_rounding),   cmocka_unit_test(test_bfloat16_rounding),
        cmocka_unit_test(test_double_to_float), cmocka_unit_test(test_convert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
