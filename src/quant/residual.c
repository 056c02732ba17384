/*
 * Residual Adds: x -> Add directly, and x -> ... -> Add through matrix operators. The operand that
 * the Add's matrix operator computes is the main one, the other the shortcut.
 *
 *     x ──────────────────► Add        convolutional: main is the operand that comes from a
 *     └─► Conv ► … ► Conv ──┘          quantized Conv, through BatchNormalization, bias, Relu or
 *                                      MaxPool; when both do (a downsampling block), the one with
 *                                      the longer path from where they part
 *
 *     x ──────────────────► Add        transformer: main is MatMul + bias. Only where x has a pair
 *     └─► MatMul ► … ► +b ──┘          already, so that nothing is rounded that was not before
 */
#include "quant/residual.h"

#include <stdlib.h>
#include <string.h>

/* A shortcut carries its rounding on to the end. Measured: LayerNormalization results of 39 dB cost
 * nothing at the output of a 12-layer encoder; those of MiniLM, 21 to 31 dB, cost 2.5 dB there. */
#define LEAST_SHORTCUT_DB 35.0

struct oq_residual_search {
    const struct oq_planner *planner;
    uint32_t *distance[2]; /* per node: steps upstream from each operand; OQ_NONE: not reached */
    uint32_t *queue;
};

struct oq_residual_search *oq_residual_search_create(const struct oq_planner *planner) {
    size_t n = oq_graph_n_nodes(planner->graph) + 1;
    struct oq_residual_search *search = calloc(1, sizeof *search);
    if (search == NULL) {
        return NULL;
    }
    search->planner = planner;
    search->distance[0] = malloc(n * sizeof(uint32_t));
    search->distance[1] = malloc(n * sizeof(uint32_t));
    search->queue = malloc(n * sizeof(uint32_t));
    if (search->distance[0] == NULL || search->distance[1] == NULL || search->queue == NULL) {
        oq_residual_search_destroy(search);
        return NULL;
    }
    return search;
}

void oq_residual_search_destroy(struct oq_residual_search *search) {
    if (search != NULL) {
        free(search->distance[0]);
        free(search->distance[1]);
        free(search->queue);
        free(search);
    }
}

/* The value before `node` on a chain that a convolution's kernel absorbs, or OQ_NONE. */
static uint32_t before_in_chain(const struct oq_planner *planner, uint32_t node) {
    const struct oq_node *n = oq_graph_node(planner->graph, node);
    if (n->op == NULL) {
        return OQ_NONE;
    }
    switch (n->op->role) {
    case OQ_ROLE_BATCH_NORM:
    case OQ_ROLE_POOL_MAX: return n->inputs[0];
    case OQ_ROLE_ADD:
    case OQ_ROLE_MUL: return oq_planner_variable_operand(planner, node);
    case OQ_ROLE_ACTIVATION:
        return strcmp(n->op->type, "Relu") == 0 || strcmp(n->op->type, "Clip") == 0 ? n->inputs[0]
                                                                                    : OQ_NONE;
    default: return OQ_NONE;
    }
}

static bool is_convolution(const struct oq_planner *planner, uint32_t node) {
    return oq_planner_role_is(planner, node, OQ_ROLE_CONV) ||
           oq_planner_role_is(planner, node, OQ_ROLE_CONV_TRANSPOSE);
}

/* The nearest convolution upstream of a value along such a chain, or OQ_NONE. */
static uint32_t backbone(const struct oq_planner *planner, uint32_t value) {
    for (uint32_t step = 0; step < oq_graph_n_nodes(planner->graph); step++) {
        uint32_t producer = oq_planner_producer(planner, value);
        if (producer == OQ_NONE || is_convolution(planner, producer)) {
            return producer;
        }
        value = before_in_chain(planner, producer);
        if (value == OQ_NONE) {
            return OQ_NONE;
        }
    }
    return OQ_NONE;
}

