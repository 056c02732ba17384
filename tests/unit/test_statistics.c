/*
 * Kernels against a plain loop, to the bit, on every instruction set of this machine; statistics of
 * tensors.
 */
#include "base/number.h"
#include "calib/minmax.h"
#include "calib/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Helpers ---- */

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

enum mix { MIX_FINITE, MIX_SPECIAL, MIX_BITS, MIX_NOTHING_FINITE, MIX_KINDS };

static float make_float(enum mix mix, uint64_t *state) {
    static const float special[] = {0.0F,    -0.0F,    INFINITY, -INFINITY, NAN,
                                    3.4e38F, -3.4e38F, 1e-42F,   -1e-42F,   1.0F};
    uint32_t bits = (uint32_t)(next_random(state) << 16) ^ (uint32_t)next_random(state);
    float value = (float)(int32_t)bits * 1e-6F;
    switch (mix) {
    case MIX_FINITE: return value;
    case MIX_SPECIAL: return bits % 7 != 0 ? value : special[bits / 7 % 10];
    case MIX_BITS: memcpy(&value, &bits, sizeof value); return value;
    case MIX_NOTHING_FINITE: return special[2 + bits % 3];
    case MIX_KINDS: break;
    }
    return 0.0F;
}

static void assert_same_bits(double a, double b) {
    assert_memory_equal(&a, &b, sizeof a);
}

static void assert_same_extremes(struct oq_extremes a, struct oq_extremes b) {
    assert_same_bits(a.min, b.min);
    assert_same_bits(a.max, b.max);
    assert_same_bits(a.near_min, b.near_min);
    assert_same_bits(a.near_max, b.near_max);
    assert_same_bits(a.far_least, b.far_least);
    assert_int_equal(a.n_far, b.n_far);
    assert_int_equal(a.n_nan, b.n_nan);
    assert_int_equal(a.n_infinite, b.n_infinite);
}

/* The reference that every loop must equal to the bit. */
static void add_plain(struct oq_extremes *e, double value, double far) {
    if (isnan(value) || isinf(value)) {
        e->n_nan += isnan(value) != 0;
        e->n_infinite += isinf(value) != 0;
        return;
    }
    value += 0.0; /* -0.0 counts as 0.0 */
    e->min = fmin(e->min, value);
    e->max = fmax(e->max, value);
    if (fabs(value) >= far) {
        e->n_far++;
        e->far_least = fmin(e->far_least, fabs(value));
    } else {
        e->near_min = fmin(e->near_min, value);
        e->near_max = fmax(e->near_max, value);
    }
}

static struct oq_extremes plain_of(const float *values, size_t n, double far) {
    const double none = (double)INFINITY;
    struct oq_extremes e = {
        .min = none, .max = -none, .near_min = none, .near_max = -none, .far_least = none};
    for (size_t i = 0; i < n; i++) {
        add_plain(&e, (double)values[i], far);
    }
    return e;
}

static struct oq_extremes plain_extremes(const float *values, size_t n) {
    return plain_of(values, n, 16777216.0);
}

/* Calls `parallel_for` in reverse order, as threads might. */
static void reversed_for(const struct oq_observed *self, size_t n, void (*fn)(void *, size_t),
                         void *arg) {
    size_t *calls = self->parallel_context;
    for (size_t i = n; i > 0; i--) {
        fn(arg, i - 1);
    }
    *calls += n;
}

static struct oq_observed make_tensor(int type, const void *data, size_t rank,
                                      const int64_t *shape) {
    struct oq_observed tensor = {
        .type = type, .rank = rank, .shape = shape, .n_elements = 1, .data = data};
    for (size_t i = 0; i < rank; i++) {
        tensor.n_elements *= (size_t)shape[i];
    }
    return tensor;
}

/* ---- Kernels ---- */

static void test_f32_equals_plain(void **state) {
    (void)state;
    static const size_t sizes[] = {0,  1,  2,    7,    15,   16,   17,   63,
                                   64, 65, 1000, 4095, 4096, 4097, 20000};
    uint64_t seed = 1;
    unsigned char *bytes = malloc(20000 * sizeof(float) + 1);
    float *values = malloc(20000 * sizeof *values);
    assert_non_null(bytes);
    assert_non_null(values);
    for (int mix = 0; mix < MIX_KINDS; mix++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (size_t i = 0; i < sizes[s]; i++) {
                values[i] = make_float((enum mix)mix, &seed);
            }
            struct oq_extremes expected = plain_extremes(values, sizes[s]);
            if (sizes[s] > 0) {
                memcpy(bytes + 1, values, sizes[s] * sizeof *values);
            }
            for (int level = 0; level < OQ_VECTOR_LEVELS; level++) {
                if (!oq_vector_supports((enum oq_vector_level)level)) {
                    continue;
                }
                assert_same_extremes(expected,
                                     oq_minmax_run((enum oq_vector_level)level, ONNXPTQ_TYPE_FLOAT,
                                                   bytes + 1, sizes[s]));
            }
        }
    }
    free(bytes);
    free(values);
}

