/*
 * Read field by field, in place: the elements of a sample are not copied by a parser only to be
 * copied again into the input's buffer.
 */
#include "data/tensor_message.h"

#include "base/number.h"
#include "base/size.h"
#include "model/wire_field.h"

#include <stdlib.h>
#include <string.h>

/* Fields of TensorProto besides those that wire_field.h lists. */
enum { FIELD_DIMS = 1, FIELD_SEGMENT = 3, FIELD_NAME = 8 };

/* What one pass over the message finds. */
struct message {
    const uint8_t *data, *end;
    int type;
    size_t rank;
    int64_t shape[ONNXPTQ_MAX_RANK];
    bool has_raw, is_external, is_segment;
    const uint8_t *raw;
    size_t raw_size;
    uint32_t data_field; /* that the type's elements are in when they are not raw */
    size_t n_entries;    /* of that field */
    size_t n_chunks;     /* times it occurs */
    const uint8_t *chunk;
    struct onnxptq_error *error;
};

static enum onnxptq_status fail_message(const struct message *m, const char *fact) {
    return oq_fail(m->error, ONNXPTQ_ERROR_DATA, "it is no readable ONNX tensor: %s", fact);
}

/* The field that holds elements of a type one by one; 0 for types that inputs are not fed with. */
static uint32_t field_of_type(int type) {
    switch (type) {
    case ONNXPTQ_TYPE_FLOAT: return OQ_TENSOR_FLOAT_DATA;
    case ONNXPTQ_TYPE_DOUBLE: return OQ_TENSOR_DOUBLE_DATA;
    case ONNXPTQ_TYPE_INT64: return OQ_TENSOR_INT64_DATA;
    case ONNXPTQ_TYPE_UINT32:
    case ONNXPTQ_TYPE_UINT64: return OQ_TENSOR_UINT64_DATA;
    case ONNXPTQ_TYPE_BOOL:
    case ONNXPTQ_TYPE_INT8:
    case ONNXPTQ_TYPE_UINT8:
    case ONNXPTQ_TYPE_INT16:
    case ONNXPTQ_TYPE_UINT16:
    case ONNXPTQ_TYPE_INT32:
    case ONNXPTQ_TYPE_FLOAT16:
    case ONNXPTQ_TYPE_BFLOAT16: return OQ_TENSOR_INT32_DATA;
    default: return 0;
    }
}

/* ---- Numbers of a repeated field, packed or not ---- */

/* Width of a number of this field in the message; 0: a varint. */
static size_t width_of(uint32_t field) {
    return field == OQ_TENSOR_FLOAT_DATA ? 4 : field == OQ_TENSOR_DOUBLE_DATA ? 8 : 0;
}

/* Calls `take` for every number; false when one does not end or is of another kind. */
static bool each_number(const struct oq_wire_field *field, size_t width,
                        bool (*take)(void *user, const uint8_t *bytes), void *user) {
    static const enum oq_wire_type alone[] = {
        [0] = OQ_WIRE_VARINT, [4] = OQ_WIRE_32, [8] = OQ_WIRE_64};
    uint8_t bytes[8];
    if (field->type != OQ_WIRE_LENGTH && field->type != alone[width]) {
        return false;
    }
    for (const uint8_t *p = field->value; p < field->end;) {
        uint64_t number = 0;
        if (width > 0 && (size_t)(field->end - p) < width) {
            return false;
        }
        if (width > 0) {
            memcpy(&number, p, width);
            p += width;
        } else if ((p = oq_wire_read_varint(p, field->end, &number)) == NULL) {
            return false;
        }
        memcpy(bytes, &number, sizeof bytes);
        if (!take(user, bytes)) {
            return false;
        }
    }
    return true;
}

static bool count_number(void *user, const uint8_t *bytes) {
    (void)bytes;
    ++*(size_t *)user;
    return true;
}

static bool add_dimension(void *user, const uint8_t *bytes) {
    struct message *m = user;
    uint64_t dimension = oq_load_u64(bytes);
    if (m->rank == ONNXPTQ_MAX_RANK || dimension > INT64_MAX) {
        return false;
    }
    m->shape[m->rank++] = (int64_t)dimension;
    return true;
}

struct store {
    uint8_t *at, *end;
    size_t item_size;
};

static bool store_number(void *user, const uint8_t *bytes) {
    struct store *store = user;
    if (store->at == store->end) {
        return false;
    }
    memcpy(store->at, bytes, store->item_size);
    store->at += store->item_size;
    return true;
}

/* ---- Passes ---- */

typedef enum onnxptq_status visit_function(struct message *m, const struct oq_wire_field *field,
                                           void *user);

static enum onnxptq_status each_field(struct message *m, visit_function *visit, void *user) {
    for (const uint8_t *p = m->data; p < m->end;) {
        struct oq_wire_field field;
        const char *fact = oq_wire_read_field(p, m->end, &field);
        if (fact != NULL) {
            return fail_message(m, fact);
        }
        OQ_TRY(visit(m, &field, user));
        p = field.end;
    }
    return ONNXPTQ_OK;
}

static void take_name(const struct oq_wire_field *field, struct oq_array_file *out) {
    size_t length = (size_t)(field->end - field->value);
    length = length < sizeof out->name ? length : sizeof out->name - 1;
    memcpy(out->name, field->value, length);
    out->name[length] = '\0';
}

