/*
 * The raw form of tensors' data while models are written: how large it is, and its bytes. For the
 * files of this folder only.
 */
#ifndef OQ_MODEL_TENSOR_DATA_H
#define OQ_MODEL_TENSOR_DATA_H

#include "model/model.h"
#include "model/wire.h"

/* Bytes that an entry of a packed field of TensorProto gives in raw_data; 0 when there is no such
 * form: strings, types that are not known, and those of 6 bits. */
size_t oq_entry_width(int type, uint32_t field);

/* True when the entries lie in the file as they do in raw_data. */
bool oq_field_is_raw(uint32_t field);

/* Writes the low `width` bytes of each number of a packed field that oq_wire_shrink() has checked.
 * `n` is the room of `out` in numbers; returns how many there were. */
size_t oq_unpack_varints(const uint8_t *data, size_t size, size_t width, uint8_t *out, size_t n);

/* Size of the raw form; false when there is none. */
bool oq_wire_tensor_size(const struct oq_wire_tensor *tensor, uint64_t *size);

/* The data as they are stored; NULL when they lie outside their file. */
const uint8_t *oq_wire_tensor_bytes(const struct oq_model *model,
                                    const struct oq_wire_tensor *tensor);

/* Puts the raw form, of a tensor that has one, in pieces. */
void oq_wire_tensor_put(const struct oq_wire_tensor *tensor, const uint8_t *bytes,
                        struct oq_writer *writer);

#endif
