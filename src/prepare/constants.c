/*
 * Which constants are evaluated, and putting their values in place. Running them is in evaluate.c.
 */
#include "prepare/constants.h"

#include "prepare/constant_edit.h"
#include "prepare/constant_find.h"
#include "prepare/evaluate.h"
#include "prepare/functions.h"

#include <stdlib.h>
#include <string.h>

struct search {
    struct oq_preparation *preparation;
    const struct oq_graph *graph;
    bool *constant_nodes;
    size_t *wanted_as; /* per value: 1 + its index in items, or 0 */
    struct oq_evaluated *items;
    size_t n_items, capacity_items;
    struct oq_use *uses; /* of all items, in the order of the nodes */
    size_t n_uses, capacity_uses;
};

/* ---- What is wanted ------------------------------------------------------------------------- */

static const struct oq_operator *operator_of(const struct oq_graph *graph, uint32_t id) {
    const struct oq_node *node = id == OQ_NONE ? NULL : oq_graph_node(graph, id);
    return node == NULL || node->foreign || node->local_function ? NULL : node->op;
}

static const struct oq_operator *producer_of(const struct search *search,
                                             const struct oq_node *node, size_t input) {
    const uint32_t value = oq_node_input(node, input);
    return value == OQ_NONE
               ? NULL
               : operator_of(search->graph, oq_graph_value(search->graph, value)->producer);
}

static bool is_result_of(const struct search *search, const struct oq_node *node, size_t input,
                         bool (*fits)(const struct oq_operator *op)) {
    const struct oq_operator *op = producer_of(search, node, input);
    return op != NULL && fits(op);
}

static bool is_convolution(const struct oq_operator *op) {
    return op->role == OQ_ROLE_CONV || op->role == OQ_ROLE_CONV_TRANSPOSE;
}

/* What a Clip behind it is fused with. */
static bool may_end_in_clip(const struct oq_operator *op) {
    return oq_operator_is_weighted(op) || op->role == OQ_ROLE_BATCH_NORM || op->role == OQ_ROLE_ADD;
}

/* Bit i: the value of input i is wanted if it is constant. */
static uint32_t wanted_inputs(const struct search *search, const struct oq_node *node) {
    const struct oq_operator *op = node->op;
    switch (op->role) {
    case OQ_ROLE_CONV:
    case OQ_ROLE_CONV_TRANSPOSE:
    case OQ_ROLE_GEMM: return 1u << 1 | 1u << 2;
    case OQ_ROLE_MATMUL: return 1u << 0 | 1u << 1;
    case OQ_ROLE_BATCH_NORM: return is_result_of(search, node, 0, is_convolution) ? 0x1eu : 0;
    case OQ_ROLE_ADD: /* the bias of a MatMul */
        return (is_result_of(search, node, 0, oq_operator_is_weighted) ? 1u << 1 : 0) |
               (is_result_of(search, node, 1, oq_operator_is_weighted) ? 1u << 0 : 0);
    case OQ_ROLE_ACTIVATION:
        return strcmp(op->type, "Clip") == 0 && is_result_of(search, node, 0, may_end_in_clip)
                   ? 0x6u
                   : 0;
    case OQ_ROLE_OTHER:
    case OQ_ROLE_MUL:
    case OQ_ROLE_POOL_MAX:
    case OQ_ROLE_POOL_AVERAGE:
    case OQ_ROLE_CONCAT:
    case OQ_ROLE_RESIZE:
    case OQ_ROLE_SOFTMAX:
    case OQ_ROLE_WHERE:
    case OQ_ROLE_MOVEMENT:
    case OQ_ROLE_POINTWISE:
    case OQ_ROLE_QUANTIZE:
    case OQ_ROLE_CONTROL: break;
    }
    return 0;
}

/* Constant, but not one that the later stages see as it stands. */
static bool needs_evaluation(const struct search *search, uint32_t value) {
    return value != OQ_NONE &&
           oq_constant_find_value(search->graph, search->constant_nodes, value) &&
           oq_graph_constant(search->graph, value) == NULL;
}

static bool want(struct search *search, uint32_t value, struct oq_use use) {
    void *items = search->items, *uses = search->uses;
    const bool grown =
        oq_grow(&items, &search->capacity_items, search->n_items + 1, sizeof *search->items);
    search->items = items;
    if (!grown ||
        !oq_grow(&uses, &search->capacity_uses, search->n_uses + 1, sizeof *search->uses)) {
        return false;
    }
    search->uses = uses;
    search->uses[search->n_uses++] = use;
    if (search->wanted_as[value] == 0) {
        search->items[search->n_items++] = (struct oq_evaluated){.value = value};
        search->wanted_as[value] = search->n_items;
    }
    return true;
}

