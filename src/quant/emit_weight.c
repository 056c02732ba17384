/*
 * Weights: scales, int8 codes, DequantizeLinear before the readers.
 *
 * Codes of a large weight go straight to the spill file, a block at a time: neither float nor int8
 * is ever whole in memory.
 */
#include "base/number.h"
#include "quant/emitter.h"

#include <math.h>
#include <string.h>

#define INLINE_MAXIMUM 4096 /* bytes of codes that are not worth a place in the spill file */
#define BLOCK 65536
#define ALIGNMENT 64

/* ---- Scales --------------------------------------------------------------------------------- */

static struct oq_emit_weight *find_copy(struct oq_emitter *emitter,
                                        const Onnx__TensorProto *constant,
                                        const struct oq_plan_weight *planned) {
    for (size_t i = 0; i < emitter->n_weights; i++) {
        struct oq_emit_weight *weight = &emitter->weights[i];
        if (weight->constant == constant && weight->axis == planned->axis &&
            oq_quant_spec_equal(&weight->spec, &planned->spec)) {
            return weight;
        }
    }
    return NULL;
}

static struct oq_emit_weight *add_copy(struct oq_emitter *emitter) {
    void *weights = emitter->weights;
    if (!oq_grow(&weights, &emitter->capacity_weights, emitter->n_weights + 1,
                 sizeof *emitter->weights)) {
        return NULL;
    }
    emitter->weights = weights;
    struct oq_emit_weight *weight = &emitter->weights[emitter->n_weights++];
    *weight = (struct oq_emit_weight){0};
    return weight;
}

static bool add_uses(struct oq_emitter *emitter, struct oq_emit_weight *weight,
                     uint32_t planned_id) {
    const struct oq_plan_weight *planned = &emitter->plan->weights[planned_id];
    struct oq_emit_use *uses =
        oq_arena_array(emitter->scratch, weight->n_uses + planned->n_uses, sizeof *uses);
    if (!uses) {
        return false;
    }
    if (weight->n_uses) {
        memcpy(uses, weight->uses, weight->n_uses * sizeof *uses);
    }
    for (size_t i = 0; i < planned->n_uses; i++) {
        uses[weight->n_uses++] = (struct oq_emit_use){planned->uses[i], planned_id};
    }
    weight->uses = uses;
    return true;
}

/* Scales of a weight, or none with the reason as a note. */
static enum onnxptq_status compute_scales(struct oq_emitter *emitter, struct oq_emit_weight *weight,
                                          struct onnxptq_error *error) {
    const char *name = oq_graph_value(emitter->graph, weight->value)->name;
    const char *why = NULL;
    OQ_TRY(oq_tensor_view(emitter->model, weight->constant, &weight->view, error));
    weight->n_scales = oq_weight_n_scales(&weight->view, weight->axis);
    weight->scales = oq_arena_array(emitter->scratch, weight->n_scales, sizeof *weight->scales);
    if (!weight->scales) {
        return oq_fail_memory(error, "scales of a weight");
    }
    if (weight->view.type != ONNXPTQ_TYPE_FLOAT) {
        why = "it is not a float32 tensor";
    } else if (weight->view.n_elements == 0) {
        why = "it is empty";
    } else if (oq_weight_scales(&weight->view, weight->axis, weight->scales, NULL) != ONNXPTQ_OK) {
        why = "it holds NaN or infinity";
    }
    if (!why) {
        return ONNXPTQ_OK;
    }
    weight->scales = NULL;
    return oq_emit_note(emitter, error, "weight '%s' and the nodes that read it stay float: %s",
                        name, why);
}

