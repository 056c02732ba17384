/*
 * Raw forms; see tensor_data.h.
 */
#include "model/tensor_data.h"

#include "base/number.h"
#include "model/wire_field.h"

#include <string.h>

bool oq_field_is_raw(uint32_t field) {
    return field == 0 || field == OQ_TENSOR_FLOAT_DATA || field == OQ_TENSOR_DOUBLE_DATA;
}

size_t oq_entry_width(int type, uint32_t field) {
    const size_t bits = oq_type_bits(type);
    const bool integers = field != OQ_TENSOR_FLOAT_DATA && field != OQ_TENSOR_DOUBLE_DATA;
    if (bits == 0 || bits == 6 || (integers && bits > 64)) {
        return 0;
    }
    switch (field) {
    case OQ_TENSOR_FLOAT_DATA: return 4;
    case OQ_TENSOR_DOUBLE_DATA: return 8;
    case OQ_TENSOR_INT64_DATA:
    case OQ_TENSOR_UINT64_DATA: return bits % 8 == 0 ? bits / 8 : 0;
    case OQ_TENSOR_INT32_DATA:
        return bits < 8 ? 1 : bits / 8; /* below a byte: several elements in each */
    default: return 0;
    }
}

size_t oq_unpack_varints(const uint8_t *data, size_t size, size_t width, uint8_t *out, size_t n) {
    const uint8_t *end = data + size;
    size_t count = 0;
    while (data != NULL && data < end && count < n) {
        uint64_t value = 0;
        data = oq_wire_read_varint(data, end, &value);
        for (size_t i = 0; i < width; i++) {
            out[count * width + i] = (uint8_t)(value >> (8 * i));
        }
        count += data != NULL;
    }
    return count;
}

bool oq_wire_tensor_size(const struct oq_wire_tensor *tensor, uint64_t *size) {
    if (oq_field_is_raw(tensor->field)) {
        *size = tensor->length;
        return true;
    }
    const size_t width = oq_entry_width(tensor->type, tensor->field);
    return width > 0 && !__builtin_mul_overflow(tensor->entries, (uint64_t)width, size);
}

const uint8_t *oq_wire_tensor_bytes(const struct oq_model *model,
                                    const struct oq_wire_tensor *tensor) {
    return tensor->bytes != NULL
               ? tensor->bytes
               : oq_model_data(model, tensor->file, tensor->offset, tensor->length);
}

/* Encoded numbers, a block at a time: their ends are found by the last byte of each. */
static void put_varints(const struct oq_wire_tensor *tensor, const uint8_t *bytes,
                        struct oq_writer *writer) {
    enum { BLOCK = 4096, MOST = BLOCK * 8 };
    const size_t width = oq_entry_width(tensor->type, tensor->field);
    uint8_t block[MOST];
    for (size_t done = 0; done < tensor->length;) {
        size_t length = tensor->length - done < BLOCK ? (size_t)tensor->length - done : BLOCK;
        while (length > 0 && bytes[done + length - 1] >= 0x80) {
            length--;
        }
        if (length == 0) {
            return; /* no number is that long: checked when it was read */
        }
        oq_writer_put(writer, block,
                      width * oq_unpack_varints(bytes + done, length, width, block, BLOCK));
        done += length;
    }
}

void oq_wire_tensor_put(const struct oq_wire_tensor *tensor, const uint8_t *bytes,
                        struct oq_writer *writer) {
    if (oq_field_is_raw(tensor->field)) {
        oq_writer_put(writer, bytes, (size_t)tensor->length);
    } else {
        put_varints(tensor, bytes, writer);
    }
}
