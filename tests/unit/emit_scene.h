/*
 * A model, a plan made by hand and the statistics of its tensors: what the emitter's tests start
 * from.
 */
#ifndef OQ_TEST_EMIT_SCENE_H
#define OQ_TEST_EMIT_SCENE_H

#include "model_builder.h"
#include "quant/emit.h"

extern const struct oq_quant_spec SCENE_INT8;   /* symmetric activation */
extern const struct oq_quant_spec SCENE_UINT8;  /* asymmetric activation */
extern const struct oq_quant_spec SCENE_WEIGHT; /* symmetric, narrow int8 */

struct scene {
    struct oq_model *model;
    struct oq_graph *graph;
    struct oq_plan *plan;
    struct oq_statistics *ranges, *trace; /* one per value; nothing is seen yet */
    const char *spill_beside;
    struct oq_emit_result result;
};

/* Takes the model. */
struct scene *scene_create(struct oq_model *model);
void scene_destroy(struct scene *scene);

/* Two samples were seen, of float32 and the given range and shape. */
void scene_see(struct scene *scene, const char *tensor, double min, double max);
/* A pair on `tensor` read by input `input` of `node` (NULL: by none). */
uint32_t scene_pair(struct scene *scene, const char *tensor, struct oq_quant_spec spec,
                    const char *node, uint32_t input);
uint32_t scene_weight(struct scene *scene, int axis, const char *node, uint32_t input);
uint32_t scene_bias(struct scene *scene, uint32_t pair, uint32_t weight, const char *node,
                    size_t channels);

void scene_emit(struct scene *scene); /* fails the test when it fails */
enum onnxptq_status scene_try_emit(struct scene *scene, struct onnxptq_error *error);

/* The result's nodes, one a line: "Conv x,w -> y", attributes axis and beta in braces, bodies
 * indented. */
void assert_nodes(struct scene *scene, const char *expected);
/* The result's initializers of the main graph by name, "a b c", in order. */
void assert_initializers(struct scene *scene, const char *expected);
/* A note holds the text. */
void assert_note(const struct scene *scene, const char *text);
Onnx__GraphProto *scene_graph(struct scene *scene);
/* View of an initializer of the result's main graph. */
struct oq_tensor_view scene_tensor(struct scene *scene, const char *name);
float scene_float(struct scene *scene, const char *name, size_t index);

#endif
