/*
 * Random numbers and random samples: reproducible, independent of order, with the promised
 * distributions.
 */
#include "base/number.h"
#include "data/random.h"
#include "data/source.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* From an independent implementation of the seeding. */
#define FIRST_BITS UINT64_C(0x91ffad927e17593b)
#define SECOND_BITS UINT64_C(0xc89dbe6d737ea63b)

/* The sequence that the authors' own code gives for this state. */
static void matches_the_published_generator(void **state) {
    (void)state;
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240,
                                        1216172134540287360};
    struct oq_random random = {.state = {1, 2, 3, 4}};
    for (size_t i = 0; i < 5; i++) {
        assert_true(oq_random_bits(&random) == expected[i]);
    }
}

static void streams_are_fixed_and_differ(void **state) {
    (void)state;
    struct oq_random a, b;
    oq_random_init(&a, 7, 3, "x");
    assert_true(oq_random_bits(&a) == FIRST_BITS);
    assert_true(oq_random_bits(&a) == SECOND_BITS);
    static const struct {
        uint64_t seed, sample;
        const char *name;
    } others[] = {{8, 3, "x"}, {7, 4, "x"}, {7, 3, "y"}, {7, 3, "xx"}, {3, 7, "x"}, {7, 3, ""}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        oq_random_init(&b, others[i].seed, others[i].sample, others[i].name);
        assert_true(oq_random_bits(&b) != FIRST_BITS);
    }
}

static void normals_have_the_right_moments(void **state) {
    (void)state;
    enum { N = 200000 };
    double sum = 0, square = 0, fourth = 0;
    struct oq_random random;
    oq_random_init(&random, 1, 0, "x");
    for (size_t i = 0; i < N; i++) {
        double z = oq_random_normal(&random);
        sum += z;
        square += z * z;
        fourth += z * z * z * z;
    }
    /* Four standard errors of each estimate. */
    assert_true(fabs(sum / N) < 4 / sqrt(N));
    assert_true(fabs(square / N - 1) < 4 * sqrt(2.0 / N));
    assert_true(fabs(fourth / N - 3) < 4 * sqrt(96.0 / N));
}

static void integers_include_both_ends(void **state) {
    (void)state;
    size_t counts[7] = {0};
    struct oq_random random;
    oq_random_init(&random, 1, 0, "x");
    for (size_t i = 0; i < 70000; i++) {
        int64_t value = oq_random_integer(&random, -3, 3);
        if (value < -3 || value > 3) {
            fail_msg("%lld", (long long)value);
        }
        counts[(uint64_t)(value + 3) % 7]++;
    }
    for (size_t i = 0; i < 7; i++) {
        assert_true(counts[i] > 9600 && counts[i] < 10400);
    }
    assert_int_equal(oq_random_integer(&random, 5, 5), 5);
    (void)oq_random_integer(&random, INT64_MIN, INT64_MAX);
}

/* ---- Samples ---- */

static struct onnxptq_tensor input(const char *name, enum onnxptq_type type, size_t rank,
                                   int64_t d0, int64_t d1) {
    return (struct onnxptq_tensor){.name = name, .type = type, .rank = rank, .shape = {d0, d1}};
}

static enum onnxptq_status try_open(const struct onnxptq_quantize_options *options,
                                    const struct onnxptq_tensor *inputs, size_t n,
                                    struct oq_data_source **source, const char *word) {
    struct onnxptq_error error = {0};
    struct oq_data_spec spec = {options, inputs, n, NULL};
    enum onnxptq_status status = oq_data_open(&spec, source, &error);
    if (status != ONNXPTQ_OK && (word == NULL || strstr(error.message, word) == NULL)) {
        fail_msg("'%s'", error.message);
    }
    return status;
}

static struct oq_data_source *open_ok(const struct onnxptq_quantize_options *options,
                                      const struct onnxptq_tensor *inputs, size_t n) {
    struct oq_data_source *source = NULL;
    assert_int_equal(try_open(options, inputs, n, &source, NULL), ONNXPTQ_OK);
    return source;
}

static void samples_do_not_depend_on_order_or_batch(void **state) {
    (void)state;
    struct onnxptq_tensor inputs[] = {input("x", ONNXPTQ_TYPE_FLOAT, 2, -1, 5)}, run;
    struct onnxptq_quantize_options options = {.random_samples = 6, .seed = 4};
    float one_by_one[6][5];
    struct oq_data_source *source = open_ok(&options, inputs, 1);
    assert_int_equal(oq_data_batch(source), 1);
    for (size_t i = 6; i-- > 0;) {
        assert_int_equal(oq_data_read(source, &i, 1, &run, NULL), ONNXPTQ_OK);
        assert_int_equal(run.shape[0], 1);
        assert_int_equal(run.size, sizeof one_by_one[0]);
        memcpy(one_by_one[i], run.data, run.size);
    }
    oq_data_close(source);
    options.batch = 4;
    source = open_ok(&options, inputs, 1);
    assert_int_equal(oq_data_batch(source), 4);
    assert_int_equal(oq_data_read(source, (size_t[]){5, 0, 3}, 3, &run, NULL), ONNXPTQ_OK);
    assert_int_equal(run.shape[0], 3);
    assert_memory_equal(run.data, one_by_one[5], sizeof one_by_one[0]);
    assert_memory_equal((const float *)run.data + 5, one_by_one[0], sizeof one_by_one[0]);
    assert_memory_equal((const float *)run.data + 10, one_by_one[3], sizeof one_by_one[0]);
    assert_memory_not_equal(one_by_one[0], one_by_one[3], sizeof one_by_one[0]);
    oq_data_close(source);
}

