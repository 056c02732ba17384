/*
 * Edits of a model: making messages in its arena, adding nodes and initializers, unique names.
 * All functions that return a pointer return NULL when out of memory.
 */
#ifndef OQ_MODEL_EDIT_H
#define OQ_MODEL_EDIT_H

#include "model/model.h"

/* Every name of a model: tensors, nodes, graphs' inputs and outputs, in all bodies and functions.
 */
struct oq_names;
struct oq_names *oq_names_create(const struct oq_model *model);
void oq_names_destroy(struct oq_names *names);
/* `base`, or `base` with a number, such that no name of the model and no name given out before
 * equals it. In the model's arena. */
const char *oq_names_unique(struct oq_names *names, const char *base);

Onnx__NodeProto *oq_node_create(struct oq_model *model, const char *name, const char *domain,
                                const char *type, const char *const *inputs, size_t n_inputs,
                                const char *const *outputs, size_t n_outputs);
bool oq_node_set_int(struct oq_model *model, Onnx__NodeProto *node, const char *name,
                     int64_t value);
bool oq_node_set_float(struct oq_model *model, Onnx__NodeProto *node, const char *name,
                       float value);
bool oq_node_set_text(struct oq_model *model, Onnx__NodeProto *node, const char *name,
                      const char *value);

bool oq_graph_add_initializer(struct oq_model *model, Onnx__GraphProto *graph,
                              Onnx__TensorProto *tensor);
bool oq_graph_append_node(struct oq_model *model, Onnx__GraphProto *graph, Onnx__NodeProto *node);
/* Replaces the node list; the array is copied into the arena. */
bool oq_graph_set_nodes(struct oq_model *model, Onnx__GraphProto *graph,
                        Onnx__NodeProto *const *nodes, size_t n);
/* Adds a graph output, its type left to the runtime. */
bool oq_graph_add_output(struct oq_model *model, Onnx__GraphProto *graph, const char *name);
/* Adds or replaces value_info; a negative dimension is unknown. */
bool oq_graph_add_value_info(struct oq_model *model, Onnx__GraphProto *graph, const char *name,
                             int type, const int64_t *shape, size_t rank);
/* From this IR version on initializers need not be inputs of their graph; those that are inputs are
 * defaults, which a caller may replace. Before, all were inputs, and constants all the same. */
#define OQ_IR_FREE_INITIALIZERS 4
/* Raises the IR version to that, if it is lower, and takes the main graph's initializers off its
 * inputs, which keeps them constants. False when out of memory: nothing is changed. */
bool oq_model_free_initializers(struct oq_model *model);
/* Adds an opset import, or raises it; true when the domain is there afterwards. */
bool oq_model_import_opset(struct oq_model *model, const char *domain, int64_t version);
/* The same for one of the model's functions. */
bool oq_function_import_opset(struct oq_model *model, Onnx__FunctionProto *function,
                              const char *domain, int64_t version);

#endif
