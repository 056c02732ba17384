/*
 * Writing direction of wire.h: puts tensors' data back, or what else stands for it.
 *
 * Both passes run the same code. The first has no sink and stores the size of each message that may
 * hold a tensor, in the order in which they open; the second takes the sizes in the same order.
 */
#include "base/arena.h"
#include "model/wire_field.h"

#include <stdlib.h>
#include <string.h>

struct expander {
    const struct oq_wire_expansion *expansion;
    bool emit;
    uint64_t total; /* bytes put so far in this pass */
    uint64_t *sizes;
    size_t n_sizes, capacity;
    size_t n_measured; /* sizes of the first pass */
    struct onnxptq_error *error;
};

struct message {
    const ProtobufCMessageDescriptor *descriptor;
    const uint8_t *start, *end;
    enum oq_wire_place place; /* of a tensor right in this message; of tensors below a node */
};

/* A tensor on the way through its fields. */
struct tensor_state {
    struct oq_wire_tensor tensor;
    bool located; /* its replacement says where the data are */
};

static void put(struct expander *expander, const void *data, size_t size) {
    expander->total += size;
    if (expander->emit && size > 0) {
        expander->expansion->put(expander->expansion->user, data, size);
    }
}

static enum onnxptq_status internal(struct expander *expander) {
    return oq_fail(expander->error, ONNXPTQ_ERROR_INTERNAL, "the packed model is broken");
}

static enum onnxptq_status expand_message(struct expander *expander, struct message message);

static enum onnxptq_status measure(struct expander *expander, struct message inner,
                                   uint64_t *size) {
    const size_t index = expander->n_sizes;
    void *items = expander->sizes;
    if (!oq_grow(&items, &expander->capacity, index + 1, sizeof *expander->sizes)) {
        return oq_fail_memory(expander->error, "the model's sizes");
    }
    expander->sizes = items;
    expander->n_sizes++;
    const uint64_t before = expander->total;
    OQ_TRY(expand_message(expander, inner));
    *size = expander->total - before;
    expander->sizes[index] = *size;
    expander->total = before;
    return ONNXPTQ_OK;
}

static enum onnxptq_status expand_submessage(struct expander *expander, uint32_t number,
                                             struct message inner) {
    uint64_t size = 0;
    if (expander->emit) {
        if (expander->n_sizes >= expander->n_measured) {
            return internal(expander);
        }
        size = expander->sizes[expander->n_sizes++];
    } else {
        OQ_TRY(measure(expander, inner, &size));
    }
    uint8_t head[2 * OQ_WIRE_MAX_VARINT];
    const size_t tag = oq_wire_encode_tag(head, number, OQ_WIRE_LENGTH);
    put(expander, head, tag + oq_wire_encode(head + tag, size));
    if (expander->emit) {
        return expand_message(expander, inner);
    }
    expander->total += size;
    return ONNXPTQ_OK;
}

/* Is this NodeProto a Constant of the default domain? */
static bool is_constant(const uint8_t *p, const uint8_t *end) {
    bool constant = false;
    struct oq_wire_field field;
    while (p < end && oq_wire_read_field(p, end, &field) == NULL) {
        const size_t size = (size_t)(field.end - field.value);
        if (field.number == OQ_NODE_TYPE) {
            constant = size == strlen("Constant") && memcmp(field.value, "Constant", size) == 0;
        } else if (field.number == OQ_NODE_DOMAIN && size > 0 &&
                   !(size == strlen("ai.onnx") && memcmp(field.value, "ai.onnx", size) == 0)) {
            return false;
        }
        p = field.end;
    }
    return constant;
}

static enum oq_wire_place place_of(const struct message *message, const struct oq_wire_field *field,
                                   const ProtobufCMessageDescriptor *inner) {
    if (inner == &onnx__node_proto__descriptor) {
        return is_constant(field->value, field->end) ? OQ_PLACE_CONSTANT : OQ_PLACE_OTHER;
    }
    if (inner == &onnx__attribute_proto__descriptor) {
        return message->place;
    }
    if (inner == &onnx__tensor_proto__descriptor) {
        if (message->descriptor == &onnx__graph_proto__descriptor) {
            return OQ_PLACE_INITIALIZER;
        }
        if (message->descriptor == &onnx__attribute_proto__descriptor &&
            field->number == OQ_ATTRIBUTE_TENSOR) {
            return message->place;
        }
    }
    return OQ_PLACE_OTHER;
}

