/*
 * Q/DQ behind the outputs of a model, for users who want them quantized.
 */
#include "quant/planner.h"

/* Foreign, excluded and unknown operators write what they write; a DequantizeLinear is behind its
 * pair already. */
static bool may_quantize(const struct oq_planner *planner, uint32_t value) {
    const struct oq_value *v = oq_graph_value(planner->graph, value);
    return v->producer != OQ_NONE && !v->captured &&
           oq_planner_candidate(planner, v->producer) != NULL &&
           !oq_planner_is_dequantized(planner, value) && oq_planner_is_activation(planner, value);
}

void oq_plan_outputs(struct oq_planner *planner) {
    const Onnx__GraphProto *graph = oq_graph_scope(planner->graph, 0)->proto;
    for (size_t i = 0; i < graph->n_output; i++) {
        uint32_t value = oq_graph_find_value(planner->graph, 0, oq_text(graph->output[i]->name));
        if (value == OQ_NONE || !may_quantize(planner, value)) {
            continue;
        }
        uint32_t pair = oq_planner_pair(planner, value, OQ_NONE, 0, "model-output",
                                        "output of the model (--quantize-outputs=on)");
        if (pair != OQ_NONE) {
            planner->plan->pairs[pair].takes_name = true;
        }
    }
}
