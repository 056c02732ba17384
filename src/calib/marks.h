/*
 * Marks around the nodes of the user's libraries, in a session's copy of a model: they tell which
 * node runs (onnxptq_activity), so that code that crashes or hangs can be named.
 *
 * A mark is a sink, on a tensor that the node reads or gives; the node itself reads what it read
 * before. Sinks are listed in reverse order of what they follow, which makes the runtime run each
 * right behind that: `begins`, the node, `has ended`.
 */
#ifndef OQ_CALIB_MARKS_H
#define OQ_CALIB_MARKS_H

#include "model/edit.h"
#include "model/graph.h"
#include "runtime/runtime.h"

struct oq_mark {
    uint32_t node;
    uint32_t value; /* that the mark reads */
    bool begins;
};

/* Marks for each node of a library's operator, in order of the nodes; none when nobody listens.
 * malloc'ed. */
enum onnxptq_status oq_marks_list(const struct oq_graph *graph, const struct oq_runtime *runtime,
                                  struct oq_mark **marks, size_t *n, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Appends the node; `graph` is the index of `model`. False when out of memory. */
bool oq_mark_append(struct oq_model *model, const struct oq_graph *graph,
                    const struct oq_runtime *runtime, const struct oq_mark *mark);

/* All of them, into a copy without observers. */
enum onnxptq_status oq_marks_add(struct oq_model *copy, const struct oq_runtime *runtime,
                                 struct onnxptq_error *error) OQ_MUST_USE;

#endif