static bool search_node(struct search *search, uint32_t id) {
    const struct oq_node *node = oq_graph_node(search->graph, id);
    if (operator_of(search->graph, id) == NULL || search->constant_nodes[id] ||
        oq_preparation_excludes(search->preparation, node->proto)) {
        return true;
    }
    const uint32_t wanted = wanted_inputs(search, node);
    for (uint32_t i = 0; i < node->proto->n_input && i < 32; i++) {
        if ((wanted >> i & 1) != 0 && needs_evaluation(search, node->inputs[i]) &&
            !want(search, node->inputs[i], (struct oq_use){id, i})) {
            return false;
        }
    }
    return true;
}

static enum onnxptq_status find(struct search *search, struct onnxptq_error *error) {
    search->wanted_as =
        calloc((size_t)oq_graph_n_values(search->graph) + 1, sizeof *search->wanted_as);
    bool done = search->wanted_as != NULL;
    for (uint32_t i = 0; done && i < oq_graph_n_nodes(search->graph); i++) {
        done = search_node(search, i);
    }
    return done ? ONNXPTQ_OK : oq_fail_memory(error, "constants");
}

/* ---- Putting the values in place ------------------------------------------------------------ */

static size_t item_of(const struct search *search, struct oq_use use) {
    return search->wanted_as[oq_graph_node(search->graph, use.node)->inputs[use.input]] - 1;
}

/* The uses by item: those of item i are [first[i], first[i + 1]). Counting sort. */
static bool sort_uses(const struct search *search, struct oq_use **sorted, size_t **first) {
    struct oq_arena *arena = search->preparation->scratch;
    size_t *end = oq_arena_array(arena, search->n_items + 2, sizeof *end);
    struct oq_use *uses = oq_arena_array(arena, search->n_uses, sizeof *uses);
    if (end == NULL || uses == NULL) {
        return false;
    }
    end++; /* so that what ends as the end of i starts as its start */
    for (size_t i = 0; i < search->n_uses; i++) {
        end[item_of(search, search->uses[i]) + 1]++;
    }
    for (size_t i = 1; i <= search->n_items; i++) {
        end[i] += end[i - 1];
    }
    for (size_t i = 0; i < search->n_uses; i++) {
        uses[end[item_of(search, search->uses[i])]++] = search->uses[i];
    }
    *sorted = uses;
    *first = end - 1;
    return true;
}

static bool replace_all(struct search *search, struct oq_constant_edit *edit, size_t *n_replaced) {
    struct oq_use *uses;
    size_t *first;
    if (!sort_uses(search, &uses, &first)) {
        return false;
    }
    for (size_t i = 0; i < search->n_items; i++) {
        const struct oq_evaluated *item = &search->items[i];
        if (!item->known) {
            continue;
        }
        if (!oq_constant_edit_replace(edit, item->value, uses + first[i], first[i + 1] - first[i],
                                      item->data)) {
            return false;
        }
        ++*n_replaced;
    }
    return true;
}

static enum onnxptq_status apply(struct search *search, struct oq_spill *spill,
                                 struct onnxptq_error *error) {
    size_t n_replaced = 0;
    struct oq_constant_edit *edit =
        oq_constant_edit_create(search->preparation, search->constant_nodes);
    enum onnxptq_status status = oq_spill_attach(spill, search->preparation->model, error);
    if (status == ONNXPTQ_OK && (edit == NULL || !replace_all(search, edit, &n_replaced))) {
        status = oq_fail_memory(error, "constants");
    }
    if (status == ONNXPTQ_OK) {
        status = oq_constant_edit_apply(edit, spill, error);
    }
    if (status == ONNXPTQ_OK && n_replaced > 0) {
        oq_preparation_note(search->preparation,
                            "%zu constant%s behind weights and the like: evaluated once, by the "
                            "runtime, and stored",
                            n_replaced, n_replaced == 1 ? "" : "s");
    }
    oq_constant_edit_destroy(edit);
    return status;
}

static enum onnxptq_status run(struct search *search, struct oq_spill *spill,
                               struct onnxptq_error *error) {
    OQ_TRY(find(search, error));
    if (search->n_items == 0) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_evaluate(search->preparation, search->constant_nodes, search->items, search->n_items,
                       spill, error));
    return apply(search, spill, error);
}

enum onnxptq_status oq_prepare_constants(struct oq_preparation *preparation,
                                         struct onnxptq_error *error) {
    OQ_TRY(oq_preparation_index(preparation, error));
    struct search search = {.preparation = preparation, .graph = preparation->graph};
    OQ_TRY(oq_constant_find_nodes(preparation, &search.constant_nodes, error));
    struct oq_spill *spill = oq_spill_create(preparation->spec->beside_path, preparation->scratch);
    const enum onnxptq_status status =
        spill == NULL ? oq_fail_memory(error, "constants") : run(&search, spill, error);
    oq_spill_destroy(spill);
    free(search.constant_nodes);
    free(search.wanted_as);
    free(search.items);
    free(search.uses);
    return status;
}
