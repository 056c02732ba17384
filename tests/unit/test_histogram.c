/*
 * Histograms against a reference that sorts every value by itself; the same for any instruction
 * set, order, split and merge.
 */
#include "base/number.h"
#include "calib/binner.h"
#include "calib/histogram.h"
#include "calib/measure.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_EXPONENTS 254 /* of normal floats */
#define FULL_BINS 2048

/* ---- Values ---- */

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float bell(uint64_t *state) {
    float sum = -6.0F;
    for (int i = 0; i < 12; i++) {
        sum += (float)next_random(state) * 0x1p-31F;
    }
    return sum;
}

enum mix { BELL, RELU, CLIPPED, MASKED, OUTLIER, SPECIAL, EVERY_BIT, SPARSE, CONSTANT, MIXES };

static float make_value(enum mix mix, size_t i, uint64_t *state) {
    static const float special[] = {0.0F,    -0.0F,     INFINITY,  -INFINITY,     NAN,
                                    FLT_MAX, -FLT_MAX,  1e-42F,    -1e-42F,       0x1p-126F,
                                    1.0F,    0x1p-149F, 0x1p-127F, 0x1.fffffep-1F};
    float value = bell(state);
    switch (mix) {
    case RELU: return value > 0 ? value : 0.0F;
    case CLIPPED: return fminf(fmaxf(value * 6, 0.0F), 6.0F);
    case MASKED: return i % 3 == 0 ? value - 1e9F : value;
    case OUTLIER: return i == 1234 ? 5000.0F : value;
    case SPECIAL: return special[next_random(state) % (sizeof special / sizeof *special)];
    case EVERY_BIT: return from_bits((uint32_t)(next_random(state) << 16 ^ next_random(state)));
    case SPARSE: return ldexpf(1.0F + (float)(i % 5), (int)(next_random(state) % 9) * 25 - 110);
    case CONSTANT: return -0.5F;
    case BELL:
    case MIXES: break;
    }
    return value;
}

/* ---- The reference ---- */

struct plain {
    int exponents[OQ_HISTOGRAM_OCTAVES];
    size_t n;
    uint64_t counts[OQ_HISTOGRAM_OCTAVES][2][FULL_BINS];
    uint64_t total, low;
};

static bool octave_of(float value, int *exponent) {
    if (!isfinite(value) || fabsf(value) < 0x1p-126F) {
        return false;
    }
    *exponent = ilogbf(value);
    return true;
}

static void find_octaves(struct plain *plain, const float *values, size_t n) {
    bool occupied[N_EXPONENTS] = {false};
    for (size_t i = 0; i < n; i++) {
        int exponent;
        if (octave_of(values[i], &exponent)) {
            occupied[exponent + 126] = true;
        }
    }
    for (int e = N_EXPONENTS - 1; e >= 0 && plain->n < OQ_HISTOGRAM_OCTAVES; e--) {
        if (occupied[e]) {
            plain->exponents[plain->n++] = e - 126;
        }
    }
}

static void count_value(struct plain *plain, float value) {
    int exponent = 0;
    plain->total += isfinite(value) ? 1 : 0;
    bool known = octave_of(value, &exponent);
    for (size_t place = 0; known && place < plain->n; place++) {
        if (plain->exponents[place] != exponent) {
            continue;
        }
        int bits = place < 4 ? 11 : 14 - (int)place;
        double within = ldexp(fabs((double)value), -exponent) - 1.0;
        plain->counts[place][value < 0][(size_t)floor(ldexp(within, bits))]++;
        return;
    }
    plain->low += isfinite(value) ? 1 : 0;
}

static struct plain *make_plain(const float *values, size_t n) {
    struct plain *plain = calloc(1, sizeof *plain);
    assert_non_null(plain);
    find_octaves(plain, values, n);
    for (size_t i = 0; i < n; i++) {
        count_value(plain, values[i]);
    }
    return plain;
}

