/*
 * The edit that a plan of half precision asks for. For the files of this folder only.
 */
#ifndef OQ_PRECISION_RETYPE_H
#define OQ_PRECISION_RETYPE_H

#include "model/edit.h"
#include "precision/precision.h"
#include "prepare/spill.h"

/* What readers find a value under, and which of it is wanted. */
struct oq_retyped {
    bool constant; /* converted, not cast */
    bool wants_half, wants_float;
    const char *half_name, *float_name; /* float_name of a value that is not float32: its name */
    struct oq_spilled spilled;          /* of a constant that is wanted in half */
    Onnx__NodeProto *cast;              /* from one to the other */
};

struct oq_retyper {
    struct oq_model *model;
    const struct oq_graph *graph;
    const struct oq_precision_plan *plan;
    struct oq_names *names;
    struct oq_spill *spill;
    struct oq_retyped *values; /* one per value of the graph */
    bool *removed;             /* per node */
    struct oq_precision_counts *counts;
};

/* True when input `input` of `node` is to be read in half precision. */
bool oq_retype_reads_half(const struct oq_retyper *retyper, uint32_t node, size_t input);

/* Converts the constants that are wanted in half precision, and adds them in place of, or beside,
 * those in float32 (retype_constants.c). */
enum onnxptq_status oq_retype_convert_constants(struct oq_retyper *retyper,
                                                struct onnxptq_error *error);
enum onnxptq_status oq_retype_place_constants(struct oq_retyper *retyper,
                                              struct onnxptq_error *error);
/* Drops initializers and nodes that only made constants, once nobody reads them. */
enum onnxptq_status oq_retype_drop_unread(struct oq_retyper *retyper, struct onnxptq_error *error);

#endif