static enum onnxptq_status visit_header(struct message *m, const struct oq_wire_field *field,
                                        void *user) {
    bool is_number = field->type == OQ_WIRE_VARINT, is_bytes = field->type == OQ_WIRE_LENGTH;
    switch (field->number) {
    case FIELD_DIMS:
        return each_number(field, 0, add_dimension, m) ? ONNXPTQ_OK
                                                       : fail_message(m, "its shape is broken");
    case OQ_TENSOR_TYPE:
        m->type = field->varint <= INT32_MAX ? (int)field->varint : 0;
        return is_number ? ONNXPTQ_OK : fail_message(m, "its element type is broken");
    case FIELD_NAME:
        take_name(field, user);
        return is_bytes ? ONNXPTQ_OK : fail_message(m, "its name is broken");
    case OQ_TENSOR_RAW_DATA:
        m->has_raw = true;
        m->raw = field->value;
        m->raw_size = (size_t)(field->end - field->value);
        return is_bytes ? ONNXPTQ_OK : fail_message(m, "its elements are broken");
    case OQ_TENSOR_DATA_LOCATION:
        m->is_external = field->varint != 0;
        return is_number ? ONNXPTQ_OK : fail_message(m, "the place of its elements is broken");
    case FIELD_SEGMENT: m->is_segment = true; return ONNXPTQ_OK;
    default: return ONNXPTQ_OK;
    }
}

static enum onnxptq_status visit_count(struct message *m, const struct oq_wire_field *field,
                                       void *user) {
    (void)user;
    if (field->number != m->data_field) {
        return ONNXPTQ_OK;
    }
    m->n_chunks++;
    m->chunk = field->value;
    return each_number(field, width_of(m->data_field), count_number, &m->n_entries)
               ? ONNXPTQ_OK
               : fail_message(m, "its elements are broken");
}

static enum onnxptq_status visit_store(struct message *m, const struct oq_wire_field *field,
                                       void *user) {
    if (field->number == m->data_field) {
        (void)each_number(field, width_of(m->data_field), store_number, user);
    }
    return ONNXPTQ_OK; /* counted and checked before */
}

/* ---- Elements ---- */

static enum onnxptq_status fail_amount(const struct message *m, size_t expected, size_t found,
                                       const char *unit) {
    return oq_fail(m->error, ONNXPTQ_ERROR_DATA, "its shape asks for %zu %s, it has %zu", expected,
                   unit, found);
}

static enum onnxptq_status store_entries(struct message *m, struct oq_array_file *out) {
    out->owned = malloc(out->npy.n_bytes > 0 ? out->npy.n_bytes : 1);
    if (out->owned == NULL) {
        return oq_fail_memory(m->error, "a tensor");
    }
    struct store store = {out->owned, out->owned + out->npy.n_bytes, out->npy.item_size};
    enum onnxptq_status status = each_field(m, visit_store, &store);
    if (status != ONNXPTQ_OK) {
        free(out->owned);
        return status;
    }
    out->elements = out->owned;
    return ONNXPTQ_OK;
}

static enum onnxptq_status find_elements(struct message *m, struct oq_array_file *out) {
    OQ_TRY(each_field(m, visit_count, NULL));
    if (m->has_raw) {
        if (m->raw_size != out->npy.n_bytes || m->n_entries > 0) {
            return fail_amount(m, out->npy.n_bytes, m->raw_size, "bytes");
        }
        out->elements = m->raw;
        return ONNXPTQ_OK;
    }
    if (m->n_entries != out->npy.n_elements) {
        return fail_amount(m, out->npy.n_elements, m->n_entries, "elements");
    }
    if (m->n_chunks == 1 && width_of(m->data_field) > 0) {
        out->elements = m->chunk;
        return ONNXPTQ_OK;
    }
    return store_entries(m, out);
}

static enum onnxptq_status check_header(const struct message *m, struct oq_npy *npy) {
    if (m->is_external || m->is_segment) {
        return oq_fail(m->error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "its elements lie in another file; save them inside");
    }
    if (m->data_field == 0) {
        return oq_fail(
            m->error, ONNXPTQ_ERROR_UNSUPPORTED,
            "its element type, %s, is none that is read; save bool, (u)int8 to (u)int64, "
            "float, double or one of the 16-bit floats",
            oq_type_name(m->type));
    }
    *npy = (struct oq_npy){
        .type = (enum onnxptq_type)m->type, .item_size = oq_type_size(m->type), .rank = m->rank};
    memcpy(npy->shape, m->shape, sizeof npy->shape);
    if (!oq_shape_elements(npy->shape, npy->rank, &npy->n_elements) ||
        !oq_size_mul(npy->n_elements, npy->item_size, &npy->n_bytes)) {
        return oq_fail(m->error, ONNXPTQ_ERROR_DATA,
                       "its shape has more elements than a machine can address");
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_tensor_message_parse(const uint8_t *data, size_t size,
                                            struct oq_array_file *out,
                                            struct onnxptq_error *error) {
    struct message m = {.data = data, .end = data + size, .error = error};
    struct oq_array_file file = {0};
    if (size == 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "it is empty");
    }
    OQ_TRY(each_field(&m, visit_header, &file));
    m.data_field = field_of_type(m.type);
    OQ_TRY(check_header(&m, &file.npy));
    OQ_TRY(find_elements(&m, &file));
    *out = file;
    return ONNXPTQ_OK;
}
