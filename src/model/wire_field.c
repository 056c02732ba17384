/*
 * Fields of the wire format; see wire_field.h.
 */
#include "model/wire_field.h"

#include "base/arena.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

bool oq_bytes_append(struct oq_bytes *bytes, const void *data, size_t size) {
    size_t needed;
    void *items = bytes->data;
    if (!oq_size_add(bytes->size, size, &needed) || !oq_grow(&items, &bytes->capacity, needed, 1)) {
        return false;
    }
    bytes->data = items;
    if (size > 0) {
        memcpy(bytes->data + bytes->size, data, size);
    }
    bytes->size = needed;
    return true;
}

void oq_bytes_reset(struct oq_bytes *bytes) {
    free(bytes->data);
    *bytes = (struct oq_bytes){NULL, 0, 0};
}

const uint8_t *oq_wire_read_varint(const uint8_t *p, const uint8_t *end, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned i = 0; i < OQ_WIRE_MAX_VARINT && p < end; i++) {
        const uint8_t byte = *p++;
        if (i == OQ_WIRE_MAX_VARINT - 1 && byte > 1) {
            return NULL;
        }
        value |= (uint64_t)(byte & 0x7fu) << (7 * i);
        if (byte < 0x80) {
            *out = value;
            return p;
        }
    }
    return NULL;
}

static const char *read_payload(const uint8_t *p, const uint8_t *end, struct oq_wire_field *out) {
    static const char short_text[] = "a field ends outside its message";
    uint64_t size = 0;
    switch (out->type) {
    case OQ_WIRE_VARINT:
        out->value = p;
        out->end = oq_wire_read_varint(p, end, &out->varint);
        return out->end == NULL ? "a number does not end" : NULL;
    case OQ_WIRE_LENGTH:
        p = oq_wire_read_varint(p, end, &size);
        if (p == NULL) {
            return "a length does not end";
        }
        break;
    case OQ_WIRE_64: size = 8; break;
    case OQ_WIRE_32: size = 4; break;
    }
    if (size > (uint64_t)(end - p)) {
        return short_text;
    }
    out->value = p;
    out->end = p + size;
    return NULL;
}

const char *oq_wire_read_field(const uint8_t *p, const uint8_t *end, struct oq_wire_field *out) {
    uint64_t tag;
    out->start = p;
    p = oq_wire_read_varint(p, end, &tag);
    if (p == NULL || tag > UINT32_MAX || tag >> 3 == 0) {
        return "a field number is wrong";
    }
    const unsigned type = (unsigned)(tag & 7u);
    if (type > 5 || type == 3 || type == 4) {
        return "a field is of a kind that ONNX does not use";
    }
    out->number = (uint32_t)(tag >> 3);
    out->type = (enum oq_wire_type)type;
    out->varint = 0;
    return read_payload(p, end, out);
}

size_t oq_wire_encode(uint8_t *p, uint64_t value) {
    size_t n = 0;
    while (value >= 0x80) {
        p[n++] = (uint8_t)(value | 0x80u);
        value >>= 7;
    }
    p[n++] = (uint8_t)value;
    return n;
}

size_t oq_wire_encode_tag(uint8_t *p, uint32_t number, enum oq_wire_type type) {
    return oq_wire_encode(p, (uint64_t)number << 3 | (uint64_t)type);
}

void oq_wire_add_varint(struct oq_wire_fields *fields, uint32_t number, uint64_t value) {
    uint8_t *p = fields->head + fields->head_size;
    const size_t n = oq_wire_encode_tag(p, number, OQ_WIRE_VARINT);
    fields->head_size += n + oq_wire_encode(p + n, value);
}

void oq_wire_add_length(struct oq_wire_fields *fields, uint32_t number, size_t size) {
    uint8_t *p = fields->head + fields->head_size;
    const size_t n = oq_wire_encode_tag(p, number, OQ_WIRE_LENGTH);
    fields->head_size += n + oq_wire_encode(p + n, size);
}

void oq_wire_add_bytes(struct oq_wire_fields *fields, uint32_t number, const void *data,
                       size_t size) {
    oq_wire_add_length(fields, number, size);
    memcpy(fields->head + fields->head_size, data, size);
    fields->head_size += size;
}

bool oq_wire_may_hold_tensor(const ProtobufCMessageDescriptor *descriptor) {
    static const ProtobufCMessageDescriptor *const holders[] = {
        &onnx__model_proto__descriptor,    &onnx__graph_proto__descriptor,
        &onnx__node_proto__descriptor,     &onnx__attribute_proto__descriptor,
        &onnx__tensor_proto__descriptor,   &onnx__sparse_tensor_proto__descriptor,
        &onnx__function_proto__descriptor, &onnx__training_info_proto__descriptor,
    };
    for (size_t i = 0; i < sizeof holders / sizeof holders[0]; i++) {
        if (descriptor == holders[i]) {
            return true;
        }
    }
    return false;
}
