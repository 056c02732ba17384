/*
 * What all image files share.
 */
#include "data/image.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

void oq_image_reset(struct oq_image *image) {
    free(image->pixels);
    *image = (struct oq_image){0};
}

enum onnxptq_status oq_image_check_size(uint64_t width, uint64_t height,
                                        struct onnxptq_error *error) {
    if (width == 0 || height == 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "it has no pixels");
    }
    if (width > OQ_IMAGE_MAX_PIXELS || height > OQ_IMAGE_MAX_PIXELS / width) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "it claims %llu x %llu pixels, at most %zu are read; make it smaller",
                       (unsigned long long)width, (unsigned long long)height, OQ_IMAGE_MAX_PIXELS);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_image_create(size_t width, size_t height, struct oq_image *out,
                                    struct onnxptq_error *error) {
    OQ_TRY(oq_image_check_size(width, height, error));
    struct oq_image image = {width, height, malloc(3 * width * height)};
    if (image.pixels == NULL) {
        return oq_fail_memory(error, "an image");
    }
    *out = image;
    return ONNXPTQ_OK;
}

bool oq_image_kind_of(const uint8_t *data, size_t size, enum oq_image_kind *out) {
    if (size >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0) {
        *out = OQ_IMAGE_PNG;
        return true;
    }
    *out = OQ_IMAGE_JPEG;
    return size >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0;
}

static enum onnxptq_status find_kind(const uint8_t *data, size_t size, enum oq_image_kind *out,
                                     struct onnxptq_error *error) {
    if (oq_image_kind_of(data, size, out)) {
        return ONNXPTQ_OK;
    }
    return oq_fail(error, ONNXPTQ_ERROR_DATA, "%s",
                   size == 0 ? "the file is empty" : "it is neither a PNG nor a JPEG image");
}

enum onnxptq_status oq_image_measure(const uint8_t *data, size_t size, size_t *width,
                                     size_t *height, struct onnxptq_error *error) {
    enum oq_image_kind kind;
    OQ_TRY(find_kind(data, size, &kind, error));
    return kind == OQ_IMAGE_PNG ? oq_png_measure(data, size, width, height, error)
                                : oq_jpeg_measure(data, size, width, height, error);
}

enum onnxptq_status oq_image_decode(const uint8_t *data, size_t size, struct oq_image *out,
                                    struct onnxptq_error *error) {
    enum oq_image_kind kind;
    OQ_TRY(find_kind(data, size, &kind, error));
    return kind == OQ_IMAGE_PNG ? oq_png_decode(data, size, out, error)
                                : oq_jpeg_decode(data, size, out, error);
}
