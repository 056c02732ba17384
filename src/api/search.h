/*
 * Which nodes to hold back from an approximation, so that the outputs keep what they must: the
 * losses of groups of nodes, each measured with all other nodes exact, nearly add up; the groups
 * that cost most are split and measured node by node, and what costs most for its size is held
 * until the sum, and then a measurement, is good enough. Where losses do not add up, units are held
 * one by one, each only when it helps.
 */
#ifndef OQ_API_SEARCH_H
#define OQ_API_SEARCH_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct oq_search_spec {
    const uint32_t *nodes; /* that may be held, in the order of the graph */
    const double *sizes;   /* what holding each costs, as a share of all; NULL: the same for all */
    size_t n;
    uint32_t n_nodes;               /* of the graph */
    double most_loss;               /* noise over signal */
    double most_held;               /* sum of the sizes that may be held; 1: all */
    size_t max_groups, max_singles; /* measurements of groups, and of nodes alone */
    size_t max_trials;              /* and of what is held, one unit more each time */
    /* Noise over signal of the worst output with the nodes of `held` exact; infinite: it fails. */
    enum onnxptq_status (*measure)(void *user, const bool *held, double *loss,
                                   struct onnxptq_error *error);
    void *user;
};

/* What one unit, a node or a group of neighbours, costs alone. */
struct oq_search_unit {
    size_t first, n; /* in `nodes` */
    double loss, size;
    bool held;
};

struct oq_search_result {
    double loss_before, loss;     /* without holding anything; with `held` */
    struct oq_search_unit *units; /* by loss, the largest first; malloc'ed */
    size_t n_units;               /* 0: nothing had to be looked for */
    size_t n_measured;
};

/* `held` has room for n_nodes; what it holds at the start stays held. */
enum onnxptq_status oq_search_held(const struct oq_search_spec *spec, bool *held,
                                   struct oq_search_result *out, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_search_result_reset(struct oq_search_result *result);

#endif
