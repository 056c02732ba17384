/*
 * Targets: where Q/DQ goes for a runtime. A target is one row of number formats and switches, and
 * one file of passes for what no other target does.
 */
#ifndef OQ_QUANT_TARGET_H
#define OQ_QUANT_TARGET_H

#include "calib/statistics.h"
#include "quant/plan.h"
#include "quant/select.h"

/* What the planner knows besides the graph. */
struct oq_plan_context {
    const struct oq_graph *graph;
    const struct oq_statistics *trace;    /* one per value, from one sample; NULL: estimate only */
    const struct oq_selection *selection; /* NULL: everything is selected */
    bool size_rules;
    enum onnxptq_foreign_edges foreign_edges;
    enum onnxptq_type activation_type; /* UNDEFINED: the target's */
    int quantize_outputs;              /* 1 all, 0 none, -1 as the target does */
    const bool *held; /* per node: measured to cost too much, it stays float; NULL: none */
};

struct oq_planner;

struct oq_target {
    const char *name;
    struct oq_quant_spec activation;
    enum onnxptq_type activation_types[5]; /* those the user may choose; UNDEFINED ends the list */
    struct oq_quant_spec weight;
    bool int32_bias;            /* biases are quantized with scale(input) x scale(weight) */
    bool plain_gemm_only;       /* a Gemm with alpha or beta other than 1 stays float */
    bool conv_transpose;        /* ConvTranspose (group 1) is quantized, one scale per tensor */
    size_t matmul_channel_rank; /* a MatMul weight of a higher rank gets one scale; 0: no limit */
    bool matmul_left_channels;  /* a constant on the left has one scale per row, of any rank; else
                                   one in all */
    bool size_rules_default;
    bool needs_runtime_optimizer; /* ONNX Runtime's optimizer is what makes integer kernels of the
                                     result; else the result is for another program */
    /* Run in this order, up to a NULL. */
    enum onnxptq_status (*const *passes)(struct oq_planner *planner, struct onnxptq_error *error);
};

extern const struct oq_target oq_target_tensorrt;
extern const struct oq_target oq_target_onnxruntime;

/* NULL when there is none of that name. NULL name: the default target. */
const struct oq_target *oq_target_find(const char *name);
/* "tensorrt, onnxruntime" */
const char *oq_target_names(void);

/* ONNXPTQ_ERROR_USAGE where the target has no such activations; UNDEFINED is always right. */
enum onnxptq_status oq_target_check_activation(const struct oq_target *target,
                                               enum onnxptq_type type, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Fills the plan: a decision for every node. */
enum onnxptq_status oq_target_plan(const struct oq_target *target,
                                   const struct oq_plan_context *context, struct oq_plan *plan,
                                   struct onnxptq_error *error) OQ_MUST_USE;

#endif
