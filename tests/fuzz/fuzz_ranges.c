/*
 * Any bytes as a ranges file or a calibration cache: read, merged with itself, ranges chosen by
 * every method, written. Seeds: seeds/fuzz_ranges, small files of both kinds.
 */
#include "api/ranges.h"
#include "calib/range.h"

static void choose_all(const struct oq_statistics *seen) {
    static const struct oq_range_codes codes[] = {{-128, 127, true}, {0, 255, false}};
    static const enum onnxptq_method methods[] = {ONNXPTQ_METHOD_MAX, ONNXPTQ_METHOD_PERCENTILE,
                                                  ONNXPTQ_METHOD_ENTROPY, ONNXPTQ_METHOD_MSE};
    struct oq_range range;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const struct oq_range_method method = {methods[i], 99.9};
        (void)!oq_range_choose(&method, &codes[i % 2], seen, &range, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct oq_ranges *ranges = NULL, *twin = NULL;
    struct onnxptq_error error;
    if (oq_ranges_parse("fuzz", (const char *)data, size, &ranges, &error) != ONNXPTQ_OK) {
        return 0;
    }
    for (size_t i = 0; i < ranges->tensors.n && i < 8; i++) {
        choose_all(&ranges->tensors.tensors[i].statistics);
    }
    if (oq_ranges_parse("fuzz", (const char *)data, size, &twin, &error) == ONNXPTQ_OK) {
        (void)!oq_ranges_merge(ranges, twin, "fuzz", &error);
        oq_ranges_destroy(twin);
    }
    oq_ranges_destroy(ranges);
    return 0;
}
