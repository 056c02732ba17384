/*
 * The passes over the wire format: what is let through, what is left behind, and that expanding
 * gives back what shrinking took.
 */
#include "model/model.h"
#include "model/wire.h"
#include "model/wire_field.h"
#include "rich_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static void append(struct oq_bytes *bytes, const void *data, size_t size) {
    assert_true(oq_bytes_append(bytes, data, size));
}

/* Wraps everything so far into a field with a length. */
static void wrap(struct oq_bytes *bytes, uint32_t number) {
    uint8_t head[2 * OQ_WIRE_MAX_VARINT];
    size_t n = oq_wire_encode_tag(head, number, OQ_WIRE_LENGTH);
    n += oq_wire_encode(head + n, bytes->size);
    struct oq_bytes outer = {NULL, 0, 0};
    append(&outer, head, n);
    append(&outer, bytes->data, bytes->size);
    oq_bytes_reset(bytes);
    *bytes = outer;
}

static enum onnxptq_status shrink(const void *data, size_t size, struct onnxptq_error *error) {
    struct oq_bytes out = {NULL, 0, 0};
    /* An allocation of the exact size, so that reading on is seen. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    const enum onnxptq_status status = oq_wire_shrink(copy, size, 0, &out, error);
    oq_bytes_reset(&out);
    free(copy);
    return status;
}

static void test_broken(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *text;
    } cases[] = {
        {"\x00", 1, "field number"},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, "field number"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, "field number"},
        {"\x80\x80\x80\x80\x80\x01\x00", 7, "field number"}, /* tag above 32 bits */
        {"\x08", 1, "number does not end"},
        {"\x08\x80", 2, "number does not end"},
        {"\x0b", 1, "kind that ONNX does not use"}, /* start of a group */
        {"\x0c", 1, "kind that ONNX does not use"},
        {"\x0e", 1, "kind that ONNX does not use"},
        {"\x12\x05"
         "abc",
         5, "in the middle of its producer_name"},
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "in the middle of its producer_name"},
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, "in the middle of its producer_name"},
        {"\xfa\x7f\x05"
         "abc",
         6, "ends outside"}, /* an unknown field tells nothing */
        {"\x0d\x00\x00\x00", 4, "ends outside"},
        {"\x09\x00\x00\x00\x00\x00\x00\x00", 8, "ends outside"},
        {"\x0a\x01x", 3, "wrong kind"}, /* ir_version with a length */
        {"\x10\x01", 2, "wrong kind"},  /* producer_name as a number */
        {"\x12\x02"
         "a\0",
         4, "zero byte"},
        {"\x3a\x02\x0a\x01", 4, "ends outside"}, /* graph: a node longer than the graph */
        {"\x3a\x02\x0a\x05", 4, "GraphProto"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct onnxptq_error error = {ONNXPTQ_OK, ""};
        const enum onnxptq_status status = shrink(cases[i].bytes, cases[i].size, &error);
        if (status != ONNXPTQ_ERROR_MODEL || strstr(error.message, cases[i].text) == NULL) {
            fail_msg("case %zu: status %d, '%s' does not hold '%s'", i, (int)status, error.message,
                     cases[i].text);
        }
    }
}

static void test_good(void **state) {
    (void)state;
    struct onnxptq_error error;
    assert_int_equal(shrink("", 0, &error), ONNXPTQ_OK);
    assert_int_equal(shrink("\x08\x07", 2, &error), ONNXPTQ_OK);
    assert_int_equal(shrink("\xfa\x7f\x03\x00\x0b\x0c", 6, &error), ONNXPTQ_OK); /* unknown */
    /* graph, initializer, dims as one packed field and one by one */
    assert_int_equal(shrink("\x3a\x06\x2a\x04\x0a\x02\x03\x04", 8, &error), ONNXPTQ_OK);
    assert_int_equal(shrink("\x3a\x06\x2a\x04\x08\x03\x08\x04", 8, &error), ONNXPTQ_OK);
}

/* Bodies in bodies: graph, node, attribute, graph, ... */
static void nest(struct oq_bytes *bytes, unsigned messages) {
    static const uint32_t numbers[] = {7, 1, 5, 6};
    uint32_t path[OQ_WIRE_MAX_DEPTH + 8];
    for (unsigned i = 0; i < messages; i++) {
        path[i] = i < 4 ? numbers[i] : numbers[1 + (i - 1) % 3];
    }
    for (unsigned i = messages; i > 0; i--) {
        wrap(bytes, path[i - 1]);
    }
}

