/*
 * Between our tensors and the runtime's values and declarations.
 */
#ifndef OQ_RUNTIME_VALUE_H
#define OQ_RUNTIME_VALUE_H

#include "base/error.h"

#include <onnxruntime_c_api.h>

/* A value over the data of `tensor`, which is borrowed as long as the value lives. */
enum onnxptq_status oq_value_create(const OrtApi *api, const OrtMemoryInfo *memory,
                                    const struct onnxptq_tensor *tensor, OrtValue **out,
                                    struct onnxptq_error *error) OQ_MUST_USE;

/* Describes `value` (NULL: absent); the data is borrowed from it. Anything but a dense numeric
 * tensor in host memory comes out with data NULL. `name` is left alone. */
enum onnxptq_status oq_value_read(const OrtApi *api, const OrtValue *value,
                                  struct onnxptq_tensor *out, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Type and shape of a declaration; UNDEFINED when it is no tensor or has more dimensions than
 * ONNXPTQ_MAX_RANK. A missing shape looks like that of a scalar. `name` is left alone. */
enum onnxptq_status oq_value_read_declaration(const OrtApi *api, const OrtTypeInfo *info,
                                              struct onnxptq_tensor *out,
                                              struct onnxptq_error *error) OQ_MUST_USE;

#endif
