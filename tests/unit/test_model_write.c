/*
 * Writing models, and the bytes and weights of sessions.
 */
#include "model/model_make.h"
#include "model/write.h"
#include "model_builder.h"
#include "rich_model.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static struct oq_model *read_rich(void) {
    struct file_bytes bytes = make_rich_model();
    struct oq_model *model = NULL;
    struct onnxptq_error error;
    if (oq_model_read_memory(bytes.data, bytes.size, NULL, &model, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    free_bytes(&bytes);
    return model;
}

/* ---- Files ---- */

static void test_round_trip(void **state) {
    (void)state;
    struct file_bytes original = make_rich_model();
    struct oq_model *model = read_rich();
    struct file_bytes normal = normalize_model(written_model(model));
    assert_int_equal(normal.size, original.size);
    assert_memory_equal(normal.data, original.data, original.size);
    free_bytes(&normal);
    oq_model_destroy(model);
    free_bytes(&original);
}

static void test_over_its_own_file(void **state) {
    char *path = write_bytes(*state, "m.onnx", make_rich_model());
    struct file_bytes original = read_bytes(path);
    struct oq_model *model = NULL;
    struct oq_writer *writer = NULL;
    assert_int_equal(oq_model_read(path, &model, NULL), ONNXPTQ_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
        assert_int_equal(oq_model_write(model, writer, NULL), ONNXPTQ_OK);
        assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
        assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
        oq_writer_destroy(writer);
    }
    oq_model_destroy(model);
    struct file_bytes normal = normalize_model(read_bytes(path));
    assert_int_equal(normal.size, original.size);
    assert_memory_equal(normal.data, original.data, original.size);
    free_bytes(&normal);
    free_bytes(&original);
    free(path);
}

static void test_added_tensors(void **state) {
    (void)state;
    static const int64_t shape[] = {200};
    struct oq_model *model = oq_test_model_create(17);
    struct file_bytes data = {malloc(1000), 1000};
    assert_non_null(data.data);
    for (size_t i = 0; i < data.size; i++) {
        data.data[i] = (uint8_t)i;
    }
    char *folder = make_folder();
    char *path = write_bytes(folder, "data", data);
    struct oq_mapping mapping;
    uint32_t file;
    assert_int_equal(oq_mapping_open(path, &mapping, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_add_file(model, mapping, &file, NULL), ONNXPTQ_OK);
    Onnx__TensorProto *tensor =
        oq_tensor_create_mapped(model, "mapped", ONNXPTQ_TYPE_UINT8, shape, 1, file, 77, 200);
    assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
    const uint64_t before = oq_model_bytes(model);
    struct file_bytes written = written_model(model);
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, written.size, written.data);
    assert_non_null(proto);
    const Onnx__TensorProto *read = proto->graph->initializer[0];
    assert_int_equal(read->raw_data.len, 200);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(read->raw_data.data[i], (uint8_t)(77 + i));
    }
    assert_int_equal(oq_model_bytes(model), before); /* only what the input had */
    onnx__model_proto__free_unpacked(proto, NULL);
    free_bytes(&written);
    oq_model_destroy(model);
    free(path);
    remove_folder(folder);
}

