/*
 * See quantize.h.
 */
#include "quantize.h"

#include <math.h>

int32_t quantize_value(const struct oq_quant_spec *spec, struct oq_quant_params params,
                       float value) {
    int32_t low, high;
    oq_quant_code_range(spec, &low, &high);
    if (isnan(value)) {
        return params.zero_point;
    }
    double code = (double)rintf(value / params.scale) + (double)params.zero_point;
    return (int32_t)fmin(fmax(code, (double)low), (double)high);
}
