/*
 * Weights: int8 codes, and DequantizeLinear before the readers.
 *
 * Codes of a large weight go straight to the spill file, a block at a time: neither float nor int8
 * is ever whole in memory.
 */
#include "quant/emitter.h"

#include <math.h>

#define INLINE_MAXIMUM 4096 /* bytes of codes that are not worth a place in the spill file */
#define BLOCK 65536
#define ALIGNMENT 64

/* ---- Codes ---------------------------------------------------------------------------------- */

static enum onnxptq_status spill_codes(struct oq_emitter *emitter, struct oq_emit_weight *weight,
                                       int8_t *block, struct onnxptq_error *error) {
    struct oq_writer **spill = &emitter->spill;
    if (!*spill) {
        OQ_TRY(oq_writer_create(emitter->spec->spill_beside, spill, error));
    }
    oq_writer_align(*spill, ALIGNMENT);
    weight->offset = oq_writer_offset(*spill);
    for (size_t first = 0; first < weight->view.n_elements; first += BLOCK) {
        size_t left = weight->view.n_elements - first;
        size_t n = left < BLOCK ? left : BLOCK;
        oq_weight_codes(&weight->view, weight->axis, weight->scales, first, n, block);
        oq_writer_put(*spill, block, n);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status make_codes(struct oq_emitter *emitter, struct oq_emit_weight *weight,
                                      int8_t *block, struct onnxptq_error *error) {
    size_t n = weight->view.n_elements;
    if (n > INLINE_MAXIMUM && emitter->spec->spill_beside) {
        return spill_codes(emitter, weight, block, error);
    }
    weight->codes = oq_arena_array(emitter->scratch, n, 1);
    if (!weight->codes) {
        return oq_fail_memory(error, "codes of a weight");
    }
    oq_weight_codes(&weight->view, weight->axis, weight->scales, 0, n, (int8_t *)weight->codes);
    return ONNXPTQ_OK;
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

struct placed {
    const char *tensor, *quantized, *scale, *zero_point;
    struct oq_use *uses; /* at nodes that are quantized */
    size_t n_uses;
};

static bool find_live_uses(const struct oq_emitter *emitter, const struct oq_emit_weight *weight,
                           struct placed *placed) {
    placed->uses = oq_arena_array(emitter->scratch, weight->n_uses, sizeof *placed->uses);
    for (size_t i = 0; placed->uses && i < weight->n_uses; i++) {
        if (!emitter->node_float[weight->uses[i].use.node]) {
            placed->uses[placed->n_uses++] = weight->uses[i].use;
        }
    }
    return placed->uses != NULL;
}

static const char *add_codes(struct oq_emitter *emitter, const struct oq_emit_weight *weight,
                             uint32_t scope, const char *tensor, uint32_t file) {
    const struct oq_tensor_view *view = &weight->view;
    if (weight->codes) {
        return oq_emit_initializer(emitter, scope, tensor, "_quantized", ONNXPTQ_TYPE_INT8,
                                   view->shape, view->rank, weight->codes, view->n_elements);
    }
    const char *name = oq_emit_name(emitter, tensor, "_quantized");
    Onnx__TensorProto *made =
        name ? oq_tensor_create_mapped(emitter->model, name, ONNXPTQ_TYPE_INT8, view->shape,
                                       view->rank, file, weight->offset, view->n_elements)
             : NULL;
    bool added = made && oq_graph_add_initializer(
                             emitter->model, oq_graph_scope(emitter->graph, scope)->proto, made);
    emitter->added_initializer = emitter->added_initializer || added;
    return added ? name : NULL;
}

static bool add_initializers(struct oq_emitter *emitter, const struct oq_emit_weight *weight,
                             uint32_t file, struct placed *placed) {
    uint32_t scope = oq_graph_value(emitter->graph, weight->value)->scope;
    int64_t shape[] = {(int64_t)weight->n_scales};
    size_t rank = weight->axis < 0 ? 0 : 1;
    placed->quantized = add_codes(emitter, weight, scope, placed->tensor, file);
    placed->scale =
        oq_emit_scales(emitter, scope, placed->tensor, oq_quant_float_type(&weight->spec), rank,
                       weight->scales, weight->n_scales);
    placed->zero_point =
        oq_emit_initializer(emitter, scope, placed->tensor, "_zero_point", ONNXPTQ_TYPE_INT8, shape,
                            rank, NULL, weight->n_scales);
    return placed->quantized && placed->scale && placed->zero_point;
}

static enum onnxptq_status dequantize_in(struct oq_emitter *emitter,
                                         const struct oq_emit_weight *weight,
                                         const struct placed *placed, uint32_t scope,
                                         struct onnxptq_error *error) {
    uint32_t slot = oq_emit_first_reader(emitter, placed->uses, placed->n_uses, scope);
    const char *output = oq_emit_name(emitter, placed->tensor, "_dequantized");
    Onnx__NodeProto *node =
        output ? oq_emit_dequantize(emitter, placed->tensor, placed->quantized, placed->scale,
                                    placed->zero_point, weight->axis, output)
               : NULL;
    if (!node || !oq_emit_insert(emitter, scope, slot, node)) {
        return oq_fail_memory(error, "DequantizeLinear");
    }
    for (size_t i = 0; i < placed->n_uses; i++) {
        const struct oq_node *reader = oq_graph_node(emitter->graph, placed->uses[i].node);
        if (reader->scope == scope) {
            OQ_TRY(oq_emit_rewire(emitter, placed->uses[i], reader->inputs[placed->uses[i].input],
                                  output, error));
        }
    }
    return ONNXPTQ_OK;
}

static bool first_of_scope(const struct oq_emitter *emitter, const struct placed *placed,
                           size_t use) {
    uint32_t scope = oq_graph_node(emitter->graph, placed->uses[use].node)->scope;
    for (size_t i = 0; i < use; i++) {
        if (oq_graph_node(emitter->graph, placed->uses[i].node)->scope == scope) {
            return false;
        }
    }
    return true;
}

/* Channels and extremes of the scales, for every planned weight that reads this copy. */
static void report_weight(struct oq_emitter *emitter, const struct oq_emit_weight *weight) {
    struct oq_emit_result *result = emitter->result;
    for (size_t i = 0; i < weight->n_uses; i++) {
        uint32_t id = weight->uses[i].weight;
        if (emitter->node_float[weight->uses[i].use.node]) {
            continue;
        }
        for (size_t c = 0; c < weight->n_scales; c++) {
            bool first = result->weight_channels[id] == 0 && c == 0;
            float low = result->weight_scale_min[id];
            float high = result->weight_scale_max[id];
            result->weight_scale_min[id] =
                first ? weight->scales[c] : fminf(low, weight->scales[c]);
            result->weight_scale_max[id] =
                first ? weight->scales[c] : fmaxf(high, weight->scales[c]);
        }
        result->weight_channels[id] = weight->n_scales;
    }
}

static enum onnxptq_status place_weight(struct oq_emitter *emitter,
                                        const struct oq_emit_weight *weight, struct placed *placed,
                                        uint32_t file, struct onnxptq_error *error) {
    placed->tensor = oq_graph_value(emitter->graph, weight->value)->name;
    if (!add_initializers(emitter, weight, file, placed)) {
        return oq_fail_memory(error, "quantized weight");
    }
    for (size_t i = 0; i < placed->n_uses; i++) {
        if (first_of_scope(emitter, placed, i)) {
            uint32_t scope = oq_graph_node(emitter->graph, placed->uses[i].node)->scope;
            OQ_TRY(dequantize_in(emitter, weight, placed, scope, error));
        }
    }
    report_weight(emitter, weight);
    return ONNXPTQ_OK;
}

/* Makes the spill file a data file of the model, which removes it at its end. */
static enum onnxptq_status hand_over_spill(struct oq_emitter *emitter, uint32_t *file,
                                           struct onnxptq_error *error) {
    struct oq_writer *spill = emitter->spill;
    emitter->spill = NULL;
    return oq_model_add_written(emitter->model, spill, file, error);
}

enum onnxptq_status oq_emit_weights(struct oq_emitter *emitter, struct onnxptq_error *error) {
    struct placed *placed = oq_arena_array(emitter->scratch, emitter->n_weights, sizeof *placed);
    int8_t *block = oq_arena_array(emitter->scratch, BLOCK, 1);
    if (!placed || !block) {
        return oq_fail_memory(error, "weights");
    }
    for (size_t i = 0; i < emitter->n_weights; i++) {
        if (!find_live_uses(emitter, &emitter->weights[i], &placed[i])) {
            return oq_fail_memory(error, "uses of a weight");
        }
        if (placed[i].n_uses > 0) {
            OQ_TRY(make_codes(emitter, &emitter->weights[i], block, error));
        }
    }
    uint32_t file = 0;
    if (emitter->spill) {
        OQ_TRY(hand_over_spill(emitter, &file, error));
    }
    for (size_t i = 0; i < emitter->n_weights; i++) {
        if (placed[i].n_uses > 0) {
            OQ_TRY(place_weight(emitter, &emitter->weights[i], &placed[i], file, error));
        }
    }
    return ONNXPTQ_OK;
}
