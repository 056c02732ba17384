/*
 * The plan's container: adding, finding, joining. Which rules fill it is the matter of the targets.
 */
#include "quant/plan.h"

#include <stdlib.h>
#include <string.h>

static uint32_t *fill_none(uint32_t *ids, size_t n) {
    for (size_t i = 0; ids && i < n; i++) {
        ids[i] = OQ_NONE;
    }
    return ids;
}

static bool allocate_tables(struct oq_plan *plan, const struct oq_graph *graph) {
    plan->n_nodes = oq_graph_n_nodes(graph);
    plan->n_values = oq_graph_n_values(graph);
    struct oq_arena *arena = plan->arena;
    plan->nodes = oq_arena_array(arena, plan->n_nodes, sizeof *plan->nodes);
    plan->first_pair =
        fill_none(oq_arena_array(arena, plan->n_values, sizeof(uint32_t)), plan->n_values);
    plan->first_weight =
        fill_none(oq_arena_array(arena, plan->n_values, sizeof(uint32_t)), plan->n_values);
    plan->is_constant = oq_arena_array(arena, plan->n_values, sizeof(bool));
    plan->is_foreign_result = oq_arena_array(arena, plan->n_values, sizeof(bool));
    return plan->nodes && plan->first_pair && plan->first_weight && plan->is_constant &&
           plan->is_foreign_result;
}

static void classify_values(struct oq_plan *plan, const struct oq_graph *graph) {
    for (uint32_t i = 0; i < plan->n_values; i++) {
        const struct oq_value *value = oq_graph_value(graph, i);
        plan->is_constant[i] = oq_graph_constant(graph, i) != NULL;
        plan->is_foreign_result[i] = value->producer != OQ_NONE && !value->is_output &&
                                     oq_graph_node(graph, value->producer)->foreign;
    }
}

enum onnxptq_status oq_plan_create(const struct oq_graph *graph, struct oq_plan **out,
                                   struct onnxptq_error *error) {
    struct oq_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return oq_fail_memory(error, "plan");
    }
    plan->arena = oq_arena_create();
    if (!plan->arena || !allocate_tables(plan, graph)) {
        oq_plan_destroy(plan);
        return oq_fail_memory(error, "plan");
    }
    for (size_t i = 0; i < plan->n_nodes; i++) {
        plan->nodes[i] = (struct oq_plan_node){.rule = "no-rule",
                                               .reason = "no rule of the target quantizes it"};
    }
    classify_values(plan, graph);
    *out = plan;
    return ONNXPTQ_OK;
}

void oq_plan_destroy(struct oq_plan *plan) {
    if (!plan) {
        return;
    }
    free(plan->pairs);
    free(plan->weights);
    free(plan->biases);
    oq_arena_destroy(plan->arena);
    free(plan);
}

static const char *keep_text(struct oq_plan *plan, const char *text) {
    const char *copy = text ? oq_arena_strdup(plan->arena, text) : NULL;
    return copy ? copy : "";
}

/* The capacity of a list of uses is the power of two that holds it, so it needs no field. */
static bool add_use(struct oq_plan *plan, struct oq_use **uses, size_t *n, struct oq_use use) {
    if (use.node == OQ_NONE) {
        return true;
    }
    for (size_t i = 0; i < *n; i++) {
        if ((*uses)[i].node == use.node && (*uses)[i].input == use.input) {
            return true;
        }
    }
    if ((*n & (*n - 1)) == 0) { /* 0, 1, 2, 4, ...: full */
        struct oq_use *grown = oq_arena_array(plan->arena, *n ? *n * 2 : 1, sizeof *grown);
        if (!grown) {
            return false;
        }
        if (*n) {
            memcpy(grown, *uses, *n * sizeof *grown);
        }
        *uses = grown;
    }
    (*uses)[(*n)++] = use;
    return true;
}

static uint32_t find_pair_of_spec(const struct oq_plan *plan, uint32_t value,
                                  const struct oq_quant_spec *spec) {
    uint32_t pair = plan->first_pair[value];
    while (pair != OQ_NONE && !oq_quant_spec_equal(&plan->pairs[pair].spec, spec)) {
        pair = plan->pairs[pair].next;
    }
    return pair;
}

static uint32_t new_pair(struct oq_plan *plan, uint32_t value, struct oq_quant_spec spec,
                         const char *rule, const char *reason) {
    void *pairs = plan->pairs;
    if (!oq_grow(&pairs, &plan->capacity_pairs, plan->n_pairs + 1, sizeof *plan->pairs)) {
        return OQ_NONE;
    }
    plan->pairs = pairs;
    uint32_t id = (uint32_t)plan->n_pairs++;
    plan->pairs[id] = (struct oq_plan_pair){.value = value,
                                            .spec = spec,
                                            .group = plan->n_groups++,
                                            .rule = keep_text(plan, rule),
                                            .reason = keep_text(plan, reason),
                                            .next = OQ_NONE};
    uint32_t *link = &plan->first_pair[value];
    while (*link != OQ_NONE) {
        link = &plan->pairs[*link].next;
    }
    *link = id;
    return id;
}

