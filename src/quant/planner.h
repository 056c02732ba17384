/*
 * What the rules of all targets share: questions about the graph and the trace, and the passes that
 * every target begins with. Included by the target files only.
 */
#ifndef OQ_QUANT_PLANNER_H
#define OQ_QUANT_PLANNER_H

#include "quant/target.h"

struct oq_planner {
    const struct oq_target *target;
    const struct oq_plan_context *context;
    const struct oq_graph *graph;
    struct oq_plan *plan;
    struct oq_quant_spec activation; /* the target's, of the type that the user chose */
    bool out_of_memory;              /* set by the helpers below, checked once per pass */
};

typedef enum onnxptq_status (*oq_planner_pass)(struct oq_planner *planner,
                                               struct onnxptq_error *error);

/* Gives every node its first decision: foreign, excluded, or float with the reason of its role. */
enum onnxptq_status oq_plan_classify(struct oq_planner *planner, struct onnxptq_error *error);
/* Quantizes data inputs and weights of Conv, ConvTranspose, Gemm and MatMul as the target's row
 * says. */
enum onnxptq_status oq_plan_weighted(struct oq_planner *planner, struct onnxptq_error *error);

/* Pairs behind the outputs of the model that selected operators produce. */
void oq_plan_outputs(struct oq_planner *planner);

enum onnxptq_status oq_planner_check_memory(const struct oq_planner *planner,
                                            struct onnxptq_error *error);

/* The row of a node if the plan may quantize it: of the default domain and selected by the user; in
 * bodies of control flow weighted operators only. NULL otherwise. */
const struct oq_operator *oq_planner_candidate(const struct oq_planner *planner, uint32_t node);
/* By this plan; what the model came with quantized is not. */
bool oq_planner_is_quantized(const struct oq_planner *planner, uint32_t node);

bool oq_planner_is_constant(const struct oq_planner *planner, uint32_t value);
/* True when biases become int32: integer kernels of the target take them so. There is none on
 * 16-bit activations. */
bool oq_planner_has_int32_bias(const struct oq_planner *planner);
/* A float32, float16 or bfloat16 tensor that is computed or fed, not constant. */
bool oq_planner_is_activation(const struct oq_planner *planner, uint32_t value);
/* True for the result of a DequantizeLinear that the model came with: it is not quantized again. */
bool oq_planner_is_dequantized(const struct oq_planner *planner, uint32_t value);
/* True when a QuantizeLinear that the model came with reads the value. */
bool oq_planner_is_quantized_already(const struct oq_planner *planner, uint32_t value);
/* Its traced element type; FLOAT in an estimate without trace. */
enum onnxptq_type oq_planner_type(const struct oq_planner *planner, uint32_t value);
/* Traced shape; false when unknown. */
bool oq_planner_shape(const struct oq_planner *planner, uint32_t value, const int64_t **shape,
                      size_t *rank);

/* How well the target's activation type would hold the traced values of a tensor: power of the
 * values over that of the rounding, (scale^2 / 12), in dB. Infinite when unknown. */
double oq_planner_rounding_db(const struct oq_planner *planner, uint32_t value);

/* The only reader of a value, which is no graph output and not read by a body; NULL otherwise. */
const struct oq_use *oq_planner_sole_use(const struct oq_planner *planner, uint32_t value);
/* The producing node, or OQ_NONE. */
uint32_t oq_planner_producer(const struct oq_planner *planner, uint32_t value);
bool oq_planner_role_is(const struct oq_planner *planner, uint32_t node, enum oq_role role);
/* For a two-operand node: the variable operand when exactly one is constant, else OQ_NONE. */
uint32_t oq_planner_variable_operand(const struct oq_planner *planner, uint32_t node);
/* The first output, or OQ_NONE. */
uint32_t oq_planner_output(const struct oq_planner *planner, uint32_t node);

/* Adds the pair of `value`, read at input `input` of `node` (OQ_NONE: no reader yet). A Softmax's
 * or Sigmoid's result gets the range [0, 1] without looking at data. */
uint32_t oq_planner_pair(struct oq_planner *planner, uint32_t value, uint32_t node, uint32_t input,
                         const char *rule, const char *reason);

/* Rules of thumb on sizes: the reason to leave a weighted node float, or NULL. */
const char *oq_size_rule(const struct oq_planner *planner, uint32_t id);

#endif
