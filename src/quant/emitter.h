/*
 * What the files of the emitter share (emit.c and emit_*.c). Private to them; others include
 * quant/emit.h.
 *
 * Order of the work: ranges, weight scales and biases are computed first and may leave nodes float;
 * only then is the graph edited, from the uses that remain.
 */
#ifndef OQ_QUANT_EMITTER_H
#define OQ_QUANT_EMITTER_H

#include "base/map.h"
#include "model/edit.h"
#include "quant/emit.h"

/* One reading of a quantized weight, and the plan's weight that asks for it. */
struct oq_emit_use {
    struct oq_use use;
    uint32_t weight;
};

/* One int8 copy of a weight. Weights of the plan with the same constant, axis and spec share one; a
 * node whose bias needs larger scales than the weight has on its own gets another. */
struct oq_emit_weight {
    const Onnx__TensorProto *constant;
    struct oq_tensor_view view;
    struct oq_quant_spec spec;
    uint32_t value;
    int axis;
    float *scales; /* NULL: left out */
    size_t n_scales;
    struct oq_emit_use *uses;
    size_t n_uses;
    uint8_t *codes;  /* inline, or NULL: in the spill file */
    uint64_t offset; /* in the spill file */
};

/* A bias whose scale fits, ready to be written. */
struct oq_emit_bias {
    uint32_t bias;          /* of the plan */
    enum onnxptq_type type; /* of the scales */
    float *scales;
    size_t n_scales; /* 1 or channels */
    int32_t *codes;
};

/* A node to be inserted before the one at position `slot` of its scope. */
struct oq_emit_insertion {
    uint32_t scope, slot;
    uint32_t sequence;
    Onnx__NodeProto *node;
};

struct oq_emitter {
    const struct oq_emit_spec *spec;
    const struct oq_plan *plan;
    struct oq_emit_result *result;
    struct oq_model *model; /* a clone of the graph's model */
    struct oq_graph *graph; /* index of the clone before any edit: same ids as spec->graph */
    struct oq_names *names;
    struct oq_arena *scratch;
    struct oq_writer *spill; /* large quantized weights, until the model has it; may be NULL */

    bool *node_float;        /* per node: the plan's uses at it are not applied; in the result */
    uint32_t *position;      /* per node: place in its scope's list, in topological order */
    bool *scope_unsorted;    /* per scope: the list in the file is not in topological order */
    bool *node_removed;      /* per node */
    size_t *first_slot;      /* per node: index of its input 0 in slot_taken */
    bool *slot_taken;        /* per input of every node: reads something quantized */
    uint32_t *n_readers;     /* per value: inputs that still read it */
    uint32_t *n_returns;     /* per value: graph outputs, of any scope, that name it */
    bool *value_removed;     /* per value: a constant that nobody reads any more */
    const char **float_name; /* per value: new name of the float tensor, or NULL */

    double *group_min, *group_max; /* per group, holding zero */
    bool *pair_dropped;            /* per pair */

    struct oq_emit_weight *weights;
    size_t n_weights, capacity_weights;
    struct oq_map *copies; /* index in `weights`, of a weight's copy and of a node's */
    struct oq_emit_bias *biases;
    size_t n_biases, capacity_biases;
    struct oq_emit_insertion *insertions;
    size_t n_insertions, capacity_insertions;
    size_t capacity_notes;
    bool added_initializer;
};

/* ---- emit.c: helpers ------------------------------------------------------------------------ */

enum onnxptq_status oq_emit_note(struct oq_emitter *emitter, struct onnxptq_error *error,
                                 const char *format, ...) OQ_PRINTF(3, 4);
/* The plan quantizes this node, the numbers forbid it: its uses are not applied. */
void oq_emit_leave_float(struct oq_emitter *emitter, uint32_t node);

/* ---- emit_range.c --------------------------------------------------------------------------- */

/* Ranges of the groups; pairs without a range are dropped and the nodes that read them left float.
 */
enum onnxptq_status oq_emit_ranges(struct oq_emitter *emitter, struct onnxptq_error *error);
/* Of a pair that was not dropped. */
struct oq_quant_params oq_emit_pair_params(const struct oq_emitter *emitter, uint32_t pair);

/* ---- emit_weight_scale.c, emit_weight.c ------------------------------------------------------ */

/* Scales of every weight; nodes whose weight has none are left float. */
enum onnxptq_status oq_emit_weight_scales(struct oq_emitter *emitter, struct onnxptq_error *error);
/* The copy that `node` reads for the plan's `weight`, or NULL. */
struct oq_emit_weight *oq_emit_find_weight(struct oq_emitter *emitter, uint32_t weight,
                                           uint32_t node);
