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

/* The same selection for the nodes of a graph that was made from the original: a node is what its
 * origin is. A node from the body of an inlined function has the name of the call, but its own
 * operator type. New nodes are free. `selection` must outlive the result. */
enum onnxptq_status oq_selection_project(const struct oq_selection *selection,
                                         const struct oq_graph *graph, struct oq_selection **out,
                                         struct onnxptq_error *error) OQ_MUST_USE;

/* Here `node` is an id of the graph that the selection was made from, or projected to. */

/* False when the node is excluded or not included; `reason` (static or owned by the selection) says
 * by what. */
bool oq_selection_allows(const struct oq_selection *selection, uint32_t node, const char **reason);
/* True when the user named this node, or its type, to be left alone. */
bool oq_selection_excludes(const struct oq_selection *selection, uint32_t node);

#endif
