/*
 * Rules of thumb on sizes: where an integer kernel is no faster than the float one, quantization
 * only costs accuracy. The thresholds are those that NVIDIA's Model Optimizer applies to int8
 * models. Shapes come from one traced sample, never from the batch size.
 */
#include "quant/planner.h"

#include <string.h>

/* What the user can do about it. */
#define OVERRIDE "; --size-rules off quantizes it all the same"

enum {
    SMALL = 16,          /* channels, rows or columns below this do not fill an integer tile */
    CHANNEL_STEP = 8,    /* channels that integer kernels take in multiples of */
    LONG_SEQUENCE = 512, /* beyond it, attention is faster in its fused float kernel */
    MAX_WALK = 16        /* nodes between the two products of an attention block */
};

static bool all_equal(const int64_t *dims, size_t n) {
    for (size_t i = 1; i < n; i++) {
        if (dims[i] != dims[0]) {
            return false;
        }
    }
    return true;
}

static bool all_at_least(const int64_t *dims, size_t n, int64_t least) {
    for (size_t i = 0; i < n; i++) {
        if (dims[i] < least) {
            return false;
        }
    }
    return true;
}

static const char *conv_rule(const struct oq_planner *planner, const struct oq_node *node) {
    const Onnx__TensorProto *weight = oq_graph_constant(planner->graph, node->inputs[1]);
    if (weight == NULL) {
        return NULL; /* the model came with it quantized */
    }
    int64_t c_out = weight->dims[0], per_group = weight->dims[1];
    if (c_out >= SMALL && per_group >= SMALL) {
        return NULL;
    }
    const int64_t *kernel = weight->dims + 2;
    size_t kernel_rank = weight->n_dims - 2;
    int64_t group = oq_attribute_int(node->proto, "group", 1);
    if (group > 1) {
        bool good = c_out % CHANNEL_STEP == 0 && all_at_least(kernel, kernel_rank, 3);
        return good ? NULL : "a grouped convolution with few channels or a thin kernel" OVERRIDE;
    }
    bool from_input = oq_graph_value(planner->graph, node->inputs[0])->is_input;
    bool aligned = c_out % CHANNEL_STEP == 0 || per_group % CHANNEL_STEP == 0;
    bool good = aligned && all_equal(kernel, kernel_rank) &&
                (from_input || c_out >= SMALL || per_group >= SMALL);
    return good ? NULL : "a convolution with too few channels for an integer kernel" OVERRIDE;
}

static bool any_is_one(const int64_t *shape, size_t rank) {
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] == 1) {
            return true;
        }
    }
    return false;
}

/* Shape of a constant or traced value. */
static bool shape_of(const struct oq_planner *planner, uint32_t value, const int64_t **shape,
                     size_t *rank) {
    const Onnx__TensorProto *tensor = oq_graph_constant(planner->graph, value);
    if (tensor != NULL) {
        *shape = tensor->dims;
        *rank = tensor->n_dims;
        return true;
    }
    return oq_planner_shape(planner, value, shape, rank);
}

static const char *product_rule(const struct oq_planner *planner, const struct oq_node *node) {
    bool constant = oq_planner_is_constant(planner, node->inputs[0]) ||
                    oq_planner_is_constant(planner, node->inputs[1]);
    const int64_t *shape = NULL;
    size_t rank = 0;
    if (oq_planner_shape(planner, node->outputs[0], &shape, &rank)) {
        bool vector = constant ? rank < 3 && any_is_one(shape, rank)
                               : rank < 2 || shape[rank - 1] == 1 || shape[rank - 2] == 1;
        if (vector) {
            return "a matrix-vector product in a run of one sample: bound by memory, not by "
                   "arithmetic" OVERRIDE;
        }
    }
    if (!shape_of(planner, node->inputs[1], &shape, &rank) || rank < 2) {
        return NULL;
    }
    bool transposed =
        node->op->role == OQ_ROLE_GEMM && oq_attribute_int(node->proto, "transB", 0) != 0;
    int64_t n = shape[rank - (transposed ? 2 : 1)], k = shape[rank - (transposed ? 1 : 2)];
    return n < SMALL || k < SMALL ? "a matrix product too small for an integer kernel" OVERRIDE
                                  : NULL;
}

