/*
 * Scales and zero points from ranges. Weights are in params_weight.c.
 */
#include "quant/params.h"

#include "base/number.h"

#include <float.h>
#include <math.h>

#define HALF_SMALLEST 0x1p-24F

bool oq_quant_spec_equal(const struct oq_quant_spec *a, const struct oq_quant_spec *b) {
    return a->type == b->type && a->symmetric == b->symmetric && a->narrow == b->narrow &&
           oq_quant_float_type(a) == oq_quant_float_type(b);
}

enum onnxptq_type oq_quant_float_type(const struct oq_quant_spec *spec) {
    return spec->float_type == ONNXPTQ_TYPE_UNDEFINED ? ONNXPTQ_TYPE_FLOAT : spec->float_type;
}

float oq_quant_storable_scale(const struct oq_quant_spec *spec, float scale) {
    if (oq_quant_float_type(spec) == ONNXPTQ_TYPE_FLOAT16) {
        float clamped = fminf(fmaxf(scale, HALF_SMALLEST), OQ_HALF_MAX);
        return oq_half_to_float(oq_float_to_half(clamped));
    }
    if (oq_quant_float_type(spec) == ONNXPTQ_TYPE_BFLOAT16) {
        return oq_bfloat16_to_float(oq_float_to_bfloat16(fminf(scale, OQ_BFLOAT16_MAX)));
    }
    return scale;
}

int64_t oq_quant_needed_opset(const struct oq_quant_spec *spec, bool per_channel) {
    if (spec->type == ONNXPTQ_TYPE_INT16 || spec->type == ONNXPTQ_TYPE_UINT16) {
        return 21;
    }
    if (oq_type_is_half((int)spec->float_type)) {
        return 19;
    }
    return per_channel ? 13 : 10;
}

static bool is_signed(enum onnxptq_type type) {
    return type == ONNXPTQ_TYPE_INT8 || type == ONNXPTQ_TYPE_INT16 || type == ONNXPTQ_TYPE_INT32;
}

void oq_quant_code_range(const struct oq_quant_spec *spec, int32_t *low, int32_t *high) {
    switch ((int)spec->type) {
    case ONNXPTQ_TYPE_UINT8: *low = 0, *high = UINT8_MAX; break;
    case ONNXPTQ_TYPE_INT16: *low = INT16_MIN, *high = INT16_MAX; break;
    case ONNXPTQ_TYPE_UINT16: *low = 0, *high = UINT16_MAX; break;
    case ONNXPTQ_TYPE_INT32: *low = INT32_MIN, *high = INT32_MAX; break;
    default: *low = INT8_MIN, *high = INT8_MAX; break;
    }
    if (spec->narrow && is_signed(spec->type)) {
        *low += 1;
    }
}

static double largest_float(const struct oq_quant_spec *spec) {
    switch ((int)oq_quant_float_type(spec)) {
    case ONNXPTQ_TYPE_FLOAT16: return (double)OQ_HALF_MAX;
    case ONNXPTQ_TYPE_BFLOAT16: return (double)OQ_BFLOAT16_MAX;
    default: return (double)FLT_MAX;
    }
}

/* The scale as it is stored, by which a code `farthest` from the zero point stays finite; 0 when
 * that is no normal float. */
static float fit_scale(const struct oq_quant_spec *spec, double exact, double farthest) {
    double largest = largest_float(spec);
    float scale = (float)fmin(exact, largest / farthest);
    if (scale < FLT_MIN) {
        return 0.0F;
    }
    while ((double)oq_quant_storable_scale(spec, scale) * farthest > largest) {
        scale = nextafterf(scale, 0.0F);
    }
    return oq_quant_storable_scale(spec, scale);
}

static int32_t clamp_code(double code, int32_t low, int32_t high) {
    if (code <= (double)low) {
        return low;
    }
    return code >= (double)high ? high : (int32_t)code;
}

static void widen_range(double *min, double *max) {
    if (!(*min <= *max)) { /* NaN too */
        *min = *max = 0.0;
    }
    *min = fmax(fmin(*min, 0.0), -(double)FLT_MAX);
    *max = fmin(fmax(*max, 0.0), (double)FLT_MAX);
}

/* Signed codes are symmetric around 0 from -high to high; unsigned ones span the whole type around
 * the middle. */
static struct oq_quant_params symmetric_params(const struct oq_quant_spec *spec, double min,
                                               double max) {
    int32_t low, high;
    oq_quant_code_range(spec, &low, &high);
    double extent = fmax(-min, max);
    int32_t zero_point = is_signed(spec->type) ? 0 : high / 2 + 1;
    double exact = (is_signed(spec->type) ? extent : 2.0 * extent) / (double)high;
    float scale = fit_scale(spec, exact, (double)zero_point - (double)low);
    return (struct oq_quant_params){scale > 0.0F ? scale : 1.0F, zero_point};
}

struct oq_quant_params oq_quant_params_from_range(const struct oq_quant_spec *spec, double min,
                                                  double max) {
    widen_range(&min, &max);
    if (spec->symmetric) {
        return symmetric_params(spec, min, max);
    }
    int32_t low, high;
    oq_quant_code_range(spec, &low, &high);
    double codes = (double)high - (double)low, exact = (max - min) / codes;
    /* The longer side of the range in codes, and one more where the zero point is rounded. */
    double side = exact > 0.0 ? ceil(fmax(-min, max) / exact) + 1.0 : codes;
    float scale = fit_scale(spec, exact, fmin(side, codes));
    if (scale <= 0.0F) {
        return (struct oq_quant_params){1.0F, 0};
    }
    double zero_point = rint((double)low - min / (double)scale);
    return (struct oq_quant_params){scale, clamp_code(zero_point, low, high)};
}

bool oq_bias_quantize(double value, float scale, int32_t *code) {
    double exact = rint(value / (double)scale);
    if (!(fabs(exact) <= (double)OQ_BIAS_CODE_MAX)) { /* NaN too */
        return false;
    }
    *code = (int32_t)exact;
    return true;
}
