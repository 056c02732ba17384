/*
 * Any bytes as a PNG or JPEG image: measured, decoded, resized and cut. Seeds: seeds/fuzz_image,
 * made by make_image_seeds.py.
 */
#include "data/preprocess.h"

#include <stdlib.h>

/* A larger image is only a question of memory and time. */
#define MAX_PIXELS ((size_t)1 << 16)

static void preprocess(struct oq_image *image) {
    struct oq_preprocess p;
    struct oq_pixel_table *table = malloc(sizeof *table);
    struct onnxptq_error error;
    uint8_t *out = malloc(sizeof(float) * 3 * 16 * 16);
    if (table != NULL && out != NULL &&
        oq_preprocess_parse("resize=17x19,crop=16", &p, &error) == ONNXPTQ_OK &&
        oq_pixel_table_make(&p, ONNXPTQ_TYPE_FLOAT, table, &error) == ONNXPTQ_OK) {
        (void)!oq_preprocess_apply(&p, table, image->width % 2 == 0, image, out, &error);
    }
    free(out);
    free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t width = 0, height = 0;
    struct oq_image image = {0};
    struct onnxptq_error error;
    if (oq_image_measure(data, size, &width, &height, &error) != ONNXPTQ_OK ||
        width * height > MAX_PIXELS) {
        return 0;
    }
    if (oq_image_decode(data, size, &image, &error) == ONNXPTQ_OK) {
        if (image.width != width || image.height != height) {
            abort(); /* the header said something else */
        }
        preprocess(&image);
    }
    oq_image_reset(&image);
    return 0;
}
