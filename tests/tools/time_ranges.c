/*
 * time_ranges [TENSORS]: how long each method takes to choose the ranges of so many tensors (400),
 * none like another, symmetric and asymmetric. Prints a table in Markdown.
 */
#include "base/file.h"
#include "calib/range.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUES 20000
#define LARGEST_EXPONENT 12

static uint64_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* A bell; every third tensor is what a Relu leaves of one, every fourth has an outlier. */
static void fill(float *values, size_t tensor, uint64_t *state) {
    int exponent = (int)(next_random(state) % LARGEST_EXPONENT);
    for (size_t i = 0; i < VALUES; i++) {
        float sum = -6.0F;
        for (int k = 0; k < 12; k++) {
            sum += (float)next_random(state) * 0x1p-31F;
        }
        values[i] = ldexpf(tensor % 3 == 0 && sum < 0 ? 0.0F : sum, exponent);
    }
    if (tensor % 4 == 0) {
        values[tensor % VALUES] = ldexpf(1000.0F, exponent);
    }
}

static bool observe(struct oq_statistics *all, size_t n) {
    struct oq_measure_scratch *scratch = oq_measure_scratch_create();
    float *values = calloc(VALUES, sizeof *values);
    const int64_t shape[] = {VALUES};
    uint64_t state = 1;
    bool good = scratch != NULL && values != NULL;
    for (size_t i = 0; good && i < n; i++) {
        const struct oq_observed tensor = {.type = ONNXPTQ_TYPE_FLOAT,
                                           .rank = 1,
                                           .shape = shape,
                                           .n_elements = VALUES,
                                           .data = values};
        fill(values, i, &state);
        good = oq_statistics_update(&all[i], &tensor, i, scratch);
    }
    free(values);
    oq_measure_scratch_destroy(scratch);
    return good;
}

/* Seconds; negative: it failed. */
static double choose_all(const struct oq_range_method *method, const struct oq_range_codes *codes,
                         const struct oq_statistics *all, size_t n) {
    double start = oq_processor_seconds();
    for (size_t i = 0; i < n; i++) {
        struct oq_range range;
        if (oq_range_choose(method, codes, &all[i], &range, NULL) != ONNXPTQ_OK) {
            return -1.0;
        }
    }
    return oq_processor_seconds() - start;
}

static bool print_times(const struct oq_statistics *all, size_t n) {
    static const struct {
        const char *name;
        struct oq_range_method method;
    } rows[] = {{"max", {ONNXPTQ_METHOD_MAX, 0}},
                {"percentile", {ONNXPTQ_METHOD_PERCENTILE, 99.99}},
                {"mse", {ONNXPTQ_METHOD_MSE, 0}},
                {"entropy", {ONNXPTQ_METHOD_ENTROPY, 0}}};
    static const struct oq_range_codes int8 = {-128, 127, true}, uint8 = {0, 255, false};
    printf("| ranges of %zu tensors | symmetric int8, s | asymmetric uint8, s |\n|---|---|---|\n",
           n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double symmetric = choose_all(&rows[i].method, &int8, all, n);
        double asymmetric = choose_all(&rows[i].method, &uint8, all, n);
        if (symmetric < 0 || asymmetric < 0) {
            return false;
        }
        printf("| %s | %.3f | %.3f |\n", rows[i].name, symmetric, asymmetric);
    }
    return true;
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 400;
    struct oq_statistics *all = calloc(n + 1, sizeof *all);
    for (size_t i = 0; all != NULL && i < n; i++) {
        oq_statistics_init(&all[i]);
    }
    bool good = all != NULL && observe(all, n) && print_times(all, n);
    oq_statistics_free(all, n);
    if (!good) {
        fprintf(stderr, "time_ranges: out of memory\n");
    }
    return good ? 0 : 1;
}
