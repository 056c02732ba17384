/*
 * Tensors outside their model: where sessions find them, and how the output is written.
 */
#include "model/model_make.h"
#include "model/write.h"
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

#define FLOATS 500

static float element(size_t tensor, size_t i) {
    return (float)(tensor * 10000 + i);
}

static void append_entry(struct oq_model *model, Onnx__TensorProto *tensor, const char *key,
                         const char *value) {
    struct oq_arena *arena = oq_model_arena(model);
    Onnx__StringStringEntryProto *entry = oq_arena_alloc(arena, sizeof *entry);
    onnx__string_string_entry_proto__init(entry);
    entry->key = oq_arena_strdup(arena, key);
    entry->value = oq_arena_strdup(arena, value);
    tensor->external_data[tensor->n_external_data++] = entry;
}

static void add_external(struct oq_model *model, const char *name, const char *location,
                         size_t offset) {
    const int64_t shape[] = {FLOATS};
    char number[32];
    Onnx__TensorProto *tensor =
        oq_tensor_create(model, name, ONNXPTQ_TYPE_FLOAT, shape, 1, NULL, 0);
    tensor->has_raw_data = 0;
    tensor->external_data = oq_arena_array(oq_model_arena(model), 2, sizeof(void *));
    append_entry(model, tensor, "location", location);
    snprintf(number, sizeof number, "%zu", offset);
    append_entry(model, tensor, "offset", number);
    tensor->has_data_location = 1;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
}

/* Two tensors in w.bin, the second at an odd offset. */
#define ODD (FLOATS * sizeof(float) + 2)

static void write_weights(const char *folder, const char *name) {
    struct file_bytes data = {calloc(1, ODD + FLOATS * sizeof(float)),
                              ODD + FLOATS * sizeof(float)};
    assert_non_null(data.data);
    for (size_t i = 0; i < FLOATS; i++) {
        const float first = element(1, i), second = element(2, i);
        memcpy(data.data + i * sizeof first, &first, sizeof first);
        memcpy(data.data + ODD + i * sizeof second, &second, sizeof second);
    }
    free(write_bytes(folder, name, data));
}

