/*
 * PNG, through libpng. It leaves by longjmp when a file is broken: everything that lives across
 * such a call is in one struct that the caller owns.
 */
#include "data/image.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

struct decoder {
    png_structp png;
    png_infop info;
    const uint8_t *at, *end;
    png_bytep *rows;
    struct oq_image image;
    enum onnxptq_status status;
    struct onnxptq_error *error;
};

static void leave(png_structp png, png_const_charp fact) {
    struct decoder *d = png_get_error_ptr(png);
    d->status = oq_fail(d->error, ONNXPTQ_ERROR_DATA, "it is no readable PNG image (%.200s)", fact);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp fact) {
    (void)png;
    (void)fact;
}

static void read_bytes(png_structp png, png_bytep out, size_t size) {
    struct decoder *d = png_get_io_ptr(png);
    if (size > (size_t)(d->end - d->at)) {
        png_error(png, "it ends too early");
    }
    memcpy(out, d->at, size);
    d->at += size;
}

static void close_decoder(struct decoder *d) {
    png_destroy_read_struct(&d->png, &d->info, NULL);
    free(d->rows);
    oq_image_reset(&d->image);
}

static enum onnxptq_status open_decoder(const uint8_t *data, size_t size, struct decoder *d,
                                        struct onnxptq_error *error) {
    *d = (struct decoder){.at = data, .end = data + size, .error = error};
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, leave, ignore);
    d->info = d->png != NULL ? png_create_info_struct(d->png) : NULL;
    if (d->info == NULL) {
        close_decoder(d);
        return oq_fail_memory(error, "a PNG decoder");
    }
    png_set_read_fn(d->png, d, read_bytes);
    /* Our own limit is on the product. */
    png_set_user_limits(d->png, 0x7fffffff, 0x7fffffff);
    return ONNXPTQ_OK;
}

/* The steps below are called where the decoder may leave. */

static enum onnxptq_status read_header(struct decoder *d, size_t *width, size_t *height) {
    png_read_info(d->png, d->info);
    *width = png_get_image_width(d->png, d->info);
    *height = png_get_image_height(d->png, d->info);
    return oq_image_check_size(*width, *height, d->error);
}

static void ask_for_rgb(struct decoder *d) {
    png_set_expand(d->png);
    png_set_strip_16(d->png);
    png_set_strip_alpha(d->png);
    png_set_gray_to_rgb(d->png);
    (void)png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
}

static enum onnxptq_status make_room(struct decoder *d, size_t width, size_t height) {
    if (png_get_rowbytes(d->png, d->info) != 3 * width) {
        return oq_fail(d->error, ONNXPTQ_ERROR_UNSUPPORTED, "its pixels are of an unknown kind");
    }
    OQ_TRY(oq_image_create(width, height, &d->image, d->error));
    d->rows = calloc(height, sizeof *d->rows);
    if (d->rows == NULL) {
        return oq_fail_memory(d->error, "an image");
    }
    for (size_t y = 0; y < height; y++) {
        d->rows[y] = d->image.pixels + y * 3 * width;
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status read_all(struct decoder *d) {
    size_t width = 0, height = 0;
    OQ_TRY(read_header(d, &width, &height));
    ask_for_rgb(d);
    OQ_TRY(make_room(d, width, height));
    png_read_image(d->png, d->rows);
    png_read_end(d->png, NULL);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_png_measure(const uint8_t *data, size_t size, size_t *width, size_t *height,
                                   struct onnxptq_error *error) {
    struct decoder d;
    OQ_TRY(open_decoder(data, size, &d, error));
    if (setjmp(png_jmpbuf(d.png)) == 0) {
        d.status = read_header(&d, width, height);
    }
    enum onnxptq_status status = d.status;
    close_decoder(&d);
    return status;
}

enum onnxptq_status oq_png_decode(const uint8_t *data, size_t size, struct oq_image *out,
                                  struct onnxptq_error *error) {
    struct decoder d;
    OQ_TRY(open_decoder(data, size, &d, error));
    if (setjmp(png_jmpbuf(d.png)) == 0) {
        d.status = read_all(&d);
    }
    enum onnxptq_status status = d.status;
    if (status == ONNXPTQ_OK) {
        *out = d.image;
        d.image = (struct oq_image){0};
    }
    close_decoder(&d);
    return status;
}
