/*
 * Reading direction of wire.h: checks a model file and leaves its large raw_data behind.
 */
#include "model/model.h"
#include "model/wire_field.h"

#include <inttypes.h>
#include <string.h>

/* The length of a rewritten message is known only afterwards: it gets this much room at first. */
#define LENGTH_ROOM 5

struct shrinker {
    const uint8_t *base; /* start of the file */
    uint32_t file;
    struct oq_bytes *out;
    struct onnxptq_error *error;
};

/* One message in the file. */
struct message {
    const ProtobufCMessageDescriptor *descriptor;
    const uint8_t *start, *end;
    unsigned depth; /* 1 is the model */
    bool rewrite;   /* false: checked only */
    bool one_data;  /* a tensor whose elements are in one field, at once */
};

static enum onnxptq_status broken(const struct shrinker *shrinker, const struct message *message,
                                  const uint8_t *at, const char *fact) {
    return oq_fail(shrinker->error, ONNXPTQ_ERROR_MODEL,
                   "it is not a valid ONNX file: %s (%s, byte %" PRIu64 ")", fact,
                   message->descriptor->short_name, (uint64_t)(at - shrinker->base));
}

/* A known part of the model that runs past the end of the file tells that the file was cut short.
 */
static enum onnxptq_status broken_field(const struct shrinker *shrinker,
                                        const struct message *message, const uint8_t *at,
                                        const struct oq_wire_field *field, const char *fact) {
    const ProtobufCFieldDescriptor *known =
        message->depth == 1 && field->number != 0
            ? protobuf_c_message_descriptor_get_field(message->descriptor, field->number)
            : NULL;
    if (known == NULL || field->type != OQ_WIRE_LENGTH) {
        return broken(shrinker, message, at, fact);
    }
    return oq_fail(shrinker->error, ONNXPTQ_ERROR_MODEL,
                   "it ends in the middle of its %s; the file was cut short: copy it again",
                   known->name);
}

static bool fits(const ProtobufCFieldDescriptor *known, enum oq_wire_type type) {
    const bool packed = known->label == PROTOBUF_C_LABEL_REPEATED && type == OQ_WIRE_LENGTH;
    switch (known->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return type == OQ_WIRE_LENGTH;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return packed || type == OQ_WIRE_32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return packed || type == OQ_WIRE_64;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM: return packed || type == OQ_WIRE_VARINT;
    }
    return false;
}

static enum onnxptq_status append(const struct shrinker *shrinker, const void *data, size_t size) {
    if (!oq_bytes_append(shrinker->out, data, size)) {
        return oq_fail_memory(shrinker->error, "the model's structure");
    }
    return ONNXPTQ_OK;
}

/* ---- Data that stays in the file ---- */

static bool is_data(uint32_t number) {
    return number == OQ_TENSOR_FLOAT_DATA || number == OQ_TENSOR_INT32_DATA ||
           number == OQ_TENSOR_INT64_DATA || number == OQ_TENSOR_RAW_DATA ||
           number == OQ_TENSOR_DOUBLE_DATA || number == OQ_TENSOR_UINT64_DATA;
}

static bool has_one_data(const struct message *message) {
    struct oq_wire_field field = {.number = 0};
    size_t n = 0;
    for (const uint8_t *p = message->start; p < message->end && n < 2; p = field.end) {
        if (oq_wire_read_field(p, message->end, &field) != NULL) {
            return false;
        }
        n += is_data(field.number);
    }
    return n == 1;
}

/* Entries of a packed field; false when they are not whole. */
static bool count_entries(const struct oq_wire_field *field, uint64_t *n) {
    const uint64_t size = (uint64_t)(field->end - field->value);
    if (field->number == OQ_TENSOR_FLOAT_DATA || field->number == OQ_TENSOR_DOUBLE_DATA) {
        const uint64_t width = field->number == OQ_TENSOR_FLOAT_DATA ? 4 : 8;
        *n = size / width;
        return size % width == 0;
    }
    uint64_t count = 0, value;
    for (const uint8_t *p = field->value; p != NULL && p < field->end; count++) {
        p = oq_wire_read_varint(p, field->end, &value);
        if (p == NULL) {
            return false;
        }
    }
    *n = count;
    return true;
}

static enum onnxptq_status leave_data(const struct shrinker *shrinker,
                                      const struct oq_wire_field *field, uint64_t entries) {
    struct oq_wire_fields fields = {.head_size = 0};
    oq_wire_add_varint(&fields, OQ_TENSOR_DATA_FILE, shrinker->file);
    if (field->number != OQ_TENSOR_RAW_DATA) {
        oq_wire_add_varint(&fields, OQ_TENSOR_DATA_FIELD, field->number);
        oq_wire_add_varint(&fields, OQ_TENSOR_DATA_ENTRIES, entries);
    }
    oq_wire_add_varint(&fields, OQ_TENSOR_DATA_OFFSET, (uint64_t)(field->value - shrinker->base));
    oq_wire_add_varint(&fields, OQ_TENSOR_DATA_LENGTH, (uint64_t)(field->end - field->value));
    return append(shrinker, fields.head, fields.head_size);
}

