/*
 * Scales and zero points from ranges, and quantizing constants with them. Formulas and their
 * sources: docs/formulas.md. Rounding is half to even, done in float as the runtimes do it.
 */
#ifndef OQ_QUANT_PARAMS_H
#define OQ_QUANT_PARAMS_H

#include "model/tensor.h"

/* How a tensor is quantized. */
struct oq_quant_spec {
    enum onnxptq_type type; /* INT8, UINT8, INT16, UINT16, INT32 (biases) */
    bool symmetric;         /* zero point 0 (signed) or the middle (unsigned) */
    bool narrow;            /* signed types leave their lowest code unused: weights */
    /* Of the tensor and so of its scale: FLOAT16 or BFLOAT16; UNDEFINED is FLOAT. */
    enum onnxptq_type float_type;
};

struct oq_quant_params {
    float scale; /* finite, > 0, storable in the float type; normal in FLOAT */
    int32_t zero_point;
};

bool oq_quant_spec_equal(const struct oq_quant_spec *a, const struct oq_quant_spec *b);

/* FLOAT for UNDEFINED. */
enum onnxptq_type oq_quant_float_type(const struct oq_quant_spec *spec);
/* The nearest number to a scale > 0 that the tensor's float type holds and that is not 0. */
float oq_quant_storable_scale(const struct oq_quant_spec *spec, float scale);

/* The version of the default domain whose Q/DQ can hold this: one scale per channel 13, scales in
 * half precision 19, 16-bit codes 21, else 10. */
int64_t oq_quant_needed_opset(const struct oq_quant_spec *spec, bool per_channel);

/* Codes of a spec. */
void oq_quant_code_range(const struct oq_quant_spec *spec, int32_t *low, int32_t *high);

/* Range [min, max] is widened to hold zero, infinities become the largest float, NaN or min > max
 * is a range without extent. A range without extent, or so small that its scale would not be a
 * normal float, gives scale 1 and zero point 0 (symmetric unsigned: the middle). symmetric: scale =
 * max(|min|, |max|) / qmax; else (max - min) / (qmax - qmin). */
struct oq_quant_params oq_quant_params_from_range(const struct oq_quant_spec *spec, double min,
                                                  double max);

/* Weights: int8, always symmetric, one scale per index along `axis` (negative: one in all), scale =
 * amax / 127, codes in [-127, 127]. A channel without extent, or so small that its scale would not
 * be a normal float, gets the largest scale of the others (1 when there is none), so that a bias on
 * it keeps the step of its neighbours. The view is read in blocks: never a float copy of the whole
 * weight. */
size_t oq_weight_n_scales(const struct oq_tensor_view *weight, int axis);

/* `scales` holds oq_weight_n_scales() floats. Non-finite weights, or a view that is not of a float
 * type: ONNXPTQ_ERROR_UNSUPPORTED. */
enum onnxptq_status oq_weight_scales(const struct oq_tensor_view *weight, int axis, float *scales,
                                     struct onnxptq_error *error) OQ_MUST_USE;

/* Codes of the elements [first, first + n) with given scales, which may be larger than those of
 * oq_weight_scales(). */
void oq_weight_codes(const struct oq_tensor_view *weight, int axis, const float *scales,
                     size_t first, size_t n, int8_t *codes);

/* Biases: int32 code of value / (scale as double); false when it leaves [-2^30, 2^30], the half of
 * int32 that is left to biases so that the runtime's sum of products and bias stays inside int32.
 */
#define OQ_BIAS_CODE_MAX 1073741824
bool oq_bias_quantize(double value, float scale, int32_t *code);

#endif