static void test_depth(void **state) {
    (void)state;
    struct onnxptq_error error;
    for (unsigned messages = OQ_WIRE_MAX_DEPTH - 2; messages < OQ_WIRE_MAX_DEPTH + 2; messages++) {
        struct oq_bytes bytes = {NULL, 0, 0};
        nest(&bytes, messages);
        const enum onnxptq_status status = shrink(bytes.data, bytes.size, &error);
        /* The model is a message too. */
        if (messages < OQ_WIRE_MAX_DEPTH) {
            assert_int_equal(status, ONNXPTQ_OK);
        } else {
            assert_int_equal(status, ONNXPTQ_ERROR_MODEL);
            assert_non_null(strstr(error.message, "nested too deeply"));
        }
        oq_bytes_reset(&bytes);
    }
}

/* Types nest without any tensor. */
static void test_depth_of_types(void **state) {
    (void)state;
    struct onnxptq_error error;
    struct oq_bytes bytes = {NULL, 0, 0};
    for (unsigned i = 0; i < 60; i++) {
        wrap(&bytes, 1); /* elem_type */
        wrap(&bytes, 4); /* sequence_type */
    }
    wrap(&bytes, 2);  /* type */
    wrap(&bytes, 11); /* input */
    wrap(&bytes, 7);  /* graph */
    assert_int_equal(shrink(bytes.data, bytes.size, &error), ONNXPTQ_ERROR_MODEL);
    assert_non_null(strstr(error.message, "nested too deeply"));
    oq_bytes_reset(&bytes);
}

static void test_private_fields(void **state) {
    (void)state;
    static const struct {
        uint32_t number, message; /* of the private field, of its message in a graph */
    } fields_of_ours[] = {
        {OQ_TENSOR_DATA_FILE, 5},   {OQ_TENSOR_DATA_FIELD, 5},  {OQ_TENSOR_DATA_ENTRIES, 5},
        {OQ_TENSOR_DATA_OFFSET, 5}, {OQ_TENSOR_DATA_LENGTH, 5}, {OQ_NODE_ORIGIN, 1},
    };
    for (size_t i = 0; i < sizeof fields_of_ours / sizeof *fields_of_ours; i++) {
        struct onnxptq_error error;
        struct oq_wire_fields fields = {.head_size = 0};
        struct oq_bytes bytes = {NULL, 0, 0};
        oq_wire_add_varint(&fields, fields_of_ours[i].number, 1);
        append(&bytes, fields.head, fields.head_size);
        wrap(&bytes, fields_of_ours[i].message);
        wrap(&bytes, 7);
        assert_int_equal(shrink(bytes.data, bytes.size, &error), ONNXPTQ_ERROR_MODEL);
        assert_non_null(strstr(error.message, "reserved"));
        oq_bytes_reset(&bytes);
    }
}

/* ---- Shrinking and expanding ---- */

static void test_leaves_weights_behind(void **state) {
    (void)state;
    struct file_bytes file = make_rich_model();
    struct oq_bytes skeleton = {NULL, 0, 0};
    assert_int_equal(oq_wire_shrink(file.data, file.size, 3, &skeleton, NULL), ONNXPTQ_OK);
    assert_true(skeleton.size + 10 * sizeof(float) * RICH_FLOATS < file.size);
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, skeleton.size, skeleton.data);
    assert_non_null(proto);
    const Onnx__TensorProto *weight = proto->graph->initializer[0];
    assert_string_equal(weight->name, "w");
    assert_false(weight->has_raw_data);
    assert_int_equal(weight->data_file, 3);
    assert_int_equal(weight->data_length, sizeof(float) * RICH_FLOATS);
    float first[2];
    memcpy(first, file.data + weight->data_offset, sizeof first);
    assert_true(first[0] == 0.0F && first[1] == 1.0F);
    assert_true(proto->graph->initializer[1]->has_raw_data); /* "small" */
    assert_false(proto->graph->initializer[1]->has_data_length);
    onnx__model_proto__free_unpacked(proto, NULL);
    oq_bytes_reset(&skeleton);
    free_bytes(&file);
}

struct output {
    const struct file_bytes *file;
    uint64_t announced;
    struct oq_bytes bytes;
    size_t n_tensors, n_places[3];
    bool external;
};

