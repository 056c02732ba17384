/*
 * Preparing a model: the smallest edits that quantization needs, made on a clone. What they do not
 * concern stays as it was, node by node.
 */
#ifndef OQ_PREPARE_PREPARE_H
#define OQ_PREPARE_PREPARE_H

#include "model/graph.h"
#include "runtime/runtime.h"

struct oq_prepare_spec {
    const struct oq_graph *graph; /* of the original model, which is left alone */
    struct oq_runtime *runtime;   /* computes constants */
    const char *beside_path;      /* temporary files lie beside it */
    /* Per node of `graph`: true for what the user named to be left alone (not for what merely was
     * not included): its constants, its BatchNormalization and its function stay. NULL: none. */
    const bool *excluded;
    int64_t opset; /* the default domain is raised to at least this version; 0: as it is */
    const struct oq_log *log;
    void (*note)(void *user, const char *text); /* a sentence for the report; may be NULL */
    void *note_user;
};

/* In this order: imports of operator sets are merged and completed; the opset is raised; calls of
 * local functions that hold weighted operators are inlined; constants behind weights are computed
 * by the runtime; BatchNormalization is folded into the convolutions before it.
 *
 * Each node of the result knows the node of the original that it comes from (oq_node.origin):
 * itself, or the call of the function whose body it is from; new nodes have none. `*out` is to be
 * destroyed by the caller and may outlive the spec. */
enum onnxptq_status oq_prepare(const struct oq_prepare_spec *spec, struct oq_model **out,
                               struct onnxptq_error *error) OQ_MUST_USE;

/* Gives every node of `model`, an unedited clone of the model that `original` indexes, its own id
 * there as origin. Part of oq_prepare. */
enum onnxptq_status oq_prepare_mark_origins(struct oq_model *model, const struct oq_graph *original,
                                            struct onnxptq_error *error) OQ_MUST_USE;

#endif
