/*
 * What the user includes and excludes: op types and patterns of node names.
 *
 * Op types are names, commas allowed, "Conv" or "custom_domain::DummyOp"; a bare type that ONNX
 * does not define matches any domain. Node patterns are PCRE2, matched against the whole name ("@"
 * + first output for an unnamed node), not split at commas. Exclude beats include. What matches
 * nothing is ONNXPTQ_ERROR_USAGE with the nearest names.
 */
#ifndef OQ_QUANT_SELECT_H
#define OQ_QUANT_SELECT_H

#include "model/graph.h"

struct oq_selection;

enum onnxptq_status oq_selection_create(const struct onnxptq_quantize_options *options,
                                        const struct oq_graph *graph, struct oq_selection **out,
                                        struct onnxptq_error *error) OQ_MUST_USE;
void oq_selection_destroy(struct oq_selection *selection); /* NULL is allowed */

/* Here `node` is an id of the graph that the selection was made from: patterns speak of the
 * original model. */

/* False when the node is excluded or not included; `reason` (static or owned by the selection) says
 * by what. */
bool oq_selection_allows(const struct oq_selection *selection, uint32_t node, const char **reason);
/* True when the user named this node's op type in --op-types, so that rules of thumb must not drop
 * it. */
bool oq_selection_names_type(const struct oq_selection *selection, uint32_t node);

#endif
