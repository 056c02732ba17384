/*
 * Any bytes as a .npz or .npy file: opened, verified, read in several orders, and laid out for
 * models of several kinds. Seeds: seeds/fuzz_npz, made by make_npz_seeds.py.
 */
#include "data/reader.h"

#include <stdlib.h>

/* A run larger than this is only a question of memory. */
#define MAX_RUN_BYTES ((size_t)1 << 20)

static void read_ends(struct oq_archive *archive, size_t index) {
    const struct oq_npy *npy = &oq_archive_array(archive, index)->npy;
    size_t n = npy->n_elements, few = n < 64 ? n : 64;
    uint8_t *out = malloc(few * npy->item_size + 1);
    if (out == NULL) {
        return;
    }
    const size_t firsts[] = {0, n - few, n / 2 < n - few ? n / 2 : n - few, 0};
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        if (oq_archive_read(archive, index, firsts[i], few, out, NULL) != ONNXPTQ_OK) {
            break;
        }
    }
    free(out);
}

static size_t largest_array(const struct oq_archive *archive) {
    size_t largest = 0;
    for (size_t i = 0; i < oq_archive_n_arrays(archive); i++) {
        size_t size = oq_archive_array(archive, i)->npy.n_bytes;
        if (size > largest) {
            largest = size;
        }
    }
    return largest;
}

static void feed(const uint8_t *data, size_t size, const struct onnxptq_tensor *inputs, size_t n,
                 size_t batch) {
    struct onnxptq_quantize_options options = {.batch = batch};
    struct oq_data_spec spec = {.options = &options, .inputs = inputs, .n_inputs = n};
    struct onnxptq_error error = {0};
    struct onnxptq_tensor run[2];
    struct oq_archive *archive = NULL;
    struct oq_reader *reader = NULL;
    size_t samples[8];
    if (oq_archive_open_memory(data, size, "fuzz", &archive, &error) != ONNXPTQ_OK) {
        return;
    }
    bool small = largest_array(archive) <= MAX_RUN_BYTES;
    if (oq_reader_open_archive(&spec, archive, &reader, &error) != ONNXPTQ_OK) {
        return;
    }
    if (small && reader->batch <= 8 && reader->batch <= reader->n_samples) {
        for (size_t i = 0; i < reader->batch; i++) {
            samples[i] = reader->n_samples - 1 - i;
        }
        if (reader->read(reader, samples, reader->batch, run, &error) == ONNXPTQ_OK) {
            samples[0] = 0;
            (void)reader->read(reader, samples, reader->batch, run, &error);
        }
    }
    reader->close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct onnxptq_tensor image[] = {
        {.name = "x", .type = ONNXPTQ_TYPE_FLOAT, .rank = 3, .shape = {1, 2, 2}}};
    static const struct onnxptq_tensor text[] = {
        {.name = "x", .type = ONNXPTQ_TYPE_FLOAT16, .rank = 2, .shape = {-1, -1}},
        {.name = "ids", .type = ONNXPTQ_TYPE_INT32, .rank = 1, .shape = {-1}}};
    static const struct onnxptq_tensor fixed[] = {
        {.name = "x", .type = ONNXPTQ_TYPE_DOUBLE, .rank = 1, .shape = {4}},
        {.name = "ids", .type = ONNXPTQ_TYPE_UNDEFINED}};
    struct oq_archive *archive = NULL;
    struct onnxptq_error error = {0};
    if (oq_archive_open_memory(data, size, "fuzz", &archive, &error) != ONNXPTQ_OK) {
        return 0;
    }
    for (size_t i = 0; i < oq_archive_n_arrays(archive); i++) {
        read_ends(archive, i);
    }
    (void)!oq_archive_verify(archive, &error);
    oq_archive_close(archive);
    feed(data, size, image, 1, 0);
    feed(data, size, text, 2, 3);
    feed(data, size, fixed, 2, 0);
    return 0;
}
