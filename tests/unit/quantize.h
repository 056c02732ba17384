/*
 * What a runtime's QuantizeLinear computes: the judge of scales, zero points and codes.
 */
#ifndef TESTS_QUANTIZE_H
#define TESTS_QUANTIZE_H

#include "quant/params.h"

/* round(value / scale) + zero_point, half to even, saturated; NaN gives the zero point. */
int32_t quantize_value(const struct oq_quant_spec *spec, struct oq_quant_params params,
                       float value);

#endif
