/*
 * Weights: scales per output channel and int8 codes, block by block.
 *
 * A weight is read as outer x channels x inner. Inside a block, elements are taken in runs: along
 * `inner` when it has an extent (all of one channel), along the channels when it has none. Loops
 * work on fixed bundles of LANES so that the compiler makes vectors of them at any optimization
 * level that vectorizes at all.
 */
#include "base/number.h"
#include "quant/params.h"

#include <float.h>
#include <math.h>

#define BLOCK 8192
#define LANES 16
#define ABS_MASK 0x7fffffff

/* Adding and subtracting 1.5 * 2^23 rounds a float below 2^22 to an integer, half to even, and
 * leaves that integer in the low bits of the sum: lrintf() without a call, so it vectorizes. */
#define ROUND_MAGIC 12582912.0F
#define ROUND_MAGIC_BITS 0x4b400000

struct layout {
    size_t channels, inner;
};

static struct layout layout_of(const struct oq_tensor_view *weight, int axis) {
    if (axis < 0 || (size_t)axis >= weight->rank || weight->n_elements == 0) {
        return (struct layout){1, weight->n_elements > 0 ? weight->n_elements : 1};
    }
    size_t inner = 1;
    for (size_t i = (size_t)axis + 1; i < weight->rank; i++) {
        inner *= (size_t)weight->shape[i]; /* divides n_elements, so it fits */
    }
    return (struct layout){(size_t)weight->shape[axis], inner};
}

size_t oq_weight_n_scales(const struct oq_tensor_view *weight, int axis) {
    return axis < 0 || (size_t)axis >= weight->rank ? 1 : (size_t)weight->shape[axis];
}

/* A run of elements of a block: all of `channel`, or one for each channel from `channel` on. */
struct run {
    size_t channel, length;
    bool along_channels;
};

static struct run run_at(struct layout layout, size_t element, size_t left) {
    struct run run = {.along_channels = layout.inner == 1 && layout.channels > 1};
    size_t until_end;
    if (run.along_channels) {
        run.channel = element % layout.channels;
        until_end = layout.channels - run.channel;
    } else {
        run.channel = element / layout.inner % layout.channels;
        until_end = layout.inner - element % layout.inner;
    }
    run.length = until_end < left ? until_end : left;
    return run;
}

static int32_t absolute_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int32_t)(bits & ABS_MASK);
}

/* The larger of |a| and |b|. Absolute floats compare like their bits, and NaN and infinity come out
 * on top. */
static float larger_of(float a, float b) {
    int32_t a_bits = absolute_bits(a);
    int32_t b_bits = absolute_bits(b);
    int32_t bits = a_bits > b_bits ? a_bits : b_bits;
    float larger;
    memcpy(&larger, &bits, sizeof larger);
    return larger;
}

static float maximum_of(const float *x, size_t n, float maximum) {
    float lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lanes[k] = larger_of(x[i + k], lanes[k]);
        }
    }
    for (size_t k = 0; k < LANES; k++) {
        maximum = larger_of(lanes[k], maximum);
    }
    for (; i < n; i++) {
        maximum = larger_of(x[i], maximum);
    }
    return maximum;
}

static void maximum_each(const float *x, size_t n, float *restrict maxima) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            maxima[i + k] = larger_of(x[i + k], maxima[i + k]);
        }
    }
    for (; i < n; i++) {
        maxima[i] = larger_of(x[i], maxima[i]);
    }
}

static int8_t code_of(float value, float scale) {
    float code = value / scale;
    code = code < -127.0F ? -127.0F : code;
    code = code > 127.0F ? 127.0F : code;
    float shifted = code + ROUND_MAGIC;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (int8_t)(bits - ROUND_MAGIC_BITS);
}

static void codes_of(const float *x, size_t n, float scale, int8_t *restrict codes) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            codes[i + k] = code_of(x[i + k], scale);
        }
    }
    for (; i < n; i++) {
        codes[i] = code_of(x[i], scale);
    }
}

static void codes_each(const float *x, size_t n, const float *scales, int8_t *restrict codes) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            codes[i + k] = code_of(x[i + k], scales[i + k]);
        }
    }
    for (; i < n; i++) {
        codes[i] = code_of(x[i], scales[i]);
    }
}

/* maxima[c] = largest absolute value of channel c, or what is not finite in it. */
static void find_maxima(const struct oq_tensor_view *weight, struct layout layout, float *maxima) {
    float block[BLOCK];
    for (size_t first = 0; first < weight->n_elements; first += BLOCK) {
        size_t n = weight->n_elements - first < BLOCK ? weight->n_elements - first : BLOCK;
        oq_tensor_view_floats(weight, first, n, block);
        for (size_t i = 0; i < n;) {
            struct run run = run_at(layout, first + i, n - i);
            float *maximum = maxima + run.channel;
            if (run.along_channels) {
                maximum_each(block + i, run.length, maximum);
            } else {
                *maximum = maximum_of(block + i, run.length, *maximum);
            }
            i += run.length;
        }
    }
}

/* Turns maxima into scales in place; 0 stands for a channel without one. False when a maximum is
 * not finite. */
static bool scale_channels(float *scales, size_t n, float *largest) {
    *largest = 0.0F;
    for (size_t c = 0; c < n; c++) {
        if (!isfinite(scales[c])) {
            return false;
        }
        float scale = scales[c] / 127.0F;
        scales[c] = scale >= FLT_MIN ? scale : 0.0F;
        *largest = scales[c] > *largest ? scales[c] : *largest;
    }
    return true;
}

enum onnxptq_status oq_weight_scales(const struct oq_tensor_view *weight, int axis, float *scales,
                                     struct onnxptq_error *error) {
    size_t n = oq_weight_n_scales(weight, axis);
    if (!oq_type_is_float(weight->type)) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "cannot quantize weight: it is of element type %d; leave its nodes out",
                       weight->type);
    }
    memset(scales, 0, n * sizeof *scales);
    find_maxima(weight, layout_of(weight, axis), scales);
    float largest;
    if (!scale_channels(scales, n, &largest)) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "cannot quantize weight: it holds NaN or infinity; leave its nodes out");
    }
    for (size_t c = 0; c < n; c++) {
        if (scales[c] <= 0.0F) {
            scales[c] = largest > 0.0F ? largest : 1.0F;
        }
    }
    return ONNXPTQ_OK;
}

void oq_weight_codes(const struct oq_tensor_view *weight, int axis, const float *scales,
                     size_t first, size_t n, int8_t *codes) {
    struct layout layout = layout_of(weight, axis);
    float block[BLOCK];
    for (size_t done = 0; done < n;) {
        size_t length = n - done < BLOCK ? n - done : BLOCK;
        oq_tensor_view_floats(weight, first + done, length, block);
        for (size_t i = 0; i < length;) {
            struct run run = run_at(layout, first + done + i, length - i);
            if (run.along_channels) {
                codes_each(block + i, run.length, scales + run.channel, codes + done + i);
            } else {
                codes_of(block + i, run.length, scales[run.channel], codes + done + i);
            }
            i += run.length;
        }
        done += length;
    }
}
