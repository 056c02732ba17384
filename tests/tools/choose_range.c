/*
 * choose_range FILE [PERCENTILE]...: the ranges that every method chooses for the float32 numbers
 * in a file, for each kind of codes, and a digest of what was counted. Ends are printed to the bit.
 */
#include "base/file.h"
#include "calib/range.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct kind {
    const char *name;
    struct oq_range_codes codes;
};

static const struct kind kinds[] = {
    {"int8-symmetric", {-128, 127, true}},      {"int8-asymmetric", {-128, 127, false}},
    {"uint8-symmetric", {0, 255, true}},        {"uint8-asymmetric", {0, 255, false}},
    {"int16-symmetric", {-32768, 32767, true}}, {"int16-asymmetric", {-32768, 32767, false}},
    {"uint16-asymmetric", {0, 65535, false}},
};

/* FNV-1a over the counts and where they lie. */
static uint64_t digest(const struct oq_histogram *histogram) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t place = 0; place < oq_histogram_n_octaves(histogram); place++) {
        hash = (hash ^ (uint64_t)(oq_histogram_exponent(histogram, place) + 200)) *
               UINT64_C(1099511628211);
        for (size_t bin = 0; bin < (size_t)1 << oq_histogram_place_bits(place); bin++) {
            for (int sign = 0; sign < 2; sign++) {
                uint64_t count = oq_histogram_count(histogram, place, sign != 0, bin);
                hash = (hash ^ count) * UINT64_C(1099511628211);
            }
        }
    }
    return hash;
}

static bool observe(const struct oq_mapping *file, struct oq_statistics *seen) {
    size_t n = file->size / sizeof(float);
    const int64_t shape[] = {(int64_t)n};
    const struct oq_observed tensor = {
        .type = ONNXPTQ_TYPE_FLOAT, .rank = 1, .shape = shape, .n_elements = n, .data = file->data};
    struct oq_measure_scratch *scratch = oq_measure_scratch_create();
    oq_statistics_init(seen);
    bool good = scratch != NULL && oq_statistics_update(seen, &tensor, 0, scratch);
    oq_measure_scratch_destroy(scratch);
    return good;
}

static bool print_ranges(const char *name, struct oq_range_method method,
                         const struct oq_statistics *seen) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct oq_range range;
        struct onnxptq_error error;
        if (oq_range_choose(&method, &kinds[i].codes, seen, &range, &error) != ONNXPTQ_OK) {
            fprintf(stderr, "choose_range: %s\n", error.message);
            return false;
        }
        printf("%s %s %a %a\n", name, kinds[i].name, range.min, range.max);
    }
    return true;
}

static bool print_all(const struct oq_statistics *seen, int n_percentiles, char **percentiles) {
    bool good = print_ranges("max", (struct oq_range_method){ONNXPTQ_METHOD_MAX, 0}, seen);
    for (int i = 0; good && i < n_percentiles; i++) {
        double percentile = strtod(percentiles[i], NULL);
        good = print_ranges(percentiles[i],
                            (struct oq_range_method){ONNXPTQ_METHOD_PERCENTILE, percentile}, seen);
    }
    return good &&
           print_ranges("entropy", (struct oq_range_method){ONNXPTQ_METHOD_ENTROPY, 0}, seen) &&
           print_ranges("mse", (struct oq_range_method){ONNXPTQ_METHOD_MSE, 0}, seen);
}

int main(int argc, char **argv) {
    struct oq_mapping file = {0};
    struct onnxptq_error error;
    struct oq_statistics seen;
    if (argc < 2 || oq_mapping_open(argv[1], &file, &error) != ONNXPTQ_OK) {
        fprintf(stderr, "choose_range: %s\n", argc < 2 ? "no file given" : error.message);
        return 1;
    }
    bool good = observe(&file, &seen);
    if (good && seen.histogram != NULL) {
        printf("digest %016" PRIx64 " %" PRIu64 "\n", digest(seen.histogram),
               oq_histogram_total(seen.histogram));
        good = print_all(&seen, argc - 2, argv + 2);
    }
    oq_statistics_reset(&seen);
    oq_mapping_close(&file);
    return good ? 0 : 1;
}
