/*
 * Q/DQ pairs on activations.
 */
#include "base/number.h"
#include "quant/emitter.h"

#include <string.h>

/* Scale and zero point of a group, made with its first pair. */
struct shared {
    const struct oq_plan_pair *owner; /* NULL: not made yet */
    const char *scale, *zero_point;
};

/* The uses of a pair at nodes that are quantized. */
static struct oq_use *live_uses(const struct oq_emitter *emitter, const struct oq_plan_pair *pair,
                                size_t *n) {
    struct oq_use *uses = oq_arena_array(emitter->scratch, pair->n_uses, sizeof *uses);
    *n = 0;
    for (size_t i = 0; uses && i < pair->n_uses; i++) {
        if (!emitter->node_float[pair->uses[i].node]) {
            uses[(*n)++] = pair->uses[i];
        }
    }
    return uses;
}

static bool make_shared(struct oq_emitter *emitter, const struct oq_plan_pair *pair,
                        struct oq_quant_params params, struct shared *shared) {
    const char *tensor = oq_graph_value(emitter->graph, pair->value)->name;
    uint32_t code = (uint32_t)params.zero_point; /* its low bytes are the narrower types */
    shared->owner = pair;
    shared->scale =
        oq_emit_scales(emitter, 0, tensor, oq_quant_float_type(&pair->spec), 0, &params.scale, 1);
    shared->zero_point =
        oq_emit_initializer(emitter, 0, tensor, "_zero_point", (int)pair->spec.type, NULL, 0, &code,
                            oq_type_size((int)pair->spec.type));
    return shared->scale && shared->zero_point;
}

static Onnx__NodeProto *make_quantize(struct oq_emitter *emitter, const char *tensor,
                                      const char *input, const struct shared *shared,
                                      const char *output) {
    const char *name = oq_emit_name(emitter, tensor, "_QuantizeLinear");
    const char *inputs[] = {input, shared->scale, shared->zero_point};
    return name ? oq_node_create(emitter->model, name, "", "QuantizeLinear", inputs, 3, &output, 1)
                : NULL;
}

struct placement {
    const struct oq_plan_pair *pair;
    const struct oq_use *uses;
    size_t n_uses;
    const struct shared *shared;
    const char *tensor, *quantized;
};

/* A DequantizeLinear in `scope`, and the uses there reading it. */
static enum onnxptq_status dequantize_in(struct oq_emitter *emitter, const struct placement *at,
                                         uint32_t scope, uint32_t slot, const char *output,
                                         struct onnxptq_error *error) {
    if (!output) {
        output = oq_emit_name(emitter, at->tensor, "_dequantized");
    }
    Onnx__NodeProto *node =
        output ? oq_emit_dequantize(emitter, at->tensor, at->quantized, at->shared->scale,
                                    at->shared->zero_point, -1, output)
               : NULL;
    if (!node || !oq_emit_insert(emitter, scope, slot, node)) {
        return oq_fail_memory(error, "DequantizeLinear");
    }
    for (size_t i = 0; i < at->n_uses; i++) {
        if (oq_graph_node(emitter->graph, at->uses[i].node)->scope == scope) {
            OQ_TRY(oq_emit_rewire(emitter, at->uses[i], at->pair->value, output, error));
        }
    }
    return ONNXPTQ_OK;
}

/* One DequantizeLinear for every inner scope that reads the pair: runtimes fuse inside one body
 * only. */