/* Three tensors of 800 MB in one sparse file: refused before a byte is written. */
static void test_too_large(void **state) {
    const size_t size = (size_t)800 * 1000 * 1000;
    const int64_t shape[] = {(int64_t)size};
    char *data = path_in(*state, "data");
    char *out = path_in(*state, "out.onnx");
    const int descriptor = open(data, O_CREAT | O_WRONLY, 0600);
    assert_true(descriptor >= 0);
    assert_int_equal(ftruncate(descriptor, (off_t)size), 0);
    close(descriptor);
    struct oq_model *model = oq_test_model_create(17);
    struct oq_mapping mapping;
    uint32_t file;
    assert_int_equal(oq_mapping_open(data, &mapping, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_add_file(model, mapping, &file, NULL), ONNXPTQ_OK);
    for (int i = 0; i < 3; i++) {
        Onnx__TensorProto *tensor =
            oq_tensor_create_mapped(model, "t", ONNXPTQ_TYPE_UINT8, shape, 1, file, 0, size);
        assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
    }
    struct oq_writer *writer;
    struct onnxptq_error error;
    assert_int_equal(oq_writer_create(out, &writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_write(model, writer, &error), ONNXPTQ_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "2 GiB"));
    assert_int_equal(oq_writer_offset(writer), 0);
    oq_writer_destroy(writer);
    oq_model_destroy(model);
    free(out);
    free(data);
}

/* ---- Sessions ---- */

static const char *entry_of(const Onnx__TensorProto *tensor, const char *key) {
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        if (strcmp(tensor->external_data[i]->key, key) == 0) {
            return tensor->external_data[i]->value;
        }
    }
    fail_msg("no %s", key);
    return NULL;
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

static struct oq_mapping map_weights(const struct oq_weight_file *file,
                                     const Onnx__TensorProto *tensor) {
    struct oq_mapping mapping;
    char *path = oq_path_join(oq_weight_file_folder(file), entry_of(tensor, "location"));
    assert_true(path[0] == '/');
    assert_int_equal(oq_mapping_open(path, &mapping, NULL), ONNXPTQ_OK);
    free(path);
    return mapping;
}

static uint64_t offset_of(const Onnx__TensorProto *tensor) {
    assert_int_equal(tensor->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    assert_false(tensor->has_raw_data || tensor->has_data_length);
    return strtoull(entry_of(tensor, "offset"), NULL, 10);
}

/* Tensor `index` of the rich model lies in the weight file. */
static void assert_outside(const struct oq_weight_file *file, const Onnx__TensorProto *tensor,
                           int index) {
    struct oq_mapping mapping = map_weights(file, tensor);
    const uint64_t offset = offset_of(tensor);
    assert_int_equal(offset % 64, 0);
    assert_string_equal(entry_of(tensor, "length"), "256");
    assert_true(offset + 256 <= mapping.size);
    float values[RICH_FLOATS];
    memcpy(values, mapping.data + offset, sizeof values);
    for (int i = 0; i < RICH_FLOATS; i++) {
        assert_true(values[i] == (float)(1000 * index + i));
    }
    oq_mapping_close(&mapping);
}

static void assert_inside(const Onnx__TensorProto *tensor, size_t size) {
    assert_int_equal(tensor->n_external_data, 0);
    assert_true(tensor->has_raw_data);
    assert_int_equal(tensor->raw_data.len, size);
}

static void test_session(void **state) {
    char *beside = path_in(*state, "out.onnx");
    struct oq_model *model = read_rich();
    struct oq_weight_file *file = NULL;
    assert_int_equal(oq_weight_file_create(beside, &file, NULL), ONNXPTQ_OK);
    Onnx__ModelProto *proto = session_model(model, file);
    const Onnx__GraphProto *graph = proto->graph;
    assert_outside(file, graph->initializer[0], 0);
    assert_inside(graph->initializer[1], 12);
    assert_outside(file, graph->node[1]->attribute[0]->t, 1);
    const Onnx__GraphProto *body = graph->node[3]->attribute[0]->g;
    assert_outside(file, body->node[0]->attribute[0]->t, 2);
    assert_outside(file, body->initializer[0], 3);
    assert_inside(graph->node[4]->attribute[0]->t, 256); /* of a custom node */
    assert_inside(graph->node[4]->attribute[1]->tensors[1], 256);
    assert_outside(file, proto->functions[0]->node[0]->attribute[0]->t, 7);
    assert_inside(graph->sparse_initializer[0]->values, 256);
    assert_int_equal(proto->n_training_info, 0);
    char *path =
        oq_path_join(oq_weight_file_folder(file), entry_of(graph->initializer[0], "location"));
    assert_true(oq_path_exists(path));
    oq_weight_file_destroy(file);
    assert_false(oq_path_exists(path));
    free(path);
    onnx__model_proto__free_unpacked(proto, NULL);
    oq_model_destroy(model);
    free(beside);
}

/* A second session, and one of a copy, find their weights there; only what is new is added. */
static void test_weights_once(void **state) {
    char *beside = path_in(*state, "out.onnx");
    struct oq_model *model = read_rich(), *clone = NULL;
    struct oq_weight_file *file = NULL;
    assert_int_equal(oq_weight_file_create(beside, &file, NULL), ONNXPTQ_OK);
    Onnx__ModelProto *first = session_model(model, file);
    struct oq_mapping before = map_weights(file, first->graph->initializer[0]);
    assert_int_equal(oq_model_clone(model, &clone, NULL), ONNXPTQ_OK);
    oq_model_destroy(model);

    char *extra = path_in(*state, "extra");
    struct file_bytes data = {calloc(1, 70000), 70000};
    assert_non_null(data.data);
    data.data[69999] = 42;
    free(write_bytes(*state, "extra", data));
    struct oq_mapping mapping;
    uint32_t index;
    const int64_t shape[] = {70000};
    assert_int_equal(oq_mapping_open(extra, &mapping, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_add_file(clone, mapping, &index, NULL), ONNXPTQ_OK);
    for (int i = 0; i < 2; i++) {
        Onnx__TensorProto *tensor =
            oq_tensor_create_mapped(clone, "e", ONNXPTQ_TYPE_INT8, shape, 1, index, 0, 70000);
        assert_true(oq_graph_add_initializer(clone, oq_test_main_graph(clone), tensor));
    }
    Onnx__ModelProto *second = session_model(clone, file);
    struct oq_mapping after = map_weights(file, second->graph->initializer[0]);
    assert_int_equal(offset_of(second->graph->initializer[0]),
                     offset_of(first->graph->initializer[0]));
    const uint64_t offset = offset_of(second->graph->initializer[2]);
    assert_int_equal(offset_of(second->graph->initializer[3]), offset);
    assert_int_equal(offset % 4096, 0);
    assert_int_equal(after.size, offset + 70000);
    assert_true(offset >= before.size && offset < before.size + 4096);
    assert_int_equal(after.data[offset + 69999], 42);

    oq_mapping_close(&before);
    oq_mapping_close(&after);
    onnx__model_proto__free_unpacked(first, NULL);
    onnx__model_proto__free_unpacked(second, NULL);
    oq_weight_file_destroy(file);
    oq_model_destroy(clone);
    free(extra);
    free(beside);
}

/* A data file that is gone cannot be mistaken for a new one, even at the same address. */
static void test_sources_are_told_apart(void **state) {
    char *beside = path_in(*state, "out.onnx");
    struct oq_weight_file *file = NULL;
    assert_int_equal(oq_weight_file_create(beside, &file, NULL), ONNXPTQ_OK);
    for (int i = 0; i < 20; i++) {
        const int64_t shape[] = {200};
        struct oq_model *model = oq_test_model_create(17);
        uint8_t *data = malloc(200);
        uint32_t index;
        assert_non_null(data);
        memset(data, i, 200);
        assert_int_equal(oq_model_add_bytes(model, data, 200, &index, NULL), ONNXPTQ_OK);
        Onnx__TensorProto *tensor =
            oq_tensor_create_mapped(model, "t", ONNXPTQ_TYPE_INT8, shape, 1, index, 0, 200);
        assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
        Onnx__ModelProto *proto = session_model(model, file);
        struct oq_mapping weights = map_weights(file, proto->graph->initializer[0]);
        assert_int_equal(weights.data[offset_of(proto->graph->initializer[0])], i);
        oq_mapping_close(&weights);
        onnx__model_proto__free_unpacked(proto, NULL);
        oq_model_destroy(model);
    }
    oq_weight_file_destroy(file);
    free(beside);
}

/* The runtime needs shapes, axes and splits inside the model, whatever their length. */
static void test_shape_constants(void **state) {
    char *beside = path_in(*state, "out.onnx");
    const int64_t shape[] = {100};
    struct oq_model *model = oq_test_model_create(17);
    Onnx__TensorProto *tensor =
        oq_tensor_create(model, "splits", ONNXPTQ_TYPE_INT64, shape, 1, NULL, 800);
    assert_true(oq_graph_add_initializer(model, oq_test_main_graph(model), tensor));
    struct file_bytes bytes = {NULL, 0};
    struct oq_model *read = NULL;
    struct oq_weight_file *file = NULL;
    assert_int_equal(oq_model_pack(model, &bytes.data, &bytes.size, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_read_memory(bytes.data, bytes.size, NULL, &read, NULL), ONNXPTQ_OK);
    assert_true(oq_test_main_graph(read)->initializer[0]->has_data_length);
    assert_int_equal(oq_weight_file_create(beside, &file, NULL), ONNXPTQ_OK);
    Onnx__ModelProto *proto = session_model(read, file);
    assert_inside(proto->graph->initializer[0], 800);
    onnx__model_proto__free_unpacked(proto, NULL);
    oq_weight_file_destroy(file);
    oq_weight_file_destroy(NULL);
    oq_model_destroy(read);
    oq_model_destroy(model);
    free_bytes(&bytes);
    free(beside);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup_folder, teardown_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        IN_FOLDER(test_over_its_own_file),
        cmocka_unit_test(test_added_tensors),
        IN_FOLDER(test_too_large),
        IN_FOLDER(test_session),
        IN_FOLDER(test_weights_once),
        IN_FOLDER(test_sources_are_told_apart),
        IN_FOLDER(test_shape_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