static enum onnxptq_status plan_copy(struct oq_emitter *emitter, uint32_t id,
                                     struct onnxptq_error *error) {
    const struct oq_plan_weight *planned = &emitter->plan->weights[id];
    const struct oq_value *value = oq_graph_value(emitter->graph, planned->value);
    const Onnx__TensorProto *constant = oq_graph_constant(emitter->graph, planned->value);
    if (!constant || planned->spec.type != ONNXPTQ_TYPE_INT8 || !planned->spec.symmetric ||
        (planned->axis >= 0 && (size_t)planned->axis >= constant->n_dims)) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot quantize weight '%s': it is no constant with axis %d, or not to "
                       "become symmetric int8; this is a bug",
                       value->name, planned->axis);
    }
    struct oq_emit_weight *weight = find_copy(emitter, constant, planned);
    if (!weight) {
        weight = add_copy(emitter);
        if (!weight) {
            return oq_fail_memory(error, "weights");
        }
        weight->constant = constant;
        weight->value = planned->value;
        weight->axis = planned->axis;
        weight->spec = planned->spec;
        OQ_TRY(compute_scales(emitter, weight, error));
    }
    if (!add_uses(emitter, weight, id)) {
        return oq_fail_memory(error, "uses of a weight");
    }
    for (size_t i = 0; !weight->scales && i < planned->n_uses; i++) {
        oq_emit_leave_float(emitter, planned->uses[i].node);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_emit_weight_scales(struct oq_emitter *emitter, struct onnxptq_error *error) {
    for (uint32_t i = 0; i < emitter->plan->n_weights; i++) {
        OQ_TRY(plan_copy(emitter, i, error));
    }
    return ONNXPTQ_OK;
}

struct oq_emit_weight *oq_emit_find_weight(struct oq_emitter *emitter, uint32_t weight,
                                           uint32_t node) {
    for (size_t i = 0; i < emitter->n_weights; i++) {
        struct oq_emit_weight *copy = &emitter->weights[i];
        for (size_t k = 0; copy->scales && k < copy->n_uses; k++) {
            if (copy->uses[k].weight == weight && copy->uses[k].use.node == node) {
                return copy;
            }
        }
    }
    return NULL;
}

struct oq_emit_weight *oq_emit_own_weight(struct oq_emitter *emitter, struct oq_emit_weight *shared,
                                          uint32_t node) {
    size_t n_own = 0;
    for (size_t i = 0; i < shared->n_uses; i++) {
        n_own += shared->uses[i].use.node == node;
    }
    if (n_own == shared->n_uses) {
        return shared;
    }
    size_t index = (size_t)(shared - emitter->weights);
    struct oq_emit_weight *own = add_copy(emitter);
    if (!own) {
        return NULL;
    }
    shared = &emitter->weights[index]; /* the array may have moved */
    *own = *shared;
    own->scales = oq_arena_array(emitter->scratch, own->n_scales, sizeof *own->scales);
    own->uses = oq_arena_array(emitter->scratch, n_own, sizeof *own->uses);
    if (!own->scales || !own->uses) {
        return NULL;
    }
    memcpy(own->scales, shared->scales, own->n_scales * sizeof *own->scales);
    size_t kept = 0;
    own->n_uses = 0;
    for (size_t i = 0; i < shared->n_uses; i++) {
        if (shared->uses[i].use.node == node) {
            own->uses[own->n_uses++] = shared->uses[i];
        } else {
            shared->uses[kept++] = shared->uses[i];
        }
    }
    shared->n_uses = kept;
    return own;
}

/* ---- Codes ---------------------------------------------------------------------------------- */

static enum onnxptq_status spill_codes(struct oq_emitter *emitter, struct oq_emit_weight *weight,
                                       int8_t *block, struct onnxptq_error *error) {
    struct oq_writer **spill = &emitter->result->spill;
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
        oq_emit_initializer(emitter, scope, placed->tensor, "_scale", ONNXPTQ_TYPE_FLOAT, shape,
                            rank, weight->scales, weight->n_scales * sizeof *weight->scales);
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

/* Makes the spill file a data file of the model. */
static enum onnxptq_status map_spill(struct oq_emitter *emitter, uint32_t *file,
                                     struct onnxptq_error *error) {
    struct oq_mapping mapping;
    OQ_TRY(oq_writer_map(emitter->result->spill, &mapping, error));
    return oq_model_add_file(emitter->model, mapping, file, error);
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
    if (emitter->result->spill) {
        OQ_TRY(map_spill(emitter, &file, error));
    }
    for (size_t i = 0; i < emitter->n_weights; i++) {
        if (placed[i].n_uses > 0) {
            OQ_TRY(place_weight(emitter, &emitter->weights[i], &placed[i], file, error));
        }
    }
    return ONNXPTQ_OK;
}