static enum onnxptq_status dequantize_inside(struct oq_emitter *emitter, const struct placement *at,
                                             uint32_t own_scope, struct onnxptq_error *error) {
    for (size_t i = 0; i < at->n_uses; i++) {
        uint32_t scope = oq_graph_node(emitter->graph, at->uses[i].node)->scope;
        bool first = scope != own_scope;
        for (size_t k = 0; first && k < i; k++) {
            first = oq_graph_node(emitter->graph, at->uses[k].node)->scope != scope;
        }
        if (first) {
            uint32_t slot = oq_emit_first_reader(emitter, at->uses, at->n_uses, scope);
            OQ_TRY(dequantize_in(emitter, at, scope, slot, NULL, error));
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status emit_pair(struct oq_emitter *emitter, struct placement *at,
                                     struct onnxptq_error *error) {
    const struct oq_value *value = oq_graph_value(emitter->graph, at->pair->value);
    const char *renamed = emitter->float_name[at->pair->value];
    uint32_t slot = value->producer == OQ_NONE ? 0 : emitter->position[value->producer] + 1;
    at->tensor = value->name;
    at->quantized = oq_emit_name(emitter, at->tensor, "_quantized");
    Onnx__NodeProto *quantize =
        at->quantized ? make_quantize(emitter, at->tensor, renamed ? renamed : value->name,
                                      at->shared, at->quantized)
                      : NULL;
    if (!quantize || !oq_emit_insert(emitter, value->scope, slot, quantize)) {
        return oq_fail_memory(error, "QuantizeLinear");
    }
    if (at->pair->takes_name ||
        oq_emit_first_reader(emitter, at->uses, at->n_uses, value->scope) != OQ_NONE) {
        const char *output = at->pair->takes_name ? value->name : NULL;
        OQ_TRY(dequantize_in(emitter, at, value->scope, slot, output, error));
    }
    return dequantize_inside(emitter, at, value->scope, error);
}

/* Names the float tensors whose public name a DequantizeLinear takes. Before any pair: others on
 * the same value read the new name. */
static enum onnxptq_status name_floats(struct oq_emitter *emitter, struct onnxptq_error *error) {
    for (size_t i = 0; i < emitter->plan->n_pairs; i++) {
        const struct oq_plan_pair *pair = &emitter->plan->pairs[i];
        const struct oq_value *value = oq_graph_value(emitter->graph, pair->value);
        if (!pair->takes_name || emitter->pair_dropped[i]) {
            continue;
        }
        if (value->producer == OQ_NONE || value->captured || emitter->float_name[pair->value]) {
            return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                           "cannot rename tensor '%s': it has no producer, is captured by a body "
                           "or renamed already; this is a bug",
                           value->name);
        }
        emitter->float_name[pair->value] = oq_emit_name(emitter, value->name, "_float");
        if (!emitter->float_name[pair->value]) {
            return oq_fail_memory(error, "name");
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_emit_pairs(struct oq_emitter *emitter, struct onnxptq_error *error) {
    const struct oq_plan *plan = emitter->plan;
    struct shared *groups = oq_arena_array(emitter->scratch, plan->n_groups, sizeof *groups);
    if (!groups) {
        return oq_fail_memory(error, "groups");
    }
    OQ_TRY(name_floats(emitter, error));
    for (uint32_t i = 0; i < plan->n_pairs; i++) {
        struct placement at = {.pair = &plan->pairs[i]};
        at.uses = live_uses(emitter, at.pair, &at.n_uses);
        if (!at.uses) {
            return oq_fail_memory(error, "uses");
        }
        if (emitter->pair_dropped[i] || (at.n_uses == 0 && !at.pair->takes_name)) {
            continue;
        }
        struct oq_quant_params params = oq_emit_pair_params(emitter, i);
        struct shared *group = &groups[at.pair->group];
        struct shared single = {0};
        at.shared = group;
        if (group->owner && !oq_quant_spec_equal(&group->owner->spec, &at.pair->spec)) {
            group = &single; /* another number format has numbers of its own */
            at.shared = &single;
        }
        if (!group->owner && !make_shared(emitter, at.pair, params, group)) {
            return oq_fail_memory(error, "scale");
        }
        OQ_TRY(emit_pair(emitter, &at, error));
        emitter->result->pairs[i] = params;
    }
    return ONNXPTQ_OK;
}
