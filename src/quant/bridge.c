/*
 * Joining the operators between pairs. An operator is joined when its results are read quantized
 * and each of its data inputs can be had quantized: it has a pair, or comes from an operator that
 * can be joined itself.
 */
#include "quant/bridge.h"

#include "model/tensor.h"

#include <string.h>

enum {
    MAX_DEPTH = 64,
    MAX_MOVES = 8 /* of data movement between a result and the arithmetic that reads it */
};

/* ---- Results ---- */

static bool bound_holds(const struct oq_planner *planner, const struct oq_node *node, size_t input,
                        const char *attribute, bool low) {
    float bound = oq_attribute_float(node->proto, attribute, 0.0F);
    uint32_t value = oq_node_input(node, input);
    if (value != OQ_NONE) {
        const Onnx__TensorProto *tensor = oq_graph_constant(planner->graph, value);
        struct oq_tensor_view view;
        if (tensor == NULL || tensor->data_type != ONNXPTQ_TYPE_FLOAT ||
            oq_tensor_view(oq_graph_model(planner->graph), tensor, &view, NULL) != ONNXPTQ_OK ||
            view.n_elements != 1) {
            return false;
        }
        oq_tensor_view_floats(&view, 0, 1, &bound);
    }
    return low ? bound <= 0.0F : bound >= 0.0F;
}

/* True when zero lies between the constant bounds of a Clip. */
static bool clip_holds_zero(const struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    return bound_holds(planner, n, 1, "min", true) && bound_holds(planner, n, 2, "max", false);
}

/* True when a uint8 range that holds zero makes this Relu or Clip redundant. */
static bool is_foldable_activation(const struct oq_planner *planner, uint32_t node) {
    const struct oq_operator *op = oq_planner_candidate(planner, node);
    if (op == NULL || op->role != OQ_ROLE_ACTIVATION) {
        return false;
    }
    return strcmp(op->type, "Relu") == 0 ||
           (strcmp(op->type, "Clip") == 0 && clip_holds_zero(planner, node));
}

uint32_t oq_bridge_fold(const struct oq_planner *planner, uint32_t value, uint32_t *activation) {
    *activation = OQ_NONE;
    const struct oq_use *use = oq_planner_sole_use(planner, value);
    if (use == NULL || use->input != 0 || !is_foldable_activation(planner, use->node)) {
        return value;
    }
    *activation = use->node;
    return oq_planner_output(planner, use->node);
}

/* A reader that must not see rounded values: foreign, excluded or inside a function. */
static bool wants_float(const struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    enum onnxptq_decision decision = planner->plan->nodes[node].decision;
    return n->local_function || decision == ONNXPTQ_DECISION_FOREIGN ||
           decision == ONNXPTQ_DECISION_EXCLUDED;
}

