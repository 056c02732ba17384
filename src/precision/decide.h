/*
 * Questions that the rules of half precision ask. For the files of this folder only.
 */
#ifndef OQ_PRECISION_DECIDE_H
#define OQ_PRECISION_DECIDE_H

#include "precision/precision.h"

struct oq_precision_decider {
    const struct oq_precision_spec *spec;
    const struct oq_graph *graph;
    struct oq_precision_plan *plan;
    bool *known;       /* per value: its element type is */
    bool *needs_exact; /* per value: integers or sizes are made of it */
    struct oq_map
        *answers; /* of the runtime, by signature: index into `refusals`, 0: it takes it */
    const char **refusals;
    size_t n_refusals, capacity_refusals;
};

/* ---- Rules (rules.c) ---- */

/* A float32 input that stays so in a node of half precision: its schema demands it. */
bool oq_precision_keeps_input(const struct oq_node *node, size_t input);
/* Conv, Gemm, MatMul, and what moves their data. */
bool oq_precision_is_product(const struct oq_node *node);
/* True when the attribute `dtype`, or the like, says what the node makes. */
bool oq_precision_makes_own_type(const struct oq_node *node);
/* True when integers or sizes are made of this input. */
bool oq_precision_reads_exactly(const struct oq_precision_decider *decider,
                                const struct oq_node *node, size_t input);
/* True when results are as exact as inputs: arithmetic by element, data movement. */
bool oq_precision_passes_exactness(const struct oq_node *node);

/* ---- Numbers (values.c) ---- */

/* Why a value should not be half, or NULL. */
const char *oq_precision_value_obstacle(struct oq_precision_decider *decider, uint32_t value);
/* True when the type holds every scale of a Q/DQ node closely. */
bool oq_precision_holds_scale(const struct oq_precision_decider *decider, uint32_t value);

/* ---- The runtime (ask.c) ---- */

/* `*reason` is NULL when the runtime, or the library, takes the node with its float32 tensors in
 * half precision. */
enum onnxptq_status oq_precision_ask(struct oq_precision_decider *decider, uint32_t node,
                                     const char **reason, struct onnxptq_error *error);

#endif