/* Breadth-first distances from the producer of `value` to all nodes upstream. */
static void measure(struct oq_residual_search *search, uint32_t value, uint32_t *distance) {
    const struct oq_graph *graph = search->planner->graph;
    memset(distance, 0xff, oq_graph_n_nodes(graph) * sizeof *distance);
    uint32_t head = 0, tail = 0;
    uint32_t first = oq_planner_producer(search->planner, value);
    if (first != OQ_NONE) {
        distance[first] = 0;
        search->queue[tail++] = first;
    }
    while (head < tail) {
        uint32_t at = search->queue[head++];
        const struct oq_node *node = oq_graph_node(graph, at);
        for (size_t i = 0; i < node->proto->n_input; i++) {
            uint32_t next = oq_planner_producer(search->planner, node->inputs[i]);
            if (next != OQ_NONE && distance[next] == OQ_NONE) {
                distance[next] = distance[at] + 1;
                search->queue[tail++] = next;
            }
        }
    }
}

/* The node where the paths to both operands part: the one reached from both with the fewest steps.
 */
static uint32_t parting_node(struct oq_residual_search *search, uint32_t a, uint32_t b) {
    measure(search, a, search->distance[0]);
    measure(search, b, search->distance[1]);
    uint32_t best = OQ_NONE, best_sum = OQ_NONE;
    for (uint32_t node = 0; node < oq_graph_n_nodes(search->planner->graph); node++) {
        uint32_t d0 = search->distance[0][node], d1 = search->distance[1][node];
        if (d0 != OQ_NONE && d1 != OQ_NONE && d0 + d1 < best_sum) {
            best = node;
            best_sum = d0 + d1;
        }
    }
    return best;
}

/* Which operand (0 or 1) is computed by the convolution that absorbs the Add; -1: none. */
static int main_operand(struct oq_residual_search *search, uint32_t a, uint32_t b) {
    uint32_t conv_a = backbone(search->planner, a), conv_b = backbone(search->planner, b);
    if ((conv_a == OQ_NONE && conv_b == OQ_NONE) || conv_a == conv_b) {
        return -1;
    }
    uint32_t parting = parting_node(search, a, b);
    if (conv_a != OQ_NONE && conv_b != OQ_NONE) {
        /* Without a common ancestor both paths begin at graph inputs: the second operand it is. */
        bool first_longer =
            parting != OQ_NONE && search->distance[0][parting] > search->distance[1][parting];
        return first_longer ? 0 : 1;
    }
    uint32_t conv = conv_a != OQ_NONE ? conv_a : conv_b;
    if (parting == conv) {
        return -1; /* both operands are made from this convolution's result */
    }
    return conv_a != OQ_NONE ? 0 : 1;
}

/* True for the result of a quantized MatMul or Gemm with its bias. */
static bool is_product_with_bias(const struct oq_planner *planner, uint32_t value) {
    uint32_t producer = oq_planner_producer(planner, value);
    if (oq_planner_role_is(planner, producer, OQ_ROLE_ADD)) {
        value = oq_planner_variable_operand(planner, producer);
        producer = oq_planner_producer(planner, value);
    }
    return (oq_planner_role_is(planner, producer, OQ_ROLE_MATMUL) ||
            oq_planner_role_is(planner, producer, OQ_ROLE_GEMM)) &&
           oq_planner_is_quantized(planner, producer);
}

static int transformer_shortcut(const struct oq_planner *planner, const uint32_t *operands) {
    for (int main = 0; main < 2; main++) {
        uint32_t shortcut = operands[1 - main];
        if (is_product_with_bias(planner, operands[main]) &&
            oq_plan_find_pair(planner->plan, shortcut) != OQ_NONE &&
            oq_planner_rounding_db(planner, shortcut) >= LEAST_SHORTCUT_DB) {
            return 1 - main;
        }
    }
    return -1;
}

int oq_residual_shortcut(struct oq_residual_search *search, uint32_t add) {
    const struct oq_planner *planner = search->planner;
    const struct oq_node *node = oq_graph_node(planner->graph, add);
    if (node->proto->n_input != 2 || node->inputs[0] == node->inputs[1] ||
        !oq_planner_is_activation(planner, node->inputs[0]) ||
        !oq_planner_is_activation(planner, node->inputs[1])) {
        return -1;
    }
    int main = main_operand(search, node->inputs[0], node->inputs[1]);
    if (main < 0) {
        return transformer_shortcut(planner, node->inputs);
    }
    uint32_t conv = backbone(planner, node->inputs[main]);
    return oq_planner_is_quantized(planner, conv) ? 1 - main : -1;
}
