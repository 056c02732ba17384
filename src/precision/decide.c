/*
 * Deciding node by node.
 */
#include "precision/decide.h"

#include <stdlib.h>
#include <string.h>

/* ---- Types of values ---- */

static bool is_role(const struct oq_node *node, const char *type) {
    return node->op != NULL && node->op->role == OQ_ROLE_QUANTIZE &&
           strcmp(node->op->type, type) == 0;
}

static int declared_type(const struct oq_graph *graph, const struct oq_value *value) {
    const Onnx__GraphProto *proto = oq_graph_scope(graph, value->scope)->proto;
    for (size_t i = 0; value->is_input && i < proto->n_input; i++) {
        const Onnx__TypeProto *type = proto->input[i]->type;
        if (strcmp(oq_text(proto->input[i]->name), value->name) == 0 && type != NULL &&
            type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
            return type->tensor_type->elem_type;
        }
    }
    return ONNXPTQ_TYPE_UNDEFINED;
}

/* Element type today; UNDEFINED: nobody has seen it. */
static int type_of(const struct oq_precision_decider *decider, uint32_t id) {
    const struct oq_value *value = oq_graph_value(decider->graph, id);
    const Onnx__TensorProto *constant = oq_graph_constant(decider->graph, id);
    if (constant != NULL) {
        return constant->data_type;
    }
    if (value->sparse_initializer != NULL) {
        return value->sparse_initializer->values->data_type;
    }
    if (value->producer != OQ_NONE) {
        const struct oq_node *node = oq_graph_node(decider->graph, value->producer);
        if (is_role(node, "QuantizeLinear")) {
            return ONNXPTQ_TYPE_INT8;
        }
        if (is_role(node, "DequantizeLinear") && oq_node_input(node, 1) != OQ_NONE) {
            return type_of(decider, node->inputs[1]);
        }
    }
    const int seen = decider->spec->seen[id].type;
    return seen != ONNXPTQ_TYPE_UNDEFINED ? seen : declared_type(decider->graph, value);
}

static void find_types(struct oq_precision_decider *decider) {
    for (uint32_t i = 0; i < oq_graph_n_values(decider->graph); i++) {
        const int type = type_of(decider, i);
        decider->known[i] = type != ONNXPTQ_TYPE_UNDEFINED;
        decider->plan->is_float[i] = type == ONNXPTQ_TYPE_FLOAT;
    }
}

/* Backwards: producers have lower ids than their readers. */
static void find_exact(struct oq_precision_decider *decider) {
    for (uint32_t id = oq_graph_n_nodes(decider->graph); id-- > 0;) {
        const struct oq_node *node = oq_graph_node(decider->graph, id);
        bool passed = false;
        for (size_t i = 0; i < node->proto->n_output; i++) {
            passed |= node->outputs[i] != OQ_NONE && decider->needs_exact[node->outputs[i]];
        }
        passed = passed && oq_precision_passes_exactness(node);
        for (size_t i = 0; i < node->proto->n_input; i++) {
            if (node->inputs[i] != OQ_NONE &&
                (passed || oq_precision_reads_exactly(decider, node, i))) {
                decider->needs_exact[node->inputs[i]] = true;
            }
        }
    }
}

/* ---- One node ---- */

static void decide(struct oq_precision_decider *decider, uint32_t node, const char *rule,
                   const char *reason) {
    decider->plan->nodes[node] =
        (struct oq_precision_node){.half = false, .rule = rule, .reason = reason};
}

static bool has_body(const struct oq_node *node) {
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        if (node->proto->attribute[i]->g != NULL || node->proto->attribute[i]->n_graphs > 0) {
            return true;
        }
    }
    return false;
}

static bool is_declared(const struct oq_precision_decider *decider, const struct oq_node *node) {
    for (size_t i = 0; i < decider->spec->n_half_ops; i++) {
        if (strcmp(decider->spec->half_ops[i], node->op_name) == 0) {
            return true;
        }
    }
    return false;
}

/* Values of a node, inputs first; OQ_NONE for empty names. */
static size_t n_values(const struct oq_node *node) {
    return node->proto->n_input + node->proto->n_output;
}

static uint32_t nth_value(const struct oq_node *node, size_t i) {
    return i < node->proto->n_input ? node->inputs[i] : node->outputs[i - node->proto->n_input];
}

static bool touches_float(const struct oq_precision_decider *decider, const struct oq_node *node) {
    for (size_t i = 0; i < n_values(node); i++) {
        const uint32_t value = nth_value(node, i);
        if (value != OQ_NONE && decider->plan->is_float[value]) {
            return true;
        }
    }
    return false;
}

