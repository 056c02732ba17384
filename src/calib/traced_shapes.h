/*
 * Shapes for the results of operators that nobody can infer: as they were seen when the model ran.
 * Providers that compile the graph want at least the rank behind an operator they do not know.
 *
 * A wrong fixed dimension makes runtimes fail where an unknown one only costs an optimization. So a
 * dimension is fixed only when nothing about the inputs is open and different samples agreed on it;
 * else the rank alone is told.
 */
#ifndef OQ_CALIB_TRACED_SHAPES_H
#define OQ_CALIB_TRACED_SHAPES_H

#include "calib/statistics.h"
#include "model/graph.h"

struct oq_traced_shape {
    int type; /* TensorProto.DataType */
    size_t rank;
    int64_t shape[ONNXPTQ_MAX_RANK]; /* -1: unknown */
};

/* True when every input of the model that has no default has a fixed shape. */
bool oq_traced_inputs_are_fixed(const struct oq_graph *graph);
/* What may be declared of a tensor; false: nothing. `trace` is what one sample showed, `ranges`
 * what many did; either may be NULL. */
bool oq_traced_shape_find(const struct oq_statistics *trace, const struct oq_statistics *ranges,
                          bool fixed_inputs, struct oq_traced_shape *out);

/* The same for all results of foreign operators and of calls of local functions, by name, to be
 * declared in other copies of the model: names are the same in all of them. */
struct oq_traced_shapes; /* borrows the names of the graph's model */

/* `trace` and `ranges` hold one per value of the graph; `ranges` may be NULL. `all`: those of the
 * other nodes too. Shape inference gives up behind a shape that is computed, and providers that
 * compile the graph want the ranks there as well. */
enum onnxptq_status oq_traced_shapes_create(const struct oq_graph *graph,
                                            const struct oq_statistics *trace,
                                            const struct oq_statistics *ranges, bool all,
                                            struct oq_traced_shapes **out,
                                            struct onnxptq_error *error) OQ_MUST_USE;
void oq_traced_shapes_destroy(struct oq_traced_shapes *shapes); /* NULL is allowed */

/* Adds value_info in every graph of the model for what is not declared there. */
enum onnxptq_status oq_traced_shapes_declare(const struct oq_traced_shapes *shapes,
                                             struct oq_model *model, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