static enum onnxptq_status replace(struct expander *expander, struct tensor_state *state) {
    const struct oq_wire_expansion *expansion = expander->expansion;
    struct oq_wire_fields fields;
    fields.head_size = 0;
    fields.body = NULL;
    fields.body_size = 0;
    fields.sets_location = false;
    OQ_TRY(expansion->replace(expansion->user, &state->tensor, &fields, expander->error));
    state->located = fields.sets_location;
    put(expander, fields.head, fields.head_size);
    put(expander, fields.body, fields.body_size);
    return ONNXPTQ_OK;
}

/* Fields of a tensor that tell of its data; all others are put as they are. What describes the data
 * comes before it: the type has a low number, and of the private fields, which are the last known
 * ones, the length is the last. */
static enum onnxptq_status expand_tensor(struct expander *expander,
                                         const struct oq_wire_field *field,
                                         struct tensor_state *state) {
    struct oq_wire_tensor *tensor = &state->tensor;
    switch (field->number) {
    case OQ_TENSOR_DATA_FILE: tensor->file = (uint32_t)field->varint; return ONNXPTQ_OK;
    case OQ_TENSOR_DATA_FIELD: tensor->field = (uint32_t)field->varint; return ONNXPTQ_OK;
    case OQ_TENSOR_DATA_ENTRIES: tensor->entries = field->varint; return ONNXPTQ_OK;
    case OQ_TENSOR_DATA_OFFSET: tensor->offset = field->varint; return ONNXPTQ_OK;
    case OQ_TENSOR_DATA_LENGTH: tensor->length = field->varint; return replace(expander, state);
    case OQ_TENSOR_RAW_DATA:
        if (expander->expansion->all_raw) {
            tensor->bytes = field->value;
            tensor->length = (uint64_t)(field->end - field->value);
            return replace(expander, state);
        }
        break;
    case OQ_TENSOR_DATA_LOCATION:
        if (state->located) {
            return ONNXPTQ_OK; /* this one is of before */
        }
        break;
    case OQ_TENSOR_TYPE: tensor->type = (int)(int64_t)field->varint; break;
    default: break;
    }
    put(expander, field->start, (size_t)(field->end - field->start));
    return ONNXPTQ_OK;
}

static enum onnxptq_status expand_field(struct expander *expander, const struct message *message,
                                        const struct oq_wire_field *field,
                                        struct tensor_state *state) {
    const ProtobufCMessageDescriptor *outer = message->descriptor;
    if (outer == &onnx__tensor_proto__descriptor) {
        return expand_tensor(expander, field, state);
    }
    if (outer == &onnx__node_proto__descriptor && field->number == OQ_NODE_ORIGIN) {
        return ONNXPTQ_OK;
    }
    const ProtobufCFieldDescriptor *known =
        protobuf_c_message_descriptor_get_field(outer, field->number);
    if (known != NULL && known->type == PROTOBUF_C_TYPE_MESSAGE &&
        oq_wire_may_hold_tensor(known->descriptor)) {
        if (known->descriptor == &onnx__training_info_proto__descriptor &&
            expander->expansion->drop_training) {
            return ONNXPTQ_OK;
        }
        const struct message inner = {known->descriptor, field->value, field->end,
                                      place_of(message, field, known->descriptor)};
        return expand_submessage(expander, field->number, inner);
    }
    put(expander, field->start, (size_t)(field->end - field->start));
    return ONNXPTQ_OK;
}

static enum onnxptq_status expand_message(struct expander *expander, struct message message) {
    struct tensor_state state = {.tensor = {.place = message.place}};
    for (const uint8_t *p = message.start; p < message.end;) {
        struct oq_wire_field field;
        if (oq_wire_read_field(p, message.end, &field) != NULL) {
            return internal(expander);
        }
        OQ_TRY(expand_field(expander, &message, &field, &state));
        p = field.end;
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_wire_expand(const uint8_t *data, size_t size,
                                   const struct oq_wire_expansion *expansion,
                                   struct onnxptq_error *error) {
    struct expander expander = {.expansion = expansion, .error = error};
    const struct message model = {&onnx__model_proto__descriptor, data, data + size,
                                  OQ_PLACE_OTHER};
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(expand_message(&expander, model));
    OQ_TRY_DONE(expansion->begin(expansion->user, expander.total, error));
    expander.emit = true;
    expander.n_measured = expander.sizes == NULL ? 0 : expander.n_sizes;
    expander.total = 0;
    expander.n_sizes = 0;
    OQ_TRY_DONE(expand_message(&expander, model));
done:
    free(expander.sizes);
    return status;
}
