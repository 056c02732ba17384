/*
 * What a model with one input is fed from a folder of images, for tests/test_images.py.
 *
 *   read_images DIR SPEC TYPE SHAPE BATCH OUT
 *
 * TYPE is a number of TensorProto.DataType, SHAPE a declared shape as "-1,3,8,8". Each run's shape
 * is a line on stdout, its bytes are added to OUT. Exit 1 and the message on stderr when it cannot.
 */
#include "data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum onnxptq_status feed(struct oq_data_source *source, FILE *out,
                                struct onnxptq_error *error) {
    size_t n = oq_data_n_samples(source), batch = oq_data_batch(source);
    size_t samples[64];
    struct onnxptq_tensor input;
    for (size_t first = 0; first < n; first += batch) {
        size_t count = n - first < batch ? n - first : batch;
        for (size_t i = 0; i < count; i++) {
            samples[i] = first + i;
        }
        OQ_TRY(oq_data_read(source, samples, count, &input, error));
        for (size_t i = 0; i < input.rank; i++) {
            printf("%lld%s", (long long)input.shape[i], i + 1 < input.rank ? "," : "\n");
        }
        fwrite(input.data, 1, input.size, out);
    }
    return ONNXPTQ_OK;
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: read_images DIR SPEC TYPE SHAPE BATCH OUT\n");
        return 2;
    }
    struct onnxptq_quantize_options options;
    onnxptq_quantize_options_init(&options);
    options.images_path = argv[1];
    options.preprocess = argv[2];
    options.batch = strtoul(argv[5], NULL, 10);
    struct onnxptq_tensor input = {.name = "X",
                                   .type = (enum onnxptq_type)strtol(argv[3], NULL, 10)};
    for (char *at = argv[4]; *at != '\0' && input.rank < ONNXPTQ_MAX_RANK; at += *at == ',') {
        input.shape[input.rank++] = strtol(at, &at, 10);
    }
    struct oq_data_spec spec = {.options = &options, .inputs = &input, .n_inputs = 1};
    struct oq_data_source *source = NULL;
    struct onnxptq_error error = {0};
    enum onnxptq_status status = oq_data_open(&spec, &source, &error);
    FILE *out = fopen(argv[6], "wb");
    if (status == ONNXPTQ_OK && out != NULL) {
        status = feed(source, out, &error);
    }
    if (out != NULL) {
        fclose(out);
    }
    oq_data_close(source);
    if (status != ONNXPTQ_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    return status == ONNXPTQ_OK && out != NULL ? EXIT_SUCCESS : EXIT_FAILURE;
}
