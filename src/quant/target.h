/*
 * Targets: where Q/DQ goes for a runtime. A target is one row (its number formats) and one file of rules.
 */
#ifndef OQ_QUANT_TARGET_H
#define OQ_QUANT_TARGET_H

#include "calib/statistics.h"
#include "quant/plan.h"
#include "quant/select.h"

/* What the planner knows besides the graph. */
struct oq_plan_context {
    const struct oq_graph *graph;
    const struct oq_statistics *trace; /* one per value of the graph, from one sample; NULL: only for estimates */
    const struct oq_selection *selection;
    bool size_rules;
    enum onnxptq_foreign_edges foreign_edges;
};

struct oq_target {
    const char *name;
    struct oq_quant_spec activation;
    struct oq_quant_spec weight;
    bool size_rules_default;
    enum onnxptq_status (*plan)(const struct oq_target *target, const struct oq_plan_context *context,
                                struct oq_plan *plan, struct onnxptq_error *error);
};

/* NULL when there is none of that name. NULL name: the default target. */
const struct oq_target *oq_target_find(const char *name);
/* "tensorrt, onnxruntime" */
const char *oq_target_names(void);

/* Fills the plan: a decision for every node. */
enum onnxptq_status oq_target_plan(const struct oq_target *target,
                                   const struct oq_plan_context *context, struct oq_plan *plan,
                                   struct onnxptq_error *error) OQ_MUST_USE;

#endif
