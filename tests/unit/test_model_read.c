/*
 * Reading models: what is verified, external data, copies.
 */
#include "model/model_make.h"
#include "model_builder.h"
#include "rich_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static void assert_text(const struct onnxptq_error *error, const char *part) {
    if (strstr(error->message, part) == NULL) {
        fail_msg("'%s' does not hold '%s'", error->message, part);
    }
}

static struct file_bytes packed(const struct oq_model *model) {
    struct file_bytes bytes = {NULL, 0};
    assert_int_equal(oq_model_pack(model, &bytes.data, &bytes.size, NULL), ONNXPTQ_OK);
    return bytes;
}

/* Packs, destroys and reads the model again; expects to fail with that text. */
static void assert_refused(struct oq_model *model, const char *part) {
    struct file_bytes bytes = packed(model);
    struct oq_model *read = NULL;
    struct onnxptq_error error;
    oq_model_destroy(model);
    assert_int_equal(oq_model_read_memory(bytes.data, bytes.size, NULL, &read, &error),
                     ONNXPTQ_ERROR_MODEL);
    assert_null(read);
    assert_text(&error, "cannot read model");
    assert_text(&error, part);
    free_bytes(&bytes);
}

/* ---- Files ---- */

static void read_file(const char *folder, const char *name, const void *data, size_t size,
                      enum onnxptq_status expected, const char *part) {
    struct file_bytes bytes = {malloc(size + 1), size};
    assert_non_null(bytes.data);
    if (size > 0) {
        memcpy(bytes.data, data, size);
    }
    char *path = write_bytes(folder, name, bytes);
    struct oq_model *model = NULL;
    struct onnxptq_error error;
    const enum onnxptq_status status = oq_model_read(path, &model, &error);
    if (status != expected) {
        fail_msg("%s: status %d", name, (int)status);
    }
    if (status != ONNXPTQ_OK) {
        assert_text(&error, path);
        assert_text(&error, part);
    }
    oq_model_destroy(model);
    free(path);
}

