/*
 * One field of the protobuf wire format. Shared by the passes of wire.h.
 */
#ifndef OQ_MODEL_WIRE_FIELD_H
#define OQ_MODEL_WIRE_FIELD_H

#include "model/wire.h"
#include "onnx.pb-c.h"

enum oq_wire_type { OQ_WIRE_VARINT = 0, OQ_WIRE_64 = 1, OQ_WIRE_LENGTH = 2, OQ_WIRE_32 = 5 };

#define OQ_WIRE_MAX_VARINT 10

/* Field numbers of onnx.proto that the passes know, by message; the last ones are private. */
enum { OQ_ENTRY_KEY = 1, OQ_ENTRY_VALUE = 2 };
enum { OQ_ATTRIBUTE_TENSOR = 5 };
enum { OQ_NODE_TYPE = 4, OQ_NODE_DOMAIN = 7, OQ_NODE_ORIGIN = 536870004 };
enum {
    OQ_TENSOR_TYPE = 2,
    OQ_TENSOR_FLOAT_DATA = 4,
    OQ_TENSOR_INT32_DATA = 5,
    OQ_TENSOR_STRING_DATA = 6,
    OQ_TENSOR_INT64_DATA = 7,
    OQ_TENSOR_RAW_DATA = 9,
    OQ_TENSOR_DOUBLE_DATA = 10,
    OQ_TENSOR_UINT64_DATA = 11,
    OQ_TENSOR_EXTERNAL_DATA = 13,
    OQ_TENSOR_DATA_LOCATION = 14,
    OQ_TENSOR_DATA_FILE = 536870001,
    OQ_TENSOR_DATA_FIELD,
    OQ_TENSOR_DATA_ENTRIES,
    OQ_TENSOR_DATA_OFFSET,
    OQ_TENSOR_DATA_LENGTH /* the last of a tensor's */
};

struct oq_wire_field {
    uint32_t number;
    enum oq_wire_type type;
    uint64_t varint;      /* OQ_WIRE_VARINT: the value */
    const uint8_t *start; /* of the tag */
    const uint8_t *value; /* of the payload */
    const uint8_t *end;
};

/* Reads the field at `p`, which is below `end`. NULL, or a sentence saying what is wrong with it.
 */
const char *oq_wire_read_field(const uint8_t *p, const uint8_t *end, struct oq_wire_field *out);

/* Reads a number; NULL when it does not end before `end`, or is longer than 64 bits. */
const uint8_t *oq_wire_read_varint(const uint8_t *p, const uint8_t *end, uint64_t *out);

/* Writes a number of 1 to OQ_WIRE_MAX_VARINT bytes; returns how many. */
size_t oq_wire_encode(uint8_t *p, uint64_t value);
size_t oq_wire_encode_tag(uint8_t *p, uint32_t number, enum oq_wire_type type);

/* True for the messages in which a TensorProto can lie. */
bool oq_wire_may_hold_tensor(const ProtobufCMessageDescriptor *descriptor);

#endif
