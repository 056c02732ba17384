/*
 * Weights: which int8 copies there are, and their scales.
 */
#include "quant/emitter.h"

#include <string.h>

/* Keys of emitter->copies, compared byte by byte. */
struct copy_key {
    const Onnx__TensorProto *constant;
    int64_t axis, type, symmetric, narrow, float_type;
};
struct use_key {
    uint32_t weight, node;
};

static struct copy_key key_of(const Onnx__TensorProto *constant,
                              const struct oq_plan_weight *planned) {
    return (struct copy_key){constant,
                             planned->axis,
                             (int64_t)planned->spec.type,
                             planned->spec.symmetric,
                             planned->spec.narrow,
                             (int64_t)oq_quant_float_type(&planned->spec)};
}

static bool note_use(struct oq_emitter *emitter, uint32_t weight, uint32_t node, size_t copy) {
    const struct use_key key = {weight, node};
    return oq_map_put_copy(emitter->copies, &key, sizeof key, copy);
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
    size_t copy = (size_t)(weight - emitter->weights);
    for (size_t i = 0; i < planned->n_uses; i++) {
        uses[weight->n_uses++] = (struct oq_emit_use){planned->uses[i], planned_id};
        if (!note_use(emitter, planned_id, planned->uses[i].node, copy)) {
            return false;
        }
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
    if (weight->view.type != (int)oq_quant_float_type(&weight->spec)) {
        why = "its element type is not the planned one";
    } else if (weight->view.n_elements == 0) {
        why = "it is empty";
    } else if (oq_weight_scales(&weight->view, weight->axis, weight->scales, NULL) != ONNXPTQ_OK) {
        why = "it holds NaN or infinity";
    }
    for (size_t i = 0; !why && i < weight->n_scales; i++) {
        weight->scales[i] = oq_quant_storable_scale(&weight->spec, weight->scales[i]);
    }
    if (!why) {
        return ONNXPTQ_OK;
    }
    weight->scales = NULL;
    return oq_emit_note(emitter, error, "weight '%s' and the nodes that read it stay float: %s",
                        name, why);
}

/* Weights of the plan with the same constant, axis and spec share one. */
static enum onnxptq_status find_or_make_copy(struct oq_emitter *emitter,
                                             const Onnx__TensorProto *constant,
                                             const struct oq_plan_weight *planned,
                                             struct oq_emit_weight **out,
                                             struct onnxptq_error *error) {
    const struct copy_key key = key_of(constant, planned);
    size_t index = emitter->n_weights;
    if (oq_map_get(emitter->copies, &key, sizeof key, &index)) {
        *out = &emitter->weights[index];
        return ONNXPTQ_OK;
    }
    struct oq_emit_weight *weight = add_copy(emitter);
    if (!weight || !oq_map_put_copy(emitter->copies, &key, sizeof key, index)) {
        (void)oq_fail_memory(error, "weights");
        return ONNXPTQ_ERROR_MEMORY;
    }
    weight->constant = constant;
    weight->value = planned->value;
    weight->axis = planned->axis;
    weight->spec = planned->spec;
    *out = weight;
    return compute_scales(emitter, weight, error);
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
    struct oq_emit_weight *weight = NULL;
    OQ_TRY(find_or_make_copy(emitter, constant, planned, &weight, error));
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
    const struct use_key key = {weight, node};
    size_t index = 0;
    bool found = oq_map_get(emitter->copies, &key, sizeof key, &index);
    return found && emitter->weights[index].scales ? &emitter->weights[index] : NULL;
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
            if (!note_use(emitter, shared->uses[i].weight, node, emitter->n_weights - 1)) {
                return NULL;
            }
        } else {
            shared->uses[kept++] = shared->uses[i];
        }
    }
    shared->n_uses = kept;
    return own;
}
