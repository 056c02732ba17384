/*
 * Applying a plan: scales and zero points, quantized weights, Q/DQ nodes. Decides nothing, with one
 * exception: what the numbers forbid (a tensor that was never seen, a weight that is not finite)
 * stays float, whole nodes at a time, and a note says so.
 *
 * Added to the graph, per pair: QuantizeLinear and DequantizeLinear right after the value's
 * producer, the DequantizeLinear once more in every inner scope that reads it; per weight:
 * DequantizeLinear before its first reader in each scope; per bias: DequantizeLinear before its
 * reader. Float constants that nobody reads any more go, and so do the Constant and Identity nodes
 * behind them. All else stays as it is.
 */
#ifndef OQ_QUANT_EMIT_H
#define OQ_QUANT_EMIT_H

#include "calib/range.h"
#include "quant/plan.h"

struct oq_emit_spec {
    const struct oq_graph *graph; /* of the prepared model, which stays as it is */
    const struct oq_plan *plan;
    const struct oq_statistics *ranges; /* one per value of the graph */
    const struct oq_statistics *trace;  /* one per value: element types and shapes; may be NULL */
    struct oq_range_method method;      /* how ranges follow from them */
    const char *spill_beside; /* large quantized weights are kept in a temporary file of the
                                 model beside this path, not in memory; NULL: in memory */
};

/* The model and the numbers chosen, for the report. Reset frees all of it. */
struct oq_emit_result {
    struct oq_model *model;                     /* a new model */
    struct oq_quant_params *pairs;              /* one per pair of the plan; scale 0: left out */
    float *weight_scale_min, *weight_scale_max; /* one per weight of the plan */
    size_t *weight_channels;                    /* 0: left out */
    bool *biases;                               /* one per bias of the plan: quantized */
    bool *nodes_left_float; /* one per node: the plan quantizes it, the numbers forbid it */
    const char **notes;     /* one sentence each; malloc'ed */
    size_t n_notes;
    struct oq_arena *arena; /* of the arrays above and the text of the notes */
};

/* ONNXPTQ_ERROR_INTERNAL when the plan does not fit the graph, or needs a newer opset than the
 * model has: per channel 13, 16-bit 21, else 10. Shapes are recorded for the results of foreign
 * operators where a tensor's rank never varied; a dimension is recorded when all inputs of the
 * model have fixed shapes and at least two samples agreed on it. */
enum onnxptq_status oq_emit(const struct oq_emit_spec *spec, struct oq_emit_result *out,
                            struct onnxptq_error *error) OQ_MUST_USE;
void oq_emit_result_reset(struct oq_emit_result *result);

#endif