static void all_float_types_hold_the_same_values(void **state) {
    (void)state;
    static const enum onnxptq_type types[] = {ONNXPTQ_TYPE_FLOAT, ONNXPTQ_TYPE_DOUBLE,
                                              ONNXPTQ_TYPE_FLOAT16, ONNXPTQ_TYPE_BFLOAT16};
    static const double tolerance[] = {0, 0, 0x1p-11, 0x1p-8};
    double exact[64], values[64];
    struct onnxptq_quantize_options options = {.random_samples = 1};
    for (size_t t = 0; t < 4; t++) {
        struct onnxptq_tensor inputs[] = {input("x", types[t], 2, 8, 8)}, run;
        struct oq_data_source *source = open_ok(&options, inputs, 1);
        assert_int_equal(oq_data_read(source, (size_t[]){0}, 1, &run, NULL), ONNXPTQ_OK);
        oq_convert_to_double((int)types[t], run.data, 64, t == 0 ? exact : values);
        for (size_t i = 0; i < 64 && t > 0; i++) {
            assert_true(fabs(values[i] - exact[i]) <= tolerance[t] * fabs(exact[i]));
        }
        oq_data_close(source);
    }
}

static void integers_are_zero_or_one_unless_a_range_is_given(void **state) {
    (void)state;
    struct onnxptq_tensor run[3], inputs[] = {input("ids", ONNXPTQ_TYPE_INT64, 1, 400, 0),
                                              input("mask", ONNXPTQ_TYPE_BOOL, 1, 400, 0),
                                              input("bytes", ONNXPTQ_TYPE_INT8, 1, 400, 0)};
    struct onnxptq_input_range range = {"bytes", -128, -126.5};
    struct onnxptq_quantize_options options = {
        .random_samples = 1, .input_ranges = &range, .n_input_ranges = 1};
    struct oq_data_source *source = open_ok(&options, inputs, 3);
    bool seen[4] = {false};
    assert_int_equal(oq_data_read(source, (size_t[]){0}, 1, run, NULL), ONNXPTQ_OK);
    for (size_t i = 0; i < 400; i++) {
        int64_t id = ((const int64_t *)run[0].data)[i];
        uint8_t bit = ((const uint8_t *)run[1].data)[i];
        int8_t byte = ((const int8_t *)run[2].data)[i];
        assert_true((id == 0 || id == 1) && bit <= 1 && (byte == -128 || byte == -127));
        seen[id] = true;
        seen[2 + (byte == -127)] = true;
    }
    assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
    oq_data_close(source);
}

static void ranges_are_uniform(void **state) {
    (void)state;
    struct onnxptq_tensor run, inputs[] = {input("x", ONNXPTQ_TYPE_FLOAT, 1, 20000, 0)};
    struct onnxptq_input_range range = {"x", -2, 1};
    struct onnxptq_quantize_options options = {
        .random_samples = 1, .input_ranges = &range, .n_input_ranges = 1};
    struct oq_data_source *source = open_ok(&options, inputs, 1);
    double sum = 0, low = 9, high = -9;
    assert_int_equal(oq_data_read(source, (size_t[]){0}, 1, &run, NULL), ONNXPTQ_OK);
    for (size_t i = 0; i < 20000; i++) {
        double x = (double)((const float *)run.data)[i];
        sum += x;
        low = fmin(low, x);
        high = fmax(high, x);
    }
    assert_true(low >= -2 && low < -1.99 && high <= 1 && high > 0.99);
    assert_true(fabs(sum / 20000 + 0.5) < 4 * 3 / sqrt(12 * 20000.0));
    oq_data_close(source);
}

static void shapes_are_completed(void **state) {
    (void)state;
    struct onnxptq_tensor run, inputs[] = {input("x", ONNXPTQ_TYPE_FLOAT, 2, -1, -1)};
    struct onnxptq_input_shape shape = {"x", 2, {1, 7}};
    struct onnxptq_quantize_options options = {
        .random_samples = 3, .input_shapes = &shape, .n_input_shapes = 1, .batch = 2};
    struct oq_data_source *source = open_ok(&options, inputs, 1);
    assert_int_equal(oq_data_read(source, (size_t[]){0, 2}, 2, &run, NULL), ONNXPTQ_OK);
    assert_true(run.shape[0] == 2 && run.shape[1] == 7);
    oq_data_close(source);
    shape.shape[0] = 2; /* a sample of two rows is what a batch of two asks for */
    source = open_ok(&options, inputs, 1);
    assert_int_equal(oq_data_batch(source), 1);
    assert_int_equal(oq_data_read(source, (size_t[]){0}, 1, &run, NULL), ONNXPTQ_OK);
    assert_true(run.shape[0] == 2 && run.shape[1] == 7);
    oq_data_close(source);
}

