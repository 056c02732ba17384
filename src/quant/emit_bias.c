/*
 * Biases: int32 with the scale that the runtime gives the products they are added to.
 *
 * A bias that is large beside scale(input) * scale(weight) does not fit int32. Its channel's weight
 * scale is then raised as far as needed: a bias of 2^30 steps leaves the products of that channel
 * below its own float32 rounding times the number of inputs. Only this node's copy of the weight is
 * raised.
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

struct planned {
    const struct oq_plan_bias *bias;
    const struct oq_emit_weight *weight;
    float input_scale;
    const double *values; /* factor applied, broadcast to channels */
};

static const char *name_of(const struct oq_emitter *emitter, const struct oq_plan_bias *bias) {
    return oq_graph_value(emitter->graph, bias->value)->name;
}

static enum onnxptq_status leave_float(struct oq_emitter *emitter, const struct oq_plan_bias *bias,
                                       const char *why, struct onnxptq_error *error) {
    oq_emit_leave_float(emitter, bias->use.node);
    return oq_emit_note(emitter, error, "node '%s' stays float: its bias '%s' %s",
                        oq_graph_node(emitter->graph, bias->use.node)->name, name_of(emitter, bias),
                        why);
}

/* A bias is one number, or one for each channel along its last axis. */
static bool broadcasts(const struct oq_tensor_view *view, size_t channels) {
    return view->n_elements == 1 || (view->n_elements == channels && view->rank > 0 &&
                                     view->shape[view->rank - 1] == (int64_t)channels);
}

static double *read_values(struct oq_emitter *emitter, const struct oq_plan_bias *bias,
                           const struct oq_tensor_view *view) {
    double *values = oq_arena_array(emitter->scratch, bias->channels, sizeof *values);
    float block[BLOCK];
    for (size_t c = 0; values && c < bias->channels; c++) {
        if (c % BLOCK == 0 && (c == 0 || view->n_elements > 1)) {
            size_t left = view->n_elements - c;
            oq_tensor_view_floats(view, c, left < BLOCK ? left : BLOCK, block);
        }
        float value = view->n_elements == 1 ? block[0] : block[c % BLOCK];
        values[c] = (double)value * bias->factor;
    }
    return values;
}

/* The weight scale that channel c needs at least; 0 when any does. */
static float needed_scale(const struct planned *planned, size_t c, float scale, float negligible) {
    int32_t code;
    float product = planned->input_scale * scale;
    if (product >= FLT_MIN && oq_bias_quantize(planned->values[c], product, &code)) {
        return 0.0F;
    }
    double steps = fabs(planned->values[c]) / (double)planned->input_scale;
    double needed = steps / (double)OQ_BIAS_CODE_MAX * ROUNDING_MARGIN;
    double normal = (double)FLT_MIN / (double)planned->input_scale * ROUNDING_MARGIN;
    if (normal > needed && normal <= (double)negligible) {
        needed = normal;
    }
    return needed <= (double)FLT_MAX ? (float)needed
                                     : 0.0F; /* the final check finds what did not fit */
}

static float largest_scale(const struct oq_emit_weight *weight) {
    float largest = 0.0F;
    for (size_t i = 0; i < weight->n_scales; i++) {
        largest = fmaxf(largest, weight->scales[i]);
    }
    return largest;
}

/* Raises scales of the weight where the bias needs it. */
static enum onnxptq_status raise_scales(struct oq_emitter *emitter, struct planned *planned,
                                        struct onnxptq_error *error) {
    const struct oq_emit_weight *weight = planned->weight;
    float negligible = largest_scale(weight) * NEGLIGIBLE;
    float *raised = oq_arena_array(emitter->scratch, weight->n_scales, sizeof *raised);
    if (!raised) {
        return oq_fail_memory(error, "scales of a weight");
    }
    size_t n_raised = 0;
    for (size_t c = 0; c < planned->bias->channels; c++) {
        size_t k = c % weight->n_scales;
        float needed = needed_scale(planned, c, weight->scales[k], negligible);
        if (needed > weight->scales[k] && needed > raised[k]) {
            n_raised += raised[k] <= 0.0F;
            raised[k] = needed;
        }
    }
    if (n_raised == 0) {
        return ONNXPTQ_OK;
    }
    struct oq_emit_weight *own = oq_emit_own_weight(
        emitter, oq_emit_find_weight(emitter, planned->bias->weight, planned->bias->use.node),
        planned->bias->use.node);
    if (!own) {
        return oq_fail_memory(error, "scales of a weight");
    }
    for (size_t k = 0; k < own->n_scales; k++) {
        own->scales[k] = fmaxf(own->scales[k], raised[k]);
    }
    planned->weight = own;
    return oq_emit_note(
        emitter, error,
        "weight '%s' has larger scales at node '%s', %zu of %zu, so that bias '%s' fits int32",
        oq_graph_value(emitter->graph, own->value)->name,
        oq_graph_node(emitter->graph, planned->bias->use.node)->name, n_raised, own->n_scales,
        name_of(emitter, planned->bias));
}

/* Scales and codes; false when a code does not fit. */
static bool quantize(const struct planned *planned, struct oq_emit_bias *out) {
    const struct oq_emit_weight *weight = planned->weight;
    for (size_t c = 0; c < planned->bias->channels; c++) {
        float scale = planned->input_scale * weight->scales[c % weight->n_scales];
        if (!(scale >= FLT_MIN && scale <= FLT_MAX) ||
            !oq_bias_quantize(planned->values[c], scale, &out->codes[c])) {
            return false;
        }
        out->scales[out->n_scales == 1 ? 0 : c] = scale;
    }
    return true;
}