static enum onnxptq_status replace(void *user, const struct oq_wire_tensor *tensor,
                                   struct oq_wire_fields *fields, struct onnxptq_error *error) {
    struct output *output = user;
    (void)error;
    output->n_tensors++;
    output->n_places[tensor->place]++;
    assert_int_equal(tensor->file, 3);
    assert_true(tensor->type == ONNXPTQ_TYPE_FLOAT || tensor->type == ONNXPTQ_TYPE_INT64);
    if (output->external) {
        oq_wire_add_varint(fields, 14, 1);
        return ONNXPTQ_OK;
    }
    fields->body = output->file->data + tensor->offset;
    fields->body_size = (size_t)tensor->length;
    oq_wire_add_length(fields, 9, fields->body_size);
    return ONNXPTQ_OK;
}

static enum onnxptq_status begin(void *user, uint64_t size, struct onnxptq_error *error) {
    (void)error;
    ((struct output *)user)->announced = size;
    return ONNXPTQ_OK;
}

static void put(void *user, const void *data, size_t size) {
    append(&((struct output *)user)->bytes, data, size);
}

static struct output expand(const struct file_bytes *file, bool external) {
    struct output output = {.file = file, .external = external};
    struct oq_bytes skeleton = {NULL, 0, 0};
    const struct oq_wire_expansion expansion = {
        .user = &output, .replace = replace, .begin = begin, .put = put, .drop_training = external};
    assert_int_equal(oq_wire_shrink(file->data, file->size, 3, &skeleton, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_wire_expand(skeleton.data, skeleton.size, &expansion, NULL), ONNXPTQ_OK);
    assert_int_equal(output.announced, output.bytes.size);
    oq_bytes_reset(&skeleton);
    return output;
}

static void test_expands_to_the_same(void **state) {
    (void)state;
    struct file_bytes file = make_rich_model();
    struct output output = expand(&file, false);
    assert_int_equal(output.n_tensors, 2 * RICH_TENSORS); /* two passes */
    assert_int_equal(output.n_places[OQ_PLACE_INITIALIZER], 2 * 3);
    assert_int_equal(output.n_places[OQ_PLACE_CONSTANT], 2 * 3);
    assert_int_equal(output.n_places[OQ_PLACE_OTHER], 2 * 5);
    const struct file_bytes expanded = {output.bytes.data, output.bytes.size};
    struct file_bytes normal = normalize_model(expanded);
    assert_int_equal(normal.size, file.size);
    assert_memory_equal(normal.data, file.data, file.size);
    free_bytes(&normal);
    free_bytes(&file);
}

static void test_replacements(void **state) {
    (void)state;
    struct file_bytes file = make_rich_model();
    struct output output = expand(&file, true);
    assert_int_equal(output.n_tensors, 2 * (RICH_TENSORS - 1)); /* training is left out */
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, output.bytes.size, output.bytes.data);
    assert_non_null(proto);
    assert_int_equal(proto->n_training_info, 0);
    assert_int_equal(proto->n_functions, 1);
    const Onnx__TensorProto *weight = proto->graph->initializer[0];
    assert_int_equal(weight->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    assert_false(weight->has_raw_data);
    assert_false(weight->has_data_length);
    onnx__model_proto__free_unpacked(proto, NULL);
    oq_bytes_reset(&output.bytes);
    free_bytes(&file);
}

/* Every prefix is refused or, where it ends between two fields of the model, passes; none is read
 * beyond. */
static void test_prefixes(void **state) {
    (void)state;
    struct file_bytes file = make_rich_model();
    size_t passed = 0;
    for (size_t size = 0; size < file.size; size++) {
        struct onnxptq_error error;
        passed += shrink(file.data, size, &error) == ONNXPTQ_OK;
    }
    assert_true(passed < 12);
    free_bytes(&file);
}

/* Whatever one bit is changed to, pass and parser come to an end. */
static void test_flips(void **state) {
    (void)state;
    struct file_bytes file = make_rich_model();
    for (size_t i = 0; i < file.size; i++) {
        const uint8_t old = file.data[i];
        file.data[i] = (uint8_t)(old ^ (1u << (i % 8)));
        struct oq_bytes skeleton = {NULL, 0, 0};
        if (oq_wire_shrink(file.data, file.size, 3, &skeleton, NULL) == ONNXPTQ_OK) {
            Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, skeleton.size, skeleton.data);
            if (proto != NULL) {
                onnx__model_proto__free_unpacked(proto, NULL);
            }
        }
        oq_bytes_reset(&skeleton);
        file.data[i] = old;
    }
    free_bytes(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_depth_of_types),
        cmocka_unit_test(test_private_fields),
        cmocka_unit_test(test_leaves_weights_behind),
        cmocka_unit_test(test_expands_to_the_same),
        cmocka_unit_test(test_replacements),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_flips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
