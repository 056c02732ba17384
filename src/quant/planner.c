/*
 * Questions that the rules ask of the graph and the trace, and the first decision of every node.
 */
#include "quant/planner.h"

#include "base/number.h"

#include <string.h>

enum onnxptq_status oq_planner_check_memory(const struct oq_planner *planner,
                                            struct onnxptq_error *error) {
    return planner->out_of_memory ? oq_fail_memory(error, "the quantization plan") : ONNXPTQ_OK;
}

static bool is_selected(const struct oq_planner *planner, uint32_t node, const char **reason) {
    const struct oq_selection *selection = planner->context->selection;
    return selection == NULL || oq_selection_allows(selection, node, reason);
}

static bool is_held(const struct oq_planner *planner, uint32_t node) {
    return planner->context->held != NULL && planner->context->held[node];
}

const struct oq_operator *oq_planner_candidate(const struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    const char *reason = NULL;
    if (n->foreign || n->local_function || is_held(planner, node) ||
        !is_selected(planner, node, &reason)) {
        return NULL;
    }
    return n->scope == 0 || oq_operator_is_weighted(n->op) ? n->op : NULL;
}

bool oq_planner_is_quantized(const struct oq_planner *planner, uint32_t node) {
    const struct oq_plan_node *planned = &planner->plan->nodes[node];
    return planned->decision == ONNXPTQ_DECISION_QUANTIZED && !planned->kept;
}

bool oq_planner_is_constant(const struct oq_planner *planner, uint32_t value) {
    return oq_graph_constant(planner->graph, value) != NULL;
}

bool oq_planner_has_int32_bias(const struct oq_planner *planner) {
    const enum onnxptq_type type = planner->activation.type;
    return planner->target->int32_bias && (type == ONNXPTQ_TYPE_INT8 || type == ONNXPTQ_TYPE_UINT8);
}

bool oq_planner_is_activation(const struct oq_planner *planner, uint32_t value) {
    if (value == OQ_NONE || oq_planner_is_constant(planner, value) ||
        oq_graph_value(planner->graph, value)->sparse_initializer != NULL) {
        return false;
    }
    struct oq_quant_spec spec = planner->activation;
    spec.float_type = oq_planner_type(planner, value);
    return spec.float_type == ONNXPTQ_TYPE_FLOAT ||
           (oq_type_is_half((int)spec.float_type) &&
            oq_model_opset(oq_graph_model(planner->graph)) >= oq_quant_needed_opset(&spec, false));
}

static bool is_of_type(const struct oq_planner *planner, uint32_t node, const char *type) {
    return oq_planner_role_is(planner, node, OQ_ROLE_QUANTIZE) &&
           strcmp(oq_graph_node(planner->graph, node)->op->type, type) == 0;
}

bool oq_planner_is_dequantized(const struct oq_planner *planner, uint32_t value) {
    return is_of_type(planner, oq_planner_producer(planner, value), "DequantizeLinear");
}

bool oq_planner_is_quantized_already(const struct oq_planner *planner, uint32_t value) {
    const struct oq_value *v = oq_graph_value(planner->graph, value);
    for (uint32_t i = 0; i < v->n_uses; i++) {
        if (is_of_type(planner, v->uses[i].node, "QuantizeLinear")) {
            return true;
        }
    }
    return false;
}

enum onnxptq_type oq_planner_type(const struct oq_planner *planner, uint32_t value) {
    const struct oq_statistics *trace = planner->context->trace;
    /* The traced sample may not have entered a body; the calibration samples will tell. */
    bool in_body = oq_graph_value(planner->graph, value)->scope != 0;
    if (trace == NULL || (in_body && trace[value].seen == 0)) {
        return ONNXPTQ_TYPE_FLOAT;
    }
    return trace[value].type_varies ? ONNXPTQ_TYPE_UNDEFINED : (enum onnxptq_type)trace[value].type;
}

bool oq_planner_shape(const struct oq_planner *planner, uint32_t value, const int64_t **shape,
                      size_t *rank) {
    const struct oq_statistics *trace = planner->context->trace;
    if (value == OQ_NONE || trace == NULL || trace[value].seen == 0 || trace[value].rank_varies) {
        return false;
    }
    *shape = trace[value].shape;
    *rank = trace[value].rank;
    return true;
}

const struct oq_use *oq_planner_sole_use(const struct oq_planner *planner, uint32_t value) {
    const struct oq_value *v = oq_graph_value(planner->graph, value);
    return v->n_uses == 1 && !v->is_output && !v->captured ? &v->uses[0] : NULL;
}

uint32_t oq_planner_producer(const struct oq_planner *planner, uint32_t value) {
    return value == OQ_NONE ? OQ_NONE : oq_graph_value(planner->graph, value)->producer;
}

bool oq_planner_role_is(const struct oq_planner *planner, uint32_t node, enum oq_role role) {
    if (node == OQ_NONE) {
        return false;
    }
    const struct oq_operator *op = oq_graph_node(planner->graph, node)->op;
    return op != NULL && op->role == role;
}

