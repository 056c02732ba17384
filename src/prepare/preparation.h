/*
 * What the steps of preparing share. Each step is one file; prepare.c runs them in order.
 */
#ifndef OQ_PREPARE_PREPARATION_H
#define OQ_PREPARE_PREPARATION_H

#include "model/edit.h"
#include "model/walk.h"
#include "prepare/prepare.h"

struct oq_preparation {
    const struct oq_prepare_spec *spec;
    struct oq_model *model; /* the clone that is edited */
    struct oq_graph *graph; /* its index, as of the last oq_preparation_index() */
    struct oq_names *names;
    struct oq_arena *scratch; /* lives as long as the preparation */
};

/* Builds the index anew. Pointers into the old one are void. */
enum onnxptq_status oq_preparation_index(struct oq_preparation *preparation,
                                         struct onnxptq_error *error) OQ_MUST_USE;

/* A sentence for the report. */
void oq_preparation_note(const struct oq_preparation *preparation, const char *format, ...)
    OQ_PRINTF(2, 3);

/* True when the user excluded the node of the original graph that a node comes from. */
bool oq_preparation_excludes(const struct oq_preparation *preparation, const Onnx__NodeProto *node);

/* A deep copy in the model's arena; NULL when out of memory. */
void *oq_message_copy(struct oq_model *model, const ProtobufCMessage *message);

#endif
