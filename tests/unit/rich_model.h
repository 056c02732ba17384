/*
 * A model with tensors in every place that ONNX has for them, as the bytes of its file.
 */
#ifndef OQ_TEST_RICH_MODEL_H
#define OQ_TEST_RICH_MODEL_H

#include "data_files.h"
#include "model/model.h"

/* Floats in each large tensor of the model: 256 bytes. Element i of tensor t is 1000 t + i. */
#define RICH_FLOATS 64
/* Large tensors: initializer, Constant, Constant in a body, initializer in a body, attribute of a
 * custom node, list of tensors (2), function's Constant, sparse values and indices, training. */
#define RICH_TENSORS 11

/* Bytes as protobuf-c packs them, weights inline, with an unknown field at the end. */
struct file_bytes make_rich_model(void);

/* The same bytes for the same messages, however the file orders its fields. Frees `bytes`. */
struct file_bytes normalize_model(struct file_bytes bytes);

/* Writes a model and returns the bytes of the file. */
struct file_bytes written_model(const struct oq_model *model);

#endif