uint32_t oq_planner_variable_operand(const struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    if (n->proto->n_input != 2) {
        return OQ_NONE;
    }
    bool first = oq_planner_is_constant(planner, n->inputs[0]);
    bool second = oq_planner_is_constant(planner, n->inputs[1]);
    if (first == second) {
        return OQ_NONE;
    }
    return first ? n->inputs[1] : n->inputs[0];
}

uint32_t oq_planner_output(const struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    return n->proto->n_output > 0 ? n->outputs[0] : OQ_NONE;
}

/* Follows a value back through operators that only move elements. */
static uint32_t moved_from(const struct oq_planner *planner, uint32_t value) {
    for (uint32_t steps = 0; steps < oq_graph_n_nodes(planner->graph); steps++) {
        uint32_t producer = oq_planner_producer(planner, value);
        if (!oq_planner_role_is(planner, producer, OQ_ROLE_MOVEMENT)) {
            break;
        }
        value = oq_graph_node(planner->graph, producer)->inputs[0];
    }
    return value;
}

/* A selected Softmax or Sigmoid at its origin: bounded by definition, so data decide nothing. */
static bool is_unit_interval(const struct oq_planner *planner, uint32_t value) {
    uint32_t producer = oq_planner_producer(planner, moved_from(planner, value));
    if (producer == OQ_NONE || oq_planner_candidate(planner, producer) == NULL) {
        return false;
    }
    const char *type = oq_graph_node(planner->graph, producer)->op->type;
    return strcmp(type, "Softmax") == 0 || strcmp(type, "Sigmoid") == 0;
}

uint32_t oq_planner_pair(struct oq_planner *planner, uint32_t value, uint32_t node, uint32_t input,
                         const char *rule, const char *reason) {
    struct oq_use use = {node, input};
    struct oq_quant_spec spec = planner->activation;
    spec.float_type = oq_planner_type(planner, value);
    uint32_t index = oq_plan_add_pair(planner->plan, value, spec, use, rule, reason);
    if (index == OQ_NONE) {
        planner->out_of_memory = true;
        return OQ_NONE;
    }
    struct oq_plan_pair *pair = &planner->plan->pairs[index];
    if (is_unit_interval(planner, value)) {
        pair->has_fixed_range = true;
        pair->fixed_min = 0.0;
        pair->fixed_max = 1.0;
    }
    return index;
}

/* Why an operator that no rule picks up stays float. */
static const char *float_reason(const struct oq_operator *op) {
    if (op == NULL) {
        return "no rule quantizes this operator";
    }
    switch (op->role) {
    case OQ_ROLE_CONV:
    case OQ_ROLE_CONV_TRANSPOSE:
    case OQ_ROLE_GEMM:
    case OQ_ROLE_MATMUL:
        return "its inputs are not a float activation and a float weight or activation";
    case OQ_ROLE_ADD:
    case OQ_ROLE_MUL:
        return "its neighbours are not all quantized, so it would run in float anyway";
    case OQ_ROLE_ACTIVATION:
    case OQ_ROLE_BATCH_NORM:
        return "part of a chain that the target fuses, or in need of float accuracy; a Q/DQ pair "
               "here costs speed";
    case OQ_ROLE_POOL_MAX:
    case OQ_ROLE_MOVEMENT: return "moves elements only; quantization passes through it";
    case OQ_ROLE_POOL_AVERAGE:
    case OQ_ROLE_CONCAT:
    case OQ_ROLE_RESIZE:
    case OQ_ROLE_WHERE: return "not between quantized operators, so a Q/DQ pair would be pure cost";
    case OQ_ROLE_SOFTMAX:
    case OQ_ROLE_POINTWISE:
        return "float arithmetic keeps its accuracy; no integer kernel gains from a Q/DQ pair here";
    case OQ_ROLE_QUANTIZE: return "already quantized; left as it is";
    case OQ_ROLE_CONTROL: return "control flow";
    case OQ_ROLE_OTHER: break;
    }
    return "no rule quantizes this operator";
}

static void classify(struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    const char *reason = NULL;
    enum onnxptq_decision decision = ONNXPTQ_DECISION_FLOAT;
    const char *rule = "float-operator";
    if (n->foreign) {
        decision = ONNXPTQ_DECISION_FOREIGN;
        rule = "foreign";
        reason = "an operator that ONNX does not define: never touched, its edges stay float";
    } else if (n->local_function) {
        rule = "local-function";
        reason = "a call of a function of this model: its body is left as it is";
    } else if (!is_selected(planner, node, &reason)) {
        decision = ONNXPTQ_DECISION_EXCLUDED;
        rule = "excluded";
    } else if (is_held(planner, node)) {
        rule = "repair";
        reason = "measured: quantized it costs the outputs more than they may lose";
    } else if (n->scope != 0 && !oq_operator_is_weighted(n->op)) {
        rule = "control-flow-body";
        reason = "in a body of control flow only operators with weights are quantized";
    } else {
        reason = float_reason(n->op);
    }
    oq_plan_set_node(planner->plan, node, decision, rule, reason);
}

enum onnxptq_status oq_plan_classify(struct oq_planner *planner, struct onnxptq_error *error) {
    (void)error;
    for (uint32_t node = 0; node < oq_graph_n_nodes(planner->graph); node++) {
        classify(planner, node);
    }
    return ONNXPTQ_OK;
}