static void assert_is_plain(const struct oq_histogram *histogram, const struct plain *plain) {
    assert_int_equal(oq_histogram_total(histogram), plain->total);
    assert_int_equal(oq_histogram_low(histogram), plain->low);
    assert_int_equal(oq_histogram_n_octaves(histogram), plain->n);
    for (size_t place = 0; place < plain->n; place++) {
        assert_int_equal(oq_histogram_exponent(histogram, place), plain->exponents[place]);
        for (size_t bin = 0; bin < (size_t)1 << oq_histogram_place_bits(place); bin++) {
            for (int sign = 0; sign < 2; sign++) {
                assert_int_equal(oq_histogram_count(histogram, place, sign != 0, bin),
                                 plain->counts[place][sign][bin]);
            }
        }
    }
}

static void assert_equal(const struct oq_histogram *a, const struct oq_histogram *b) {
    assert_int_equal(oq_histogram_total(a), oq_histogram_total(b));
    assert_int_equal(oq_histogram_n_octaves(a), oq_histogram_n_octaves(b));
    for (size_t place = 0; place < oq_histogram_n_octaves(a); place++) {
        assert_int_equal(oq_histogram_exponent(a, place), oq_histogram_exponent(b, place));
        for (int sign = 0; sign < 2; sign++) {
            assert_int_equal(oq_histogram_octave_total(a, place, sign != 0),
                             oq_histogram_octave_total(b, place, sign != 0));
            for (size_t bin = 0; bin < (size_t)1 << oq_histogram_place_bits(place); bin++) {
                assert_int_equal(oq_histogram_count(a, place, sign != 0, bin),
                                 oq_histogram_count(b, place, sign != 0, bin));
            }
        }
    }
}

static struct oq_histogram *create(void) {
    struct oq_histogram *histogram = oq_histogram_create();
    assert_non_null(histogram);
    return histogram;
}

/* ---- Counting ---- */

#define LARGE 70001 /* more than one chunk, and no multiple of anything */

static float *make_values(enum mix mix, size_t n) {
    float *values = malloc((n + 1) * sizeof *values);
    uint64_t seed = (uint64_t)mix * 77 + n;
    assert_non_null(values);
    for (size_t i = 0; i < n; i++) {
        values[i] = make_value(mix, i, &seed);
    }
    return values;
}

static void check_levels(struct oq_binner *binner, int type, const void *data, size_t n,
                         const struct plain *plain) {
    for (int level = 0; level < OQ_VECTOR_LEVELS; level++) {
        if (!oq_vector_supports((enum oq_vector_level)level)) {
            continue;
        }
        struct oq_histogram *histogram = create();
        assert_true(oq_binner_add(binner, (enum oq_vector_level)level, type, data, n, histogram));
        assert_is_plain(histogram, plain);
        oq_histogram_destroy(histogram);
    }
}

/* At an odd address, too. One binner for all: it must be clean after each call. */
static void test_floats_equal_the_reference(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, 15, 512, 513, 4096, 5000, LARGE};
    struct oq_binner *binner = oq_binner_create();
    unsigned char *odd = malloc(LARGE * sizeof(float) + 1);
    assert_non_null(binner);
    assert_non_null(odd);
    for (int mix = 0; mix < MIXES; mix++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            float *values = make_values((enum mix)mix, sizes[s]);
            struct plain *plain = make_plain(values, sizes[s]);
            memcpy(odd + 1, values, sizes[s] * sizeof *values);
            check_levels(binner, ONNXPTQ_TYPE_FLOAT, values, sizes[s], plain);
            check_levels(binner, ONNXPTQ_TYPE_FLOAT, odd + 1, sizes[s], plain);
            free(plain);
            free(values);
        }
    }
    free(odd);
    oq_binner_destroy(binner);
}

static void check_half_type(int type, float (*convert)(uint16_t)) {
    enum { N = 65536 };
    struct oq_binner *binner = oq_binner_create();
    uint16_t *bits = malloc(N * sizeof *bits);
    float *values = malloc(N * sizeof *values);
    assert_non_null(binner);
    assert_non_null(bits);
    assert_non_null(values);
    for (size_t i = 0; i < N; i++) {
        bits[i] = (uint16_t)(i * 40503U); /* odd factor: a permutation */
        values[i] = convert(bits[i]);
    }
    const size_t sizes[] = {77, N};
    for (size_t s = 0; s < 2; s++) {
        struct plain *plain = make_plain(values, sizes[s]);
        check_levels(binner, type, bits, sizes[s], plain);
        free(plain);
    }
    free(values);
    free(bits);
    oq_binner_destroy(binner);
}

