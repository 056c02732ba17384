/*
 * A property: the same tensors give the same statistics and ranges, to the bit, in any order,
 * spread over any number of shards that are merged in any order, and split among any threads.
 */
#include "calib/range.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_TENSORS 24
#define N_TURNS 12
#define MAX_SHARDS 5
#define MAX_TASKS 64

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* ---- Tensors ---- */

struct tensor {
    float *values;
    size_t n;
    int64_t shape[2];
};

/* Bells of many widths, with now and then what is special. */
static float make_value(uint64_t *state, int exponent) {
    static const float special[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, -FLT_MAX, 1e-42F, 4e3F};
    uint64_t dice = next_random(state);
    if (dice % 501 == 0) {
        return special[dice / 501 % 8];
    }
    float sum = -4.0F;
    for (int i = 0; i < 8; i++) {
        sum += (float)next_random(state) * 0x1p-31F;
    }
    return ldexpf(sum, exponent);
}

static void make_tensor(struct tensor *tensor, size_t index, uint64_t *state) {
    static const size_t sizes[] = {0, 1, 7, 500, 513, 3000, 70001, 400003};
    tensor->n = sizes[index % 8];
    tensor->shape[0] = 1;
    tensor->shape[1] = (int64_t)tensor->n;
    tensor->values = malloc((tensor->n + 1) * sizeof *tensor->values);
    assert_non_null(tensor->values);
    int exponent = (int)(next_random(state) % 12) - 6;
    for (size_t i = 0; i < tensor->n; i++) {
        tensor->values[i] = make_value(state, exponent);
    }
}

/* ---- Threads ---- */

struct task {
    void (*fn)(void *, size_t);
    void *arg;
    size_t first, step, end;
};

static void *run_tasks(void *arg) {
    const struct task *task = arg;
    for (size_t i = task->first; i < task->end; i += task->step) {
        task->fn(task->arg, i);
    }
    return NULL;
}

