/*
 * Ranges of the pairs' groups: from statistics, from the plan, or from the constant itself.
 */
#include "base/number.h"
#include "quant/emitter.h"

#include <math.h>

#define BLOCK 4096

struct range {
    double min, max;     /* min > max: none */
    const char *missing; /* why there is none */
};

static struct range constant_range(const struct oq_tensor_view *view) {
    struct range range = {INFINITY, -INFINITY, "it holds no finite number"};
    float block[BLOCK];
    for (size_t first = 0; first < view->n_elements; first += BLOCK) {
        size_t n = view->n_elements - first < BLOCK ? view->n_elements - first : BLOCK;
        oq_tensor_view_floats(view, first, n, block);
        for (size_t i = 0; i < n; i++) {
            if (isfinite(block[i])) {
                range.min = fmin(range.min, (double)block[i]);
                range.max = fmax(range.max, (double)block[i]);
            }
        }
    }
    return range;
}

/* What the method makes of the statistics. */
static enum onnxptq_status chosen_range(const struct oq_emitter *emitter,
                                        const struct oq_plan_pair *pair, struct range *range,
                                        struct onnxptq_error *error) {
    struct oq_range_codes codes = {.symmetric = pair->spec.symmetric};
    struct oq_range chosen;
    oq_quant_code_range(&pair->spec, &codes.low, &codes.high);
    OQ_TRY(oq_prefix(error,
                     oq_range_choose(&emitter->spec->method, &codes,
                                     &emitter->spec->ranges[pair->value], &chosen, error),
                     "cannot choose the range of tensor '%s': ",
                     oq_graph_value(emitter->graph, pair->value)->name));
    range->min = chosen.min;
    range->max = chosen.max;
    return ONNXPTQ_OK;
}

static const char *why_nothing_was_seen(const struct oq_statistics *seen) {
    if (seen->seen == 0) {
        return "no calibration sample computed it";
    }
    if (seen->type_varies) {
        return "its element type varies";
    }
    if (seen->n_empty == seen->seen) {
        return "it was empty in every calibration sample";
    }
    return seen->n_finite == 0 ? "it held no finite number in any calibration sample" : NULL;
}

static enum onnxptq_status observed_range(const struct oq_emitter *emitter,
                                          const struct oq_plan_pair *pair, struct range *range,
                                          struct onnxptq_error *error) {
    const char *missing = why_nothing_was_seen(&emitter->spec->ranges[pair->value]);
    *range = (struct range){INFINITY, -INFINITY, missing};
    return missing != NULL ? ONNXPTQ_OK : chosen_range(emitter, pair, range, error);
}

/* Element type of a value as far as it was seen, else UNDEFINED. */
static int type_of(const struct oq_emitter *emitter, uint32_t value,
                   const Onnx__TensorProto *constant) {
    const struct oq_emit_spec *spec = emitter->spec;
    if (constant) {
        return constant->data_type;
    }
    if (spec->ranges[value].seen > 0) {
        return spec->ranges[value].type;
    }
    return spec->trace ? spec->trace[value].type : 0;
}

static enum onnxptq_status range_of(struct oq_emitter *emitter, const struct oq_plan_pair *pair,
                                    struct range *out, struct onnxptq_error *error) {
    const Onnx__TensorProto *constant = oq_graph_constant(emitter->graph, pair->value);
    int type = type_of(emitter, pair->value, constant);
    if (type != 0 && type != (int)oq_quant_float_type(&pair->spec)) {
        *out = (struct range){INFINITY, -INFINITY, "its element type is not the planned one"};
    } else if (pair->has_fixed_range) {
        *out = (struct range){pair->fixed_min, pair->fixed_max, NULL};
    } else if (constant) {
        struct oq_tensor_view view;
        OQ_TRY(oq_tensor_view(emitter->model, constant, &view, error));
        *out = constant_range(&view);
    } else {
        OQ_TRY(observed_range(emitter, pair, out, error));
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status drop_pair(struct oq_emitter *emitter, uint32_t id, const char *why,
                                     struct onnxptq_error *error) {
    const struct oq_plan_pair *pair = &emitter->plan->pairs[id];
    emitter->pair_dropped[id] = true;
    for (size_t i = 0; i < pair->n_uses; i++) {
        oq_emit_leave_float(emitter, pair->uses[i].node);
    }
    return oq_emit_note(emitter, error,
                        "tensor '%s' and the nodes that would read it quantized stay float: %s",
                        oq_graph_value(emitter->graph, pair->value)->name, why);
}

enum onnxptq_status oq_emit_ranges(struct oq_emitter *emitter, struct onnxptq_error *error) {
    const struct oq_plan *plan = emitter->plan;
    emitter->group_min = oq_arena_array(emitter->scratch, plan->n_groups, sizeof(double));
    emitter->group_max = oq_arena_array(emitter->scratch, plan->n_groups, sizeof(double));
    emitter->pair_dropped = oq_arena_array(emitter->scratch, plan->n_pairs, sizeof(bool));
    if (!emitter->group_min || !emitter->group_max || !emitter->pair_dropped) {
        return oq_fail_memory(error, "ranges");
    }
    for (uint32_t i = 0; i < plan->n_pairs;
         i++) { /* arena memory is zero, and so is every range's start */
        struct range range;
        OQ_TRY(range_of(emitter, &plan->pairs[i], &range, error));
        if (!(range.min <= range.max)) {
            const char *why = range.missing ? range.missing : "its range is not a number";
            OQ_TRY(drop_pair(emitter, i, why, error));
            continue;
        }
        uint32_t group = plan->pairs[i].group;
        emitter->group_min[group] = fmin(emitter->group_min[group], range.min);
        emitter->group_max[group] = fmax(emitter->group_max[group], range.max);
    }
    return ONNXPTQ_OK;
}

struct oq_quant_params oq_emit_pair_params(const struct oq_emitter *emitter, uint32_t pair) {
    const struct oq_plan_pair *planned = &emitter->plan->pairs[pair];
    return oq_quant_params_from_range(&planned->spec, emitter->group_min[planned->group],
                                      emitter->group_max[planned->group]);
}
