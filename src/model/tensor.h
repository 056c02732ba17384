/*
 * Reading TensorProtos, wherever their data lies (raw, typed fields, mapped, external), and making
 * new ones.
 */
#ifndef OQ_MODEL_TENSOR_H
#define OQ_MODEL_TENSOR_H

#include "model/model.h"

/* Little-endian bytes of a tensor, at any alignment; borrowed from the model. */
struct oq_tensor_view {
    int type; /* TensorProto.DataType */
    size_t rank;
    const int64_t *shape;
    size_t n_elements;
    const uint8_t *data;
    size_t size;
};

/* Checks that shape and data of a tensor agree: no negative dimension, no overflow, exactly one
 * place for the data and as much of it as the shape asks for. Element types that are not known pass
 * with any amount. The message does not name the tensor. */
enum onnxptq_status oq_tensor_check(const struct oq_model *model, const Onnx__TensorProto *tensor,
                                    struct onnxptq_error *error) OQ_MUST_USE;

/* Bytes of the tensor's raw form; false for strings, unknown types and broken shapes. */
bool oq_tensor_byte_size(const Onnx__TensorProto *tensor, size_t *n_elements, size_t *size);

/* Tensors stored in typed fields (float_data, ...) are converted once into the model's arena.
 * Strings are not supported: ONNXPTQ_ERROR_UNSUPPORTED. */
enum onnxptq_status oq_tensor_view(const struct oq_model *model, const Onnx__TensorProto *tensor,
                                   struct oq_tensor_view *out, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Elements [first, first + n) of a float tensor as float. */
void oq_tensor_view_floats(const struct oq_tensor_view *view, size_t first, size_t n, float *out);
/* One element of an integer or bool tensor. */
int64_t oq_tensor_view_integer(const struct oq_tensor_view *view, size_t index);

/* New tensors in the model's arena; `data` is copied (little-endian, may be NULL for zeros). */
Onnx__TensorProto *oq_tensor_create(struct oq_model *model, const char *name, int type,
                                    const int64_t *shape, size_t rank, const void *data,
                                    size_t size); /* NULL: out of memory */
/* The same in an arena that lives as long as its user needs. */
Onnx__TensorProto *oq_tensor_create_in(struct oq_arena *arena, const char *name, int type,
                                       const int64_t *shape, size_t rank, const void *data,
                                       size_t size);
/* A tensor whose data lies in data file `file` of the model. */
Onnx__TensorProto *oq_tensor_create_mapped(struct oq_model *model, const char *name, int type,
                                           const int64_t *shape, size_t rank, uint32_t file,
                                           uint64_t offset, uint64_t size);
#endif
