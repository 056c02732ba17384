/*
 * TensorRT, int8: Q/DQ on the inputs of weighted operators, on the shortcut of residual Adds and
 * nowhere else, because a weighted operator writes float or int8 as its reader wants, and whatever
 * stands between (BatchNormalization, activations, data movement) is fused by TensorRT itself.
 * Evidence: docs/targets.md.
 */
#include "quant/planner.h"
#include "quant/residual.h"

#include <math.h>

static enum onnxptq_status plan_residuals(struct oq_planner *planner, struct onnxptq_error *error) {
    struct oq_residual_search *search = oq_residual_search_create(planner);
    if (search == NULL) {
        return oq_fail_memory(error, "the search for residual connections");
    }
    for (uint32_t node = 0; node < oq_graph_n_nodes(planner->graph); node++) {
        const struct oq_operator *op = oq_planner_candidate(planner, node);
        if (op == NULL || op->role != OQ_ROLE_ADD) {
            continue;
        }
        int shortcut = oq_residual_shortcut(search, node);
        if (shortcut < 0) {
            continue;
        }
        uint32_t value = oq_graph_node(planner->graph, node)->inputs[shortcut];
        if (oq_planner_is_dequantized(planner, value)) {
            continue;
        }
        (void)oq_planner_pair(planner, value, node, (uint32_t)shortcut, "residual-shortcut",
                              "shortcut of a residual Add that is fused into a matrix operator");
        oq_plan_set_node(planner->plan, node, ONNXPTQ_DECISION_QUANTIZED, "residual-shortcut",
                         "its shortcut is int8, so the fused matrix operator reads int8 only");
    }
    oq_residual_search_destroy(search);
    return ONNXPTQ_OK;
}

static bool reads_quantized(const struct oq_planner *planner, const struct oq_use *use,
                            uint32_t value) {
    uint32_t pair = oq_plan_find_pair(planner->plan, value);
    if (pair == OQ_NONE) {
        return false;
    }
    const struct oq_plan_pair *p = &planner->plan->pairs[pair];
    for (size_t i = 0; i < p->n_uses; i++) {
        if (p->uses[i].node == use->node && p->uses[i].input == use->input) {
            return true;
        }
    }
    return false;
}

/* True when every reader of `value` reads it quantized, directly or behind data movement, so that a
 * Q follows on every path. */
static bool is_quantized_downstream(const struct oq_planner *planner, uint32_t value, int depth) {
    const struct oq_value *v = oq_graph_value(planner->graph, value);
    if (v->is_output || v->captured || v->n_uses == 0 || depth == 0) {
        return false;
    }
    for (uint32_t i = 0; i < v->n_uses; i++) {
        if (reads_quantized(planner, &v->uses[i], value)) {
            continue;
        }
        const struct oq_node *reader = oq_graph_node(planner->graph, v->uses[i].node);
        bool moves = oq_planner_role_is(planner, v->uses[i].node, OQ_ROLE_MOVEMENT) &&
                     v->uses[i].input == 0 && reader->proto->n_output == 1;
        if (!moves || !is_quantized_downstream(planner, reader->outputs[0], depth - 1)) {
            return false;
        }
    }
    return true;
}

/* Pooling and resizing run in int8 only with int8 on both sides. */
static enum onnxptq_status plan_pools(struct oq_planner *planner, struct onnxptq_error *error) {
    enum { DEPTH = 32 };
    (void)error;
    for (uint32_t node = oq_graph_n_nodes(planner->graph); node-- > 0;) {
        const struct oq_operator *op = oq_planner_candidate(planner, node);
        if (op == NULL || (op->role != OQ_ROLE_POOL_AVERAGE && op->role != OQ_ROLE_RESIZE)) {
            continue;
        }
        const struct oq_node *n = oq_graph_node(planner->graph, node);
        if (!oq_planner_is_activation(planner, n->inputs[0]) ||
            oq_planner_is_dequantized(planner, n->inputs[0]) || n->outputs[0] == OQ_NONE ||
            !is_quantized_downstream(planner, n->outputs[0], DEPTH)) {
            continue;
        }
        (void)oq_planner_pair(planner, n->inputs[0], node, 0, "between-int8",
                              "input of a pooling or resizing whose result is quantized");
        oq_plan_set_node(planner->plan, node, ONNXPTQ_DECISION_QUANTIZED, "between-int8",
                         "int8 in and int8 out");
    }
    return ONNXPTQ_OK;
}

static double traced_extent(const struct oq_planner *planner, uint32_t value) {
    const struct oq_statistics *s = &planner->context->trace[value];
    return s->n_finite > 0 ? fmax(fabs(s->min), fabs(s->max)) : 0.0;
}

/* A Concat passes quantization through when all scales are equal. The price of one scale is
 * precision in the smaller tensor: at most one bit is paid. */
static void share_concat_scale(struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    uint32_t out = oq_plan_find_pair(planner->plan, n->outputs[0]);
    if (out == OQ_NONE || planner->context->trace == NULL) {
        return;
    }
    double whole = traced_extent(planner, n->outputs[0]);
    for (size_t i = 0; i < n->proto->n_input; i++) {
        uint32_t in =
            n->inputs[i] == OQ_NONE ? OQ_NONE : oq_plan_find_pair(planner->plan, n->inputs[i]);
        if (in != OQ_NONE && traced_extent(planner, n->inputs[i]) * 2.0 >= whole) {
            oq_plan_join_groups(planner->plan, out, in);
        }
    }
}

static enum onnxptq_status plan_concats(struct oq_planner *planner, struct onnxptq_error *error) {
    (void)error;
    for (uint32_t node = 0; node < oq_graph_n_nodes(planner->graph); node++) {
        const struct oq_operator *op = oq_planner_candidate(planner, node);
        if (op != NULL && op->role == OQ_ROLE_CONCAT) {
            share_concat_scale(planner, node);
        }
    }
    return ONNXPTQ_OK;
}

static const oq_planner_pass PASSES[] = {oq_plan_weighted, plan_residuals, plan_pools, plan_concats,
                                         NULL};

const struct oq_target oq_target_tensorrt = {
    .name = "tensorrt",
    .activation = {.type = ONNXPTQ_TYPE_INT8, .symmetric = true},
    .activation_types = {ONNXPTQ_TYPE_INT8},
    .weight = {.type = ONNXPTQ_TYPE_INT8, .symmetric = true, .narrow = true},
    .matmul_channel_rank = 2,
    .matmul_left_channels = true,
    .size_rules_default = true,
    .passes = PASSES,
};
