/*
 * JPEG, through libjpeg-turbo's own interface, which reports errors by return values. The slow and
 * exact transform is asked for: results are those of every other user of the library's defaults.
 */
#include "data/image.h"

#include <limits.h>
#include <string.h>
#include <turbojpeg.h>

static enum onnxptq_status fail_decoder(tjhandle decoder, struct onnxptq_error *error) {
    return oq_fail(error, ONNXPTQ_ERROR_DATA, "it is no readable JPEG image (%s)",
                   tjGetErrorStr2(decoder));
}

static enum onnxptq_status read_header(tjhandle decoder, const uint8_t *data, size_t size,
                                       size_t *width, size_t *height, struct onnxptq_error *error) {
    int columns = 0, rows = 0, sampling = 0, space = 0;
    if (size > ULONG_MAX / 2 || tjDecompressHeader3(decoder, data, (unsigned long)size, &columns,
                                                    &rows, &sampling, &space) != 0) {
        return fail_decoder(decoder, error);
    }
    if (space == TJCS_CMYK || space == TJCS_YCCK) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "its colours are those of print (CMYK); convert it to RGB");
    }
    if (columns <= 0 || rows <= 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "it is no readable JPEG image (it ends inside its header)");
    }
    OQ_TRY(oq_image_check_size((uint64_t)columns, (uint64_t)rows, error));
    *width = (size_t)columns;
    *height = (size_t)rows;
    return ONNXPTQ_OK;
}

/* Odd bytes between segments are the library's warnings and no matter; an end that comes too early
 * leaves grey where pixels should be. */
static bool is_cut_short(tjhandle decoder) {
    return tjGetErrorCode(decoder) == TJERR_FATAL ||
           strstr(tjGetErrorStr2(decoder), "remature end") != NULL;
}

static enum onnxptq_status decode(tjhandle decoder, const uint8_t *data, size_t size,
                                  struct oq_image *out, struct onnxptq_error *error) {
    size_t width = 0, height = 0;
    struct oq_image image;
    OQ_TRY(read_header(decoder, data, size, &width, &height, error));
    OQ_TRY(oq_image_create(width, height, &image, error));
    if (tjDecompress2(decoder, data, (unsigned long)size, image.pixels, (int)width, 0, (int)height,
                      TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0 &&
        is_cut_short(decoder)) {
        oq_image_reset(&image);
        return fail_decoder(decoder, error);
    }
    *out = image;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_jpeg_measure(const uint8_t *data, size_t size, size_t *width, size_t *height,
                                    struct onnxptq_error *error) {
    tjhandle decoder = tjInitDecompress();
    if (decoder == NULL) {
        return oq_fail_memory(error, "a JPEG decoder");
    }
    enum onnxptq_status status = read_header(decoder, data, size, width, height, error);
    tjDestroy(decoder);
    return status;
}

enum onnxptq_status oq_jpeg_decode(const uint8_t *data, size_t size, struct oq_image *out,
                                   struct onnxptq_error *error) {
    tjhandle decoder = tjInitDecompress();
    if (decoder == NULL) {
        return oq_fail_memory(error, "a JPEG decoder");
    }
    enum onnxptq_status status = decode(decoder, data, size, out, error);
    tjDestroy(decoder);
    return status;
}
