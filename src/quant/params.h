/*
 * Scales and zero points from ranges, and quantizing numbers with them. Formulas and their sources:
 * docs/formulas.md. Rounding is half to even, done in float as the runtimes do it.
 */
#ifndef OQ_QUANT_PARAMS_H
#define OQ_QUANT_PARAMS_H

#include "model/tensor.h"

/* How a tensor is quantized. */
struct oq_quant_spec {
    enum onnxptq_type type; /* INT8, UINT8, INT16, UINT16, INT32 (biases) */
    bool symmetric;         /* zero point 0 (signed) or the middle (unsigned) */
    bool narrow;            /* signed types leave their lowest code unused: weights */
};

struct oq_quant_params {
    float scale; /* finite, normal, > 0 */
    int32_t zero_point;
};

/* Codes of a spec. */
void oq_quant_code_range(const struct oq_quant_spec *spec, int32_t *low, int32_t *high);

/* Range [min, max] is widened to hold zero. A range without extent gives scale 1, zero point 0 of the type
 * (symmetric: 0). symmetric: scale = max(|min|, |max|) / qmax. */
struct oq_quant_params oq_quant_params_from_range(const struct oq_quant_spec *spec, double min,
                                                  double max);

int32_t oq_quantize_value(const struct oq_quant_spec *spec, struct oq_quant_params params,
                          float value);

/* Weights: one scale per index along `axis` (negative: one in all), always symmetric, scale = amax / 127.
 * A channel without extent, or so small that its scale would not be a normal float, gets scale 1.
 * `scales` holds shape[axis] (or 1) floats; `codes` n_elements bytes (int8), may be NULL. Reads the view in blocks: never
 * a float copy of the whole weight. Non-finite weights: ONNXPTQ_ERROR_UNSUPPORTED. */
size_t oq_weight_n_scales(const struct oq_tensor_view *weight, int axis);
enum onnxptq_status oq_weight_quantize(const struct oq_tensor_view *weight, int axis,
                                       float *scales, int8_t *codes,
                                       struct onnxptq_error *error) OQ_MUST_USE;

#endif