uint32_t oq_plan_add_pair(struct oq_plan *plan, uint32_t value, struct oq_quant_spec spec,
                          struct oq_use use, const char *rule, const char *reason) {
    uint32_t id = find_pair_of_spec(plan, value, &spec);
    if (id == OQ_NONE) {
        id = new_pair(plan, value, spec, rule, reason);
    }
    if (id == OQ_NONE || !add_use(plan, &plan->pairs[id].uses, &plan->pairs[id].n_uses, use)) {
        return OQ_NONE;
    }
    return id;
}

uint32_t oq_plan_find_pair(const struct oq_plan *plan, uint32_t value) {
    return plan->first_pair[value];
}

void oq_plan_join_groups(struct oq_plan *plan, uint32_t pair_a, uint32_t pair_b) {
    uint32_t kept = plan->pairs[pair_a].group;
    uint32_t joined = plan->pairs[pair_b].group;
    for (size_t i = 0; kept != joined && i < plan->n_pairs; i++) {
        if (plan->pairs[i].group == joined) {
            plan->pairs[i].group = kept;
        }
    }
}

static uint32_t new_weight(struct oq_plan *plan, uint32_t value, struct oq_quant_spec spec,
                           int axis, const char *rule, const char *reason) {
    void *weights = plan->weights;
    if (!oq_grow(&weights, &plan->capacity_weights, plan->n_weights + 1, sizeof *plan->weights)) {
        return OQ_NONE;
    }
    plan->weights = weights;
    uint32_t id = (uint32_t)plan->n_weights++;
    plan->weights[id] = (struct oq_plan_weight){.value = value,
                                                .spec = spec,
                                                .axis = axis,
                                                .rule = keep_text(plan, rule),
                                                .reason = keep_text(plan, reason),
                                                .next = OQ_NONE};
    uint32_t *link = &plan->first_weight[value];
    while (*link != OQ_NONE) {
        link = &plan->weights[*link].next;
    }
    *link = id;
    return id;
}

uint32_t oq_plan_add_weight(struct oq_plan *plan, uint32_t value, struct oq_quant_spec spec,
                            int axis, struct oq_use use, const char *rule, const char *reason) {
    uint32_t id = plan->first_weight[value];
    while (id != OQ_NONE && (plan->weights[id].axis != axis ||
                             !oq_quant_spec_equal(&plan->weights[id].spec, &spec))) {
        id = plan->weights[id].next;
    }
    if (id == OQ_NONE) {
        id = new_weight(plan, value, spec, axis, rule, reason);
    }
    if (id == OQ_NONE || !add_use(plan, &plan->weights[id].uses, &plan->weights[id].n_uses, use)) {
        return OQ_NONE;
    }
    return id;
}

uint32_t oq_plan_add_bias(struct oq_plan *plan, struct oq_plan_bias bias) {
    void *biases = plan->biases;
    if (!oq_grow(&biases, &plan->capacity_biases, plan->n_biases + 1, sizeof *plan->biases)) {
        return OQ_NONE;
    }
    plan->biases = biases;
    plan->biases[plan->n_biases] = bias;
    return (uint32_t)plan->n_biases++;
}

void oq_plan_set_node(struct oq_plan *plan, uint32_t node, enum onnxptq_decision decision,
                      const char *rule, const char *reason) {
    plan->nodes[node] = (struct oq_plan_node){
        .decision = decision, .rule = keep_text(plan, rule), .reason = keep_text(plan, reason)};
}

enum onnxptq_status oq_plan_watched(const struct oq_plan *plan, uint32_t **values, size_t *n,
                                    struct onnxptq_error *error) {
    bool *watched = calloc(plan->n_values + 1, sizeof *watched);
    uint32_t *ids = calloc(plan->n_values + 1, sizeof *ids);
    if (!watched || !ids) {
        free(watched);
        free(ids);
        return oq_fail_memory(error, "list of watched tensors");
    }
    for (size_t i = 0; i < plan->n_pairs; i++) {
        const struct oq_plan_pair *pair = &plan->pairs[i];
        watched[pair->value] =
            watched[pair->value] || (!pair->has_fixed_range && !plan->is_constant[pair->value]);
    }
    size_t count = 0;
    for (uint32_t i = 0; i < plan->n_values; i++) {
        if (watched[i] || plan->is_foreign_result[i]) {
            ids[count++] = i;
        }
    }
    free(watched);
    *values = ids;
    *n = count;
    return ONNXPTQ_OK;
}
