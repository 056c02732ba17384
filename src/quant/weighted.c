/*
 * Conv, ConvTranspose, Gemm and MatMul: a pair on each data input, int8 weights with one scale per
 * output channel, and where the target wants it an int32 bias. What differs between targets is in
 * their rows.
 */
#include "base/number.h"
#include "quant/planner.h"

static const char RULE[] = "weighted-input";

/* What one weighted node needs, gathered before anything is added to the plan. Operands that the
 * model came with quantized need nothing. */
struct weighted {
    uint32_t node;
    bool pair[2];     /* operands that are float activations */
    int weight_input; /* index of the constant weight; -1: none is to be quantized */
    int axis;
    int bias_input; /* index of a constant bias to be quantized; -1: none */
    bool exact_bias;
    size_t channels;
};

/* Takes operand `index` as an activation; false when it is none. */
static bool take_activation(const struct oq_planner *planner, const struct oq_node *node,
                            size_t index, struct weighted *out) {
    uint32_t value = oq_node_input(node, index);
    if (!oq_planner_is_activation(planner, value)) {
        return false;
    }
    out->pair[index] = !oq_planner_is_dequantized(planner, value);
    return true;
}

/* True when operand `index` is a weight that the model came with quantized. */
static bool is_quantized_weight(const struct oq_planner *planner, const struct oq_node *node,
                                size_t index) {
    uint32_t value = oq_node_input(node, index);
    return value != OQ_NONE && oq_planner_is_dequantized(planner, value);
}

static const Onnx__TensorProto *float_constant(const struct oq_planner *planner, uint32_t value,
                                               size_t min_rank) {
    const Onnx__TensorProto *tensor =
        value == OQ_NONE ? NULL : oq_graph_constant(planner->graph, value);
    if (tensor == NULL || tensor->n_dims < min_rank ||
        (tensor->data_type != ONNXPTQ_TYPE_FLOAT && !oq_type_is_half(tensor->data_type))) {
        return NULL;
    }
    for (size_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] <= 0) {
            return NULL;
        }
    }
    return tensor;
}

static const char *why_no_weight(const struct oq_planner *planner, uint32_t value) {
    return oq_planner_role_is(planner, oq_planner_producer(planner, value), OQ_ROLE_QUANTIZE)
               ? "its weight is quantized already"
               : "its weight is not a float constant";
}

static const char *match_conv(const struct oq_planner *planner, const struct oq_node *node,
                              struct weighted *out) {
    if (is_quantized_weight(planner, node, 1)) {
        return NULL;
    }
    const Onnx__TensorProto *weight = float_constant(planner, oq_node_input(node, 1), 3);
    if (weight == NULL) {
        return why_no_weight(planner, oq_node_input(node, 1));
    }
    out->weight_input = 1;
    out->axis = 0;
    out->channels = (size_t)weight->dims[0];
    if (node->op->role == OQ_ROLE_CONV_TRANSPOSE) {
        if (!planner->target->conv_transpose) {
            return "the target computes ConvTranspose in float, quantized or not";
        }
        if (oq_attribute_int(node->proto, "group", 1) != 1) {
            return "grouped ConvTranspose has no integer kernel";
        }
        out->axis = -1;
        out->channels = (size_t)weight->dims[1];
    }
    return NULL;
}

static const char *match_gemm(const struct oq_planner *planner, const struct oq_node *node,
                              struct weighted *out) {
    if (is_quantized_weight(planner, node, 1)) {
        return NULL;
    }
    const Onnx__TensorProto *weight = float_constant(planner, oq_node_input(node, 1), 2);
    if (weight == NULL) {
        return why_no_weight(planner, oq_node_input(node, 1));
    }
    bool has_bias = oq_node_input(node, 2) != OQ_NONE;
    if (planner->target->plain_gemm_only &&
        (oq_attribute_float(node->proto, "alpha", 1.0F) != 1.0F ||
         (has_bias && oq_attribute_float(node->proto, "beta", 1.0F) != 1.0F))) {
        return "its alpha or beta is not 1, which no integer kernel of the target computes";
    }
    out->weight_input = 1;
    out->axis = oq_attribute_int(node->proto, "transB", 0) != 0 ? 0 : 1;
    out->channels = (size_t)weight->dims[out->axis];
    return NULL;
}

/* The axis of output channels of a MatMul's constant operand. */
static int matmul_axis(const struct oq_planner *planner, size_t rank, bool on_the_right) {
    size_t limit = planner->target->matmul_channel_rank;
    if (rank < 2) {
        return -1;
    }
    if (!on_the_right) {
        return planner->target->matmul_left_channels ? (int)rank - 2 : -1;
    }
    return limit == 0 || rank <= limit ? (int)rank - 1 : -1;
}

static const char *match_matmul(const struct oq_planner *planner, const struct oq_node *node,
                                struct weighted *out) {
    uint32_t a = oq_node_input(node, 0), b = oq_node_input(node, 1);
    bool a_moves = take_activation(planner, node, 0, out);
    bool b_moves = take_activation(planner, node, 1, out);
    if (a_moves && b_moves) {
        return node->scope == 0 || !out->pair[0] || !out->pair[1]
                   ? NULL
                   : "in a body of control flow, and it has no weight";
    }
    bool on_the_right = a_moves;
    const Onnx__TensorProto *weight = float_constant(planner, on_the_right ? b : a, 1);
    if (weight == NULL || (!a_moves && !b_moves)) {
        return "its operands are not float activations or constants";
    }
    out->weight_input = on_the_right ? 1 : 0;
    out->axis = matmul_axis(planner, weight->n_dims, on_the_right);
    out->channels = out->axis < 0 ? 1 : (size_t)weight->dims[out->axis];
    return NULL;
}