/* What the parser would refuse is left to it. */
static bool stays_in_file(const struct message *message, const struct oq_wire_field *field,
                          uint64_t *entries) {
    if (message->descriptor != &onnx__tensor_proto__descriptor || !is_data(field->number) ||
        field->type != OQ_WIRE_LENGTH) {
        return false;
    }
    const ptrdiff_t size = field->end - field->value;
    if (field->number == OQ_TENSOR_RAW_DATA) {
        return size >= OQ_MAPPED_MINIMUM;
    }
    return size >= OQ_MAPPED_TYPED_MINIMUM && message->one_data && count_entries(field, entries);
}

/* ---- Messages ---- */

static enum onnxptq_status shrink_message(const struct shrinker *shrinker, struct message message);

static enum onnxptq_status rewrite_submessage(const struct shrinker *shrinker,
                                              const struct oq_wire_field *field,
                                              struct message inner) {
    uint8_t head[OQ_WIRE_MAX_VARINT + LENGTH_ROOM] = {0};
    const size_t tag = oq_wire_encode_tag(head, field->number, OQ_WIRE_LENGTH);
    OQ_TRY(append(shrinker, head, tag + LENGTH_ROOM));
    const size_t start = shrinker->out->size;
    OQ_TRY(shrink_message(shrinker, inner));
    const size_t size = shrinker->out->size - start;
    if (size > OQ_WIRE_MAX_SIZE) {
        return broken(shrinker, &inner, field->start, "a message is larger than protobuf allows");
    }
    uint8_t *length = shrinker->out->data + start - LENGTH_ROOM;
    const size_t used = oq_wire_encode(length, size);
    memmove(length + used, length + LENGTH_ROOM, size);
    shrinker->out->size -= LENGTH_ROOM - used;
    return ONNXPTQ_OK;
}

static enum onnxptq_status shrink_submessage(const struct shrinker *shrinker,
                                             const struct message *message,
                                             const struct oq_wire_field *field,
                                             const ProtobufCMessageDescriptor *descriptor) {
    if (message->depth >= OQ_WIRE_MAX_DEPTH) {
        return broken(shrinker, message, field->start, "its parts are nested too deeply");
    }
    struct message inner = {descriptor, field->value, field->end, message->depth + 1, false, false};
    if (message->rewrite && oq_wire_may_hold_tensor(descriptor)) {
        inner.rewrite = true;
        inner.one_data = descriptor == &onnx__tensor_proto__descriptor && has_one_data(&inner);
        return rewrite_submessage(shrinker, field, inner);
    }
    OQ_TRY(shrink_message(shrinker, inner));
    return message->rewrite ? append(shrinker, field->start, (size_t)(field->end - field->start))
                            : ONNXPTQ_OK;
}

/* ---- Fields ---- */

static bool is_private(const ProtobufCMessageDescriptor *descriptor, uint32_t number) {
    if (descriptor == &onnx__node_proto__descriptor) {
        return number == OQ_NODE_ORIGIN;
    }
    return descriptor == &onnx__tensor_proto__descriptor && number >= OQ_TENSOR_DATA_FILE &&
           number <= OQ_TENSOR_DATA_LENGTH;
}

static enum onnxptq_status shrink_field(const struct shrinker *shrinker,
                                        const struct message *message,
                                        const struct oq_wire_field *field) {
    if (is_private(message->descriptor, field->number)) {
        return broken(shrinker, message, field->start,
                      "it uses a field number that is reserved for this program");
    }
    const ProtobufCFieldDescriptor *known =
        protobuf_c_message_descriptor_get_field(message->descriptor, field->number);
    if (known != NULL && !fits(known, field->type)) {
        return broken(shrinker, message, field->start, "a field is of the wrong kind");
    }
    if (known != NULL && known->type == PROTOBUF_C_TYPE_MESSAGE) {
        return shrink_submessage(shrinker, message, field, known->descriptor);
    }
    if (known != NULL && known->type == PROTOBUF_C_TYPE_STRING && field->end > field->value &&
        memchr(field->value, 0, (size_t)(field->end - field->value)) != NULL) {
        /* A C string would lose what follows. */
        return broken(shrinker, message, field->start, "a text holds a zero byte");
    }
    if (!message->rewrite) {
        return ONNXPTQ_OK;
    }
    uint64_t entries = 0;
    return stays_in_file(message, field, &entries)
               ? leave_data(shrinker, field, entries)
               : append(shrinker, field->start, (size_t)(field->end - field->start));
}

static enum onnxptq_status shrink_message(const struct shrinker *shrinker, struct message message) {
    for (const uint8_t *p = message.start; p < message.end;) {
        struct oq_wire_field field = {.number = 0};
        const char *fact = oq_wire_read_field(p, message.end, &field);
        if (fact != NULL) {
            return broken_field(shrinker, &message, p, &field, fact);
        }
        OQ_TRY(shrink_field(shrinker, &message, &field));
        p = field.end;
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_wire_shrink(const uint8_t *data, size_t size, uint32_t file,
                                   struct oq_bytes *out, struct onnxptq_error *error) {
    const struct shrinker shrinker = {data, file, out, error};
    const struct message model = {
        &onnx__model_proto__descriptor, data, data + size, 1, true, false};
    return size == 0 ? ONNXPTQ_OK : shrink_message(&shrinker, model);
}
