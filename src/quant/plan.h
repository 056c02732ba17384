/*
 * The plan: what happens to every node, tensor and weight, and why. Made by a target
 * (quant/target.h), applied by the emitter (quant/emit.h), which decides nothing.
 */
#ifndef OQ_QUANT_PLAN_H
#define OQ_QUANT_PLAN_H

#include "base/arena.h"
#include "model/graph.h"
#include "quant/params.h"

/* One Q/DQ pair on an activation: `value` is quantized once, and the listed uses read the result.
 * All other readers keep the float tensor. */
struct oq_plan_pair {
    uint32_t value;
    struct oq_quant_spec spec;
    uint32_t group;       /* pairs of one group share the union of their ranges, hence one scale */
    bool has_fixed_range; /* known without data, e.g. Softmax: [0, 1] */
    double fixed_min, fixed_max;
    bool takes_name;     /* the value is a graph output: DQ produces the public name, and
                            the float tensor is renamed at its producer. Never for a captured value,
                            a graph input or an initializer */
    struct oq_use *uses; /* distinct; in the plan's arena */
    size_t n_uses;
    const char *rule;   /* stable id */
    const char *reason; /* one sentence */
    uint32_t next;      /* further pair of the same value (another spec), or OQ_NONE */
};

/* One quantized weight: int8 initializer + DequantizeLinear, read by the listed uses. */
struct oq_plan_weight {
    uint32_t value; /* whose oq_graph_constant() is the float weight */
    struct oq_quant_spec spec;
    int axis;            /* output channels; -1: one scale */
    struct oq_use *uses; /* distinct; in the plan's arena */
    size_t n_uses;
    const char *rule, *reason;
    uint32_t next; /* further weight of the same value (another axis or spec), or OQ_NONE */
};

/* One int32 bias: scale = scale of pair x scale of weight, per channel; or `exact`, in half
 * precision: a power of two per channel, so that scale x code is the bias to the bit. */
struct oq_plan_bias {
    uint32_t value;
    uint32_t pair, weight; /* indices into the plan */
    uint32_t node;         /* the matrix operator to whose products it is added */
    struct oq_use use;     /* reads the bias: an input of `node`, or of an Add behind it */
    double factor;         /* multiplies the float bias first: Gemm's beta, which becomes 1 */
    size_t channels;       /* the bias is broadcast to this length */
    bool exact;
};

struct oq_plan_node {
    enum onnxptq_decision decision;
    bool kept; /* the model came with it quantized: nothing is planned for it */
    const char *rule, *reason;
};

/* Strings are copied into the arena. Arrays are owned by the plan. */
struct oq_plan {
    struct oq_arena *arena;
    struct oq_plan_node *nodes; /* one per node of the graph; first float by rule "no-rule" */
    size_t n_nodes;
    struct oq_plan_pair *pairs;
    size_t n_pairs, capacity_pairs;
    struct oq_plan_weight *weights;
    size_t n_weights, capacity_weights;
    struct oq_plan_bias *biases;
    size_t n_biases, capacity_biases;
    uint32_t n_groups; /* group ids are below this; some may be empty */

    size_t n_values;
    uint32_t *first_pair, *first_weight; /* per value of the graph, or OQ_NONE */
    bool *is_constant;       /* per value: its range is read from the model, not watched */
    bool *is_foreign_result; /* per value, outputs of graphs aside */
};

enum onnxptq_status oq_plan_create(const struct oq_graph *graph, struct oq_plan **out,
                                   struct onnxptq_error *error) OQ_MUST_USE;
void oq_plan_destroy(struct oq_plan *plan); /* NULL is allowed */

/* Adds `use` to the pair of (value, spec), which is made in a group of its own when there is none.
 * Returns the pair's index, or OQ_NONE when out of memory. `use.node` OQ_NONE adds no use. */
uint32_t oq_plan_add_pair(struct oq_plan *plan, uint32_t value, struct oq_quant_spec spec,
                          struct oq_use use, const char *rule, const char *reason);
/* The first pair of a value, or OQ_NONE. */
uint32_t oq_plan_find_pair(const struct oq_plan *plan, uint32_t value);
/* Joins the groups of two pairs. */
void oq_plan_join_groups(struct oq_plan *plan, uint32_t pair_a, uint32_t pair_b);
/* Adds `use` to the weight of (value, axis, spec), which is made when there is none. Returns as
 * add_pair. */
uint32_t oq_plan_add_weight(struct oq_plan *plan, uint32_t value, struct oq_quant_spec spec,
                            int axis, struct oq_use use, const char *rule, const char *reason);
/* The bias's index, or OQ_NONE when out of memory. */
uint32_t oq_plan_add_bias(struct oq_plan *plan, struct oq_plan_bias bias);
/* Strings are copied; out of memory leaves the reason empty. */
void oq_plan_set_node(struct oq_plan *plan, uint32_t node, enum onnxptq_decision decision,
                      const char *rule, const char *reason);

/* Distinct values that calibration must watch, ascending: those of pairs without a fixed range,
 * unless constants of the model, and the results of foreign operators, whose shapes the emitter
 * records where all samples agree. malloc'ed. */
enum onnxptq_status oq_plan_watched(const struct oq_plan *plan, uint32_t **values, size_t *n,
                                    struct onnxptq_error *error) OQ_MUST_USE;

#endif