static void test_f16_and_bf16_every_pattern(void **state) {
    (void)state;
    check_half_type(ONNXPTQ_TYPE_FLOAT16, oq_half_to_float);
    check_half_type(ONNXPTQ_TYPE_BFLOAT16, oq_bfloat16_to_float);
}

static void test_f64_is_rounded_to_float(void **state) {
    (void)state;
    double doubles[3000];
    float values[3000];
    uint64_t seed = 5;
    for (size_t i = 0; i < 3000; i++) {
        doubles[i] = (double)bell(&seed) * (1 + 1e-9);
        if (i % 100 == 0) {
            doubles[i] = i % 200 ? 1e300 : -1e300;
        }
        if (i % 100 == 1) {
            doubles[i] = i % 200 == 1 ? (double)NAN : (double)INFINITY;
        }
        if (i % 100 == 2) {
            doubles[i] = 1e-300;
        }
        values[i] = (float)fmin(fmax(doubles[i], -(double)FLT_MAX), (double)FLT_MAX);
        if (!isfinite(doubles[i])) {
            values[i] = NAN;
        }
    }
    struct oq_binner *binner = oq_binner_create();
    struct plain *plain = make_plain(values, 3000);
    assert_non_null(binner);
    check_levels(binner, ONNXPTQ_TYPE_DOUBLE, doubles, 3000, plain);
    free(plain);
    oq_binner_destroy(binner);
}

static void test_integers_are_not_counted(void **state) {
    (void)state;
    assert_false(oq_binner_knows(ONNXPTQ_TYPE_INT64));
    assert_false(oq_binner_knows(ONNXPTQ_TYPE_STRING));
    assert_true(oq_binner_knows(ONNXPTQ_TYPE_FLOAT16));
}

/* ---- Orders, splits, merges ---- */

static void shuffle(float *values, size_t n, uint64_t *seed) {
    for (size_t i = n; i > 1; i--) {
        size_t other = next_random(seed) % i;
        float kept = values[i - 1];
        values[i - 1] = values[other];
        values[other] = kept;
    }
}

/* Pieces of any size go to one of three histograms, which are merged in any order. */
static struct oq_histogram *count_in_pieces(struct oq_binner *binner, const float *values, size_t n,
                                            uint64_t *seed) {
    struct oq_histogram *parts[3] = {create(), create(), create()};
    for (size_t done = 0; done < n;) {
        size_t size = 1 + next_random(seed) % (next_random(seed) % 4 == 0 ? 20000 : 300);
        if (size > n - done) {
            size = n - done;
        }
        assert_true(oq_binner_add(binner, oq_vector_best(), ONNXPTQ_TYPE_FLOAT, values + done, size,
                                  parts[next_random(seed) % 3]));
        done += size;
    }
    size_t first = next_random(seed) % 3;
    for (size_t i = 1; i < 3; i++) {
        assert_true(oq_histogram_merge(parts[first], parts[(first + i) % 3]));
        oq_histogram_destroy(parts[(first + i) % 3]);
    }
    return parts[first];
}

static void test_any_order_and_split(void **state) {
    (void)state;
    struct oq_binner *binner = oq_binner_create();
    assert_non_null(binner);
    for (int mix = 0; mix < MIXES; mix++) {
        uint64_t seed = (uint64_t)mix;
        float *values = make_values((enum mix)mix, LARGE);
        struct plain *plain = make_plain(values, LARGE);
        for (int turn = 0; turn < 6; turn++) {
            struct oq_histogram *histogram = count_in_pieces(binner, values, LARGE, &seed);
            assert_is_plain(histogram, plain);
            oq_histogram_destroy(histogram);
            shuffle(values, LARGE, &seed);
        }
        free(plain);
        free(values);
    }
    oq_binner_destroy(binner);
}

/* The whole range of exponents, one octave after the other, upwards and downwards: every place is
 * taken and given up. */
