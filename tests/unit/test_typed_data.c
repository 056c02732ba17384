/*
 * Large elements in float_data and its kin: left in the file, read, written and mapped as if they
 * were raw.
 */
#include "model/model_make.h"
#include "model/wire.h"
#include "model/write.h"
#include "model_builder.h"
#include "rich_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

#define N 40000

enum kind { FLOATS, DOUBLES, INT32S, INT64S, UINT64S };

/* Entry i of a field: small, large and negative numbers. */
static int64_t entry(size_t i) {
    const int64_t value = (int64_t)(i * 2654435761u % 100003);
    return i % 7 == 0 ? -value : value;
}

static void fill(struct oq_model *model, Onnx__TensorProto *tensor, enum kind kind, size_t n) {
    struct oq_arena *arena = oq_model_arena(model);
    tensor->has_raw_data = 0;
    switch (kind) {
    case FLOATS:
        tensor->float_data = oq_arena_array(arena, n, sizeof(float));
        tensor->n_float_data = n;
        break;
    case DOUBLES:
        tensor->double_data = oq_arena_array(arena, n, sizeof(double));
        tensor->n_double_data = n;
        break;
    case INT32S:
        tensor->int32_data = oq_arena_array(arena, n, sizeof(int32_t));
        tensor->n_int32_data = n;
        break;
    case INT64S:
        tensor->int64_data = oq_arena_array(arena, n, sizeof(int64_t));
        tensor->n_int64_data = n;
        break;
    case UINT64S:
        tensor->uint64_data = oq_arena_array(arena, n, sizeof(uint64_t));
        tensor->n_uint64_data = n;
        break;
    }
    for (size_t i = 0; i < n; i++) {
        switch (kind) {
        case FLOATS: tensor->float_data[i] = (float)entry(i) * 0.5F; break;
        case DOUBLES: tensor->double_data[i] = (double)entry(i) * 0.25; break;
        case INT32S: tensor->int32_data[i] = (int32_t)entry(i); break;
        case INT64S: tensor->int64_data[i] = entry(i) * 1048576; break;
        case UINT64S: tensor->uint64_data[i] = (uint64_t)entry(i); break;
        }
    }
}

/* A model with one initializer of `n` elements, held by `entries` entries of a field. */
static struct oq_model *make(int type, enum kind kind, size_t n, size_t entries) {
    struct oq_model *model = oq_test_model_create(21);
    const int64_t shape[] = {(int64_t)n};
    Onnx__TensorProto *tensor = oq_tensor_create(model, "t", type, shape, 1, NULL, 0);
    fill(model, tensor, kind, entries);
    assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
    return model;
}

static struct file_bytes pack(const struct oq_model *model) {
    struct file_bytes bytes = {NULL, 0};
    assert_int_equal(oq_model_pack(model, &bytes.data, &bytes.size, NULL), ONNXPTQ_OK);
    return bytes;
}

