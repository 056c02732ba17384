/*
 * Sizes, values and places of pixels; the text is read in preprocess_parse.c.
 */
#include "data/preprocess.h"

#include "base/number.h"

#include <math.h>
#include <string.h>

size_t oq_preprocess_n_channels(const struct oq_preprocess *preprocess) {
    return preprocess->channels == OQ_CHANNELS_GRAY ? 1 : 3;
}

/* ---- Sizes ---- */

/* The longer side follows in proportion, rounded down. */
static void resized(const struct oq_preprocess *p, size_t *height, size_t *width) {
    size_t side = p->resize_height;
    switch (p->resize) {
    case OQ_RESIZE_NONE: return;
    case OQ_RESIZE_EXACT:
        *height = p->resize_height;
        *width = p->resize_width;
        return;
    case OQ_RESIZE_SHORTER:
        if (*height <= *width) {
            *width = side * *width / *height;
            *height = side;
        } else {
            *height = side * *height / *width;
            *width = side;
        }
        return;
    }
}

enum onnxptq_status oq_preprocess_measure(const struct oq_preprocess *preprocess, size_t *height,
                                          size_t *width, struct onnxptq_error *error) {
    resized(preprocess, height, width);
    OQ_TRY(oq_image_check_size(*width, *height, error));
    if (preprocess->crop_height == 0) {
        return ONNXPTQ_OK;
    }
    if (*height < preprocess->crop_height || *width < preprocess->crop_width) {
        return oq_fail(
            error, ONNXPTQ_ERROR_DATA,
            "%zu x %zu pixels (height x width) are to be cut out of %zu x %zu; resize it "
            "before, as in resize=%zu",
            preprocess->crop_height, preprocess->crop_width, *height, *width,
            preprocess->crop_height > preprocess->crop_width ? preprocess->crop_height
                                                             : preprocess->crop_width);
    }
    *height = preprocess->crop_height;
    *width = preprocess->crop_width;
    return ONNXPTQ_OK;
}

bool oq_preprocess_is_fixed(const struct oq_preprocess *preprocess) {
    return preprocess->crop_height > 0 || preprocess->resize == OQ_RESIZE_EXACT;
}

/* ---- Values ---- */

/* Of one number or one for each channel; `none` where nothing was given. */
static double of_channel(const double *values, size_t n, size_t channel, double none) {
    return n == 0 ? none : values[n == 1 ? 0 : channel];
}

static bool store_item(int type, double value, uint8_t *out) {
    double stored = 0;
    if (type == ONNXPTQ_TYPE_UINT8) {
        *out = (uint8_t)(value >= 0 && value <= 255 ? value : 0);
        return (double)*out == value;
    }
    oq_store_float(type, value, out);
    oq_convert_to_double(type, out, 1, &stored);
    return isfinite(stored);
}

enum onnxptq_status oq_pixel_table_make(const struct oq_preprocess *preprocess, int type,
                                        struct oq_pixel_table *out, struct onnxptq_error *error) {
    out->item_size = oq_type_size(type);
    for (size_t c = 0; c < 3; c++) {
        double mean = of_channel(preprocess->mean, preprocess->n_mean, c, 0);
        double deviation = of_channel(preprocess->deviation, preprocess->n_deviation, c, 1);
        for (int byte = 0; byte < 256; byte++) {
            double share = byte / 255.0, width = preprocess->high - preprocess->low;
            /* 0:255 is exact. */
            double pixel = preprocess->low + (width == 255 ? byte : share * width);
            if (store_item(type, (pixel - mean) / deviation, out->items[c][byte])) {
                continue;
            }
            return oq_fail(
                error, ONNXPTQ_ERROR_USAGE,
                "cannot feed images to an input of type %s: byte %d becomes %g, which it "
                "cannot hold%s",
                oq_type_name(type), byte, (pixel - mean) / deviation,
                type == ONNXPTQ_TYPE_UINT8 ? "; give range=0:255, and no mean or std" : "");
        }
    }
    return ONNXPTQ_OK;
}

/* ---- Places ---- */

/* Half of what is left over, halves rounded to even. */
static size_t crop_offset(size_t all, size_t kept) {
    size_t rest = all - kept, half = rest / 2;
    return half + (rest % 2 & half % 2);
}

/* Luma of ITU-R BT.601 in 16 bits of fraction. */
static uint8_t gray_of(const uint8_t *pixel) {
    return (uint8_t)((pixel[0] * 19595U + pixel[1] * 38470U + pixel[2] * 7471U + 0x8000U) >> 16);
}

static uint8_t byte_of(enum oq_channels channels, const uint8_t *pixel, size_t channel) {
    switch (channels) {
    case OQ_CHANNELS_RGB: return pixel[channel];
    case OQ_CHANNELS_BGR: return pixel[2 - channel];
    case OQ_CHANNELS_GRAY: return gray_of(pixel);
    }
    return 0;
}

/* The window that is cut out. */
struct window {
    const uint8_t *pixels; /* its first */
    size_t pitch, height, width;
};

/* `out` is that of the first pixel of a row, `step` the bytes from one pixel to the next. */
static void store_row(enum oq_channels channels, const struct oq_pixel_table *table, size_t channel,
                      const uint8_t *pixels, size_t n, uint8_t *out, size_t step) {
    const uint8_t (*items)[8] = table->items[channel];
    for (size_t x = 0; x < n; x++) {
        const uint8_t *item = items[byte_of(channels, pixels + 3 * x, channel)];
        if (table->item_size == 4) { /* the usual one, of a size that the compiler knows */
            memcpy(out + x * step, item, 4);
        } else {
            memcpy(out + x * step, item, table->item_size);
        }
    }
}

static void store_pixels(const struct oq_preprocess *p, const struct oq_pixel_table *table,
                         bool nhwc, struct window window, uint8_t *out) {
    size_t channels = oq_preprocess_n_channels(p), size = table->item_size;
    size_t pixel_step = (nhwc ? channels : 1) * size;
    size_t channel_step = nhwc ? size : window.height * window.width * size;
    for (size_t c = 0; c < channels; c++) {
        for (size_t y = 0; y < window.height; y++) {
            uint8_t *row = out + c * channel_step + y * window.width * pixel_step;
            store_row(p->channels, table, c, window.pixels + y * window.pitch, window.width, row,
                      pixel_step);
        }
    }
}

enum onnxptq_status oq_preprocess_apply(const struct oq_preprocess *preprocess,
                                        const struct oq_pixel_table *table, bool nhwc,
                                        struct oq_image *image, uint8_t *out,
                                        struct onnxptq_error *error) {
    size_t height = image->height, width = image->width;
    resized(preprocess, &height, &width);
    if (height != image->height || width != image->width) {
        struct oq_image other = {0};
        OQ_TRY(oq_image_resize(image, width, height, preprocess->antialias, &other, error));
        oq_image_reset(image);
        *image = other;
    }
    struct window window = {image->pixels, 3 * width, height, width};
    OQ_TRY(oq_preprocess_measure(&(struct oq_preprocess){.crop_height = preprocess->crop_height,
                                                         .crop_width = preprocess->crop_width},
                                 &window.height, &window.width, error));
    window.pixels +=
        crop_offset(height, window.height) * window.pitch + 3 * crop_offset(width, window.width);
    store_pixels(preprocess, table, nhwc, window, out);
    return ONNXPTQ_OK;
}