/* Constants themselves are converted where they are read. */
static bool makes_constants(const struct oq_precision_decider *decider,
                            const struct oq_node *node) {
    for (size_t i = 0; i < node->proto->n_output; i++) {
        if (node->outputs[i] != OQ_NONE &&
            oq_graph_constant(decider->graph, node->outputs[i]) == NULL) {
            return false;
        }
    }
    return node->proto->n_output > 0;
}

/* What can be said without numbers. */
static bool decide_by_kind(struct oq_precision_decider *decider, uint32_t id) {
    const struct oq_node *node = oq_graph_node(decider->graph, id);
    if (has_body(node) || node->local_function) {
        decide(decider, id, "boundary",
               node->local_function ? "calls a local function, which stays as it is"
                                    : "control flow: its own inputs and results stay float32");
    } else if (decider->spec->kept != NULL && decider->spec->kept[id]) {
        decide(decider, id, "user", "the user keeps it in float32");
    } else if (decider->spec->held != NULL && decider->spec->held[id]) {
        decide(decider, id, "precision", "measured: half precision here costs the outputs most");
    } else if (!oq_is_default_domain(node->proto->domain) && !is_declared(decider, node)) {
        decide(decider, id, "foreign", "of a foreign domain: its types stay as they are");
    } else if (oq_precision_makes_own_type(node)) {
        decide(decider, id, "own-type", "an attribute says which type it makes");
    } else {
        return false;
    }
    return true;
}

static bool decide_by_values(struct oq_precision_decider *decider, uint32_t id) {
    const struct oq_node *node = oq_graph_node(decider->graph, id);
    for (size_t i = 0; i < n_values(node); i++) {
        const uint32_t value = nth_value(node, i);
        if (value == OQ_NONE) {
            continue;
        }
        if (!decider->known[value]) {
            decide(decider, id, "unseen", "no sample showed the types of its tensors");
            return true;
        }
        if (!decider->plan->is_float[value]) {
            continue;
        }
        if (decider->needs_exact[value] && i >= node->proto->n_input) {
            decide(decider, id, "exact", "integers, sizes or large angles are made of its result");
            return true;
        }
        if (i < node->proto->n_input && oq_precision_keeps_input(node, i)) {
            continue;
        }
        const char *obstacle = oq_precision_value_obstacle(decider, value);
        if (obstacle != NULL) {
            decide(decider, id, "range", obstacle);
            return true;
        }
    }
    return false;
}

static enum onnxptq_status decide_by_runtime(struct oq_precision_decider *decider, uint32_t id,
                                             struct onnxptq_error *error) {
    const struct oq_node *node = oq_graph_node(decider->graph, id);
    const char *reason = NULL;
    OQ_TRY(oq_precision_ask(decider, id, &reason, error));
    if (reason != NULL && !oq_is_default_domain(node->proto->domain)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot give '%s' half precision (--half-op-types): node '%s' is not taken "
                       "so: %s",
                       node->op_name, node->name, reason);
    }
    decider->plan->nodes[id] = (struct oq_precision_node){
        .half = reason == NULL,
        .rule = reason == NULL ? "half" : "runtime",
        .reason = reason == NULL ? "half precision holds its values" : reason};
    return ONNXPTQ_OK;
}

static enum onnxptq_status decide_node(struct oq_precision_decider *decider, uint32_t id,
                                       struct onnxptq_error *error) {
    const struct oq_node *node = oq_graph_node(decider->graph, id);
    if (!touches_float(decider, node) || makes_constants(decider, node) ||
        is_role(node, "QuantizeLinear") || is_role(node, "DequantizeLinear") ||
        decide_by_kind(decider, id) || decide_by_values(decider, id)) {
        return ONNXPTQ_OK;
    }
    return decide_by_runtime(decider, id, error);
}

/* ---- What follows from the nodes ---- */

/* Data movement between float32 nodes alone: half would cost two Casts. */
static void smooth(struct oq_precision_decider *decider) {
    for (uint32_t id = oq_graph_n_nodes(decider->graph); id-- > 0;) {
        const struct oq_node *node = oq_graph_node(decider->graph, id);
        const uint32_t data = oq_node_input(node, 0);
        if (!decider->plan->nodes[id].half || oq_operator_is_weighted(node->op) ||
            !oq_precision_is_product(node) || data == OQ_NONE || !decider->plan->is_float[data]) {
            continue;
        }
        const uint32_t producer = oq_graph_value(decider->graph, data)->producer;
        bool lonely = producer == OQ_NONE || !decider->plan->nodes[producer].half;
        for (size_t i = 0; lonely && i < node->proto->n_output; i++) {
            const struct oq_value *value = node->outputs[i] == OQ_NONE
                                               ? NULL
                                               : oq_graph_value(decider->graph, node->outputs[i]);
            for (uint32_t k = 0; lonely && value != NULL && k < value->n_uses; k++) {
                lonely = !decider->plan->nodes[value->uses[k].node].half;
            }
        }
        if (lonely) {
            decide(decider, id, "between", "moves data between float32 operators");
        }
    }
}

