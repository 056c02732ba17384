/*
 * Applying a plan: scales and zero points, quantized weights, Q/DQ nodes. Decides nothing.
 */
#ifndef OQ_QUANT_EMIT_H
#define OQ_QUANT_EMIT_H

#include "calib/statistics.h"
#include "quant/plan.h"

struct oq_emit_spec {
    const struct oq_graph *graph; /* of the prepared model, which stays as it is */
    const struct oq_plan *plan;
    const struct oq_statistics *ranges; /* one per value of the graph */
    const struct oq_statistics *trace;  /* one per value: shapes for the results of foreign operators */
    const char *spill_beside; /* quantized weights are kept in a temporary file beside this path, not in memory */
};

/* Numbers chosen, for the report. */
struct oq_emit_result {
    struct oq_model *model;          /* a new model */
    struct oq_quant_params *pairs;   /* one per pair of the plan; malloc'ed. scale 0: the pair was dropped (never saw a value) */
    float *weight_scale_min, *weight_scale_max; /* one per weight */
    size_t *weight_channels;
    struct oq_writer *spill;         /* lives as long as the model; may be NULL */
};

enum onnxptq_status oq_emit(const struct oq_emit_spec *spec, struct oq_emit_result *out,
                            struct onnxptq_error *error) OQ_MUST_USE;
void oq_emit_result_reset(struct oq_emit_result *result);

#endif
