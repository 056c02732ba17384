/*
 * An ONNX TensorProto that is a file of its own, as the input_*.pb of ONNX's test data.
 */
#ifndef OQ_DATA_TENSOR_MESSAGE_H
#define OQ_DATA_TENSOR_MESSAGE_H

#include "data/array_file.h"

/* Fills npy, elements and name. Elements in raw_data or packed floats are left where they lie,
 * others are converted into `owned`. Messages state the fact alone. ONNXPTQ_ERROR_DATA, or
 * ONNXPTQ_ERROR_UNSUPPORTED for elements that no model input is fed with. */
enum onnxptq_status oq_tensor_message_parse(const uint8_t *data, size_t size,
                                            struct oq_array_file *out, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