static void test_files(void **state) {
    struct file_bytes rich = make_rich_model();
    static const char text[] = "This is not a model, but a letter.\n";
    static const char zeros[1000];
    read_file(*state, "good.onnx", rich.data, rich.size, ONNXPTQ_OK, "");
    read_file(*state, "short.onnx", rich.data, rich.size / 2, ONNXPTQ_ERROR_MODEL, "cut short");
    read_file(*state, "empty.onnx", NULL, 0, ONNXPTQ_ERROR_MODEL, "is empty");
    read_file(*state, "text.onnx", text, sizeof text - 1, ONNXPTQ_ERROR_MODEL, "not a valid ONNX");
    read_file(*state, "zeros.onnx", zeros, sizeof zeros, ONNXPTQ_ERROR_MODEL, "not a valid ONNX");
    read_file(*state, "graphless.onnx", "\x08\x07", 2, ONNXPTQ_ERROR_MODEL, "no graph");
    struct onnxptq_error error;
    struct oq_model *model = NULL;
    assert_int_equal(oq_model_read("/nonexistent/m.onnx", &model, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "/nonexistent/m.onnx");
    assert_int_equal(oq_model_read(*state, &model, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "directory");
    free_bytes(&rich);
}

static void test_keeps_weights_in_file(void **state) {
    (void)state;
    struct file_bytes rich = make_rich_model();
    struct oq_model *model = NULL;
    assert_int_equal(oq_model_read_memory(rich.data, rich.size, NULL, &model, NULL), ONNXPTQ_OK);
    const Onnx__TensorProto *weight = oq_model_proto(model)->graph->initializer[0];
    assert_true(weight->has_data_length && !weight->has_raw_data);
    assert_memory_equal(oq_model_data(model, weight->data_file, weight->data_offset, 8),
                        ((float[]){0, 1}), 8);
    assert_null(oq_model_data(model, weight->data_file, 0, rich.size + 1));
    assert_null(oq_model_data(model, weight->data_file, UINT64_MAX, 2));
    assert_null(oq_model_data(model, 1, 0, 1));
    assert_int_equal(oq_model_bytes(model), rich.size);
    assert_int_equal(oq_model_opset(model), 17);
    oq_model_destroy(model);
    free_bytes(&rich);
}

/* ---- Tensors against their shapes ---- */

static struct oq_model *with_tensor(int type, const int64_t *shape, size_t rank, size_t bytes) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__TensorProto *tensor = oq_tensor_create(model, "odd one", type, shape, rank, NULL, bytes);
    assert_non_null(tensor);
    assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
    return model;
}

static void test_tensor_sizes(void **state) {
    (void)state;
    static const struct {
        int type;
        int64_t shape[2];
        size_t bytes;
        const char *refused; /* NULL: read */
    } cases[] = {
        {ONNXPTQ_TYPE_FLOAT, {3, 4}, 48, NULL},
        {ONNXPTQ_TYPE_FLOAT, {3, 4}, 47, "48 bytes"},
        {ONNXPTQ_TYPE_FLOAT, {30, 40}, 4804, "4800 bytes"},
        {ONNXPTQ_TYPE_FLOAT, {0, 4}, 0, NULL},
        {ONNXPTQ_TYPE_FLOAT, {0, 4}, 4, "0 bytes"},
        {ONNXPTQ_TYPE_FLOAT, {-1, 4}, 16, "dimension 0 of its shape is -1"},
        {ONNXPTQ_TYPE_FLOAT, {4, INT64_MIN}, 16, "dimension 1"},
        {ONNXPTQ_TYPE_FLOAT, {INT64_MAX, 4}, 16, "more elements than memory"},
        {ONNXPTQ_TYPE_FLOAT, {INT64_MAX, 1}, 16, "more elements than memory"},
        {ONNXPTQ_TYPE_DOUBLE, {1, 2}, 16, NULL},
        {ONNXPTQ_TYPE_BOOL, {1, 200}, 200, NULL},
        {22 /* int4 */, {3, 5}, 8, NULL},
        {22 /* int4 */, {3, 5}, 7, "8 bytes"},
        {26 /* int2 */, {3, 3}, 3, NULL},
        {27 /* float6 */, {1, 5}, 4, NULL},
        {17 /* float8 */, {16, 16}, 256, NULL},
        {1234, {16, 16}, 7, NULL}, /* a type of the future */
        {1234, {16, -16}, 7, "-16"},
        {ONNXPTQ_TYPE_STRING, {1, 1}, 5, "strings"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct oq_model *model = with_tensor(cases[i].type, cases[i].shape, 2, cases[i].bytes);
        if (cases[i].refused != NULL) {
            assert_refused(model, cases[i].refused);
        } else {
            oq_model_destroy(oq_test_model_reload(model));
        }
    }
}

static void test_names_the_tensor(void **state) {
    (void)state;
    const int64_t shape[] = {2, -3};
    assert_refused(with_tensor(ONNXPTQ_TYPE_FLOAT, shape, 2, 16), "initializer 'odd one'");
    struct oq_model *model = oq_test_model_create(17);
    Onnx__NodeProto *node =
        oq_test_add_node(model, oq_test_main_graph(model), "my::Op", NULL, "", "made");
    assert_true(oq_node_set_int(model, node, "blob", 0));
    node->attribute[0]->t = oq_tensor_create(model, "", ONNXPTQ_TYPE_FLOAT, shape, 2, NULL, 16);
    assert_refused(model, "attribute 'blob' of node '@made'");
}

static void test_typed_sizes(void **state) {
    (void)state;
    const int64_t shape[] = {3};
    float floats[] = {1, 2, 3, 4};
    for (size_t n = 2; n <= 4; n++) {
        struct oq_model *model = with_tensor(ONNXPTQ_TYPE_FLOAT, shape, 1, 0);
        Onnx__TensorProto *tensor = oq_test_main_graph(model)->initializer[0];
        tensor->has_raw_data = 0;
        tensor->float_data = floats;
        tensor->n_float_data = n;
        if (n == 3) {
            oq_model_destroy(oq_test_model_reload(model));
        } else {
            assert_refused(model, "3 elements");
        }
    }
    /* Data in the field of another type is none. */
    struct oq_model *model = with_tensor(ONNXPTQ_TYPE_INT64, shape, 1, 0);
    Onnx__TensorProto *tensor = oq_test_main_graph(model)->initializer[0];
    tensor->has_raw_data = 0;
    tensor->float_data = floats;
    tensor->n_float_data = 3;
    assert_refused(model, "holds 0");
}

static void test_other_facts(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    oq_test_add_node(model, oq_test_main_graph(model), "", "nameless", "", "y");
    assert_refused(model, "node 'nameless' has no operator type");

    model = oq_test_model_create(17);
    assert_true(oq_model_import_opset(model, "other", 13));
    oq_model_proto(model)->opset_import[1]->domain = (char *)"ai.onnx";
    assert_refused(model, "versions 17 and 13 of operator set 'ai.onnx'");

    model = oq_test_model_create(17);
    assert_true(oq_model_import_opset(model, "other", 17));
    oq_model_proto(model)->opset_import[1]->domain = (char *)"ai.onnx";
    model = oq_test_model_reload(model);
    assert_int_equal(oq_model_opset(model), 17);
    oq_model_destroy(model);
}

/* Tiny messages that grow a hundredfold when parsed. */
static void test_memory_bomb(void **state) {
    (void)state;
    enum { COUNT = 2 * 1000 * 1000, HEAD = 5 };
    uint8_t *bytes = malloc(HEAD + 2 * COUNT);
    assert_non_null(bytes);
    bytes[0] = 0x3a; /* graph of 4,000,000 bytes, padded length */
    for (unsigned i = 0; i < 4; i++) {
        bytes[1 + i] = (uint8_t)(((2 * COUNT) >> (7 * i)) & 0x7f) | (i < 3 ? 0x80 : 0);
    }
    for (size_t i = 0; i < COUNT; i++) {
        bytes[HEAD + 2 * i] = 0x2a; /* an empty initializer */
        bytes[HEAD + 2 * i + 1] = 0;
    }
    struct oq_model *model = NULL;
    struct onnxptq_error error;
    assert_int_equal(oq_model_read_memory(bytes, HEAD + 2 * COUNT, NULL, &model, &error),
                     ONNXPTQ_ERROR_MEMORY);
    assert_text(&error, "not enough memory");
    free(bytes);
}

/* ---- External data ---- */

static void add_entry(struct oq_model *model, Onnx__TensorProto *tensor, const char *key,
                      const char *value) {
    if (value == NULL) {
        return;
    }
    struct oq_arena *arena = oq_model_arena(model);
    if (tensor->external_data == NULL) {
        tensor->external_data = oq_arena_array(arena, 4, sizeof *tensor->external_data);
        assert_non_null(tensor->external_data);
    }
    Onnx__StringStringEntryProto *entry = oq_arena_alloc(arena, sizeof *entry);
    assert_non_null(entry);
    onnx__string_string_entry_proto__init(entry);
    entry->key = oq_arena_strdup(arena, key);
    entry->value = oq_arena_strdup(arena, value);
    tensor->external_data[tensor->n_external_data++] = entry;
}

/* A model with the external tensor "e" of 16 floats, written as "m.onnx" into the folder. */
static char *write_external(const char *folder, const char *location, const char *offset,
                            const char *length) {
    const int64_t shape[] = {16};
    struct oq_model *model = oq_test_model_create(17);
    Onnx__TensorProto *tensor = oq_tensor_create(model, "e", ONNXPTQ_TYPE_FLOAT, shape, 1, NULL, 0);
    assert_non_null(tensor);
    tensor->has_raw_data = 0;
    tensor->has_data_location = 1;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    add_entry(model, tensor, "location", location);
    add_entry(model, tensor, "offset", offset);
    add_entry(model, tensor, "length", length);
    assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
    char *path = write_bytes(folder, "m.onnx", packed(model));
    oq_model_destroy(model);
    return path;
}

static void write_weights(const char *folder, const char *name, size_t n) {
    struct file_bytes bytes = {malloc(4 * n), 4 * n};
    assert_non_null(bytes.data);
    for (size_t i = 0; i < n; i++) {
        const float value = (float)i;
        memcpy(bytes.data + i * sizeof value, &value, sizeof value);
    }
    free(write_bytes(folder, name, bytes));
}

static void assert_external(const char *folder, const char *location, const char *offset,
                            const char *length, float first) {
    char *path = write_external(folder, location, offset, length);
    struct oq_model *model = NULL;
    struct onnxptq_error error;
    if (oq_model_read(path, &model, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    struct oq_tensor_view view;
    Onnx__TensorProto *tensor = oq_test_main_graph(model)->initializer[0];
    assert_int_equal(oq_tensor_view(model, tensor, &view, NULL), ONNXPTQ_OK);
    assert_int_equal(view.n_elements, 16);
    float value;
    oq_tensor_view_floats(&view, 0, 1, &value);
    assert_true(value == first);
    oq_tensor_view_floats(&view, 15, 1, &value);
    assert_true(value == first + 15);
    assert_int_equal(tensor->n_external_data, 0);
    assert_int_equal(tensor->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT);
    oq_model_destroy(model);
    free(path);
}

static void refuse_external(const char *folder, const char *location, const char *offset,
                            const char *length, const char *part) {
    char *path = write_external(folder, location, offset, length);
    struct oq_model *model = NULL;
    struct onnxptq_error error = {ONNXPTQ_OK, ""};
    assert_int_not_equal(oq_model_read(path, &model, &error), ONNXPTQ_OK);
    assert_text(&error, path);
    assert_text(&error, "initializer 'e'");
    assert_text(&error, part);
    if (location != NULL) {
        assert_text(&error, location);
    }
    free(path);
}

static void test_external(void **state) {
    char *sub = path_in(*state, "sub");
    assert_int_equal(mkdir(sub, 0700), 0);
    write_weights(*state, "w.bin", 100);
    write_weights(sub, "w.bin", 100);
    assert_external(*state, "w.bin", "0", "64", 0);
    assert_external(*state, "w.bin", NULL, NULL, 0);
    assert_external(*state, "w.bin", "12", "64", 3);
    assert_external(*state, "w.bin", "336", NULL, 84);
    assert_external(*state, "sub/w.bin", "40", "64", 10);
    assert_external(*state, "./w.bin", "40", "64", 10);
    char *link_path = path_in(*state, "inner.bin");
    assert_int_equal(symlink("sub/w.bin", link_path), 0);
    assert_external(*state, "inner.bin", "4", NULL, 1);
    free(link_path);
    free(sub);
}

static void test_external_refused(void **state) {
    char *sub = path_in(*state, "sub");
    char *link_path = path_in(sub, "outer.bin");
    assert_int_equal(mkdir(sub, 0700), 0);
    write_weights(*state, "w.bin", 100);
    write_weights(sub, "w.bin", 100);
    assert_int_equal(symlink("../w.bin", link_path), 0);
    refuse_external(sub, "../w.bin", NULL, NULL, "outside the model's folder");
    refuse_external(sub, "/etc/passwd", NULL, NULL, "outside the model's folder");
    refuse_external(sub, "x/../../w.bin", NULL, NULL, "outside the model's folder");
    refuse_external(sub, "outer.bin", NULL, NULL, "link");
    refuse_external(sub, "none.bin", NULL, NULL, "missing");
    refuse_external(sub, ".", NULL, NULL, "leads out");
    refuse_external(sub, NULL, NULL, NULL, "names no file");
    refuse_external(sub, "", NULL, NULL, "names no file");
    refuse_external(sub, "w.bin", "340", NULL, "too short");
    refuse_external(sub, "w.bin", "18446744073709551615", "64", "too short");
    refuse_external(sub, "w.bin", "18446744073709551616", "64", "offset");
    refuse_external(sub, "w.bin", "-4", "64", "offset '-4'");
    refuse_external(sub, "w.bin", "0x10", "64", "offset");
    refuse_external(sub, "w.bin", "0", "", "length");
    refuse_external(sub, "w.bin", "0", "65", "64 bytes");
    refuse_external(sub, "w.bin", "0", "401", "64 bytes");
    free(link_path);
    free(sub);
}

static void test_external_of_memory(void **state) {
    char *path = write_external(*state, "w.bin", NULL, NULL);
    struct file_bytes bytes = read_bytes(path);
    struct oq_model *model = NULL;
    struct onnxptq_error error;
    assert_int_equal(oq_model_read_memory(bytes.data, bytes.size, NULL, &model, &error),
                     ONNXPTQ_ERROR_MODEL);
    assert_text(&error, "outside the model's folder");
    write_weights(*state, "w.bin", 16);
    assert_int_equal(oq_model_read_memory(bytes.data, bytes.size, *state, &model, &error),
                     ONNXPTQ_OK);
    assert_int_equal(oq_model_bytes(model), bytes.size + 64);
    oq_model_destroy(model);
    free_bytes(&bytes);
    free(path);
}

/* ---- Copies ---- */

static void test_clone(void **state) {
    (void)state;
    struct file_bytes rich = make_rich_model();
    struct oq_model *model = NULL, *clone = NULL;
    assert_int_equal(oq_model_read_memory(rich.data, rich.size, NULL, &model, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_clone(model, &clone, NULL), ONNXPTQ_OK);
    oq_model_proto(model)->graph->node[0]->op_type[0] = 'X';
    oq_test_main_graph(model)->n_initializer = 0;
    oq_model_destroy(model); /* the copy holds on to the weights */
    assert_int_equal(oq_model_bytes(clone), rich.size);
    struct file_bytes normal = normalize_model(written_model(clone));
    assert_int_equal(normal.size, rich.size);
    assert_memory_equal(normal.data, rich.data, rich.size);
    free_bytes(&normal);
    oq_model_destroy(clone);
    oq_model_destroy(NULL);
    free_bytes(&rich);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup_folder, teardown_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_files),
        cmocka_unit_test(test_keeps_weights_in_file),
        cmocka_unit_test(test_tensor_sizes),
        cmocka_unit_test(test_names_the_tensor),
        cmocka_unit_test(test_typed_sizes),
        cmocka_unit_test(test_other_facts),
        cmocka_unit_test(test_memory_bomb),
        IN_FOLDER(test_external),
        IN_FOLDER(test_external_refused),
        IN_FOLDER(test_external_of_memory),
        cmocka_unit_test(test_clone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
