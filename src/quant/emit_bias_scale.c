/*
 * Biases beside the products they are added to.
 *
 * A bias that is large beside scale(input) * scale(weight) does not fit int32. Its channel's weight
 * scale is then raised as far as needed: a bias of 2^30 steps leaves the products of that channel
 * below its own float32 rounding times the number of inputs. Only this node's copy of the weight is
 * raised.
 *
 * The same for a bias that stays float: some runtimes quantize it themselves when they load the
 * model, and clip it.
 */
#include "quant/emitter.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ROUNDING_MARGIN (1.0 + 1e-6)
/* A scale may also be raised to keep the product of scales a normal float, but only on channels
 * that are this small beside the weight's largest. */
#define NEGLIGIBLE (1.0F / 1048576.0F)
#define BLOCK 1024

bool oq_emit_bias_fits(const struct oq_tensor_view *view, size_t channels) {
    bool one_a_channel = view->n_elements == channels && view->rank > 0 &&
                         view->shape[view->rank - 1] == (int64_t)channels;
    return view->type == ONNXPTQ_TYPE_FLOAT && (view->n_elements == 1 || one_a_channel);
}

double *oq_emit_bias_values(struct oq_emitter *emitter, const struct oq_tensor_view *view,
                            double factor, size_t channels) {
    double *values = oq_arena_array(emitter->scratch, channels, sizeof *values);
    float block[BLOCK];
    for (size_t c = 0; values && c < channels; c++) {
        if (c % BLOCK == 0 && (c == 0 || view->n_elements > 1)) {
            size_t left = view->n_elements - c;
            oq_tensor_view_floats(view, c, left < BLOCK ? left : BLOCK, block);
        }
        float value = view->n_elements == 1 ? block[0] : block[c % BLOCK];
        values[c] = (double)value * factor;
    }
    return values;
}

/* The weight scale that channel c needs at least; 0 when any does, or when none would help. */
static float needed_scale(const struct oq_emit_sum *sum, size_t c, float scale, float negligible) {
    int32_t code;
    float product = sum->input_scale * scale;
    if (product >= FLT_MIN && oq_bias_quantize(sum->values[c], product, &code)) {
        return 0.0F;
    }
    double steps = fabs(sum->values[c]) / (double)sum->input_scale;
    double needed = steps / (double)OQ_BIAS_CODE_MAX * ROUNDING_MARGIN;
    double normal = (double)FLT_MIN / (double)sum->input_scale * ROUNDING_MARGIN;
    if (normal > needed && normal <= (double)negligible) {
        needed = normal;
    }
    return needed <= (double)FLT_MAX ? (float)needed : 0.0F;
}

static float largest_scale(const struct oq_emit_weight *weight) {
    float largest = 0.0F;
    for (size_t i = 0; i < weight->n_scales; i++) {
        largest = fmaxf(largest, weight->scales[i]);
    }
    return largest;
}

/* Number of scales that must rise, to raised[k]. */
static size_t find_raised(const struct oq_emit_sum *sum, float *raised) {
    const struct oq_emit_weight *weight = sum->weight;
    float negligible = largest_scale(weight) * NEGLIGIBLE;
    size_t n_raised = 0;
    for (size_t c = 0; c < sum->channels; c++) {
        size_t k = c % weight->n_scales;
        float needed = needed_scale(sum, c, weight->scales[k], negligible);
        if (needed > weight->scales[k] && needed > raised[k]) {
            n_raised += raised[k] <= 0.0F;
            raised[k] = needed;
        }
    }
    return n_raised;
}

enum onnxptq_status oq_emit_raise_scales(struct oq_emitter *emitter, struct oq_emit_sum *sum,
                                         struct onnxptq_error *error) {
    float *raised = oq_arena_array(emitter->scratch, sum->weight->n_scales, sizeof *raised);
    if (!raised) {
        return oq_fail_memory(error, "scales of a weight");
    }
    size_t n_raised = find_raised(sum, raised);
    if (n_raised == 0) {
        return ONNXPTQ_OK;
    }
    struct oq_emit_weight *own = oq_emit_own_weight(emitter, sum->weight, sum->node);
    if (!own) {
        return oq_fail_memory(error, "scales of a weight");
    }
    for (size_t k = 0; k < own->n_scales; k++) {
        own->scales[k] = fmaxf(own->scales[k], raised[k]);
    }
    sum->weight = own;
    return oq_emit_note(
        emitter, error,
        "weight '%s' has larger scales at node '%s', %zu of %zu, so that bias '%s' fits int32",
        oq_graph_value(emitter->graph, own->value)->name,
        oq_graph_node(emitter->graph, sum->node)->name, n_raised, own->n_scales,
        oq_graph_value(emitter->graph, sum->bias)->name);
}