static enum onnxptq_status add_bias(struct oq_emitter *emitter, uint32_t id,
                                    struct planned *planned, struct onnxptq_error *error) {
    OQ_TRY(raise_scales(emitter, planned, error));
    size_t channels = planned->bias->channels;
    struct oq_emit_bias made = {.bias = id,
                                .n_scales = planned->weight->n_scales == 1 ? 1 : channels};
    made.scales = oq_arena_array(emitter->scratch, made.n_scales, sizeof *made.scales);
    made.codes = oq_arena_array(emitter->scratch, channels, sizeof *made.codes);
    void *biases = emitter->biases;
    if (!made.scales || !made.codes ||
        !oq_grow(&biases, &emitter->capacity_biases, emitter->n_biases + 1,
                 sizeof *emitter->biases)) {
        return oq_fail_memory(error, "bias");
    }
    emitter->biases = biases;
    if (!quantize(planned, &made)) {
        return leave_float(emitter, planned->bias, "has no int32 scale", error);
    }
    emitter->biases[emitter->n_biases++] = made;
    return ONNXPTQ_OK;
}

static enum onnxptq_status plan_bias(struct oq_emitter *emitter, uint32_t id,
                                     struct onnxptq_error *error) {
    const struct oq_plan_bias *bias = &emitter->plan->biases[id];
    struct planned planned = {.bias = bias};
    if (emitter->node_float[bias->use.node]) {
        return ONNXPTQ_OK;
    }
    if (emitter->pair_dropped[bias->pair]) {
        return leave_float(emitter, bias, "belongs to an input without a range", error);
    }
    planned.input_scale = oq_emit_pair_params(emitter, bias->pair).scale;
    planned.weight = oq_emit_find_weight(emitter, bias->weight, bias->use.node);
    const Onnx__TensorProto *constant = oq_graph_constant(emitter->graph, bias->value);
    if (!constant || !planned.weight || bias->channels == 0 ||
        bias->channels % planned.weight->n_scales != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot quantize bias '%s': it is no constant, or its node '%s' reads no "
                       "quantized weight of its channels; this is a bug",
                       name_of(emitter, bias), oq_graph_node(emitter->graph, bias->use.node)->name);
    }
    struct oq_tensor_view view;
    OQ_TRY(oq_tensor_view(emitter->model, constant, &view, error));
    if (view.type != ONNXPTQ_TYPE_FLOAT || !broadcasts(&view, bias->channels)) {
        return leave_float(emitter, bias, "is not float32 with one number or one a channel", error);
    }
    planned.values = read_values(emitter, bias, &view);
    if (!planned.values) {
        return oq_fail_memory(error, "bias");
    }
    return add_bias(emitter, id, &planned, error);
}

enum onnxptq_status oq_emit_bias_scales(struct oq_emitter *emitter, struct onnxptq_error *error) {
    for (uint32_t i = 0; i < emitter->plan->n_biases; i++) {
        OQ_TRY(plan_bias(emitter, i, error));
    }
    return ONNXPTQ_OK;
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

/* The factor is in the int32 codes now. */
static void fold_beta(const struct oq_emitter *emitter, const struct oq_plan_bias *bias) {
    if (bias->factor == 1.0) {
        return;
    }
    Onnx__NodeProto *node = oq_graph_node(emitter->graph, bias->use.node)->proto;
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (node->attribute[i]->name && strcmp(node->attribute[i]->name, "beta") == 0) {
            node->attribute[i]->f = 1.0F;
        }
    }
}

static enum onnxptq_status emit_bias(struct oq_emitter *emitter, const struct oq_emit_bias *made,
                                     struct onnxptq_error *error) {
    const struct oq_plan_bias *bias = &emitter->plan->biases[made->bias];
    const struct oq_value *value = oq_graph_value(emitter->graph, bias->value);
    uint32_t scope = oq_graph_node(emitter->graph, bias->use.node)->scope;
    int64_t shape[] = {(int64_t)bias->channels};
    bool scalar = made->n_scales == 1;
    const char *codes =
        oq_emit_initializer(emitter, value->scope, value->name, "_quantized", ONNXPTQ_TYPE_INT32,
                            shape, 1, made->codes, bias->channels * sizeof *made->codes);
    const char *scale =
        oq_emit_initializer(emitter, value->scope, value->name, "_scale", ONNXPTQ_TYPE_FLOAT, shape,
                            scalar ? 0 : 1, made->scales, made->n_scales * sizeof *made->scales);
    const char *output = oq_emit_name(emitter, value->name, "_dequantized");
    Onnx__NodeProto *node =
        codes && scale && output
            ? oq_emit_dequantize(emitter, value->name, codes, scale, NULL, scalar ? -1 : 0, output)
            : NULL;
    if (!node || !oq_emit_insert(emitter, scope, emitter->position[bias->use.node], node)) {
        return oq_fail_memory(error, "quantized bias");
    }
    fold_beta(emitter, bias);
    emitter->result->biases[made->bias] = true;
    return oq_emit_rewire(emitter, bias->use, bias->value, output, error);
}

enum onnxptq_status oq_emit_biases(struct oq_emitter *emitter, struct onnxptq_error *error) {
    for (size_t i = 0; i < emitter->n_biases; i++) {
        const struct oq_emit_bias *made = &emitter->biases[i];
        if (!emitter->node_float[emitter->plan->biases[made->bias].use.node]) {
            OQ_TRY(emit_bias(emitter, made, error));
        }
    }
    return ONNXPTQ_OK;
}