/* Among as many threads as the tensor's context says. */
static void threaded_for(const struct oq_observed *self, size_t n, void (*fn)(void *, size_t),
                         void *arg) {
    size_t n_threads = *(const size_t *)self->parallel_context;
    pthread_t threads[MAX_TASKS];
    struct task tasks[MAX_TASKS];
    for (size_t i = 0; i < n_threads; i++) {
        tasks[i] = (struct task){fn, arg, i, n_threads, n};
        assert_int_equal(pthread_create(&threads[i], NULL, run_tasks, &tasks[i]), 0);
    }
    for (size_t i = 0; i < n_threads; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* ---- Statistics ---- */

/* `n_threads` 0: none but this one. */
static void observe(struct oq_statistics *statistics, const struct tensor *tensor, size_t sample,
                    size_t n_threads, struct oq_measure_scratch *scratch) {
    struct oq_observed observed = {.type = ONNXPTQ_TYPE_FLOAT,
                                   .rank = 2,
                                   .shape = tensor->shape,
                                   .n_elements = tensor->n,
                                   .data = tensor->values,
                                   .parallel_for = n_threads > 0 ? threaded_for : NULL,
                                   .parallel_context = &n_threads};
    assert_true(oq_statistics_update(statistics, &observed, sample, scratch));
}

static void shuffle(size_t *order, size_t n, uint64_t *state) {
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (size_t i = n; i > 1; i--) {
        size_t other = next_random(state) % i, kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

static struct oq_statistics observe_anyhow(const struct tensor *tensors, uint64_t *state,
                                           struct oq_measure_scratch *scratch) {
    struct oq_statistics shards[MAX_SHARDS], all;
    size_t order[N_TENSORS], n_shards = 1 + next_random(state) % MAX_SHARDS;
    oq_statistics_init(&all);
    for (size_t i = 0; i < n_shards; i++) {
        oq_statistics_init(&shards[i]);
    }
    shuffle(order, N_TENSORS, state);
    for (size_t i = 0; i < N_TENSORS; i++) {
        size_t n_threads = next_random(state) % 5;
        observe(&shards[next_random(state) % n_shards], &tensors[order[i]], order[i], n_threads,
                scratch);
    }
    shuffle(order, n_shards, state);
    for (size_t i = 0; i < n_shards; i++) {
        assert_true(oq_statistics_merge(&all, &shards[order[i]]));
        oq_statistics_reset(&shards[order[i]]);
    }
    return all;
}

/* ---- Equality ---- */

static void assert_same_bits(double a, double b) {
    assert_memory_equal(&a, &b, sizeof a);
}

static void assert_same_ranges(const struct oq_statistics *a, const struct oq_statistics *b) {
    static const struct oq_range_codes codes[] = {
        {-128, 127, true}, {0, 255, false}, {-32768, 32767, true}, {0, 65535, false}};
    static const struct oq_range_method methods[] = {{ONNXPTQ_METHOD_MAX, 0},
                                                     {ONNXPTQ_METHOD_PERCENTILE, 99.9},
                                                     {ONNXPTQ_METHOD_PERCENTILE, 99.99},
                                                     {ONNXPTQ_METHOD_ENTROPY, 0},
                                                     {ONNXPTQ_METHOD_MSE, 0}};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
            struct oq_range one, other;
            assert_int_equal(oq_range_choose(&methods[m], &codes[c], a, &one, NULL), ONNXPTQ_OK);
            assert_int_equal(oq_range_choose(&methods[m], &codes[c], b, &other, NULL), ONNXPTQ_OK);
            assert_same_bits(one.min, other.min);
            assert_same_bits(one.max, other.max);
            assert_int_equal(one.n_masked, other.n_masked);
        }
    }
}

static void assert_same_counts(const struct oq_histogram *a, const struct oq_histogram *b) {
    assert_int_equal(oq_histogram_total(a), oq_histogram_total(b));
    assert_int_equal(oq_histogram_n_octaves(a), oq_histogram_n_octaves(b));
    for (size_t place = 0; place < oq_histogram_n_octaves(a); place++) {
        assert_int_equal(oq_histogram_exponent(a, place), oq_histogram_exponent(b, place));
        for (size_t bin = 0; bin < (size_t)1 << oq_histogram_place_bits(place); bin++) {
            for (int sign = 0; sign < 2; sign++) {
                assert_int_equal(oq_histogram_count(a, place, sign != 0, bin),
                                 oq_histogram_count(b, place, sign != 0, bin));
            }
        }
    }
}

static void assert_same(const struct oq_statistics *a, const struct oq_statistics *b) {
    assert_int_equal(a->seen, b->seen);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    assert_memory_equal(a->dim_varies, b->dim_varies, sizeof a->dim_varies);
    assert_int_equal(a->n_empty, b->n_empty);
    assert_int_equal(a->n_finite, b->n_finite);
    assert_int_equal(a->n_nan, b->n_nan);
    assert_int_equal(a->n_infinite, b->n_infinite);
    assert_int_equal(a->n_far, b->n_far);
    assert_int_equal(a->first_nonfinite_sample, b->first_nonfinite_sample);
    assert_same_bits(a->min, b->min);
    assert_same_bits(a->max, b->max);
    assert_same_bits(a->near_min, b->near_min);
    assert_same_bits(a->near_max, b->near_max);
    assert_same_bits(a->far_least, b->far_least);
    assert_same_counts(a->histogram, b->histogram);
    assert_same_ranges(a, b);
}

static void test_any_order_shards_and_threads(void **state) {
    (void)state;
    struct tensor tensors[N_TENSORS];
    struct oq_statistics expected;
    struct oq_measure_scratch *scratch = oq_measure_scratch_create();
    uint64_t seed = 20;
    assert_non_null(scratch);
    oq_statistics_init(&expected);
    for (size_t i = 0; i < N_TENSORS; i++) {
        make_tensor(&tensors[i], i, &seed);
        observe(&expected, &tensors[i], i, 0, scratch);
    }
    assert_true(expected.n_nan > 0 && expected.n_far > 0 && expected.n_empty > 0);
    for (int turn = 0; turn < N_TURNS; turn++) {
        struct oq_statistics got = observe_anyhow(tensors, &seed, scratch);
        assert_same(&expected, &got);
        oq_statistics_reset(&got);
    }
    oq_statistics_reset(&expected);
    oq_measure_scratch_destroy(scratch);
    for (size_t i = 0; i < N_TENSORS; i++) {
        free(tensors[i].values);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_order_shards_and_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
