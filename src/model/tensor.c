/*
 * Reading and making TensorProtos; see tensor.h.
 */
#include "model/tensor.h"

#include "base/number.h"
#include "base/size.h"
#include "model/model_make.h"
#include "model/tensor_data.h"
#include "model/wire_field.h"

#include <inttypes.h>
#include <string.h>

/* ---- How much data belongs to a shape ---- */

/* Fields of TensorProto that hold elements one by one, by their numbers. */
enum field {
    NO_FIELD = 0,
    FLOATS = OQ_TENSOR_FLOAT_DATA,
    INT32S = OQ_TENSOR_INT32_DATA,
    STRINGS = OQ_TENSOR_STRING_DATA,
    INT64S = OQ_TENSOR_INT64_DATA,
    DOUBLES = OQ_TENSOR_DOUBLE_DATA,
    UINT64S = OQ_TENSOR_UINT64_DATA
};

/* In the order of TensorProto.DataType: where the elements of a type are when not in raw_data. */
static const unsigned char field_of_type[] = {
    NO_FIELD, FLOATS,  INT32S,  INT32S,  INT32S, INT32S,  INT32S, INT64S, STRINGS, INT32S,
    INT32S,   DOUBLES, UINT64S, UINT64S, FLOATS, DOUBLES, INT32S, INT32S, INT32S,  INT32S,
    INT32S,   INT32S,  INT32S,  INT32S,  INT32S, INT32S,  INT32S, INT32S, INT32S,
};

static enum field field_of(int type) {
    return type >= 0 && (size_t)type < sizeof field_of_type ? (enum field)field_of_type[type]
                                                            : NO_FIELD;
}

static size_t entries_in(const Onnx__TensorProto *tensor, enum field field) {
    if (tensor->has_data_field) {
        return tensor->data_field == (uint32_t)field ? (size_t)tensor->data_entries : 0;
    }
    switch (field) {
    case NO_FIELD: return 0;
    case FLOATS: return tensor->n_float_data;
    case INT32S: return tensor->n_int32_data;
    case INT64S: return tensor->n_int64_data;
    case UINT64S: return tensor->n_uint64_data;
    case DOUBLES: return tensor->n_double_data;
    case STRINGS: return tensor->n_string_data;
    }
    return 0;
}

/* Entries of its field that n elements take; false on overflow. */
static bool entries_for(int type, size_t n, size_t *out) {
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX64:
    case ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX128: return oq_size_mul(n, 2, out);
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT4:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT4:
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT4E2M1: *out = n / 2 + n % 2; return true;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT2:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT2: *out = n / 4 + (n % 4 != 0); return true;
    default: *out = n; return true;
    }
}

static bool bytes_for(int type, size_t n, size_t *out) {
    const size_t bits = oq_type_bits(type);
    size_t total;
    if (bits == 0) {
        return false;
    }
    if (bits % 8 == 0) {
        return oq_size_mul(n, bits / 8, out);
    }
    if (!oq_size_mul(n, bits, &total)) {
        return false;
    }
    *out = total / 8 + (total % 8 != 0);
    return true;
}

bool oq_tensor_byte_size(const Onnx__TensorProto *tensor, size_t *n_elements, size_t *size) {
    size_t n, bytes;
    if (!oq_shape_elements(tensor->dims, tensor->n_dims, &n) ||
        !bytes_for(tensor->data_type, n, &bytes)) {
        return false;
    }
    *n_elements = n;
    *size = bytes;
    return true;
}

/* ---- Checking ---- */

static enum onnxptq_status check_shape(const Onnx__TensorProto *tensor, size_t *n,
                                       struct onnxptq_error *error) {
    for (size_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] < 0) {
            return oq_fail(error, ONNXPTQ_ERROR_MODEL, "dimension %zu of its shape is %" PRId64, i,
                           tensor->dims[i]);
        }
    }
    size_t bytes;
    if (!oq_shape_elements(tensor->dims, tensor->n_dims, n) ||
        (oq_type_bits(tensor->data_type) != 0 && !bytes_for(tensor->data_type, *n, &bytes))) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL, "its shape has more elements than memory");
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_bytes(const Onnx__TensorProto *tensor, size_t n, uint64_t held,
                                       struct onnxptq_error *error) {
    size_t bytes;
    if (tensor->data_type == ONNXPTQ_TYPE_STRING) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL, "strings cannot be stored as raw bytes");
    }
    if (bytes_for(tensor->data_type, n, &bytes) && bytes != held) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL,
                       "its shape and type (%s) ask for %zu bytes of data, but it holds %" PRIu64,
                       oq_type_name(tensor->data_type), bytes, held);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_entries(const Onnx__TensorProto *tensor, size_t n,
                                         struct onnxptq_error *error) {
    const enum field field = field_of(tensor->data_type);
    size_t needed = 0;
    if (field == NO_FIELD) {
        return ONNXPTQ_OK;
    }
    const size_t held = entries_in(tensor, field);
    if (!entries_for(tensor->data_type, n, &needed) || needed != held) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL,
                       "its shape and type (%s) ask for %zu elements, but it holds %zu",
                       oq_type_name(tensor->data_type), n, held);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_tensor_check(const struct oq_model *model, const Onnx__TensorProto *tensor,
                                    struct onnxptq_error *error) {
    size_t n = 0;
    OQ_TRY(check_shape(tensor, &n, error));
    if (tensor->has_data_length) {
        if (tensor->has_raw_data) {
            return oq_fail(error, ONNXPTQ_ERROR_MODEL, "its data is there twice");
        }
        if (oq_model_data(model, tensor->data_file, tensor->data_offset, tensor->data_length) ==
                NULL &&
            tensor->data_length > 0) {
            return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "its data lies outside its file");
        }
        if (tensor->has_data_field) {
            return check_entries(tensor, n, error);
        }
        return check_bytes(tensor, n, tensor->data_length, error);
    }
    if (tensor->has_raw_data) {
        return check_bytes(tensor, n, tensor->raw_data.len, error);
    }
    return check_entries(tensor, n, error);
}

