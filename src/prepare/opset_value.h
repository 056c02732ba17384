/*
 * What the operators alone say of a value: its constant, rank and element type. Nothing is inferred
 * beyond what holds in every run.
 */
#ifndef OQ_PREPARE_OPSET_VALUE_H
#define OQ_PREPARE_OPSET_VALUE_H

#include "model/value_info.h"
#include "prepare/opset_edit.h"

/* The tensor behind a name: an initializer that no caller can replace, or a Constant; else NULL. */
const Onnx__TensorProto *oq_opset_find_constant(const struct oq_opset_body *body, const char *name);
/* False when unknown. */
bool oq_opset_find_rank(const struct oq_opset_body *body, const char *name, size_t *rank);
/* TensorProto.DataType; FLOAT when unknown, which the runtime refuses where it is wrong. */
int oq_opset_find_type(const struct oq_opset_body *body, const char *name);

/* ---- For opset_value.c and opset_rank.c ---- */

/* How far one question looks: operators one behind the other, and values in all. */
struct oq_opset_budget {
    int depth, values;
};
#define OQ_OPSET_BUDGET {256, 8192}

/* Where a name comes from; all NULL when that is not known. */
struct oq_opset_origin {
    const struct oq_opset_body *body;
    const Onnx__NodeProto *node;       /* that makes it, */
    const Onnx__TensorProto *tensor;   /* or its initializer, */
    const Onnx__ValueInfoProto *input; /* or the graph input; replaceable initializers have both */
};
struct oq_opset_origin oq_opset_find_origin(const struct oq_opset_body *body, const char *name);

/* What an operator does to rank and type. */
enum oq_form {
    OQ_FORM_SAME,      /* rank and type of the first input */
    OQ_FORM_BROADCAST, /* the highest rank, the common type */
    OQ_FORM_MATRIX,    /* two axes */
    OQ_FORM_MATMUL,
    OQ_FORM_CONV,
    OQ_FORM_TRANSPOSE,
    OQ_FORM_RESHAPE,
    OQ_FORM_SQUEEZE,
    OQ_FORM_UNSQUEEZE,
    OQ_FORM_REDUCE,
    OQ_FORM_GATHER,
    OQ_FORM_SHAPE, /* a vector of int64 */
    OQ_FORM_CAST
};
struct oq_opset_form {
    const char *type;
    enum oq_form form;
};
/* NULL for operators that are not known, and for outputs but the first one, which may differ. */
const struct oq_opset_form *oq_opset_find_form(const Onnx__NodeProto *node, const char *name);

#endif
