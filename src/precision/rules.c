/*
 * What is known about operators. Everything else the runtime is asked, or the trace.
 */
#include "precision/decide.h"

#include <string.h>

static bool is_one_of(const struct oq_node *node, const char *const *types) {
    if (!oq_is_default_domain(node->proto->domain)) {
        return false;
    }
    for (; *types != NULL; types++) {
        if (strcmp(node->proto->op_type, *types) == 0) {
            return true;
        }
    }
    return false;
}

bool oq_precision_keeps_input(const struct oq_node *node, size_t input) {
    static const char *const RESIZE[] = {"Resize", NULL};
    static const char *const UPSAMPLE[] = {"Upsample", NULL};
    return (input == 2 && is_one_of(node, RESIZE)) || (input == 1 && is_one_of(node, UPSAMPLE));
}

static bool is_movement(const struct oq_node *node) {
    static const char *const TYPES[] = {"Reshape",
                                        "Transpose",
                                        "Squeeze",
                                        "Unsqueeze",
                                        "Flatten",
                                        "Slice",
                                        "Split",
                                        "Concat",
                                        "Gather",
                                        "Expand",
                                        "Tile",
                                        "Identity",
                                        "Pad",
                                        "DepthToSpace",
                                        "SpaceToDepth",
                                        "GatherElements",
                                        "GatherND",
                                        "ScatterElements",
                                        "ScatterND",
                                        "MaxPool",
                                        "Relu",
                                        "Dropout",
                                        NULL};
    return is_one_of(node, TYPES);
}

bool oq_precision_is_product(const struct oq_node *node) {
    return oq_operator_is_weighted(node->op) || is_movement(node);
}

bool oq_precision_makes_own_type(const struct oq_node *node) {
    static const char *const TYPES[] = {"RandomNormal",     "RandomUniform",
                                        "RandomNormalLike", "RandomUniformLike",
                                        "EyeLike",          "Multinomial",
                                        "Bernoulli",        "HannWindow",
                                        "HammingWindow",    "BlackmanWindow",
                                        "MelWeightMatrix",  "SequenceEmpty",
                                        "Optional",         NULL};
    return is_one_of(node, TYPES);
}

/* True when the node is a Cast to an integer type. */
static bool makes_integers(const struct oq_node *node) {
    static const char *const CAST[] = {"Cast", NULL};
    const int to = (int)oq_attribute_int(node->proto, "to", 0);
    return is_one_of(node, CAST) && to != ONNXPTQ_TYPE_BOOL && to != ONNXPTQ_TYPE_FLOAT &&
           to != ONNXPTQ_TYPE_DOUBLE && to != ONNXPTQ_TYPE_FLOAT16 && to != ONNXPTQ_TYPE_BFLOAT16 &&
           to != ONNXPTQ_TYPE_STRING;
}

bool oq_precision_reads_exactly(const struct oq_precision_decider *decider,
                                const struct oq_node *node, size_t input) {
    static const char *const SIZES[] = {"Range", "NonMaxSuppression", NULL};
    static const char *const WAVES[] = {"Sin", "Cos", "Tan", NULL};
    if (makes_integers(node) || is_one_of(node, SIZES) || oq_precision_keeps_input(node, input)) {
        return true;
    }
    /* A half precision angle of 16 is off by up to 1/128 already. */
    const uint32_t value = oq_node_input(node, input);
    const struct oq_statistics *seen = value == OQ_NONE ? NULL : &decider->spec->seen[value];
    return seen != NULL && is_one_of(node, WAVES) && (seen->max > 16.0 || seen->min < -16.0);
}

bool oq_precision_passes_exactness(const struct oq_node *node) {
    static const char *const TYPES[] = {"Add",  "Sub",   "Mul",  "Div",   "Mod", "Floor",
                                        "Ceil", "Round", "Neg",  "Abs",   "Min", "Max",
                                        "Clip", "Sqrt",  "Cast", "Where", NULL};
    return is_movement(node) || is_one_of(node, TYPES);
}