/* Operators that may stand between the products of an attention block and its Softmax. */
static bool is_inside_attention(const struct oq_operator *op) {
    return op != NULL && (op->role == OQ_ROLE_ADD || op->role == OQ_ROLE_MUL ||
                          op->role == OQ_ROLE_MOVEMENT || op->role == OQ_ROLE_WHERE ||
                          strcmp(op->type, "Div") == 0 || strcmp(op->type, "Cast") == 0);
}

/* The first product of the attention block whose second product reads `value`, or OQ_NONE. */
static uint32_t scores_before(const struct oq_planner *planner, uint32_t value) {
    bool softmax = false;
    for (int step = 0; step < MAX_WALK; step++) {
        uint32_t producer = oq_planner_producer(planner, value);
        if (producer == OQ_NONE) {
            return OQ_NONE;
        }
        const struct oq_node *node = oq_graph_node(planner->graph, producer);
        if (softmax && oq_planner_role_is(planner, producer, OQ_ROLE_MATMUL)) {
            return producer;
        }
        if (oq_planner_role_is(planner, producer, OQ_ROLE_SOFTMAX)) {
            softmax = true;
        } else if (!is_inside_attention(node->op)) {
            return OQ_NONE;
        }
        value = node->inputs[0];
    }
    return OQ_NONE;
}

/* The second product of the attention block that begins with product `node`, or OQ_NONE. */
static uint32_t context_after(const struct oq_planner *planner, uint32_t node) {
    bool softmax = false;
    for (int step = 0; step < MAX_WALK; step++) {
        uint32_t output = oq_planner_output(planner, node);
        const struct oq_use *use = output == OQ_NONE ? NULL : oq_planner_sole_use(planner, output);
        if (use == NULL) {
            return OQ_NONE;
        }
        node = use->node;
        if (softmax && oq_planner_role_is(planner, node, OQ_ROLE_MATMUL)) {
            return node;
        }
        if (oq_planner_role_is(planner, node, OQ_ROLE_SOFTMAX)) {
            softmax = true;
        } else if (!is_inside_attention(oq_graph_node(planner->graph, node)->op)) {
            return OQ_NONE;
        }
    }
    return OQ_NONE;
}

/* Sequence length of the attention block that begins with product `node`. */
static bool is_long(const struct oq_planner *planner, uint32_t node) {
    const struct oq_node *scores = oq_graph_node(planner->graph, node);
    const int64_t *shape = NULL;
    size_t rank = 0;
    return shape_of(planner, scores->inputs[1], &shape, &rank) && rank >= 2 &&
           shape[rank - 1] > LONG_SEQUENCE;
}

static const char *attention_rule(const struct oq_planner *planner, uint32_t id) {
    const struct oq_node *node = oq_graph_node(planner->graph, id);
    uint32_t scores = scores_before(planner, node->inputs[0]);
    if (scores == OQ_NONE && context_after(planner, id) != OQ_NONE) {
        scores = id;
    }
    return scores != OQ_NONE && is_long(planner, scores)
               ? "attention over a long sequence: its fused float kernel is faster" OVERRIDE
               : NULL;
}

const char *oq_size_rule(const struct oq_planner *planner, uint32_t id) {
    const struct oq_node *node = oq_graph_node(planner->graph, id);
    switch (node->op->role) {
    case OQ_ROLE_CONV: return conv_rule(planner, node);
    case OQ_ROLE_GEMM: return product_rule(planner, node);
    case OQ_ROLE_MATMUL: {
        const char *reason = product_rule(planner, node);
        return reason != NULL ? reason : attention_rule(planner, id);
    }
    default: return NULL;
    }
}
