/*
 * What the emitter made of the plan: scales, and what the numbers forbade.
 */
#include "api/report.h"

/* How many of the emitter's notes are kept word by word, before they are only counted. */
#define MAX_NOTES 12

static struct onnxptq_tensor_report describe_pair(const struct oq_graph *graph,
                                                  const struct oq_plan_pair *pair,
                                                  struct oq_quant_params params,
                                                  const struct oq_statistics *range) {
    return (struct onnxptq_tensor_report){
        .name = oq_graph_value(graph, pair->value)->name,
        .type = pair->spec.type,
        .scale = (double)params.scale,
        .zero_point = params.zero_point,
        .min = pair->has_fixed_range ? pair->fixed_min : range->min,
        .max = pair->has_fixed_range ? pair->fixed_max : range->max,
        .rule = pair->rule,
        .reason = pair->reason,
    };
}

static enum onnxptq_status add_pairs(struct oq_report *report, const struct oq_graph *graph,
                                     const struct oq_plan *plan, const struct oq_statistics *ranges,
                                     const struct oq_quant_params *params,
                                     struct onnxptq_error *error) {
    struct onnxptq_tensor_report *tensors =
        oq_arena_array(report->arena, plan->n_pairs, sizeof *tensors);
    if (tensors == NULL) {
        return oq_fail_memory(error, "the report of tensors");
    }
    size_t n = 0;
    for (size_t i = 0; i < plan->n_pairs; i++) {
        const struct oq_plan_pair *pair = &plan->pairs[i];
        if (params[i].scale > 0) { /* else the emitter left it out */
            tensors[n++] = describe_pair(graph, pair, params[i], &ranges[pair->value]);
        }
    }
    report->public.tensors = tensors;
    report->public.n_tensors = n;
    return ONNXPTQ_OK;
}

static enum onnxptq_status add_weights(struct oq_report *report, const struct oq_graph *graph,
                                       const struct oq_plan *plan,
                                       const struct oq_emit_result *emitted,
                                       struct onnxptq_error *error) {
    struct onnxptq_weight_report *weights =
        oq_arena_array(report->arena, plan->n_weights, sizeof *weights);
    if (weights == NULL) {
        return oq_fail_memory(error, "the report of weights");
    }
    size_t n = 0;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct oq_plan_weight *weight = &plan->weights[i];
        if (emitted->weight_channels[i] == 0) {
            continue; /* left out */
        }
        weights[n++] = (struct onnxptq_weight_report){
            .name = oq_graph_value(graph, weight->value)->name,
            .type = weight->spec.type,
            .axis = weight->axis,
            .channels = emitted->weight_channels[i],
            .scale_min = (double)emitted->weight_scale_min[i],
            .scale_max = (double)emitted->weight_scale_max[i],
        };
    }
    report->public.weights = weights;
    report->public.n_weights = n;
    return ONNXPTQ_OK;
}

static void add_notes(struct oq_report *report, const struct oq_emit_result *emitted) {
    for (size_t i = 0; i < emitted->n_notes && i < MAX_NOTES; i++) {
        oq_report_add_note(report, "%s", emitted->notes[i]);
    }
    if (emitted->n_notes > MAX_NOTES) {
        oq_report_add_note(report, "%zu more notes of this kind; --verbose lists every node",
                           emitted->n_notes - MAX_NOTES);
    }
}

enum onnxptq_status oq_report_add_numbers(struct oq_report *report, const struct oq_graph *graph,
                                          const struct oq_plan *plan,
                                          const struct oq_statistics *ranges,
                                          const struct oq_emit_result *emitted,
                                          struct onnxptq_error *error) {
    OQ_TRY(add_pairs(report, graph, plan, ranges, emitted->pairs, error));
    OQ_TRY(add_weights(report, graph, plan, emitted, error));
    OQ_TRY(oq_report_add_nodes(report, graph, plan, emitted->nodes_left_float, error));
    add_notes(report, emitted);
    return ONNXPTQ_OK;
}