/* A constant bias of one value, or of one per channel, with leading dimensions of 1. */
static bool is_channel_bias(const Onnx__TensorProto *bias, size_t channels) {
    for (size_t i = 0; i + 1 < bias->n_dims; i++) {
        if (bias->dims[i] != 1) {
            return false;
        }
    }
    int64_t last = bias->n_dims == 0 ? 1 : bias->dims[bias->n_dims - 1];
    return last == 1 || (size_t)last == channels;
}

static const char *match_bias(const struct oq_planner *planner, const struct oq_node *node,
                              struct weighted *out) {
    int index = node->op->bias_input;
    uint32_t value = index < 0 ? OQ_NONE : oq_node_input(node, (size_t)index);
    if (!oq_planner_has_int32_bias(planner) || value == OQ_NONE || out->weight_input < 0 ||
        !out->pair[0] || oq_planner_is_dequantized(planner, value)) {
        return NULL;
    }
    const Onnx__TensorProto *bias = float_constant(planner, value, 0);
    if (bias != NULL && oq_type_is_half(bias->data_type)) {
        /* Products of half precision scales underflow, and the runtime's optimizer, which would
         * divide a float bias by such a product, overflows. */
        out->exact_bias = is_channel_bias(bias, out->channels);
        out->bias_input = out->exact_bias ? index : -1;
        return NULL;
    }
    if (bias == NULL || !is_channel_bias(bias, out->channels)) {
        return "its bias is not one constant per channel, which no integer kernel takes";
    }
    out->bias_input = index;
    return NULL;
}

/* NULL and a filled `out`, or the reason why the node stays float. */
static const char *match(const struct oq_planner *planner, uint32_t id, struct weighted *out) {
    const struct oq_node *node = oq_graph_node(planner->graph, id);
    *out = (struct weighted){.node = id, .weight_input = -1, .axis = -1, .bias_input = -1};
    const char *reason = NULL;
    if (node->op->role == OQ_ROLE_MATMUL) {
        reason = match_matmul(planner, node, out);
    } else {
        reason = node->op->role == OQ_ROLE_GEMM ? match_gemm(planner, node, out)
                                                : match_conv(planner, node, out);
        if (reason == NULL && !take_activation(planner, node, 0, out)) {
            reason = "its data input is not a float32, float16 or bfloat16 activation";
        }
    }
    return reason != NULL ? reason : match_bias(planner, node, out);
}

static void add_weight_and_bias(struct oq_planner *planner, const struct weighted *w,
                                uint32_t pair) {
    const struct oq_node *node = oq_graph_node(planner->graph, w->node);
    struct oq_use use = {w->node, (uint32_t)w->weight_input};
    uint32_t value = node->inputs[w->weight_input];
    struct oq_quant_spec spec = planner->target->weight;
    spec.float_type = (enum onnxptq_type)oq_graph_constant(planner->graph, value)->data_type;
    uint32_t weight = oq_plan_add_weight(planner->plan, value, spec, w->axis, use, RULE,
                                         w->axis < 0 ? "one scale for the whole weight"
                                                     : "one scale per output channel");
    if (weight == OQ_NONE) {
        planner->out_of_memory = true;
        return;
    }
    if (w->bias_input < 0) {
        return;
    }
    struct oq_plan_bias bias = {.value = node->inputs[w->bias_input],
                                .pair = pair,
                                .weight = weight,
                                .node = w->node,
                                .use = {w->node, (uint32_t)w->bias_input},
                                .factor = 1.0,
                                .channels = w->channels,
                                .exact = w->exact_bias};
    planner->out_of_memory |= oq_plan_add_bias(planner->plan, bias) == OQ_NONE;
}

static void apply(struct oq_planner *planner, const struct weighted *w) {
    const struct oq_node *node = oq_graph_node(planner->graph, w->node);
    uint32_t pair = OQ_NONE;
    for (uint32_t i = 0; i < 2; i++) {
        if (w->pair[i]) {
            uint32_t made = oq_planner_pair(planner, node->inputs[i], w->node, i, RULE,
                                            "input of a matrix operator");
            pair = pair == OQ_NONE ? made : pair;
        }
    }
    if (w->weight_input >= 0) {
        add_weight_and_bias(planner, w, pair);
    }
    oq_plan_set_node(planner->plan, w->node, ONNXPTQ_DECISION_QUANTIZED, RULE,
                     w->weight_input < 0 ? "both operands are int8"
                                         : "data input and weight are int8");
}

/* Decides about one candidate. */
static void plan_node(struct oq_planner *planner, uint32_t node) {
    struct weighted w;
    const char *rule = "weighted-form";
    const char *reason = match(planner, node, &w);
    if (reason == NULL && !w.pair[0] && !w.pair[1] && w.weight_input < 0) {
        oq_plan_set_node(planner->plan, node, ONNXPTQ_DECISION_QUANTIZED, "already-quantized",
                         "the model came with it quantized; it is left as it is");
        planner->plan->nodes[node].kept = true;
        return;
    }
    if (reason == NULL && planner->context->size_rules) {
        rule = "size";
        reason = oq_size_rule(planner, node);
    }
    if (reason != NULL) {
        oq_plan_set_node(planner->plan, node, ONNXPTQ_DECISION_FLOAT, rule, reason);
    } else {
        apply(planner, &w);
    }
}

enum onnxptq_status oq_plan_weighted(struct oq_planner *planner, struct onnxptq_error *error) {
    (void)error;
    for (uint32_t node = 0; node < oq_graph_n_nodes(planner->graph); node++) {
        if (oq_operator_is_weighted(oq_planner_candidate(planner, node))) {
            plan_node(planner, node);
        }
    }
    return ONNXPTQ_OK;
}