static struct oq_model *read_external(const char *folder) {
    struct oq_model *made = oq_test_model_create(17), *model = NULL;
    struct file_bytes bytes = {NULL, 0};
    struct onnxptq_error error;
    add_external(made, "even", "w.bin", 0);
    add_external(made, "odd", "w.bin", ODD);
    write_weights(folder, "w.bin");
    assert_int_equal(oq_model_pack(made, &bytes.data, &bytes.size, NULL), ONNXPTQ_OK);
    char *path = write_bytes(folder, "m.onnx", bytes);
    if (oq_model_read(path, &model, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    free(path);
    oq_model_destroy(made);
    return model;
}

/* ---- What a written model says -------------------------------------------------------------- */

static const char *entry_of(const Onnx__TensorProto *tensor, const char *key) {
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        if (strcmp(tensor->external_data[i]->key, key) == 0) {
            return tensor->external_data[i]->value;
        }
    }
    fail_msg("no %s", key);
    return NULL;
}

static uint64_t offset_of(const Onnx__TensorProto *tensor) {
    assert_int_equal(tensor->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    assert_false(tensor->has_raw_data || tensor->has_data_length);
    return strtoull(entry_of(tensor, "offset"), NULL, 10);
}

static void assert_floats(const char *folder, const Onnx__TensorProto *tensor, size_t which) {
    char *path = oq_path_join(folder, entry_of(tensor, "location"));
    struct file_bytes data = read_bytes(path);
    const uint64_t offset = offset_of(tensor);
    assert_int_equal(strtoull(entry_of(tensor, "length"), NULL, 10), FLOATS * sizeof(float));
    assert_true(offset + FLOATS * sizeof(float) <= data.size);
    for (size_t i = 0; i < FLOATS; i++) {
        float value;
        memcpy(&value, data.data + offset + i * sizeof value, sizeof value);
        assert_true(value == element(which, i));
    }
    free_bytes(&data);
    free(path);
}

static Onnx__ModelProto *session_model(const struct oq_model *model, struct oq_weight_file *file) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct onnxptq_error error;
    if (oq_session_bytes(model, file, &bytes, &size, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, size, bytes);
    assert_non_null(proto);
    free(bytes);
    return proto;
}

/* ---- Sessions ------------------------------------------------------------------------------- */

static bool lies_in(const Onnx__TensorProto *tensor, const char *folder, const char *name) {
    char *path = path_in(folder, name), *found = oq_path_join("/", entry_of(tensor, "location"));
    const bool same = oq_path_same_file(path, found);
    free(found);
    free(path);
    return same;
}

/* What the runtime can map is named where it is, even from a folder that nobody may write to. */
static void test_sessions_use_the_inputs_files(void **state) {
    char *output = path_in(*state, "out"), *beside = path_in(output, "out.onnx");
    struct oq_model *model = read_external(*state);
    struct oq_weight_file *file = NULL;
    assert_int_equal(mkdir(output, 0700), 0);
    assert_int_equal(oq_weight_file_create(beside, &file, NULL), ONNXPTQ_OK);
    Onnx__ModelProto *proto = session_model(model, file);
    const Onnx__TensorProto *even = proto->graph->initializer[0];
    const Onnx__TensorProto *odd = proto->graph->initializer[1];
    assert_true(lies_in(even, *state, "w.bin"));
    assert_int_equal(offset_of(even), 0);
    assert_false(lies_in(odd, *state, "w.bin"));
    assert_int_equal(offset_of(odd) % 64, 0);
    assert_floats(oq_weight_file_folder(file), even, 1);
    assert_floats(oq_weight_file_folder(file), odd, 2);
    assert_int_equal(oq_weight_file_size(file), FLOATS * sizeof(float));
    onnx__model_proto__free_unpacked(proto, NULL);
    oq_weight_file_destroy(file);
    oq_model_destroy(model);
    assert_int_equal(rmdir(output), 0);
    free(beside);
    free(output);
}

/* A file that was replaced is not the one that was read; the old one is still mapped. */
static void test_a_replaced_file_is_not_used(void **state) {
    char *beside = path_in(*state, "out.onnx"), *path = path_in(*state, "w.bin");
    struct oq_model *model = read_external(*state);
    struct oq_weight_file *file = NULL;
    char *other = write_bytes(*state, "other", (struct file_bytes){calloc(1, 10000), 10000});
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(oq_weight_file_create(beside, &file, NULL), ONNXPTQ_OK);
    Onnx__ModelProto *proto = session_model(model, file);
    assert_false(lies_in(proto->graph->initializer[0], *state, "w.bin"));
    assert_floats(oq_weight_file_folder(file), proto->graph->initializer[0], 1);
    onnx__model_proto__free_unpacked(proto, NULL);
    oq_weight_file_destroy(file);
    oq_model_destroy(model);
    free(other);
    free(path);
    free(beside);
}

/* A temporary file belongs to the models whose tensors lie in it, and is removed with the last. */
static void test_written_files(void **state) {
    char *path = path_in(*state, "out.onnx");
    const int64_t shape[] = {FLOATS};
    struct oq_model *model = oq_test_model_create(17), *clone = NULL;
    struct oq_writer *writer = NULL;
    struct oq_weight_file *file = NULL;
    uint32_t index = 0;
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    for (size_t i = 0; i < FLOATS; i++) {
        const float value = element(3, i);
        oq_writer_put(writer, &value, sizeof value);
    }
    char *temporary = strdup(oq_writer_path(writer));
    assert_int_equal(oq_model_add_written(model, writer, &index, NULL), ONNXPTQ_OK);
    Onnx__TensorProto *tensor = oq_tensor_create_mapped(model, "t", ONNXPTQ_TYPE_FLOAT, shape, 1,
                                                        index, 0, FLOATS * sizeof(float));
    assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
    assert_int_equal(oq_model_temporary_bytes(model), FLOATS * sizeof(float));
    assert_int_equal(oq_model_clone(model, &clone, NULL), ONNXPTQ_OK);
    oq_model_destroy(model);
    assert_int_equal(oq_weight_file_create(path, &file, NULL), ONNXPTQ_OK);
    Onnx__ModelProto *proto = session_model(clone, file);
    assert_true(lies_in(proto->graph->initializer[0], *state, oq_path_base(temporary)));
    assert_floats(oq_weight_file_folder(file), proto->graph->initializer[0], 3);
    assert_int_equal(oq_weight_file_size(file), 0);
    oq_weight_file_destroy(file);
    assert_true(oq_path_exists(temporary));
    oq_model_release_files(clone);
    assert_false(oq_path_exists(temporary));
    onnx__model_proto__free_unpacked(proto, NULL);
    oq_model_destroy(clone);
    free(temporary);
    free(path);
}

/* ---- The output ----------------------------------------------------------------------------- */

struct written {
    struct oq_external_data *data;
    uint64_t data_size;
    Onnx__ModelProto *proto;
};

static Onnx__ModelProto *write_as(const char *folder, const struct oq_model *model,
                                  struct oq_external_data *data, const char *location) {
    char *path = path_in(folder, "out.onnx");
    struct oq_writer *writer = NULL;
    struct oq_mapping mapping;
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_write_external(model, writer, data, location, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_map(writer, &mapping, NULL), ONNXPTQ_OK);
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, mapping.size, mapping.data);
    assert_non_null(proto);
    oq_mapping_close(&mapping);
    oq_writer_destroy(writer);
    free(path);
    return proto;
}

static struct written write_out(const char *folder, const struct oq_model *model,
                                uint64_t threshold) {
    struct written written;
    char *path = path_in(folder, "out.onnx.data");
    assert_int_equal(oq_external_data_create(path, threshold, &written.data, NULL), ONNXPTQ_OK);
    written.proto = write_as(folder, model, written.data, "out.onnx.data");
    struct oq_writer *writer = oq_external_data_writer(written.data);
    written.data_size = oq_writer_offset(writer);
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
    free(path);
    return written;
}

static void free_written(struct written *written) {
    onnx__model_proto__free_unpacked(written->proto, NULL);
    oq_external_data_destroy(written->data);
}

static Onnx__TensorProto *add_tensor(struct oq_model *model, const char *name, int type, size_t n,
                                     size_t size) {
    const int64_t shape[] = {(int64_t)n};
    Onnx__TensorProto *tensor = oq_tensor_create(model, name, type, shape, 1, NULL, n * size);
    assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
    return tensor;
}

static void test_who_goes_out(void **state) {
    struct oq_model *model = read_external(*state);
    Onnx__TensorProto *floats = add_tensor(model, "floats", ONNXPTQ_TYPE_FLOAT, FLOATS, 4);
    for (size_t i = 0; i < FLOATS; i++) {
        const float value = element(3, i);
        memcpy(floats->raw_data.data + i * sizeof value, &value, sizeof value);
    }
    floats->has_data_location = 1; /* DEFAULT, said aloud */
    (void)add_tensor(model, "few", ONNXPTQ_TYPE_FLOAT, 255, 4);
    (void)add_tensor(model, "shape", ONNXPTQ_TYPE_INT64, 2048, 8);
    (void)add_tensor(model, "indices", ONNXPTQ_TYPE_INT64, 2049, 8);
    (void)add_tensor(model, "codes", ONNXPTQ_TYPE_INT8, 100000, 1);
    struct written written = write_out(*state, model, 1024);
    Onnx__TensorProto *const *out = written.proto->graph->initializer;
    assert_floats(*state, out[0], 1);
    assert_floats(*state, out[1], 2);
    assert_floats(*state, out[2], 3);
    assert_int_equal(out[3]->raw_data.len, 255 * 4);
    assert_int_equal(out[4]->raw_data.len, 2048 * 8);
    assert_int_equal(offset_of(out[5]) % 64, 0);
    assert_int_equal(offset_of(out[6]) % 4096, 0);
    assert_string_equal(entry_of(out[6], "location"), "out.onnx.data");
    assert_int_equal(written.data_size, offset_of(out[6]) + 100000);
    free_written(&written);
    oq_model_destroy(model);
}

static void test_thresholds(void **state) {
    static const struct {
        uint64_t threshold;
        bool outside[3]; /* of 127, 128 and 5000 bytes */
    } cases[] = {
        {0, {false, true, true}},
        {129, {false, false, true}},
        {5000, {false, false, true}},
        {5001, {false, false, false}},
    };
    struct oq_model *model = oq_test_model_create(17);
    (void)add_tensor(model, "a", ONNXPTQ_TYPE_UINT8, 127, 1);
    (void)add_tensor(model, "b", ONNXPTQ_TYPE_UINT8, 128, 1);
    (void)add_tensor(model, "c", ONNXPTQ_TYPE_UINT8, 5000, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct written written = write_out(*state, model, cases[i].threshold);
        for (size_t t = 0; t < 3; t++) {
            const Onnx__TensorProto *tensor = written.proto->graph->initializer[t];
            assert_int_equal(tensor->n_external_data > 0, cases[i].outside[t]);
            assert_int_equal(tensor->has_raw_data, !cases[i].outside[t]);
        }
        free_written(&written);
    }
    oq_model_destroy(model);
}

/* Attributes of other operators, sparse tensors and what is below 128 bytes stay inside. */
static void test_every_place(void **state) {
    struct file_bytes bytes = make_rich_model();
    struct oq_model *model = NULL;
    assert_int_equal(oq_model_read_memory(bytes.data, bytes.size, NULL, &model, NULL), ONNXPTQ_OK);
    struct written written = write_out(*state, model, 0);
    const Onnx__GraphProto *graph = written.proto->graph;
    (void)offset_of(graph->initializer[0]);
    assert_true(graph->initializer[1]->has_raw_data);
    (void)offset_of(graph->node[1]->attribute[0]->t);
    (void)offset_of(graph->node[3]->attribute[0]->g->initializer[0]);
    assert_true(graph->node[4]->attribute[0]->t->has_raw_data);
    assert_true(graph->sparse_initializer[0]->values->has_raw_data);
    assert_int_equal(written.proto->n_training_info, 1);
    free_written(&written);
    oq_model_destroy(model);
    free_bytes(&bytes);
}

/* The same model under another location: no byte is added, only the name differs. */
static void test_another_location(void **state) {
    struct oq_model *model = read_external(*state);
    (void)add_tensor(model, "first", ONNXPTQ_TYPE_UINT8, 2000, 1);
    (void)add_tensor(model, "second", ONNXPTQ_TYPE_UINT8, 2000, 1);
    struct oq_external_data *data = NULL;
    char *path = path_in(*state, "out.onnx.data");
    assert_int_equal(oq_external_data_create(path, 0, &data, NULL), ONNXPTQ_OK);
    Onnx__ModelProto *one = write_as(*state, model, data, "one");
    const uint64_t size = oq_writer_offset(oq_external_data_writer(data));
    Onnx__ModelProto *two = write_as(*state, model, data, "two");
    assert_int_equal(oq_writer_offset(oq_external_data_writer(data)), size);
    for (size_t i = 0; i < one->graph->n_initializer; i++) {
        const Onnx__TensorProto *a = one->graph->initializer[i], *b = two->graph->initializer[i];
        assert_int_equal(offset_of(a), offset_of(b));
        assert_true(i == 0 || offset_of(a) > offset_of(one->graph->initializer[i - 1]));
        assert_string_equal(entry_of(a, "location"), "one");
        assert_string_equal(entry_of(b, "location"), "two");
    }
    onnx__model_proto__free_unpacked(one, NULL);
    onnx__model_proto__free_unpacked(two, NULL);
    oq_external_data_destroy(data);
    oq_model_destroy(model);
    free(path);
}

static void test_whole_size(void **state) {
    struct oq_model *model = read_external(*state);
    struct file_bytes bytes = written_model(model);
    uint64_t size = 0;
    assert_int_equal(oq_model_whole_size(model, &size, NULL), ONNXPTQ_OK);
    assert_int_equal(size, bytes.size);
    assert_true(size > 2 * FLOATS * sizeof(float));
    free_bytes(&bytes);
    oq_model_destroy(model);
}

/* ---- Where the input's data may lie ---------------------------------------------------------- */

static void test_whose_files(void **state) {
    struct oq_model *model = read_external(*state);
    char *path = path_in(*state, "m.onnx"), *data = path_in(*state, "w.bin");
    char *other = path_in(*state, "link");
    assert_int_equal(symlink("w.bin", other), 0);
    assert_true(oq_model_is_external(model));
    assert_true(oq_model_keeps_data_in(model, data));
    assert_true(oq_model_keeps_data_in(model, other));
    assert_false(oq_model_keeps_data_in(model, path));
    assert_false(oq_model_keeps_data_in(model, "/nonexistent"));
    oq_model_destroy(model);
    model = oq_test_model_create(17);
    assert_false(oq_model_is_external(model));
    oq_model_destroy(model);
    free(other);
    free(data);
    free(path);
}

static int make_state(void **state) {
    *state = make_folder();
    return *state == NULL ? -1 : 0;
}

static int drop_state(void **state) {
    remove_folder(*state);
    return 0;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_state, drop_state)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_sessions_use_the_inputs_files),
        IN_FOLDER(test_a_replaced_file_is_not_used),
        IN_FOLDER(test_written_files),
        IN_FOLDER(test_who_goes_out),
        IN_FOLDER(test_thresholds),
        IN_FOLDER(test_every_place),
        IN_FOLDER(test_another_location),
        IN_FOLDER(test_whole_size),
        IN_FOLDER(test_whose_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