/* ---- Reading ---- */

/* Integers stored wider than they are: keeps the lowest `width` bytes of each. */
static uint8_t *narrow(const struct oq_model *model, const uint8_t *data, size_t n, size_t stride,
                       size_t width) {
    uint8_t *out = oq_arena_array(oq_model_arena(model), n, width);
    for (size_t i = 0; out != NULL && i < n; i++) {
        memcpy(out + i * width, data + i * stride, width);
    }
    return out;
}

/* The same for numbers encoded in a data file. */
static uint8_t *decode(const struct oq_model *model, const Onnx__TensorProto *tensor,
                       size_t width) {
    const size_t n = (size_t)tensor->data_entries;
    const uint8_t *data =
        oq_model_data(model, tensor->data_file, tensor->data_offset, tensor->data_length);
    uint8_t *out = data == NULL ? NULL : oq_arena_array(oq_model_arena(model), n, width);
    if (out != NULL) {
        oq_unpack_varints(data, (size_t)tensor->data_length, width, out, n);
    }
    return out;
}

static uint8_t *convert(const struct oq_model *model, const Onnx__TensorProto *tensor,
                        size_t width) {
    if (tensor->has_data_field) {
        return decode(model, tensor, width);
    }
    if (tensor->n_uint64_data > 0) {
        return narrow(model, (const uint8_t *)tensor->uint64_data, tensor->n_uint64_data, 8, width);
    }
    return narrow(model, (const uint8_t *)tensor->int32_data, tensor->n_int32_data, 4, width);
}

/* Converts typed entries that do not lie as the elements do, once per tensor. */
static const uint8_t *converted(const struct oq_model *model, const Onnx__TensorProto *tensor,
                                size_t width) {
    struct oq_map *notes = oq_model_notes(model);
    size_t address;
    if (oq_map_get(notes, &tensor, sizeof(const void *), &address)) {
        return (const uint8_t *)address; // NOLINT(performance-no-int-to-ptr)
    }
    uint8_t *data = convert(model, tensor, width);
    if (data == NULL ||
        !oq_map_put_copy(notes, &tensor, sizeof(const void *), (size_t)(uintptr_t)data)) {
        return NULL;
    }
    return data;
}

static const uint8_t *mapped_data(const struct oq_model *model, const Onnx__TensorProto *tensor) {
    if (tensor->has_data_field && !oq_field_is_raw(tensor->data_field)) {
        return converted(model, tensor, oq_entry_width(tensor->data_type, tensor->data_field));
    }
    return oq_model_data(model, tensor->data_file, tensor->data_offset, tensor->data_length);
}

/* Bytes of data in typed fields; NULL when there was no memory. */
static const uint8_t *typed_data(const struct oq_model *model, const Onnx__TensorProto *tensor) {
    const size_t size = oq_type_size(tensor->data_type);
    switch (field_of(tensor->data_type)) {
    case FLOATS: return (const uint8_t *)tensor->float_data;
    case DOUBLES: return (const uint8_t *)tensor->double_data;
    case INT64S: return (const uint8_t *)tensor->int64_data;
    case UINT64S:
        return size == 8 ? (const uint8_t *)tensor->uint64_data : converted(model, tensor, size);
    case INT32S:
        /* Types below a byte: each entry is a byte of several elements. */
        return size == 4 ? (const uint8_t *)tensor->int32_data
                         : converted(model, tensor, size == 0 ? 1 : size);
    case NO_FIELD:
    case STRINGS: break;
    }
    return NULL;
}

