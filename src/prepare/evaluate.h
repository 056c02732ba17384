/*
 * The values of constant results, found by running the nodes behind them.
 */
#ifndef OQ_PREPARE_EVALUATE_H
#define OQ_PREPARE_EVALUATE_H

#include "prepare/preparation.h"
#include "prepare/spill.h"

/* One result that is asked for. */
struct oq_evaluated {
    uint32_t value;
    bool known; /* false: the runtime could not compute it; a note says why */
    struct oq_spilled data;
};

/* Runs in ONNX Runtime, as models of their own, the nodes behind `items`, all of them marked in
 * `constant_nodes`. A result of many bytes is in memory only until the next group is run. */
enum onnxptq_status oq_evaluate(const struct oq_preparation *preparation,
                                const bool *constant_nodes, struct oq_evaluated *items, size_t n,
                                struct oq_spill *spill, struct onnxptq_error *error) OQ_MUST_USE;

#endif
