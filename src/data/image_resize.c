/*
 * Resizing in two passes of one dimension each, in fixed point, so that the result is the same on
 * every machine, and the same as that of the imaging library that most training pipelines use.
 */
#include "base/size.h"
#include "data/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weights are multiples of 2^-22: a byte times their sum fits in 32 bits. */
#define WEIGHT_BITS 22
#define HALF (1U << (WEIGHT_BITS - 1))
#define STRETCH ((size_t)1024)

/* What the pixels of one dimension are made of: pixel i of inputs first[i] to first[i] + n[i] - 1,
 * with the weights at i * stride. */
struct filter {
    size_t n_out, stride;
    size_t *first, *n;
    uint32_t *weights;
};

static void free_filter(struct filter *filter) {
    free(filter->first);
    free(filter->n);
    free(filter->weights);
}

static double triangle(double x) {
    return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

/* `reach` is how far from its centre, in input pixels, a pixel of the result sees. */
static void fill_pixel(struct filter *filter, size_t i, size_t n_in, double scale, double reach) {
    double centre = ((double)i + 0.5) * scale, shrink = 1 / reach, sum = 0;
    double low = centre - reach + 0.5, high = centre + reach + 0.5;
    size_t first = low > 0 ? (size_t)low : 0;
    size_t end = high < (double)n_in ? (size_t)high : n_in;
    uint32_t *weights = filter->weights + i * filter->stride;
    for (size_t k = first; k < end; k++) {
        sum += triangle(((double)k - centre + 0.5) * shrink);
    }
    for (size_t k = first; k < end; k++) {
        double weight = triangle(((double)k - centre + 0.5) * shrink) / sum;
        weights[k - first] = (uint32_t)(weight * (1 << WEIGHT_BITS) + 0.5);
    }
    filter->first[i] = first;
    filter->n[i] = end - first;
}

static enum onnxptq_status make_filter(size_t n_in, size_t n_out, bool antialias,
                                       struct filter *out, struct onnxptq_error *error) {
    double scale = (double)n_in / (double)n_out;
    double reach = antialias && scale > 1 ? scale : 1;
    size_t room = 0, stride = (size_t)ceil(reach) * 2 + 1;
    struct filter filter = {.n_out = n_out, .stride = stride};
    filter.first = calloc(n_out, sizeof *filter.first);
    filter.n = calloc(n_out, sizeof *filter.n);
    filter.weights =
        oq_size_mul(n_out, stride, &room) ? calloc(room, sizeof *filter.weights) : NULL;
    if (filter.first == NULL || filter.n == NULL || filter.weights == NULL) {
        free_filter(&filter);
        return oq_fail_memory(error, "an image");
    }
    for (size_t i = 0; i < n_out; i++) {
        fill_pixel(&filter, i, n_in, scale, reach);
    }
    *out = filter;
    return ONNXPTQ_OK;
}

/* `sum` has HALF in it already. Weights sum to 1 up to rounding, so only the upper end can be
 * passed. */
static uint8_t round_sum(uint32_t sum) {
    uint32_t value = sum >> WEIGHT_BITS;
    return (uint8_t)(value < 255 ? value : 255);
}

static void resize_columns(const struct filter *filter, const struct oq_image *from,
                           struct oq_image *to) {
    for (size_t y = 0; y < from->height; y++) {
        const uint8_t *row = from->pixels + y * 3 * from->width;
        uint8_t *out = to->pixels + y * 3 * to->width;
        for (size_t x = 0; x < filter->n_out; x++) {
            const uint8_t *pixel = row + 3 * filter->first[x];
            const uint32_t *weights = filter->weights + x * filter->stride;
            uint32_t sums[3] = {HALF, HALF, HALF};
            for (size_t k = 0; k < filter->n[x]; k++, pixel += 3) {
                sums[0] += weights[k] * pixel[0];
                sums[1] += weights[k] * pixel[1];
                sums[2] += weights[k] * pixel[2];
            }
            for (size_t c = 0; c < 3; c++) {
                out[3 * x + c] = round_sum(sums[c]);
            }
        }
    }
}

/* A stretch of a row at a time, whose sums stay in the cache while the rows above and below are
 * added. */
static void sum_rows(const struct filter *filter, size_t y, const uint8_t *from, size_t pitch,
                     size_t n, uint8_t *out) {
    const uint32_t *weights = filter->weights + y * filter->stride;
    uint32_t sums[STRETCH];
    for (size_t x = 0; x < n; x++) {
        sums[x] = HALF;
    }
    from += filter->first[y] * pitch;
    for (size_t k = 0; k < filter->n[y]; k++, from += pitch) {
        for (size_t x = 0; x < n; x++) {
            sums[x] += weights[k] * from[x];
        }
    }
    for (size_t x = 0; x < n; x++) {
        out[x] = round_sum(sums[x]);
    }
}

static void resize_rows(const struct filter *filter, const struct oq_image *from,
                        struct oq_image *to) {
    size_t pitch = 3 * from->width;
    for (size_t y = 0; y < filter->n_out; y++) {
        for (size_t x = 0; x < pitch; x += STRETCH) {
            size_t n = pitch - x < STRETCH ? pitch - x : STRETCH;
            sum_rows(filter, y, from->pixels + x, pitch, n, to->pixels + y * pitch + x);
        }
    }
}

static enum onnxptq_status copy_image(const struct oq_image *image, struct oq_image *out,
                                      struct onnxptq_error *error) {
    OQ_TRY(oq_image_create(image->width, image->height, out, error));
    memcpy(out->pixels, image->pixels, 3 * image->width * image->height);
    return ONNXPTQ_OK;
}

/* A pass; a dimension that stays as it is is copied. */
static enum onnxptq_status pass(const struct oq_image *image, size_t width, size_t height,
                                bool antialias, struct oq_image *out, struct onnxptq_error *error) {
    bool columns = width != image->width;
    struct filter filter;
    if (!columns && height == image->height) {
        return copy_image(image, out, error);
    }
    OQ_TRY(columns ? make_filter(image->width, width, antialias, &filter, error)
                   : make_filter(image->height, height, antialias, &filter, error));
    enum onnxptq_status status = oq_image_create(width, height, out, error);
    if (status == ONNXPTQ_OK) {
        (columns ? resize_columns : resize_rows)(&filter, image, out);
    }
    free_filter(&filter);
    return status;
}

enum onnxptq_status oq_image_resize(const struct oq_image *image, size_t width, size_t height,
                                    bool antialias, struct oq_image *out,
                                    struct onnxptq_error *error) {
    struct oq_image between = {0};
    OQ_TRY(oq_image_check_size(width, height, error));
    OQ_TRY(pass(image, width, image->height, antialias, &between, error));
    enum onnxptq_status status = pass(&between, width, height, antialias, out, error);
    oq_image_reset(&between);
    return status;
}
