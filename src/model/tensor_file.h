/*
 * A file of tensors' data, aligned, each stored once: what a runtime maps. The weights of our
 * sessions and the external data of the output are such files. For the files of this folder only.
 */
#ifndef OQ_MODEL_TENSOR_FILE_H
#define OQ_MODEL_TENSOR_FILE_H

#include "model/data_file.h"
#include "model/model.h"
#include "model/wire.h"

struct oq_tensor_file;

/* A temporary file beside `path`. */
enum onnxptq_status oq_tensor_file_create(const char *path, struct oq_tensor_file **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;
void oq_tensor_file_destroy(struct oq_tensor_file *file); /* NULL is allowed */
struct oq_writer *oq_tensor_file_writer(const struct oq_tensor_file *file);

/* Where the raw form of a tensor lies, which is appended when it is not there yet. Tensors in the
 * skeleton are told apart by their order: see oq_tensor_file_rewind. */
enum onnxptq_status oq_tensor_file_store(struct oq_tensor_file *file, const struct oq_model *model,
                                         const struct oq_wire_tensor *tensor, uint64_t *offset,
                                         struct onnxptq_error *error) OQ_MUST_USE;
/* Starts another pass over the same model. */
void oq_tensor_file_rewind(struct oq_tensor_file *file);

/* True for what has to be inside the model whatever its size: the runtime's shape inference and its
 * kernels read integer constants (shapes, axes, splits, pads) only there, as they do every
 * attribute but a Constant's. So do some of their readers for a handful of floats. */
bool oq_tensor_stays_inside(const struct oq_wire_tensor *tensor, uint64_t threshold);

/* Adds the fields that say where a tensor lies. */
void oq_wire_add_location(struct oq_wire_fields *fields, const char *location, uint64_t offset,
                          uint64_t length);

#endif