static void a_fixed_batch_is_one_sample(void **state) {
    (void)state;
    struct onnxptq_tensor run, inputs[] = {input("x", ONNXPTQ_TYPE_FLOAT, 2, 8, 3)};
    struct onnxptq_quantize_options options = {.random_samples = 1, .batch = 8};
    struct oq_data_source *source = open_ok(&options, inputs, 1), *none = NULL;
    assert_int_equal(oq_data_read(source, (size_t[]){0}, 1, &run, NULL), ONNXPTQ_OK);
    assert_int_equal(run.shape[0], 8);
    oq_data_close(source);
    options.batch = 4;
    assert_int_equal(try_open(&options, inputs, 1, &none, "4 rows"), ONNXPTQ_ERROR_USAGE);
}

static void refuses_what_it_cannot_make(void **state) {
    (void)state;
    static const struct {
        enum onnxptq_type type;
        int64_t d0, d1;
        const char *word;
    } cases[] = {{ONNXPTQ_TYPE_FLOAT, -1, -1, "--input-shape x:1x8"},
                 {ONNXPTQ_TYPE_FLOAT, 5, -1, "--input-shape x:5x8"},
                 {ONNXPTQ_TYPE_STRING, 1, 1, "numeric"},
                 {ONNXPTQ_TYPE_UNDEFINED, 1, 1, "not declared"},
                 {ONNXPTQ_TYPE_FLOAT, INT64_MAX, INT64_MAX, "address"}};
    struct onnxptq_quantize_options options = {.random_samples = 1};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct onnxptq_tensor inputs[] = {input("x", cases[i].type, 2, cases[i].d0, cases[i].d1)};
        struct oq_data_source *source = NULL;
        assert_int_equal(try_open(&options, inputs, 1, &source, cases[i].word),
                         i == 4 ? ONNXPTQ_ERROR_DATA : ONNXPTQ_ERROR_USAGE);
    }
}

static void refuses_wrong_options(void **state) {
    (void)state;
    static const struct {
        struct onnxptq_input_shape shape; /* name NULL: none */
        struct onnxptq_input_range range;
        const char *word;
    } cases[] = {
        {{"y", 2, {1, 1}}, {NULL, 0, 0}, "'x'"},
        {{"x", 1, {1}}, {NULL, 0, 0}, "float (?, 3)"},
        {{"x", 2, {1, 4}}, {NULL, 0, 0}, "(1, 4)"},
        {{"x", 2, {-1, 3}}, {NULL, 0, 0}, "(?, 3)"},
        {{"x", 17, {1, 3}}, {NULL, 0, 0}, "float (?, 3)"},
        {{NULL, 0, {0}}, {"y", 0, 1}, "'x'"},
        {{NULL, 0, {0}}, {"x", 1, 0}, "above"},
        {{NULL, 0, {0}}, {"x", 0, INFINITY}, "finite"},
        {{NULL, 0, {0}}, {"x", NAN, 1}, "finite"},
        {{NULL, 0, {0}}, {"x", 0, 1e39}, "cannot hold"},
        {{NULL, 0, {0}}, {"n", 0, 256}, "cannot hold"},
        {{NULL, 0, {0}}, {"n", -1, 5}, "cannot hold"},
        {{NULL, 0, {0}}, {"n", 2.2, 2.8}, "no integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct onnxptq_tensor inputs[] = {input("x", ONNXPTQ_TYPE_FLOAT, 2, -1, 3),
                                          input("n", ONNXPTQ_TYPE_UINT8, 1, 1, 0)};
        struct onnxptq_quantize_options options = {.random_samples = 1,
                                                   .input_shapes = &cases[i].shape,
                                                   .n_input_shapes = cases[i].shape.name != NULL,
                                                   .input_ranges = &cases[i].range,
                                                   .n_input_ranges = cases[i].range.name != NULL};
        struct oq_data_source *source = NULL;
        assert_int_equal(try_open(&options, inputs, 2, &source, cases[i].word),
                         ONNXPTQ_ERROR_USAGE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_published_generator),
        cmocka_unit_test(streams_are_fixed_and_differ),
        cmocka_unit_test(normals_have_the_right_moments),
        cmocka_unit_test(integers_include_both_ends),
        cmocka_unit_test(samples_do_not_depend_on_order_or_batch),
        cmocka_unit_test(all_float_types_hold_the_same_values),
        cmocka_unit_test(integers_are_zero_or_one_unless_a_range_is_given),
        cmocka_unit_test(ranges_are_uniform),
        cmocka_unit_test(shapes_are_completed),
        cmocka_unit_test(a_fixed_batch_is_one_sample),
        cmocka_unit_test(refuses_what_it_cannot_make),
        cmocka_unit_test(refuses_wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