/* Every bit pattern of the 16-bit types, in blocks, against their values as float. */
static void check_half_type(int type, float (*convert)(uint16_t), double far) {
    enum { N = 65536 };
    uint16_t *bits = malloc(N * sizeof *bits);
    float *values = malloc(N * sizeof *values);
    assert_non_null(bits);
    assert_non_null(values);
    for (size_t i = 0; i < N; i++) {
        bits[i] = (uint16_t)(i * 40503U); /* odd factor: a permutation */
        values[i] = convert(bits[i]);
    }
    for (int level = 0; level < OQ_VECTOR_LEVELS; level++) {
        if (!oq_vector_supports((enum oq_vector_level)level)) {
            continue;
        }
        for (size_t first = 0; first < N; first += 257) {
            size_t n = N - first < 257 ? N - first : 257;
            assert_same_extremes(plain_of(values + first, n, far),
                                 oq_minmax_run((enum oq_vector_level)level, type, bits + first, n));
        }
        assert_same_extremes(plain_of(values, N, far),
                             oq_minmax_run((enum oq_vector_level)level, type, bits, N));
    }
    free(bits);
    free(values);
}

static void test_f16_and_bf16_every_pattern(void **state) {
    (void)state;
    check_half_type(ONNXPTQ_TYPE_FLOAT16, oq_half_to_float, 65024.0);
    check_half_type(ONNXPTQ_TYPE_BFLOAT16, oq_bfloat16_to_float, 16777216.0);
}

static void test_f64(void **state) {
    (void)state;
    double values[5000];
    uint64_t seed = 7;
    struct oq_extremes expected = plain_of(NULL, 0, 0);
    for (size_t i = 0; i < 5000; i++) {
        values[i] = (double)make_float(MIX_SPECIAL, &seed) * (i % 3 != 0 ? 1.0 : 1e100);
        add_plain(&expected, values[i], 16777216.0);
    }
    assert_true(expected.n_far > 0 && expected.n_nan > 0 && expected.near_max > 0);
    for (int level = 0; level < OQ_VECTOR_LEVELS; level++) {
        if (!oq_vector_supports((enum oq_vector_level)level)) {
            continue;
        }
        assert_same_extremes(expected, oq_minmax_run((enum oq_vector_level)level,
                                                     ONNXPTQ_TYPE_DOUBLE, values, 5000));
    }
}

static void test_negative_zero_counts_as_zero(void **state) {
    (void)state;
    const float zeros[] = {-0.0F, -0.0F};
    const double doubles[] = {-0.0};
    struct oq_extremes got = oq_minmax_run(oq_vector_best(), ONNXPTQ_TYPE_FLOAT, zeros, 2);
    assert_same_bits(got.min, 0.0);
    assert_same_bits(got.max, 0.0);
    got = oq_minmax_run(oq_vector_best(), ONNXPTQ_TYPE_DOUBLE, doubles, 1);
    assert_same_bits(got.max, 0.0);
}

#define CHECK_INTEGER(onnx_type, c_type, lowest, highest)                                          \
    do {                                                                                           \
        const c_type values[] = {1, lowest, 0, highest, 1};                                        \
        struct oq_extremes got = oq_minmax_run(OQ_VECTOR_BASE, onnx_type, values, 5);              \
        assert_same_bits(got.min, (double)(lowest));                                               \
        assert_same_bits(got.max, (double)(highest));                                              \
    } while (0)

