/*
 * Biases: int32 with the scale that the runtime gives the products they are added to.
 */
#include "quant/emitter.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const char *name_of(const struct oq_emitter *emitter, const struct oq_plan_bias *bias) {
    return oq_graph_value(emitter->graph, bias->value)->name;
}

/* Room for one more, of as many channels; NULL when out of memory. */
static struct oq_emit_bias *make_bias(struct oq_emitter *emitter, uint32_t id, size_t n_scales) {
    struct oq_emit_bias made = {.bias = id, .type = ONNXPTQ_TYPE_FLOAT, .n_scales = n_scales};
    made.scales = oq_arena_array(emitter->scratch, n_scales, sizeof *made.scales);
    made.codes =
        oq_arena_array(emitter->scratch, emitter->plan->biases[id].channels, sizeof *made.codes);
    void *biases = emitter->biases;
    if (!made.scales || !made.codes ||
        !oq_grow(&biases, &emitter->capacity_biases, emitter->n_biases + 1,
                 sizeof *emitter->biases)) {
        return NULL;
    }
    emitter->biases = biases;
    emitter->biases[emitter->n_biases] = made;
    return &emitter->biases[emitter->n_biases++];
}

static enum onnxptq_status leave_float(struct oq_emitter *emitter, const struct oq_plan_bias *bias,
                                       const char *why, struct onnxptq_error *error) {
    oq_emit_leave_float(emitter, bias->node);
    return oq_emit_note(emitter, error, "node '%s' stays float: its bias '%s' %s",
                        oq_graph_node(emitter->graph, bias->node)->name, name_of(emitter, bias),
                        why);
}

/* A number of half precision is a code of at most 11 bits times a power of two, which the type
 * holds as well: its smallest numbers are multiples of the smallest. */
static float exact_scale(enum onnxptq_type type, double value) {
    const int bits = type == ONNXPTQ_TYPE_FLOAT16 ? 11 : 8;
    const int least = type == ONNXPTQ_TYPE_FLOAT16 ? -24 : -126;
    int exponent = 0;
    (void)frexp(value, &exponent);
    const int power = value == 0.0 ? 0 : exponent - bits;
    return ldexpf(1.0F, power < least ? least : power);
}

static enum onnxptq_status add_exact_bias(struct oq_emitter *emitter, uint32_t id,
                                          const struct oq_tensor_view *view,
                                          struct onnxptq_error *error) {
    const struct oq_plan_bias *bias = &emitter->plan->biases[id];
    const double *values = oq_emit_bias_values(emitter, view, 1.0, bias->channels);
    struct oq_emit_bias *made = values == NULL ? NULL : make_bias(emitter, id, bias->channels);
    if (made == NULL) {
        return oq_fail_memory(error, "bias");
    }
    made->type = (enum onnxptq_type)view->type;
    for (size_t c = 0; c < bias->channels; c++) {
        if (!isfinite(values[c])) {
            emitter->n_biases--;
            return leave_float(emitter, bias, "is not finite", error);
        }
        made->scales[c] = exact_scale((enum onnxptq_type)view->type, values[c]);
        made->codes[c] = (int32_t)lrint(values[c] / (double)made->scales[c]);
    }
    return ONNXPTQ_OK;
}

/* Scales and codes; false when a code does not fit. */
static bool quantize(const struct oq_emit_sum *sum, struct oq_emit_bias *out) {
    const struct oq_emit_weight *weight = sum->weight;
    for (size_t c = 0; c < sum->channels; c++) {
        float scale = sum->input_scale * weight->scales[c % weight->n_scales];
        if (!(scale >= FLT_MIN && scale <= FLT_MAX) ||
            !oq_bias_quantize(sum->values[c], scale, &out->codes[c])) {
            return false;
        }
        out->scales[out->n_scales == 1 ? 0 : c] = scale;
    }
    return true;
}

static enum onnxptq_status add_bias(struct oq_emitter *emitter, uint32_t id,
                                    struct oq_emit_sum *sum, struct onnxptq_error *error) {
    OQ_TRY(oq_emit_raise_scales(emitter, sum, error));
    struct oq_emit_bias *made =
        make_bias(emitter, id, sum->weight->n_scales == 1 ? 1 : sum->channels);
    if (!made) {
        return oq_fail_memory(error, "bias");
    }
    if (!quantize(sum, made)) {
        emitter->n_biases--;
        return leave_float(emitter, &emitter->plan->biases[id], "has no int32 scale", error);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status plan_bias(struct oq_emitter *emitter, uint32_t id,
                                     struct onnxptq_error *error) {
    const struct oq_plan_bias *bias = &emitter->plan->biases[id];
    struct oq_emit_sum sum = {.node = bias->node, .bias = bias->value, .channels = bias->channels};
    if (emitter->node_float[sum.node]) {
        return ONNXPTQ_OK;
    }
    if (emitter->pair_dropped[bias->pair]) {
        return leave_float(emitter, bias, "belongs to an input without a range", error);
    }
    sum.input_scale = oq_emit_pair_params(emitter, bias->pair).scale;
    sum.weight = oq_emit_find_weight(emitter, bias->weight, sum.node);
    const Onnx__TensorProto *constant = oq_graph_constant(emitter->graph, bias->value);
    if (!constant || !sum.weight || sum.channels == 0 || sum.channels % sum.weight->n_scales != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot quantize bias '%s': it is no constant, or its node '%s' reads no "
                       "quantized weight of its channels; this is a bug",
                       name_of(emitter, bias), oq_graph_node(emitter->graph, sum.node)->name);
    }
    struct oq_tensor_view view;
    OQ_TRY(oq_tensor_view(emitter->model, constant, &view, error));
    if (bias->exact) {
        return add_exact_bias(emitter, id, &view, error);
    }
    if (!oq_emit_bias_fits(&view, sum.channels)) {
        return leave_float(emitter, bias, "is not float32 with one number or one a channel", error);
    }
    sum.values = oq_emit_bias_values(emitter, &view, bias->factor, sum.channels);
    if (!sum.values) {
        return oq_fail_memory(error, "bias");
    }
    return add_bias(emitter, id, &sum, error);
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
    const char *scale = oq_emit_scales(emitter, value->scope, value->name, made->type,
                                       scalar ? 0 : 1, made->scales, made->n_scales);
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
        if (!emitter->node_float[emitter->plan->biases[made->bias].node]) {
            OQ_TRY(emit_bias(emitter, made, error));
        }
    }
    return ONNXPTQ_OK;
}
