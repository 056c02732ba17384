/*
 * Small models made in memory, for unit tests. Lists of names are separated by commas; an empty
 * name is an optional input left out: "x,,z". Functions fail the running test when they cannot do
 * their work.
 */
#ifndef OQ_TEST_MODEL_BUILDER_H
#define OQ_TEST_MODEL_BUILDER_H

#include "model/edit.h"
#include "model/graph.h"
#include "model/tensor.h"

/* An empty model of IR 8 that imports the default domain. */
struct oq_model *oq_test_model_create(int64_t opset);
/* The same model, serialised and read again; the old one is destroyed. */
struct oq_model *oq_test_model_reload(struct oq_model *model);
Onnx__GraphProto *oq_test_main_graph(struct oq_model *model);

/* Shapes are given as text: "1,3,8,8", "n,8" (a name is a symbolic dimension), "" a scalar, NULL
 * unknown. */
void oq_test_add_input(struct oq_model *model, Onnx__GraphProto *graph, const char *name, int type,
                       const char *shape);
void oq_test_add_output(struct oq_model *model, Onnx__GraphProto *graph, const char *name, int type,
                        const char *shape);

/* `op` is "Conv" or "domain::Type", `name` may be NULL. */
Onnx__NodeProto *oq_test_add_node(struct oq_model *model, Onnx__GraphProto *graph, const char *op,
                                  const char *name, const char *inputs, const char *outputs);
/* Sets a graph attribute to a new, empty graph and returns that. */
Onnx__GraphProto *oq_test_add_body(struct oq_model *model, Onnx__NodeProto *node,
                                   const char *attribute, const char *name);
void oq_test_set_float(struct oq_model *model, Onnx__NodeProto *node, const char *name,
                       float value);
/* A Constant node named `name` with the output `name`. */
void oq_test_add_constant(struct oq_model *model, Onnx__GraphProto *graph, const char *name,
                          const char *shape, const float *data);

/* `data` NULL: zeros. */
Onnx__TensorProto *oq_test_add_floats(struct oq_model *model, Onnx__GraphProto *graph,
                                      const char *name, const char *shape, const float *data);

struct oq_graph *oq_test_graph(const struct oq_model *model);
/* Ids by name; the main graph's when a name is found in several. Fail the test when there is none.
 */
uint32_t oq_test_value(const struct oq_graph *graph, const char *name);
uint32_t oq_test_node(const struct oq_graph *graph, const char *name);
/* NULL when there is none. */
const Onnx__TensorProto *oq_test_initializer(const Onnx__GraphProto *graph, const char *name);

#endif