static struct oq_model *read_back(struct file_bytes bytes) {
    struct oq_model *model = NULL;
    struct onnxptq_error error;
    if (oq_model_read_memory(bytes.data, bytes.size, NULL, &model, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return model;
}

static const Onnx__TensorProto *tensor_of(struct oq_model *model) {
    return oq_test_main_graph(model)->initializer[0];
}

static struct oq_tensor_view view_of(struct oq_model *model) {
    struct oq_tensor_view view;
    struct onnxptq_error error;
    if (oq_tensor_view(model, tensor_of(model), &view, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return view;
}

static const char *entry_of(const Onnx__TensorProto *tensor, const char *key) {
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        if (strcmp(tensor->external_data[i]->key, key) == 0) {
            return tensor->external_data[i]->value;
        }
    }
    fail_msg("no %s", key);
    return NULL;
}

/* The bytes that a serialised model refers to in `folder`. */
static void assert_external(const uint8_t *bytes, size_t size, const char *folder,
                            struct oq_tensor_view expected) {
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, size, bytes);
    assert_non_null(proto);
    const Onnx__TensorProto *tensor = proto->graph->initializer[0];
    assert_int_equal(tensor->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    assert_false(tensor->has_raw_data || tensor->has_data_length || tensor->has_data_field);
    assert_int_equal(tensor->n_float_data + tensor->n_double_data + tensor->n_int32_data +
                         tensor->n_int64_data + tensor->n_uint64_data,
                     0);
    const size_t offset = strtoull(entry_of(tensor, "offset"), NULL, 10);
    assert_int_equal(strtoull(entry_of(tensor, "length"), NULL, 10), expected.size);
    char *path = oq_path_join(folder, entry_of(tensor, "location"));
    struct file_bytes data = read_bytes(path);
    assert_true(offset + expected.size <= data.size);
    assert_memory_equal(data.data + offset, expected.data, expected.size);
    free_bytes(&data);
    free(path);
    onnx__model_proto__free_unpacked(proto, NULL);
}

static void check_session(const char *folder, struct oq_model *model) {
    char *beside = path_in(folder, "out.onnx");
    struct oq_weight_file *weights = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(oq_weight_file_create(beside, &weights, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_session_bytes(model, weights, &bytes, &size, NULL), ONNXPTQ_OK);
    assert_true(size < 1000);
    assert_external(bytes, size, oq_weight_file_folder(weights), view_of(model));
    free(bytes);
    oq_weight_file_destroy(weights);
    free(beside);
}

static void check_external_output(const char *folder, struct oq_model *model) {
    char *path = path_in(folder, "out.onnx"), *data_path = path_in(folder, "out.onnx.data");
    struct oq_writer *writer = NULL;
    struct oq_external_data *data = NULL;
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_external_data_create(data_path, 1024, &data, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_write_external(model, writer, data, "out.onnx.data", NULL),
                     ONNXPTQ_OK);
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_finish(oq_external_data_writer(data), NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_commit(oq_external_data_writer(data), NULL), ONNXPTQ_OK);
    struct file_bytes bytes = read_bytes(path);
    assert_external(bytes.data, bytes.size, folder, view_of(model));
    free_bytes(&bytes);
    oq_external_data_destroy(data);
    oq_writer_destroy(writer);
    free(data_path);
    free(path);
}

static const struct {
    int type;
    enum kind kind;
    uint32_t field;
    size_t per_entry; /* elements; 0: two entries make one */
} kinds[] = {
    {ONNXPTQ_TYPE_FLOAT, FLOATS, 4, 1},    {ONNXPTQ_TYPE_DOUBLE, DOUBLES, 10, 1},
    {ONNXPTQ_TYPE_INT32, INT32S, 5, 1},    {ONNXPTQ_TYPE_INT16, INT32S, 5, 1},
    {ONNXPTQ_TYPE_FLOAT16, INT32S, 5, 1},  {ONNXPTQ_TYPE_BFLOAT16, INT32S, 5, 1},
    {ONNXPTQ_TYPE_UINT8, INT32S, 5, 1},    {ONNXPTQ_TYPE_BOOL, INT32S, 5, 1},
    {ONNXPTQ_TYPE_INT64, INT64S, 7, 1},    {ONNXPTQ_TYPE_UINT32, UINT64S, 11, 1},
    {ONNXPTQ_TYPE_UINT64, UINT64S, 11, 1}, {14 /* complex64 */, FLOATS, 4, 0},
    {15 /* complex128 */, DOUBLES, 10, 0}, {22 /* int4 */, INT32S, 5, 2},
    {17 /* float8e4m3fn */, INT32S, 5, 1},
};

static void test_every_field(void **state) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const size_t per = kinds[k].per_entry;
        struct oq_model *made = make(kinds[k].type, kinds[k].kind, per == 0 ? N / 2 : N * per, N);
        struct file_bytes file = pack(made);
        struct oq_model *model = read_back(file);
        const Onnx__TensorProto *tensor = tensor_of(model);
        assert_true(tensor->has_data_length);
        assert_int_equal(tensor->data_field, kinds[k].field);
        assert_int_equal(tensor->data_entries, N);
        const struct oq_tensor_view view = view_of(model), expected = view_of(made);
        assert_int_equal(view.n_elements, expected.n_elements);
        assert_int_equal(view.size, expected.size);
        assert_memory_equal(view.data, expected.data, view.size);
        struct file_bytes skeleton = pack(model);
        assert_true(skeleton.size < 200); /* what a copy costs */
        struct file_bytes written = normalize_model(written_model(model));
        assert_int_equal(written.size, file.size);
        assert_memory_equal(written.data, file.data, file.size);
        check_session(*state, model);
        check_external_output(*state, model);
        free_bytes(&written);
        free_bytes(&skeleton);
        oq_model_destroy(model);
        free_bytes(&file);
        oq_model_destroy(made);
    }
}

static void refuse(struct file_bytes file, const char *part) {
    struct oq_model *model = NULL;
    struct onnxptq_error error;
    assert_int_equal(oq_model_read_memory(file.data, file.size, NULL, &model, &error),
                     ONNXPTQ_ERROR_MODEL);
    if (strstr(error.message, part) == NULL) {
        fail_msg("'%s' does not hold '%s'", error.message, part);
    }
}

static void test_wrong_count(void **state) {
    (void)state;
    static const size_t held[] = {N - 1, N + 1};
    for (size_t i = 0; i < 2; i++) {
        struct oq_model *model = make(ONNXPTQ_TYPE_FLOAT16, INT32S, N, held[i]);
        struct file_bytes file = pack(model);
        char part[64];
        snprintf(part, sizeof part, "%d elements, but it holds %zu", N, held[i]);
        refuse(file, part);
        free_bytes(&file);
        oq_model_destroy(model);
    }
}

/* Elements in the field of another type are none. */
static void test_wrong_field(void **state) {
    (void)state;
    struct oq_model *model = make(ONNXPTQ_TYPE_FLOAT, INT32S, N, N);
    struct file_bytes file = pack(model);
    refuse(file, "holds 0");
    free_bytes(&file);
    oq_model_destroy(model);
}

static void test_beside_raw_data(void **state) {
    (void)state;
    struct oq_model *model = make(ONNXPTQ_TYPE_FLOAT, FLOATS, N, N);
    Onnx__TensorProto *tensor = oq_test_main_graph(model)->initializer[0];
    uint8_t *raw = oq_arena_alloc(oq_model_arena(model), N * sizeof(float));
    assert_non_null(raw);
    raw[0] = 42;
    tensor->has_raw_data = 1;
    tensor->raw_data = (ProtobufCBinaryData){N * sizeof(float), raw};
    struct file_bytes file = pack(model);
    struct oq_model *read = read_back(file);
    assert_false(tensor_of(read)->has_data_field); /* raw data win, as they do when all is small */
    assert_int_equal(view_of(read).data[0], 42);
    oq_model_destroy(read);
    free_bytes(&file);
    oq_model_destroy(model);
}

/* A packed field whose last number goes on; one that is split in two, which is as good as one. */
static struct file_bytes wrap_numbers(const uint8_t *numbers, size_t size, size_t n, bool split) {
    struct oq_bytes tensor = {NULL, 0, 0}, graph = {NULL, 0, 0}, model = {NULL, 0, 0};
    struct oq_wire_fields fields = {.head_size = 0};
    oq_wire_add_varint(&fields, 1, n);                       /* dims */
    oq_wire_add_varint(&fields, 2, ONNXPTQ_TYPE_INT64);      /* data_type */
    oq_wire_add_length(&fields, 7, split ? size / 2 : size); /* int64_data */
    assert_true(oq_bytes_append(&tensor, fields.head, fields.head_size));
    assert_true(oq_bytes_append(&tensor, numbers, split ? size / 2 : size));
    if (split) {
        fields.head_size = 0;
        oq_wire_add_length(&fields, 7, size - size / 2);
        assert_true(oq_bytes_append(&tensor, fields.head, fields.head_size));
        assert_true(oq_bytes_append(&tensor, numbers + size / 2, size - size / 2));
    }
    fields.head_size = 0;
    oq_wire_add_length(&fields, 5, tensor.size); /* initializer */
    assert_true(oq_bytes_append(&graph, fields.head, fields.head_size));
    assert_true(oq_bytes_append(&graph, tensor.data, tensor.size));
    fields.head_size = 0;
    oq_wire_add_length(&fields, 7, graph.size); /* graph */
    assert_true(oq_bytes_append(&model, fields.head, fields.head_size));
    assert_true(oq_bytes_append(&model, graph.data, graph.size));
    oq_bytes_reset(&tensor);
    oq_bytes_reset(&graph);
    return (struct file_bytes){model.data, model.size};
}

static void test_numbers_as_they_come(void **state) {
    (void)state;
    enum { SIZE = 4 * OQ_MAPPED_TYPED_MINIMUM };
    uint8_t *numbers = malloc(SIZE);
    assert_non_null(numbers);
    for (size_t i = 0; i < SIZE; i += 2) { /* two bytes each */
        numbers[i] = (uint8_t)(0x80 | i);
        numbers[i + 1] = (uint8_t)(i >> 8 & 0x7f);
    }
    for (int split = 0; split < 2; split++) {
        struct file_bytes file = wrap_numbers(numbers, SIZE, SIZE / 2, split == 1);
        struct oq_model *model = read_back(file);
        assert_int_equal(tensor_of(model)->has_data_field, split == 0);
        const struct oq_tensor_view view = view_of(model);
        for (size_t i = 0; i < SIZE / 2; i++) {
            assert_int_equal(oq_tensor_view_integer(&view, i),
                             (numbers[2 * i] & 0x7f) | numbers[2 * i + 1] << 7);
        }
        oq_model_destroy(model);
        free_bytes(&file);
    }
    numbers[SIZE - 1] |= 0x80; /* goes on beyond the end */
    struct file_bytes file = wrap_numbers(numbers, SIZE, SIZE / 2, false);
    refuse(file, "a field is broken");
    free_bytes(&file);
    free(numbers);
}

static int make_state(void **state) {
    *state = make_folder();
    return *state == NULL ? -1 : 0;
}

static int drop_state(void **state) {
    remove_folder(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_field, make_state, drop_state),
        cmocka_unit_test(test_wrong_count),
        cmocka_unit_test(test_wrong_field),
        cmocka_unit_test(test_beside_raw_data),
        cmocka_unit_test(test_numbers_as_they_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