/* A copy that no other node reads, split off from `shared` unless that is one already. */
struct oq_emit_weight *oq_emit_own_weight(struct oq_emitter *emitter, struct oq_emit_weight *shared,
                                          uint32_t node); /* NULL: out of memory */
/* Codes, initializers, DequantizeLinear nodes; readers rewired. */
enum onnxptq_status oq_emit_weights(struct oq_emitter *emitter, struct onnxptq_error *error);

/* ---- emit_bias_scale.c ---------------------------------------------------------------------- */

/* A constant bias and the products it is added to. */
struct oq_emit_sum {
    uint32_t node;
    uint32_t bias; /* value */
    struct oq_emit_weight *weight;
    float input_scale;
    size_t channels;
    const double *values; /* one a channel */
};

/* float32, and one number or one a channel along the last axis. */
bool oq_emit_bias_fits(const struct oq_tensor_view *view, size_t channels);
/* The bias times `factor`, for each channel. NULL: out of memory. */
double *oq_emit_bias_values(struct oq_emitter *emitter, const struct oq_tensor_view *view,
                            double factor, size_t channels);
/* Raises the weight's scales as far as the bias needs it to fit int32. */
enum onnxptq_status oq_emit_raise_scales(struct oq_emitter *emitter, struct oq_emit_sum *sum,
                                         struct onnxptq_error *error);
/* The same for biases that the plan leaves float, beside quantized inputs and weights. */
enum onnxptq_status oq_emit_float_bias_scales(struct oq_emitter *emitter,
                                              struct onnxptq_error *error);

/* ---- emit_bias.c ---------------------------------------------------------------------------- */

enum onnxptq_status oq_emit_bias_scales(struct oq_emitter *emitter, struct onnxptq_error *error);
enum onnxptq_status oq_emit_biases(struct oq_emitter *emitter, struct onnxptq_error *error);

/* ---- emit_pair.c ---------------------------------------------------------------------------- */

enum onnxptq_status oq_emit_pairs(struct oq_emitter *emitter, struct onnxptq_error *error);

/* ---- emit_place.c --------------------------------------------------------------------------- */

/* Positions, readers and returns. */
enum onnxptq_status oq_emit_place_init(struct oq_emitter *emitter, struct onnxptq_error *error);
/* Makes an input read `name`. ONNXPTQ_ERROR_INTERNAL when it does not read `value` or is taken
 * already. */
enum onnxptq_status oq_emit_rewire(struct oq_emitter *emitter, struct oq_use use, uint32_t value,
                                   const char *name, struct onnxptq_error *error);
/* Position of the first of the nodes in `scope`, OQ_NONE when there is none in it. */
uint32_t oq_emit_first_reader(const struct oq_emitter *emitter, const struct oq_use *uses, size_t n,
                              uint32_t scope);
bool oq_emit_insert(struct oq_emitter *emitter, uint32_t scope, uint32_t slot,
                    Onnx__NodeProto *node);
/* Gives float tensors their new names at their producers and at the readers that keep them. */
void oq_emit_rename(struct oq_emitter *emitter);
/* Writes the node lists. */
enum onnxptq_status oq_emit_place(struct oq_emitter *emitter, struct onnxptq_error *error);

/* "<tensor><suffix>", unique. NULL: out of memory. */
const char *oq_emit_name(struct oq_emitter *emitter, const char *tensor, const char *suffix);
/* Adds an initializer; its unique name, or NULL when out of memory. A scalar has rank 0. */
const char *oq_emit_initializer(struct oq_emitter *emitter, uint32_t scope, const char *tensor,
                                const char *suffix, int type, const int64_t *shape, size_t rank,
                                const void *data, size_t size);
/* The same for scales, in their float type: a scalar, or with rank 1 n of them. */
const char *oq_emit_scales(struct oq_emitter *emitter, uint32_t scope, const char *tensor,
                           enum onnxptq_type float_type, size_t rank, const float *scales,
                           size_t n);
/* A DequantizeLinear (zero_point NULL: without) of `quantized` into the tensor `output`; axis < 0:
 * none. NULL: out of memory. */
Onnx__NodeProto *oq_emit_dequantize(struct oq_emitter *emitter, const char *tensor,
                                    const char *quantized, const char *scale,
                                    const char *zero_point, int axis, const char *output);

/* ---- emit_remove.c -------------------------------------------------------------------------- */

/* Removes the constants behind the plan's weights and biases as far as nobody reads them. */
void oq_emit_remove_unread(struct oq_emitter *emitter);

/* ---- emit_shape.c --------------------------------------------------------------------------- */

enum onnxptq_status oq_emit_shapes(struct oq_emitter *emitter, struct onnxptq_error *error);

#endif
