/*
 * The rest of a model in half precision: which nodes compute in float16 or bfloat16, why the others
 * do not, and the edit that makes it so.
 *
 * A node computes in half precision when all of its float32 inputs and results can. Values keep
 * their names; where a value is wanted in the other type, one Cast behind its producer serves all
 * readers. Constants are converted, never cast. Q/DQ take the type of what they stand between.
 */
#ifndef OQ_PRECISION_PRECISION_H
#define OQ_PRECISION_PRECISION_H

#include "base/arena.h"
#include "base/map.h"
#include "calib/statistics.h"
#include "model/graph.h"
#include "runtime/runtime.h"

struct oq_precision_spec {
    const struct oq_graph *graph;
    struct oq_runtime *runtime;       /* asked what it takes in half precision */
    enum onnxptq_type type;           /* FLOAT16 or BFLOAT16 */
    bool native_io;                   /* inputs and outputs of the model become half, too */
    const struct oq_statistics *seen; /* one per value; `type` 0: not known */
    const bool *kept;                 /* per node: the user wants it in float32; NULL: none */
    const bool *held;                 /* per node: measured to cost too much; NULL: none */
    /* Foreign operators that take half precision: "custom_domain::DummyOp". All others read and
     * write what they do today. */
    const char *const *half_ops;
    size_t n_half_ops;
};

struct oq_precision_node {
    bool half;
    const char *rule, *reason; /* NULL: no float32 tensors, nothing to decide */
};

/* Made by oq_precision_decide, followed by oq_precision_apply. */
struct oq_precision_plan {
    struct oq_arena *arena;
    enum onnxptq_type type;
    bool native_io;
    struct oq_precision_node *nodes; /* one per node of the graph */
    bool *is_float;                  /* per value: float32 today */
    bool *is_half;                   /* per value: its producer, or the caller, gives it in half */
    size_t n_half;                   /* nodes */
};

/* What converting constants did. */
struct oq_precision_counts {
    uint64_t clamped;    /* finite elements beyond the type's largest number, which they became */
    uint64_t underflown; /* elements that became zero */
    size_t casts;        /* nodes added */
};

/* ONNXPTQ_ERROR_USAGE when the library of a declared foreign operator does not take it. */
enum onnxptq_status oq_precision_decide(const struct oq_precision_spec *spec,
                                        struct oq_precision_plan **out, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_precision_plan_destroy(struct oq_precision_plan *plan); /* NULL is allowed */

/* Edits `model`, which `graph` indexes and which the plan was made for; the index is of no use
 * afterwards. Large constants go to a temporary file beside `beside_path`. */
enum onnxptq_status oq_precision_apply(struct oq_model *model, const struct oq_graph *graph,
                                       const struct oq_precision_plan *plan,
                                       const char *beside_path, struct oq_precision_counts *counts,
                                       struct onnxptq_error *error) OQ_MUST_USE;

/* The version of the default domain in which operators take the type: float16 in Q/DQ 19, bfloat16
 * in convolutions 22. */
int64_t oq_precision_needed_opset(enum onnxptq_type type, bool quantized);

#endif