/* True when a node of half precision reads the value in it. */
static bool is_read_half(const struct oq_precision_decider *decider, uint32_t value) {
    const struct oq_value *v = oq_graph_value(decider->graph, value);
    for (uint32_t k = 0; k < v->n_uses; k++) {
        if (decider->plan->nodes[v->uses[k].node].half &&
            !oq_precision_keeps_input(oq_graph_node(decider->graph, v->uses[k].node),
                                      v->uses[k].input)) {
            return true;
        }
    }
    return false;
}

/* In the order of nodes: a QuantizeLinear reads what it finds, a DequantizeLinear makes what is
 * read. */
static void place_values(struct oq_precision_decider *decider) {
    struct oq_precision_plan *plan = decider->plan;
    for (uint32_t i = 0; i < oq_graph_n_values(decider->graph); i++) {
        const struct oq_value *value = oq_graph_value(decider->graph, i);
        plan->is_half[i] = plan->is_float[i] && plan->native_io && value->is_input &&
                           value->scope == 0 && value->initializer == NULL &&
                           is_read_half(decider, i);
    }
    for (uint32_t id = 0; id < oq_graph_n_nodes(decider->graph); id++) {
        const struct oq_node *node = oq_graph_node(decider->graph, id);
        bool *half = &plan->nodes[id].half;
        const uint32_t data = oq_node_input(node, 0), scale = oq_node_input(node, 1);
        if (is_role(node, "QuantizeLinear") && data != OQ_NONE && plan->is_float[data]) {
            *half = plan->is_half[data] && oq_precision_holds_scale(decider, scale);
        } else if (is_role(node, "DequantizeLinear") && node->outputs[0] != OQ_NONE &&
                   plan->is_float[node->outputs[0]]) {
            *half =
                is_read_half(decider, node->outputs[0]) && oq_precision_holds_scale(decider, scale);
        } else if (*half) {
            plan->n_half++;
        }
        for (size_t i = 0; *half && i < node->proto->n_output; i++) {
            if (node->outputs[i] != OQ_NONE && plan->is_float[node->outputs[i]]) {
                plan->is_half[node->outputs[i]] = true;
            }
        }
    }
}

/* ---- All ---- */

static enum onnxptq_status create(const struct oq_precision_spec *spec,
                                  struct oq_precision_decider *decider,
                                  struct onnxptq_error *error) {
    struct oq_precision_plan *plan = decider->plan = calloc(1, sizeof *plan);
    const uint32_t n = oq_graph_n_values(spec->graph);
    if (plan == NULL || (plan->arena = oq_arena_create()) == NULL) {
        return oq_fail_memory(error, "the plan of half precision");
    }
    plan->type = spec->type;
    plan->native_io = spec->native_io;
    plan->nodes = oq_arena_array(plan->arena, oq_graph_n_nodes(spec->graph), sizeof *plan->nodes);
    plan->is_float = oq_arena_array(plan->arena, n, sizeof(bool));
    plan->is_half = oq_arena_array(plan->arena, n, sizeof(bool));
    decider->known = oq_arena_array(plan->arena, n, sizeof(bool));
    decider->needs_exact = oq_arena_array(plan->arena, n, sizeof(bool));
    decider->answers = oq_map_create();
    return plan->nodes && plan->is_float && plan->is_half && decider->known &&
                   decider->needs_exact && decider->answers
               ? ONNXPTQ_OK
               : oq_fail_memory(error, "the plan of half precision");
}

enum onnxptq_status oq_precision_decide(const struct oq_precision_spec *spec,
                                        struct oq_precision_plan **out,
                                        struct onnxptq_error *error) {
    struct oq_precision_decider decider = {.spec = spec, .graph = spec->graph};
    enum onnxptq_status status = create(spec, &decider, error);
    if (status == ONNXPTQ_OK) {
        find_types(&decider);
        find_exact(&decider);
    }
    for (uint32_t id = 0; status == ONNXPTQ_OK && id < oq_graph_n_nodes(spec->graph); id++) {
        status = decide_node(&decider, id, error);
    }
    if (status == ONNXPTQ_OK) {
        smooth(&decider);
        place_values(&decider);
        *out = decider.plan;
        decider.plan = NULL;
    }
    oq_map_destroy(decider.answers);
    free(decider.refusals);
    oq_precision_plan_destroy(decider.plan);
    return status;
}

void oq_precision_plan_destroy(struct oq_precision_plan *plan) {
    if (plan != NULL) {
        oq_arena_destroy(plan->arena);
        free(plan);
    }
}

int64_t oq_precision_needed_opset(enum onnxptq_type type, bool quantized) {
    if (type == ONNXPTQ_TYPE_BFLOAT16) {
        return 22;
    }
    return quantized ? 19 : 13;
}