static void test_octaves_take_and_leave_places(void **state) {
    (void)state;
    float values[N_EXPONENTS * 3];
    for (int e = 0; e < N_EXPONENTS; e++) {
        for (int k = 0; k < 3; k++) {
            values[e * 3 + k] = ldexpf(k == 1 ? -1.75F : 1.0F + 0.37F * (float)k, e - 126);
        }
    }
    struct plain *plain = make_plain(values, N_EXPONENTS * 3);
    assert_int_equal(plain->n, OQ_HISTOGRAM_OCTAVES);
    struct oq_binner *binner = oq_binner_create();
    assert_non_null(binner);
    for (int down = 0; down < 2; down++) {
        struct oq_histogram *histogram = create();
        for (int e = 0; e < N_EXPONENTS; e++) {
            const float *octave = values + 3 * (down ? N_EXPONENTS - 1 - e : e);
            assert_true(
                oq_binner_add(binner, OQ_VECTOR_BASE, ONNXPTQ_TYPE_FLOAT, octave, 3, histogram));
        }
        assert_is_plain(histogram, plain);
        oq_histogram_destroy(histogram);
    }
    free(plain);
    oq_binner_destroy(binner);
}

/* ---- Threads ---- */

struct task {
    void (*fn)(void *, size_t);
    void *arg;
    size_t index;
};

static void *run_task(void *arg) {
    struct task *task = arg;
    task->fn(task->arg, task->index);
    return NULL;
}

static void threaded_for(const struct oq_observed *self, size_t n, void (*fn)(void *, size_t),
                         void *arg) {
    pthread_t threads[64];
    struct task tasks[64];
    (void)self;
    assert_true(n > 1 && n <= 64);
    for (size_t i = 0; i < n; i++) {
        tasks[i] = (struct task){fn, arg, i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_task, &tasks[i]), 0);
    }
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void test_threads_make_no_difference(void **state) {
    (void)state;
    enum { N = 900001 };
    struct oq_measure_scratch *scratch = oq_measure_scratch_create();
    assert_non_null(scratch);
    for (int mix = 0; mix < MIXES; mix++) {
        float *values = make_values((enum mix)mix, N);
        struct oq_observed tensor = {.type = ONNXPTQ_TYPE_FLOAT, .n_elements = N, .data = values};
        struct oq_histogram *alone = create(), *together = create();
        struct oq_extremes one, other;
        assert_true(oq_measure(&tensor, scratch, alone, &one));
        tensor.parallel_for = threaded_for;
        assert_true(oq_measure(&tensor, scratch, together, &other));
        assert_equal(alone, together);
        assert_memory_equal(&one, &other, sizeof one);
        oq_histogram_destroy(alone);
        oq_histogram_destroy(together);
        free(values);
    }
    oq_measure_scratch_destroy(scratch);
}

/* ---- Large counts ---- */

static void double_counts(struct oq_histogram *counted) {
    struct oq_histogram *saved = create();
    assert_true(oq_histogram_merge(saved, counted));
    assert_true(oq_histogram_merge(counted, saved));
    oq_histogram_destroy(saved);
}

static void test_counts_beyond_32_bits(void **state) {
    (void)state;
    struct oq_binner *binner = oq_binner_create();
    float *values = make_values(BELL, 3000);
    assert_non_null(binner);
    struct plain *plain = make_plain(values, 3000);
    struct oq_histogram *histogram = create();
    assert_true(oq_binner_add(binner, OQ_VECTOR_BASE, ONNXPTQ_TYPE_FLOAT, values, 3000, histogram));
    for (int i = 0; i < 40; i++) {
        double_counts(histogram);
    }
    for (size_t place = 0; place < plain->n; place++) {
        for (size_t bin = 0; bin < FULL_BINS; bin++) {
            plain->counts[place][0][bin] <<= 40;
            plain->counts[place][1][bin] <<= 40;
        }
    }
    plain->total <<= 40;
    plain->low <<= 40;
    assert_is_plain(histogram, plain);

    /* A higher octave appears: pairs of large counts are added. */
    float *more = make_values(OUTLIER, 3000);
    const float peak = 5000.0F;
    free(plain);
    memcpy(more, values, 3000 * sizeof *values);
    more[3000] = peak;
    plain = make_plain(more, 3001);
    assert_true(oq_binner_add(binner, OQ_VECTOR_BASE, ONNXPTQ_TYPE_FLOAT, &peak, 1, histogram));
    for (size_t place = 1; place < plain->n; place++) {
        for (size_t bin = 0; bin < FULL_BINS; bin++) {
            plain->counts[place][0][bin] <<= 40;
            plain->counts[place][1][bin] <<= 40;
        }
    }
    plain->total = ((plain->total - 1) << 40) + 1;
    plain->low <<= 40;
    assert_is_plain(histogram, plain);
    free(plain);
    free(values);
    free(more);
    oq_histogram_destroy(histogram);
    oq_binner_destroy(binner);
}

