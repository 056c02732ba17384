/*
 * Passes over the protobuf wire format, guided by the message descriptors of onnx.proto, so that
 * weights never pass through the parser:
 *
 *   file --shrink--> skeleton --protobuf-c--> messages --protobuf-c--> skeleton --expand--> file
 *
 * Shrinking checks everything that the parser would not: nesting, lengths, text with zero bytes.
 */
#ifndef OQ_MODEL_WIRE_H
#define OQ_MODEL_WIRE_H

#include "base/error.h"

/* Messages inside messages, the model itself included: the limit that protobuf's own parsers have.
 */
#define OQ_WIRE_MAX_DEPTH 100
/* No message, and so no model file, can be larger. */
#define OQ_WIRE_MAX_SIZE ((uint64_t)INT32_MAX)

/* A growing malloc'ed buffer. */
struct oq_bytes {
    uint8_t *data;
    size_t size, capacity;
};
bool oq_bytes_append(struct oq_bytes *bytes, const void *data, size_t size);
void oq_bytes_reset(struct oq_bytes *bytes);

/* Appends the skeleton of the ModelProto at `data` to `out`: each raw_data of at least
 * OQ_MAPPED_MINIMUM bytes becomes (file, offset in data, length), each packed field of elements of
 * at least OQ_MAPPED_TYPED_MINIMUM bytes (file, field, entries, offset in data, length). The
 * message tells what is wrong, not which file. */
enum onnxptq_status oq_wire_shrink(const uint8_t *data, size_t size, uint32_t file,
                                   struct oq_bytes *out, struct onnxptq_error *error) OQ_MUST_USE;

/* Where a tensor stands in the model. */
enum oq_wire_place {
    OQ_PLACE_INITIALIZER, /* of a graph, at any depth */
    OQ_PLACE_CONSTANT,    /* attribute of a Constant node */
    OQ_PLACE_OTHER        /* any other attribute, part of a sparse tensor */
};

/* A tensor met on the way, whose data are mapped or in the skeleton. */
struct oq_wire_tensor {
    enum oq_wire_place place;
    int type;             /* TensorProto.DataType */
    const uint8_t *bytes; /* raw_data of the skeleton, or NULL: mapped */
    uint32_t file;        /* when mapped: data file of the model, */
    uint64_t offset;      /* place in it, */
    uint32_t field;       /* 0 for raw_data, else the packed field that the bytes are */
    uint64_t entries;     /* of that field */
    uint64_t length;      /* bytes, as they are stored */
};

/* Fields that stand for a tensor's data in the output: encoded bytes, then bytes lying elsewhere.
 * The room is that of external data whose location is the longest path that a system takes. */
struct oq_wire_fields {
    uint8_t head[4096 + 512];
    size_t head_size;
    const uint8_t *body;
    size_t body_size;
    bool sets_location; /* data_location is among the encoded */
};
/* Adds a field to `fields->head`; the caller knows that there is room. */
void oq_wire_add_varint(struct oq_wire_fields *fields, uint32_t number, uint64_t value);
void oq_wire_add_bytes(struct oq_wire_fields *fields, uint32_t number, const void *data,
                       size_t size);
void oq_wire_add_length(struct oq_wire_fields *fields, uint32_t number, size_t size);

struct oq_wire_expansion {
    void *user;
    /* Gives the fields for a tensor. Called twice for each, with the same result. */
    enum onnxptq_status (*replace)(void *user, const struct oq_wire_tensor *tensor,
                                   struct oq_wire_fields *fields, struct onnxptq_error *error);
    /* Told the whole size before the first byte. */
    enum onnxptq_status (*begin)(void *user, uint64_t size, struct onnxptq_error *error);
    void (*put)(void *user, const void *data, size_t size);
    bool drop_training; /* leaves training_info out */
    bool all_raw;       /* asks for raw_data of the skeleton too, not only for mapped tensors */
};

/* Writes the ModelProto of a packed skeleton: one pass for the sizes, one that puts out. */
enum onnxptq_status oq_wire_expand(const uint8_t *data, size_t size,
                                   const struct oq_wire_expansion *expansion,
                                   struct onnxptq_error *error) OQ_MUST_USE;
#endif
