/*
 * What writing to files and writing for sessions share. For the files of this folder only.
 */
#ifndef OQ_MODEL_WRITE_INLINE_H
#define OQ_MODEL_WRITE_INLINE_H

#include "model/model.h"
#include "model/wire.h"

/* The fields of a tensor that stays inside, in the form that it has. */
enum onnxptq_status oq_write_inline(const struct oq_model *model,
                                    const struct oq_wire_tensor *tensor,
                                    struct oq_wire_fields *fields, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Refuses what protobuf cannot hold. */
enum onnxptq_status oq_write_check_size(uint64_t size, struct onnxptq_error *error) OQ_MUST_USE;

/* oq_wire_expand() of the packed model. */
enum onnxptq_status oq_write_expand(const struct oq_model *model,
                                    const struct oq_wire_expansion *expansion,
                                    struct onnxptq_error *error) OQ_MUST_USE;

#endif
