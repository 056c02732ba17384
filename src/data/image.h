/*
 * Images: PNG and JPEG files to pixels, and pixels to another size. The libraries that decode are
 * included in image_png.c and image_jpeg.c alone.
 */
#ifndef OQ_DATA_IMAGE_H
#define OQ_DATA_IMAGE_H

#include "base/error.h"

/* Three bytes a pixel, red first, row by row from the top. */
struct oq_image {
    size_t width, height;
    uint8_t *pixels; /* malloc'ed */
};
void oq_image_reset(struct oq_image *image);
enum onnxptq_status oq_image_create(size_t width, size_t height, struct oq_image *out,
                                    struct onnxptq_error *error) OQ_MUST_USE;

/* More pixels than these are refused before they are decoded: a small file may claim any number. */
#define OQ_IMAGE_MAX_PIXELS ((size_t)1 << 27)

enum oq_image_kind { OQ_IMAGE_PNG, OQ_IMAGE_JPEG };
/* By the first bytes. */
bool oq_image_kind_of(const uint8_t *data, size_t size, enum oq_image_kind *out);

/* Reads the header of an image and checks what it asks for. Messages state the fact alone. */
enum onnxptq_status oq_image_measure(const uint8_t *data, size_t size, size_t *width,
                                     size_t *height, struct onnxptq_error *error) OQ_MUST_USE;
/* All of it. Grey becomes equal red, green and blue; palettes are looked up; transparency is
 * dropped; of 16 bits the upper 8 are taken. Orientation tags and colour profiles are not
 * applied. */
enum onnxptq_status oq_image_decode(const uint8_t *data, size_t size, struct oq_image *out,
                                    struct onnxptq_error *error) OQ_MUST_USE;

/* The decoders behind these. */
enum onnxptq_status oq_png_measure(const uint8_t *data, size_t size, size_t *width, size_t *height,
                                   struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_png_decode(const uint8_t *data, size_t size, struct oq_image *out,
                                  struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_jpeg_measure(const uint8_t *data, size_t size, size_t *width, size_t *height,
                                    struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_jpeg_decode(const uint8_t *data, size_t size, struct oq_image *out,
                                   struct onnxptq_error *error) OQ_MUST_USE;
/* ONNXPTQ_ERROR_DATA for no pixel, or more than OQ_IMAGE_MAX_PIXELS. */
enum onnxptq_status oq_image_check_size(uint64_t width, uint64_t height,
                                        struct onnxptq_error *error) OQ_MUST_USE;

/* Bilinear. With `antialias`, what a shrunken pixel covers is weighed by a triangle as wide as two
 * such pixels; without it, the four pixels around its centre. Centres are at halves. Columns first,
 * then rows, each rounded to eight bits. */
enum onnxptq_status oq_image_resize(const struct oq_image *image, size_t width, size_t height,
                                    bool antialias, struct oq_image *out,
                                    struct onnxptq_error *error) OQ_MUST_USE;

#endif
