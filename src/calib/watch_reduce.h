/*
 * Nodes that summarise a tensor where it lies: for watch_model.c alone.
 */
#ifndef OQ_CALIB_WATCH_REDUCE_H
#define OQ_CALIB_WATCH_REDUCE_H

#include "model/edit.h"

/* Makes the nodes for one model after the other. */
struct oq_reducer {
    struct oq_model *model;
    struct oq_names *names;
    const char *constants[2][8]; /* names of those that are there; [1]: of double */
};

/* True for the element types that are summarised so. */
bool oq_reducer_knows(int type);

/* Adds nodes that summarise `value` to `graph`, and the observer `name` of them. False when out of
 * memory. */
bool oq_reducer_add(struct oq_reducer *reducer, Onnx__GraphProto *graph, const char *value,
                    int type, const char *name, int64_t slot);

#endif