static enum onnxptq_status check_viewable(const Onnx__TensorProto *tensor,
                                          struct onnxptq_error *error) {
    const char *name = oq_text(tensor->name);
    const size_t bits = oq_type_bits(tensor->data_type);
    const bool in_fields =
        tensor->has_data_field || (!tensor->has_data_length && !tensor->has_raw_data);
    if (bits == 0 || (bits == 6 && in_fields) || tensor->segment != NULL) {
        return oq_fail(
            error, ONNXPTQ_ERROR_UNSUPPORTED,
            "cannot use the values of tensor '%s': element type %d (%s) is not supported "
            "here",
            name, tensor->data_type, oq_type_name(tensor->data_type));
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_tensor_view(const struct oq_model *model, const Onnx__TensorProto *tensor,
                                   struct oq_tensor_view *out, struct onnxptq_error *error) {
    static const uint8_t nothing[1];
    const char *name = oq_text(tensor->name);
    OQ_TRY(check_viewable(tensor, error));
    const enum onnxptq_status status = oq_tensor_check(model, tensor, error);
    if (status != ONNXPTQ_OK) {
        return oq_prefix(error, status, "cannot use the values of tensor '%s': ", name);
    }
    struct oq_tensor_view view = {
        .type = tensor->data_type, .rank = tensor->n_dims, .shape = tensor->dims};
    if (!oq_tensor_byte_size(tensor, &view.n_elements, &view.size)) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "cannot use the values of tensor '%s'", name);
    }
    if (view.size == 0) {
        view.data = nothing;
    } else if (tensor->has_data_length) {
        view.data = mapped_data(model, tensor);
    } else {
        view.data = tensor->has_raw_data ? tensor->raw_data.data : typed_data(model, tensor);
    }
    if (view.data == NULL) {
        return oq_fail_memory(error, "the values of a tensor");
    }
    *out = view;
    return ONNXPTQ_OK;
}

void oq_tensor_view_floats(const struct oq_tensor_view *view, size_t first, size_t n, float *out) {
    oq_convert_to_float(view->type, view->data + first * oq_type_size(view->type), n, out);
}

int64_t oq_tensor_view_integer(const struct oq_tensor_view *view, size_t index) {
    const uint8_t *p = view->data + index * oq_type_size(view->type);
    switch (view->type) {
    case ONNXPTQ_TYPE_BOOL:
    case ONNXPTQ_TYPE_UINT8: return *p;
    case ONNXPTQ_TYPE_INT8: return (int8_t)*p;
    case ONNXPTQ_TYPE_UINT16: return oq_load_u16(p);
    case ONNXPTQ_TYPE_INT16: return (int16_t)oq_load_u16(p);
    case ONNXPTQ_TYPE_UINT32: return oq_load_u32(p);
    case ONNXPTQ_TYPE_INT32: return (int32_t)oq_load_u32(p);
    case ONNXPTQ_TYPE_UINT64:
    case ONNXPTQ_TYPE_INT64: return (int64_t)oq_load_u64(p);
    default: return 0;
    }
}

/* ---- Making ---- */

static Onnx__TensorProto *create(struct oq_arena *arena, const char *name, int type,
                                 const int64_t *shape, size_t rank) {
    Onnx__TensorProto *tensor = oq_arena_alloc(arena, sizeof *tensor);
    if (tensor == NULL) {
        return NULL;
    }
    onnx__tensor_proto__init(tensor);
    tensor->name = oq_arena_strdup(arena, name);
    tensor->dims = oq_arena_array(arena, rank, sizeof *tensor->dims);
    if (tensor->name == NULL || tensor->dims == NULL) {
        return NULL;
    }
    tensor->has_data_type = 1;
    tensor->data_type = type;
    tensor->n_dims = rank;
    if (rank > 0) {
        memcpy(tensor->dims, shape, rank * sizeof *tensor->dims);
    }
    return tensor;
}

Onnx__TensorProto *oq_tensor_create(struct oq_model *model, const char *name, int type,
                                    const int64_t *shape, size_t rank, const void *data,
                                    size_t size) {
    return oq_tensor_create_in(oq_model_arena(model), name, type, shape, rank, data, size);
}

Onnx__TensorProto *oq_tensor_create_in(struct oq_arena *arena, const char *name, int type,
                                       const int64_t *shape, size_t rank, const void *data,
                                       size_t size) {
    Onnx__TensorProto *tensor = create(arena, name, type, shape, rank);
    uint8_t *copy = tensor == NULL ? NULL : oq_arena_alloc(arena, size);
    if (copy == NULL) {
        return NULL;
    }
    if (data != NULL && size > 0) {
        memcpy(copy, data, size);
    }
    tensor->has_raw_data = 1;
    tensor->raw_data = (ProtobufCBinaryData){size, copy};
    return tensor;
}

Onnx__TensorProto *oq_tensor_create_mapped(struct oq_model *model, const char *name, int type,
                                           const int64_t *shape, size_t rank, uint32_t file,
                                           uint64_t offset, uint64_t size) {
    Onnx__TensorProto *tensor = create(oq_model_arena(model), name, type, shape, rank);
    if (tensor != NULL) {
        tensor->has_data_file = tensor->has_data_offset = tensor->has_data_length = 1;
        tensor->data_file = file;
        tensor->data_offset = offset;
        tensor->data_length = size;
    }
    return tensor;
}
