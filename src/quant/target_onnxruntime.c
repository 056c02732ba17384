/*
 * ONNX Runtime on the CPU: asymmetric uint8 activations, int8 weights, int32 biases. The runtime
 * makes an integer kernel of [DQ inputs -> operator -> Q output], so:
 *   - a Conv needs a pair on its output, placed after a Relu or Clip that the pair makes redundant;
 *   - all readers of that output read the pair, since a second reader of the float tensor undoes
 *     the fusion; foreign and excluded readers do so only with --foreign-edges=fuse, at the price
 *     of the fusion else;
 *   - MatMul and Gemm have kernels with a float output, which is more accurate: no output pair;
 *   - operators between two pairs (Add, Mul, Concat, pools, Sigmoid, data movement, ...) are
 *     joined in, data movement with one scale on both sides.
 * Evidence: docs/targets.md.
 */
#include "model/value_info.h"
#include "quant/bridge.h"
#include "quant/planner.h"

#include <string.h>

/* ---- Outputs of convolutions ---- */

static void plan_conv_output(struct oq_planner *planner, uint32_t node) {
    uint32_t activation = OQ_NONE;
    uint32_t value = oq_bridge_fold(planner, oq_planner_output(planner, node), &activation);
    if (oq_planner_is_quantized_already(planner, value)) {
        return;
    }
    const char *obstacle = oq_bridge_output_obstacle(planner, value);
    if (obstacle != NULL) {
        const char *reason =
            oq_arena_printf(planner->plan->arena,
                            "data input and weight are int8, computed in float: %s", obstacle);
        oq_plan_set_node(planner->plan, node, ONNXPTQ_DECISION_QUANTIZED, "weighted-input",
                         reason != NULL ? reason : obstacle);
        return;
    }
    oq_bridge_output_pair(planner, value, "conv-output",
                          "result of a convolution: the integer kernel writes uint8");
    if (activation != OQ_NONE) {
        oq_plan_set_node(planner->plan, activation, ONNXPTQ_DECISION_QUANTIZED, "folded-activation",
                         "made redundant by the uint8 range of the pair behind it");
    }
}

static enum onnxptq_status plan_conv_outputs(struct oq_planner *planner,
                                             struct onnxptq_error *error) {
    (void)error;
    for (uint32_t node = 0; node < oq_graph_n_nodes(planner->graph); node++) {
        if (oq_planner_role_is(planner, node, OQ_ROLE_CONV) &&
            oq_planner_is_quantized(planner, node) && oq_planner_output(planner, node) != OQ_NONE) {
            plan_conv_output(planner, node);
        }
    }
    return ONNXPTQ_OK;
}

/* ---- Bias of a MatMul ---- */

/* True when a dimension of a graph input is open. */
static bool has_open_input(const struct oq_planner *planner) {
    const Onnx__GraphProto *graph = oq_graph_scope(planner->graph, 0)->proto;
    for (size_t i = 0; i < graph->n_input; i++) {
        if (!oq_value_info_is_fixed(graph->input[i])) {
            return true;
        }
    }
    return false;
}

/* True when the runtime merges MatMul + Add into a Gemm: on matrices, and on higher ranks when it
 * knows every dimension. */
static bool becomes_gemm(const struct oq_planner *planner, uint32_t matmul) {
    const int64_t *shape = NULL;
    size_t rank = 0;
    return !oq_planner_shape(planner, oq_graph_node(planner->graph, matmul)->inputs[0], &shape,
                             &rank) ||
           rank <= 2 || !has_open_input(planner);
}

/* The runtime merges MatMul + Add(constant) into a Gemm before it looks for integer kernels, and an
 * integer Gemm takes its bias as int32 only. Elsewhere the Add stays, and fuses better with a float
 * bias. */
static void plan_matmul_bias(struct oq_planner *planner, uint32_t weight_index) {
    const struct oq_plan_weight *weight = &planner->plan->weights[weight_index];
    for (size_t i = 0; i < weight->n_uses; i++) {
        uint32_t node = weight->uses[i].node;
        if (!oq_planner_role_is(planner, node, OQ_ROLE_MATMUL) || weight->uses[i].input != 1 ||
            weight->axis < 0 || !becomes_gemm(planner, node)) {
            continue;
        }
        const struct oq_use *add = oq_planner_sole_use(planner, oq_planner_output(planner, node));
        const struct oq_operator *op =
            add == NULL ? NULL : oq_planner_candidate(planner, add->node);
        if (op == NULL || op->role != OQ_ROLE_ADD) {
            continue;
        }
        const struct oq_node *a = oq_graph_node(planner->graph, add->node);
        uint32_t bias_input = 1 - add->input;
        const Onnx__TensorProto *bias = oq_graph_constant(planner->graph, a->inputs[bias_input]);
        const Onnx__TensorProto *w = oq_graph_constant(planner->graph, weight->value);
        if (bias == NULL || bias->data_type != ONNXPTQ_TYPE_FLOAT || bias->n_dims != 1 ||
            bias->dims[0] != w->dims[weight->axis]) {
            continue;
        }
        uint32_t data = oq_graph_node(planner->graph, node)->inputs[0];
        uint32_t pair = oq_plan_find_pair(planner->plan, data);
        if (pair == OQ_NONE) {
            continue; /* the model came with it quantized */
        }
        struct oq_plan_bias plan_bias = {.value = a->inputs[bias_input],
                                         .pair = pair,
                                         .weight = weight_index,
                                         .node = node,
                                         .use = {add->node, bias_input},
                                         .factor = 1.0,
                                         .channels = (size_t)bias->dims[0]};
        planner->out_of_memory |= oq_plan_add_bias(planner->plan, plan_bias) == OQ_NONE;
        oq_plan_set_node(planner->plan, add->node, ONNXPTQ_DECISION_QUANTIZED, "matmul-bias",
                         "int32 bias of an integer matrix product with a float result");
    }
}

static enum onnxptq_status plan_matmul_biases(struct oq_planner *planner,
                                              struct onnxptq_error *error) {
    (void)error;
    for (uint32_t i = 0; oq_planner_has_int32_bias(planner) && i < planner->plan->n_weights; i++) {
        plan_matmul_bias(planner, i);
    }
    return ONNXPTQ_OK;
}

static const oq_planner_pass PASSES[] = {oq_plan_weighted, plan_conv_outputs, plan_matmul_biases,
                                         oq_plan_bridges, NULL};

const struct oq_target oq_target_onnxruntime = {
    .name = "onnxruntime",
    .activation = {.type = ONNXPTQ_TYPE_UINT8, .symmetric = false},
    .activation_types = {ONNXPTQ_TYPE_UINT8, ONNXPTQ_TYPE_INT8, ONNXPTQ_TYPE_UINT16,
                         ONNXPTQ_TYPE_INT16},
    .weight = {.type = ONNXPTQ_TYPE_INT8, .symmetric = true, .narrow = true},
    .int32_bias = true,
    .plain_gemm_only = true,
    .matmul_channel_rank = 2,
    .needs_runtime_optimizer = true,
    .passes = PASSES,
};