/* Arithmetic that makes small errors large: squares, roots, logarithms, exponentials. */
static bool enlarges_errors(const struct oq_node *node) {
    static const char *const TYPES[] = {"Pow", "Sqrt", "Log", "Exp", "Reciprocal"};
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if (!node->foreign && strcmp(node->proto->op_type, TYPES[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Data movement, and Cast: what comes out has the errors of what went in. */
static bool passes_values(const struct oq_planner *planner, uint32_t node) {
    const struct oq_operator *op = oq_graph_node(planner->graph, node)->op;
    return op != NULL && (op->role == OQ_ROLE_MOVEMENT || strcmp(op->type, "Cast") == 0);
}

/* True when such arithmetic reads the value, directly or behind those. */
static bool is_read_by_hungry(const struct oq_planner *planner, uint32_t value, int depth) {
    const struct oq_value *v = oq_graph_value(planner->graph, value);
    for (uint32_t i = 0; i < v->n_uses; i++) {
        const struct oq_node *reader = oq_graph_node(planner->graph, v->uses[i].node);
        if (enlarges_errors(reader) ||
            (depth > 0 && passes_values(planner, v->uses[i].node) &&
             reader->outputs[0] != OQ_NONE &&
             is_read_by_hungry(planner, reader->outputs[0], depth - 1))) {
            return true;
        }
    }
    return false;
}

const char *oq_bridge_output_obstacle(const struct oq_planner *planner, uint32_t value) {
    const struct oq_value *v = oq_graph_value(planner->graph, value);
    if (oq_planner_is_quantized_already(planner, value)) {
        return "its result is quantized already";
    }
    if (v->captured) {
        return "a control-flow body reads its result";
    }
    if (v->n_uses == 0 && !v->is_output) {
        return "nothing reads its result";
    }
    if (oq_planner_type(planner, value) != ONNXPTQ_TYPE_FLOAT) {
        return "the runtime has no integer kernel between half precision tensors";
    }
    if (is_read_by_hungry(planner, value, MAX_MOVES)) {
        return "a power, root, logarithm or exponential of its result would enlarge the rounding";
    }
    if (v->is_output && planner->context->quantize_outputs == 0) {
        return "outputs of the model stay float (--quantize-outputs=off)";
    }
    if (planner->context->foreign_edges == ONNXPTQ_FOREIGN_FUSE) {
        return NULL;
    }
    for (uint32_t i = 0; i < v->n_uses; i++) {
        if (wants_float(planner, v->uses[i].node)) {
            return "a foreign or excluded operator reads its result in float, which undoes the "
                   "integer kernel (--foreign-edges=fuse buys it back)";
        }
    }
    return NULL;
}

void oq_bridge_output_pair(struct oq_planner *planner, uint32_t value, const char *rule,
                           const char *reason) {
    const struct oq_value *v = oq_graph_value(planner->graph, value);
    uint32_t pair = oq_planner_pair(planner, value, OQ_NONE, 0, rule, reason);
    for (uint32_t i = 0; i < v->n_uses && pair != OQ_NONE; i++) {
        pair = oq_planner_pair(planner, value, v->uses[i].node, v->uses[i].input, rule, reason);
    }
    if (pair != OQ_NONE && v->is_output) {
        planner->plan->pairs[pair].takes_name = true;
    }
}

/* ---- Joining ---- */

/* Joined operators whose input and output share one scale. */
static bool shares_scale(const struct oq_operator *op) {
    return op->role == OQ_ROLE_MOVEMENT || op->role == OQ_ROLE_POOL_MAX ||
           op->role == OQ_ROLE_RESIZE;
}

static bool has_kernel(const struct oq_operator *op) {
    switch (op->role) {
    case OQ_ROLE_ADD:
    case OQ_ROLE_MUL:
    case OQ_ROLE_CONCAT:
    case OQ_ROLE_POOL_AVERAGE:
    case OQ_ROLE_POOL_MAX:
    case OQ_ROLE_RESIZE:
    case OQ_ROLE_MOVEMENT:
    case OQ_ROLE_WHERE: return true;
    case OQ_ROLE_ACTIVATION:
        return strcmp(op->type, "Sigmoid") == 0 || strcmp(op->type, "LeakyRelu") == 0;
    default: return false;
    }
}

static bool is_data_input(const struct oq_operator *op, size_t input) {
    return input < 32 && ((op->data_inputs >> input) & 1U) != 0;
}

/* True when the value has a pair or can get one by joining its producer. */
static bool can_reach(const struct oq_planner *planner, uint32_t value, int depth);

/* True when the node is or can be joined, seen from its inputs. */
static bool inputs_reach(const struct oq_planner *planner, uint32_t node, int depth) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    const struct oq_operator *op = oq_planner_candidate(planner, node);
    if (depth == 0 || op == NULL || !has_kernel(op)) {
        return false;
    }
    for (size_t i = 0; i < n->proto->n_input; i++) {
        if (is_data_input(op, i) &&
            (n->inputs[i] == OQ_NONE || !oq_planner_is_activation(planner, n->inputs[i]) ||
             !can_reach(planner, n->inputs[i], depth - 1))) {
            return false;
        }
    }
    return true;
}

/* The node whose kernel writes `value`: its producer, or what is before a folded activation. */
static uint32_t kernel_before(const struct oq_planner *planner, uint32_t value) {
    uint32_t producer = oq_planner_producer(planner, value);
    if (!oq_planner_role_is(planner, producer, OQ_ROLE_ACTIVATION)) {
        return producer;
    }
    uint32_t before = oq_graph_node(planner->graph, producer)->inputs[0];
    uint32_t activation = OQ_NONE;
    return before != OQ_NONE && oq_bridge_fold(planner, before, &activation) == value
               ? oq_planner_producer(planner, before)
               : producer;
}

static bool can_reach(const struct oq_planner *planner, uint32_t value, int depth) {
    if (oq_plan_find_pair(planner->plan, value) != OQ_NONE) {
        return true;
    }
    uint32_t producer = kernel_before(planner, value);
    return producer != OQ_NONE && oq_bridge_output_obstacle(planner, value) == NULL &&
           inputs_reach(planner, producer, depth);
}

static void join(struct oq_planner *planner, uint32_t node);

/* Gives a data input of a joined node its pair, joining its producer if need be. */
static void join_input(struct oq_planner *planner, uint32_t node, uint32_t input) {
    static const char RULE[] = "bridge";
    uint32_t value = oq_graph_node(planner->graph, node)->inputs[input];
    if (oq_plan_find_pair(planner->plan, value) == OQ_NONE) {
        oq_bridge_output_pair(planner, value, RULE, "between two integer kernels");
        join(planner, kernel_before(planner, value));
    }
    (void)oq_planner_pair(planner, value, node, input, RULE, "between two integer kernels");
}

static void join_scales(struct oq_planner *planner, const struct oq_node *node) {
    uint32_t in = oq_plan_find_pair(planner->plan, node->inputs[0]);
    for (size_t i = 0; i < node->proto->n_output; i++) {
        uint32_t out = node->outputs[i] == OQ_NONE
                           ? OQ_NONE
                           : oq_plan_find_pair(planner->plan, node->outputs[i]);
        if (in != OQ_NONE && out != OQ_NONE) {
            oq_plan_join_groups(planner->plan, in, out);
        }
    }
}

static void join(struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    if (oq_planner_is_quantized(planner, node)) {
        return;
    }
    oq_plan_set_node(planner->plan, node, ONNXPTQ_DECISION_QUANTIZED, "bridge",
                     "between quantized tensors: an integer kernel takes it over");
    for (size_t i = 0; i < n->proto->n_input; i++) {
        if (is_data_input(n->op, i)) {
            join_input(planner, node, (uint32_t)i);
        }
    }
    if (shares_scale(n->op)) {
        join_scales(planner, n);
    }
    uint32_t activation = OQ_NONE;
    uint32_t out = oq_planner_output(planner, node);
    if (out != OQ_NONE && oq_bridge_fold(planner, out, &activation) != out) {
        oq_plan_set_node(planner->plan, activation, ONNXPTQ_DECISION_QUANTIZED, "folded-activation",
                         "made redundant by the uint8 range of the pair behind it");
    }
}

/* True when every result of the node (behind a folded activation) is read quantized. */
static bool is_wanted(const struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    for (size_t i = 0; i < n->proto->n_output; i++) {
        if (n->outputs[i] == OQ_NONE) {
            continue;
        }
        uint32_t activation = OQ_NONE;
        uint32_t value = oq_bridge_fold(planner, n->outputs[i], &activation);
        if (oq_plan_find_pair(planner->plan, value) == OQ_NONE ||
            oq_bridge_output_obstacle(planner, value) != NULL) {
            return false;
        }
    }
    return n->proto->n_output > 0;
}

/* From the last node to the first: joining a node gives its inputs pairs, which its producers see.
 */
enum onnxptq_status oq_plan_bridges(struct oq_planner *planner, struct onnxptq_error *error) {
    (void)error;
    for (uint32_t node = oq_graph_n_nodes(planner->graph); node-- > 0;) {
        const struct oq_operator *op = oq_planner_candidate(planner, node);
        if (op == NULL || !has_kernel(op) || oq_planner_is_quantized(planner, node) ||
            !is_wanted(planner, node) || !inputs_reach(planner, node, MAX_DEPTH)) {
            continue;
        }
        for (size_t i = 0; i < oq_graph_node(planner->graph, node)->proto->n_output; i++) {
            uint32_t output = oq_graph_node(planner->graph, node)->outputs[i];
            uint32_t activation = OQ_NONE;
            if (output != OQ_NONE) {
                /* All readers of a joined result read the pair: see the file head of the target. */
                oq_bridge_output_pair(planner, oq_bridge_fold(planner, output, &activation),
                                      "bridge", "between two integer kernels");
            }
        }
        join(planner, node);
    }
    return ONNXPTQ_OK;
}
