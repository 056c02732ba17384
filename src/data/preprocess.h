/*
 * From the pixels of an image to the elements of an input: --preprocess SPEC, whose rules
 * docs/calibration-data.md has.
 */
#ifndef OQ_DATA_PREPROCESS_H
#define OQ_DATA_PREPROCESS_H

#include "data/image.h"

enum oq_resize { OQ_RESIZE_NONE, OQ_RESIZE_SHORTER, OQ_RESIZE_EXACT };
enum oq_pixel_layout { OQ_LAYOUT_AUTO, OQ_LAYOUT_NCHW, OQ_LAYOUT_NHWC };
enum oq_channels { OQ_CHANNELS_RGB, OQ_CHANNELS_BGR, OQ_CHANNELS_GRAY };

struct oq_preprocess {
    enum oq_resize resize;
    size_t resize_height, resize_width; /* OQ_RESIZE_SHORTER: both the shorter side */
    bool antialias;
    size_t crop_height, crop_width; /* 0: all of it */
    double low, high;               /* what the bytes 0 and 255 become */
    double mean[3], deviation[3];   /* of the channels, in the order in which they are fed */
    size_t n_mean, n_deviation;     /* as given: 0, 1 or 3 */
    enum oq_pixel_layout layout;
    enum oq_channels channels;
};

/* ONNXPTQ_ERROR_USAGE names the part that is wrong. */
enum onnxptq_status oq_preprocess_parse(const char *text, struct oq_preprocess *out,
                                        struct onnxptq_error *error) OQ_MUST_USE;

size_t oq_preprocess_n_channels(const struct oq_preprocess *preprocess);
/* Height and width that an image of the given size ends with; ONNXPTQ_ERROR_DATA when it is smaller
 * than what is cut out of it. The message states the fact alone. */
enum onnxptq_status oq_preprocess_measure(const struct oq_preprocess *preprocess, size_t *height,
                                          size_t *width, struct onnxptq_error *error) OQ_MUST_USE;
/* True when that does not depend on the image. */
bool oq_preprocess_is_fixed(const struct oq_preprocess *preprocess);

/* The element that every byte of every channel becomes. */
struct oq_pixel_table {
    size_t item_size;
    uint8_t items[3][256][8];
};
/* ONNXPTQ_ERROR_USAGE when the type cannot hold what a byte becomes. */
enum onnxptq_status oq_pixel_table_make(const struct oq_preprocess *preprocess, int type,
                                        struct oq_pixel_table *out, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Resizes and cuts `image` (which it may change), and stores the elements. */
enum onnxptq_status oq_preprocess_apply(const struct oq_preprocess *preprocess,
                                        const struct oq_pixel_table *table, bool nhwc,
                                        struct oq_image *image, uint8_t *out,
                                        struct onnxptq_error *error) OQ_MUST_USE;

#endif
