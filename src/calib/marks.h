/*
 * Marks in a session's copy of a model: around the nodes of the user's libraries they tell which
 * node runs (onnxptq_activity), so that code that crashes or hangs can be named.
 *
 * A mark is a sink, on a tensor that the node reads or gives; the node itself reads what it read
 * before. The runtime runs first what the last sink of the list needs, then what the one before it
 * needs, and so on; so sinks are listed in reverse order of what they follow, and each runs right
 * behind that: "begins", the node, "has ended". That holds as long as all nodes that nobody reads
 * are sinks of ours: a node that the optimizer makes is the last of the list. Hence a mark that
 * does nothing on each output.
 */
#ifndef OQ_CALIB_MARKS_H
#define OQ_CALIB_MARKS_H

#include "model/edit.h"
#include "model/graph.h"
#include "runtime/runtime.h"

/* In the order in which those of one node run. */
enum oq_mark_kind { OQ_MARK_BEGIN, OQ_MARK_END, OQ_MARK_OUTPUT };

struct oq_mark {
    enum oq_mark_kind kind;
    uint32_t node;  /* OQ_NONE for an output */
    uint32_t value; /* that the mark reads */
};

/* Those around nodes when somebody listens, and those of the outputs when `outputs`; none where
 * tensors would have to leave a device. malloc'ed, in no order. */
enum onnxptq_status oq_marks_list(const struct oq_graph *graph, const struct oq_runtime *runtime,
                                  bool outputs, struct oq_mark **marks, size_t *n,
                                  struct onnxptq_error *error) OQ_MUST_USE;
/* Appends the node; `graph` is the index of `model`. False when out of memory. */
bool oq_mark_append(struct oq_model *model, const struct oq_graph *graph,
                    const struct oq_runtime *runtime, const struct oq_mark *mark);

/* All of them, into a copy without observers. */
enum onnxptq_status oq_marks_add(struct oq_model *copy, const struct oq_runtime *runtime,
                                 struct onnxptq_error *error) OQ_MUST_USE;

#endif