/* ---- Putting back ---- */

static bool restore_side(struct oq_histogram *into, const struct oq_histogram *from, size_t place,
                         bool negative) {
    uint64_t counts[FULL_BINS];
    size_t n = (size_t)1 << oq_histogram_place_bits(place);
    for (size_t bin = 0; bin < n; bin++) {
        counts[bin] = oq_histogram_count(from, place, negative, bin);
    }
    return oq_histogram_restore(into, oq_histogram_exponent(from, place), negative, counts, n);
}

static void test_restore_gives_the_same(void **state) {
    (void)state;
    struct oq_binner *binner = oq_binner_create();
    assert_non_null(binner);
    for (int mix = 0; mix < MIXES; mix++) {
        float *values = make_values((enum mix)mix, LARGE);
        struct oq_histogram *histogram = create(), *restored = create();
        assert_true(
            oq_binner_add(binner, oq_vector_best(), ONNXPTQ_TYPE_FLOAT, values, LARGE, histogram));
        oq_histogram_add_total(restored, oq_histogram_total(histogram));
        for (size_t place = 0; place < oq_histogram_n_octaves(histogram); place++) {
            for (int sign = 0; sign < 2; sign++) {
                if (oq_histogram_octave_total(histogram, place, sign != 0) > 0) {
                    assert_true(restore_side(restored, histogram, place, sign != 0));
                }
            }
        }
        assert_equal(histogram, restored);
        oq_histogram_destroy(histogram);
        oq_histogram_destroy(restored);
        free(values);
    }
    oq_binner_destroy(binner);
}

static void test_restore_refuses_what_cannot_be(void **state) {
    (void)state;
    uint64_t counts[FULL_BINS] = {1, 2};
    struct oq_histogram *histogram = create();
    assert_false(oq_histogram_restore(histogram, 3, false, counts, FULL_BINS)); /* of no total */
    oq_histogram_add_total(histogram, 7);
    assert_false(oq_histogram_restore(histogram, 3, false, counts, 1024));
    assert_false(oq_histogram_restore(histogram, 128, false, counts, FULL_BINS));
    assert_false(oq_histogram_restore(histogram, -127, false, counts, FULL_BINS));
    assert_true(oq_histogram_restore(histogram, 3, false, counts, FULL_BINS));
    assert_false(oq_histogram_restore(histogram, 3, false, counts, FULL_BINS)); /* twice */
    assert_true(oq_histogram_restore(histogram, 3, true, counts, FULL_BINS));
    assert_false(oq_histogram_restore(histogram, 4, true, counts, FULL_BINS)); /* upwards */
    assert_false(oq_histogram_restore(histogram, 2, true, counts, FULL_BINS)); /* 9 of 7 */
    counts[1] = UINT64_MAX;
    assert_false(oq_histogram_restore(histogram, 2, true, counts, FULL_BINS));
    memset(counts, 0, sizeof counts);
    assert_false(oq_histogram_restore(histogram, 2, true, counts, FULL_BINS)); /* nothing there */
    assert_int_equal(oq_histogram_low(histogram), 1);
    oq_histogram_destroy(histogram);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_equal_the_reference),
        cmocka_unit_test(test_f16_and_bf16_every_pattern),
        cmocka_unit_test(test_f64_is_rounded_to_float),
        cmocka_unit_test(test_integers_are_not_counted),
        cmocka_unit_test(test_any_order_and_split),
        cmocka_unit_test(test_octaves_take_and_leave_places),
        cmocka_unit_test(test_threads_make_no_difference),
        cmocka_unit_test(test_counts_beyond_32_bits),
        cmocka_unit_test(test_restore_gives_the_same),
        cmocka_unit_test(test_restore_refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
