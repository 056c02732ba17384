/*
 * Any bytes as a file that is one ONNX tensor: all of its elements are read. Seeds:
 * seeds/fuzz_tensor, made by make_tensor_seeds.py.
 */
#include "data/tensor_message.h"

#include <stdlib.h>

#define MAX_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct oq_array_file file;
    struct onnxptq_error error;
    if (oq_tensor_message_parse(data, size, &file, &error) != ONNXPTQ_OK) {
        return 0;
    }
    uint8_t *out = file.npy.n_bytes <= MAX_BYTES ? malloc(file.npy.n_bytes + 1) : NULL;
    if (out != NULL) {
        oq_npy_copy(&file.npy, file.elements, 0, file.npy.n_elements, out);
    }
    free(out);
    oq_array_file_close(&file);
    return 0;
}