/* ---- Biases that stay float ----------------------------------------------------------------- */

/* Scale of the pair that the node's data input reads; 0 when it reads none. */
static float data_scale(const struct oq_emitter *emitter, const struct oq_node *node, uint32_t id) {
    uint32_t data = node->op && node->op->weight_input == 0 ? 1 : 0;
    uint32_t value = oq_node_input(node, data);
    uint32_t pair = value == OQ_NONE ? OQ_NONE : emitter->plan->first_pair[value];
    for (; pair != OQ_NONE; pair = emitter->plan->pairs[pair].next) {
        const struct oq_plan_pair *planned = &emitter->plan->pairs[pair];
        for (size_t i = 0; !emitter->pair_dropped[pair] && i < planned->n_uses; i++) {
            if (planned->uses[i].node == id && planned->uses[i].input == data) {
                return oq_emit_pair_params(emitter, pair).scale;
            }
        }
    }
    return 0.0F;
}

/* Fills the sum of a node whose float bias a runtime may quantize; values NULL: not such a node. */
static enum onnxptq_status float_bias_of(struct oq_emitter *emitter, struct oq_emit_sum *sum,
                                         struct onnxptq_error *error) {
    const struct oq_node *node = oq_graph_node(emitter->graph, sum->node);
    uint32_t input =
        node->op && node->op->bias_input >= 0 ? (uint32_t)node->op->bias_input : OQ_NONE;
    sum->bias = oq_node_input(node, input);
    const Onnx__TensorProto *constant =
        sum->bias == OQ_NONE ? NULL : oq_graph_constant(emitter->graph, sum->bias);
    sum->input_scale = constant ? data_scale(emitter, node, sum->node) : 0.0F;
    if (sum->input_scale <= 0.0F) {
        return ONNXPTQ_OK;
    }
    struct oq_tensor_view view;
    OQ_TRY(oq_tensor_view(emitter->model, constant, &view, error));
    size_t n_scales = sum->weight->n_scales;
    sum->channels = view.n_elements > 1 ? view.n_elements : n_scales;
    if (!oq_emit_bias_fits(&view, sum->channels) || sum->channels % n_scales != 0) {
        return ONNXPTQ_OK;
    }
    double factor = (double)oq_attribute_float(node->proto, "beta", 1.0F);
    sum->values = oq_emit_bias_values(emitter, &view, factor, sum->channels);
    return sum->values ? ONNXPTQ_OK : oq_fail_memory(error, "bias");
}

static enum onnxptq_status guard_use(struct oq_emitter *emitter, size_t copy, size_t use,
                                     const bool *has_int32_bias, struct onnxptq_error *error) {
    struct oq_emit_weight *weight = &emitter->weights[copy];
    struct oq_emit_sum sum = {.node = weight->uses[use].use.node, .weight = weight};
    if (emitter->node_float[sum.node] || has_int32_bias[sum.node]) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(float_bias_of(emitter, &sum, error));
    return sum.values ? oq_emit_raise_scales(emitter, &sum, error) : ONNXPTQ_OK;
}

enum onnxptq_status oq_emit_float_bias_scales(struct oq_emitter *emitter,
                                              struct onnxptq_error *error) {
    bool *has_int32_bias =
        oq_arena_array(emitter->scratch, emitter->plan->n_nodes, sizeof *has_int32_bias);
    if (!has_int32_bias) {
        return oq_fail_memory(error, "biases");
    }
    for (size_t i = 0; i < emitter->plan->n_biases; i++) {
        has_int32_bias[emitter->plan->biases[i].node] = true;
    }
    size_t n_copies = emitter->n_weights; /* those split off meanwhile are fitted already */
    for (size_t i = 0; i < n_copies; i++) {
        /* backwards: a use that is split off makes its followers move up */
        for (size_t k = emitter->weights[i].n_uses; emitter->weights[i].scales && k-- > 0;) {
            if (k < emitter->weights[i].n_uses) {
                OQ_TRY(guard_use(emitter, i, k, has_int32_bias, error));
            }
        }
    }
    return ONNXPTQ_OK;
}