static void test_integers(void **state) {
    (void)state;
    CHECK_INTEGER(ONNXPTQ_TYPE_INT8, int8_t, INT8_MIN, INT8_MAX);
    CHECK_INTEGER(ONNXPTQ_TYPE_UINT8, uint8_t, 0, UINT8_MAX);
    CHECK_INTEGER(ONNXPTQ_TYPE_INT16, int16_t, INT16_MIN, INT16_MAX);
    CHECK_INTEGER(ONNXPTQ_TYPE_UINT16, uint16_t, 0, UINT16_MAX);
    CHECK_INTEGER(ONNXPTQ_TYPE_INT32, int32_t, INT32_MIN, INT32_MAX);
    CHECK_INTEGER(ONNXPTQ_TYPE_UINT32, uint32_t, 0, UINT32_MAX);
    CHECK_INTEGER(ONNXPTQ_TYPE_INT64, int64_t, INT64_MIN, INT64_MAX);
    CHECK_INTEGER(ONNXPTQ_TYPE_UINT64, uint64_t, 0, UINT64_MAX);
    CHECK_INTEGER(ONNXPTQ_TYPE_BOOL, uint8_t, 0, 1);
}

static void test_unknown_types(void **state) {
    (void)state;
    assert_true(oq_minmax_knows(ONNXPTQ_TYPE_FLOAT));
    assert_false(oq_minmax_knows(ONNXPTQ_TYPE_STRING));
    assert_false(oq_minmax_knows(ONNXPTQ_TYPE_UNDEFINED));
    assert_false(oq_minmax_knows(14)); /* complex64 */
    assert_false(oq_minmax_knows(17)); /* float8 */
    assert_false(oq_minmax_knows(-1));
    assert_false(oq_minmax_knows(1000));
}

/* ---- Statistics ---- */

static void test_update_keeps_shape_and_counts(void **state) {
    (void)state;
    struct oq_statistics s;
    oq_statistics_init(&s);
    assert_true(s.min > s.max);
    const float first[] = {1, -2, NAN, 3, INFINITY, -INFINITY};
    const int64_t shape[] = {2, 3}, wider[] = {2, 4}, empty[] = {0, 3}, flat[] = {6};
    const float more[] = {0, 0, 0, 0, 0, 0, 0, 9};
    struct oq_observed tensor = make_tensor(ONNXPTQ_TYPE_FLOAT, more, 2, wider);
    assert_true(oq_statistics_update(&s, &tensor, 5, NULL));
    assert_false(s.dim_varies[1]);
    tensor = make_tensor(ONNXPTQ_TYPE_FLOAT, first, 2, shape);
    assert_true(oq_statistics_update(&s, &tensor, 4, NULL));
    assert_int_equal(s.seen, 2);
    assert_int_equal(s.rank, 2);
    assert_int_equal(s.shape[0], 2);
    assert_int_equal(s.shape[1], -1);
    assert_false(s.dim_varies[0]);
    assert_true(s.dim_varies[1]);
    assert_int_equal(s.n_finite, 11);
    assert_int_equal(s.n_nan, 1);
    assert_int_equal(s.n_infinite, 2);
    assert_int_equal(s.n_nonfinite, 1);
    assert_int_equal(s.first_nonfinite_sample, 4);
    assert_same_bits(s.min, -2.0);
    assert_same_bits(s.max, 9.0);
    tensor = make_tensor(ONNXPTQ_TYPE_FLOAT, NULL, 2, empty);
    assert_true(oq_statistics_update(&s, &tensor, 6, NULL));
    assert_int_equal(s.n_empty, 1);
    assert_true(s.dim_varies[0]);
    assert_false(s.rank_varies);
    tensor = make_tensor(ONNXPTQ_TYPE_FLOAT, more, 1, flat);
    assert_true(oq_statistics_update(&s, &tensor, 7, NULL));
    assert_true(s.rank_varies);
}

static void test_update_of_what_holds_no_numbers(void **state) {
    (void)state;
    struct oq_statistics s;
    oq_statistics_init(&s);
    const int64_t shape[] = {3};
    struct oq_observed tensor = make_tensor(ONNXPTQ_TYPE_STRING, NULL, 1, shape);
    assert_true(oq_statistics_update(&s, &tensor, 0, NULL));
    assert_int_equal(s.seen, 1);
    assert_int_equal(s.type, ONNXPTQ_TYPE_STRING);
    assert_int_equal(s.n_finite, 0);
    assert_true(s.min > s.max);
}

