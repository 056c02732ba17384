/*
 * How much a tensor loses when it is rounded to the target's activation type, estimated from the
 * traced sample: a few large values beside many small ones leave the small ones few codes.
 */
#include "quant/planner.h"

#include <math.h>

double oq_planner_rounding_db(const struct oq_planner *planner, uint32_t value) {
    const struct oq_statistics *trace = planner->context->trace;
    if (value == OQ_NONE || trace == NULL || isnan(trace[value].mean_square)) {
        return INFINITY;
    }
    double power = trace[value].mean_square;
    struct oq_quant_params params =
        oq_quant_params_from_range(&planner->activation, trace[value].min, trace[value].max);
    double noise = (double)params.scale * (double)params.scale / 12.0;
    return power > 0.0 ? 10.0 * log10(power / noise) : INFINITY;
}