static void test_update_of_too_many_dimensions(void **state) {
    (void)state;
    struct oq_statistics s;
    oq_statistics_init(&s);
    int64_t shape[ONNXPTQ_MAX_RANK + 1];
    for (size_t i = 0; i <= ONNXPTQ_MAX_RANK; i++) {
        shape[i] = 1;
    }
    const float value = 5;
    struct oq_observed tensor =
        make_tensor(ONNXPTQ_TYPE_FLOAT, &value, ONNXPTQ_MAX_RANK + 1, shape);
    assert_true(oq_statistics_update(&s, &tensor, 0, NULL));
    assert_true(s.rank_varies);
    assert_true(s.rank <= ONNXPTQ_MAX_RANK);
    assert_same_bits(s.max, 5.0);
}

static void test_large_tensor_is_split(void **state) {
    (void)state;
    static const size_t sizes[] = {(size_t)1 << 18, 300001, (size_t)5 << 20};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        uint64_t seed = k;
        float *values = malloc(sizes[k] * sizeof *values);
        assert_non_null(values);
        for (size_t i = 0; i < sizes[k]; i++) {
            values[i] = make_float(MIX_SPECIAL, &seed);
        }
        values[sizes[k] - 1] = -3.3e38F;
        const int64_t shape[] = {(int64_t)sizes[k]};
        size_t calls = 0;
        struct oq_observed tensor = make_tensor(ONNXPTQ_TYPE_FLOAT, values, 1, shape);
        tensor.parallel_for = reversed_for;
        tensor.parallel_context = &calls;
        struct oq_statistics s;
        oq_statistics_init(&s);
        assert_true(oq_statistics_update(&s, &tensor, 0, NULL));
        struct oq_extremes expected = plain_extremes(values, sizes[k]);
        assert_true(calls > 1 && calls <= 64);
        assert_same_bits(s.min, expected.min);
        assert_same_bits(s.max, expected.max);
        assert_int_equal(s.n_nan, expected.n_nan);
        assert_int_equal(s.n_infinite, expected.n_infinite);
        assert_int_equal(s.n_finite + s.n_nan + s.n_infinite, sizes[k]);
        free(values);
    }
}

static void test_merge_equals_one_pass(void **state) {
    (void)state;
    enum { TENSORS = 12, WIDTH = 100 };
    float values[TENSORS * WIDTH];
    uint64_t seed = 3;
    for (size_t i = 0; i < TENSORS * WIDTH; i++) {
        values[i] = make_float(i < WIDTH * 5 ? MIX_FINITE : MIX_SPECIAL, &seed);
    }
    struct oq_statistics whole, part[3], merged;
    oq_statistics_init(&whole);
    oq_statistics_init(&merged);
    for (size_t p = 0; p < 3; p++) {
        oq_statistics_init(&part[p]);
    }
    for (size_t t = 0; t < TENSORS; t++) {
        const int64_t shape[] = {1, WIDTH - (int64_t)(t % 2)};
        struct oq_observed tensor = make_tensor(ONNXPTQ_TYPE_FLOAT, values + t * WIDTH, 2, shape);
        assert_true(oq_statistics_update(&whole, &tensor, t, NULL));
        assert_true(oq_statistics_update(&part[t % 3], &tensor, t, NULL));
    }
    assert_true(oq_statistics_merge(&merged, &part[0]));
    assert_true(oq_statistics_merge(&merged, &part[2]));
    assert_true(oq_statistics_merge(&merged, &part[1]));
    assert_int_equal(merged.seen, whole.seen);
    assert_int_equal(merged.n_finite, whole.n_finite);
    assert_int_equal(merged.n_nan, whole.n_nan);
    assert_int_equal(merged.n_infinite, whole.n_infinite);
    assert_int_equal(merged.n_nonfinite, whole.n_nonfinite);
    assert_true(whole.n_nonfinite > 0 && whole.n_nonfinite < TENSORS);
    assert_int_equal(merged.first_nonfinite_sample, whole.first_nonfinite_sample);
    assert_same_bits(merged.min, whole.min);
    assert_same_bits(merged.max, whole.max);
    assert_memory_equal(merged.dim_varies, whole.dim_varies, sizeof whole.dim_varies);
    assert_memory_equal(merged.shape, whole.shape, sizeof whole.shape);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_equals_plain),
        cmocka_unit_test(test_f16_and_bf16_every_pattern),
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_negative_zero_counts_as_zero),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_unknown_types),
        cmocka_unit_test(test_update_keeps_shape_and_counts),
        cmocka_unit_test(test_update_of_what_holds_no_numbers),
        cmocka_unit_test(test_update_of_too_many_dimensions),
        cmocka_unit_test(test_large_tensor_is_split),
        cmocka_unit_test(test_merge_equals_one_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
