/*
 * Views of tensors, wherever and however their data is stored.
 */
#include "model/tensor.h"
#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static struct oq_tensor_view view_of(const struct oq_model *model,
                                     const Onnx__TensorProto *tensor) {
    struct oq_tensor_view view;
    struct onnxptq_error error;
    if (oq_tensor_view(model, tensor, &view, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return view;
}

static Onnx__TensorProto typed(int type, int64_t *n) {
    Onnx__TensorProto tensor = ONNX__TENSOR_PROTO__INIT;
    tensor.has_data_type = 1;
    tensor.data_type = type;
    tensor.n_dims = 1;
    tensor.dims = n;
    return tensor;
}

static void test_raw(void **state) {
    (void)state;
    static const int64_t shape[] = {2, 3};
    static const float data[] = {0, 1, 2, 3, 4, 5};
    struct oq_model *model = oq_test_model_create(17);
    const Onnx__TensorProto *tensor =
        oq_tensor_create(model, "t", ONNXPTQ_TYPE_FLOAT, shape, 2, data, sizeof data);
    const struct oq_tensor_view view = view_of(model, tensor);
    assert_int_equal(view.type, ONNXPTQ_TYPE_FLOAT);
    assert_int_equal(view.rank, 2);
    assert_int_equal(view.shape[1], 3);
    assert_int_equal(view.n_elements, 6);
    assert_int_equal(view.size, 24);
    float floats[3];
    oq_tensor_view_floats(&view, 2, 3, floats);
    assert_memory_equal(floats, data + 2, sizeof floats);
    oq_model_destroy(model);
}

static void test_zeros_and_scalars(void **state) {
    (void)state;
    static const int64_t empty[] = {4, 0};
    struct oq_model *model = oq_test_model_create(17);
    struct oq_tensor_view view =
        view_of(model, oq_tensor_create(model, "", ONNXPTQ_TYPE_INT64, NULL, 0, NULL, 8));
    assert_int_equal(view.n_elements, 1);
    assert_int_equal(oq_tensor_view_integer(&view, 0), 0);
    view = view_of(model, oq_tensor_create(model, "", ONNXPTQ_TYPE_FLOAT, empty, 2, NULL, 0));
    assert_int_equal(view.n_elements, 0);
    assert_non_null(view.data);
    oq_model_destroy(model);
}

/* Integers that ONNX stores as int32, whatever their type. */
static void test_int32_data(void **state) {
    (void)state;
    static const struct {
        int type;
        int32_t stored;
        int64_t value;
        size_t size;
    } cases[] = {
        {ONNXPTQ_TYPE_INT8, -5, -5, 1},          {ONNXPTQ_TYPE_UINT8, 250, 250, 1},
        {ONNXPTQ_TYPE_INT16, -3000, -3000, 2},   {ONNXPTQ_TYPE_UINT16, 65000, 65000, 2},
        {ONNXPTQ_TYPE_INT32, -70000, -70000, 4}, {ONNXPTQ_TYPE_BOOL, 1, 1, 1},
    };
    struct oq_model *model = oq_test_model_create(17);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t n = 3;
        int32_t entries[] = {0, 0, cases[i].stored};
        Onnx__TensorProto tensor = typed(cases[i].type, &n);
        tensor.int32_data = entries;
        tensor.n_int32_data = 3;
        /* The conversion is kept under the tensor's address, which a real tensor has to itself. */
        Onnx__TensorProto *own = oq_arena_alloc(oq_model_arena(model), sizeof *own);
        assert_non_null(own);
        *own = tensor;
        const struct oq_tensor_view view = view_of(model, own);
        assert_int_equal(view.size, 3 * cases[i].size);
        assert_true(oq_tensor_view_integer(&view, 2) == cases[i].value);
        assert_true(oq_tensor_view_integer(&view, 1) == 0);
        assert_ptr_equal(view_of(model, own).data, view.data); /* converted once */
    }
    oq_model_destroy(model);
}

static void test_half_in_int32_data(void **state) {
    (void)state;
    int64_t n = 2;
    int32_t entries[] = {0x3c00, 0xc000};
    struct oq_model *model = oq_test_model_create(17);
    Onnx__TensorProto tensor = typed(ONNXPTQ_TYPE_FLOAT16, &n);
    tensor.int32_data = entries;
    tensor.n_int32_data = 2;
    const struct oq_tensor_view view = view_of(model, &tensor);
    float floats[2];
    oq_tensor_view_floats(&view, 0, 2, floats);
    assert_true(floats[0] == 1.0F && floats[1] == -2.0F);
    oq_model_destroy(model);
}

static void test_other_fields(void **state) {
    (void)state;
    int64_t n = 2;
    struct oq_model *model = oq_test_model_create(17);
    int64_t longs[] = {INT64_MIN, 7};
    Onnx__TensorProto tensor = typed(ONNXPTQ_TYPE_INT64, &n);
    tensor.int64_data = longs;
    tensor.n_int64_data = 2;
    struct oq_tensor_view view = view_of(model, &tensor);
    assert_true(oq_tensor_view_integer(&view, 0) == INT64_MIN);

    uint64_t unsigneds[] = {4000000000u, 7};
    Onnx__TensorProto uint32 = typed(ONNXPTQ_TYPE_UINT32, &n);
    uint32.uint64_data = unsigneds;
    uint32.n_uint64_data = 2;
    view = view_of(model, &uint32);
    assert_int_equal(view.size, 8);
    assert_true(oq_tensor_view_integer(&view, 0) == 4000000000);
    assert_true(oq_tensor_view_integer(&view, 1) == 7);

    double doubles[] = {0.5, -1.5};
    Onnx__TensorProto twice = typed(ONNXPTQ_TYPE_DOUBLE, &n);
    twice.double_data = doubles;
    twice.n_double_data = 2;
    view = view_of(model, &twice);
    float floats[2];
    oq_tensor_view_floats(&view, 0, 2, floats);
    assert_true(floats[0] == 0.5F && floats[1] == -1.5F);

    float singles[] = {2, 3};
    Onnx__TensorProto single = typed(ONNXPTQ_TYPE_FLOAT, &n);
    single.float_data = singles;
    single.n_float_data = 2;
    assert_ptr_equal(view_of(model, &single).data, singles);
    oq_model_destroy(model);
}

static void test_packed(void **state) {
    (void)state;
    int64_t n = 5;
    int32_t entries[] = {0x21, 0x43, 0x05};
    struct oq_model *model = oq_test_model_create(21);
    Onnx__TensorProto tensor = typed(22, &n); /* int4 */
    tensor.int32_data = entries;
    tensor.n_int32_data = 3;
    const struct oq_tensor_view view = view_of(model, &tensor);
    assert_int_equal(view.n_elements, 5);
    assert_int_equal(view.size, 3);
    assert_memory_equal(view.data, "\x21\x43\x05", 3);
    oq_model_destroy(model);
}

static void refuse(const struct oq_model *model, const Onnx__TensorProto *tensor,
                   enum onnxptq_status expected, const char *part) {
    struct oq_tensor_view view;
    struct onnxptq_error error = {ONNXPTQ_OK, ""};
    assert_int_equal(oq_tensor_view(model, tensor, &view, &error), expected);
    if (strstr(error.message, part) == NULL || strstr(error.message, "'odd'") == NULL) {
        fail_msg("'%s' does not hold '%s'", error.message, part);
    }
}

static void test_refused(void **state) {
    (void)state;
    int64_t n = 2, negative = -2;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__TensorProto tensor = typed(ONNXPTQ_TYPE_STRING, &n);
    tensor.name = (char *)"odd";
    refuse(model, &tensor, ONNXPTQ_ERROR_UNSUPPORTED, "string");
    tensor.data_type = 999;
    refuse(model, &tensor, ONNXPTQ_ERROR_UNSUPPORTED, "999");
    tensor.data_type = ONNXPTQ_TYPE_FLOAT;
    refuse(model, &tensor, ONNXPTQ_ERROR_MODEL, "2 elements");
    tensor.dims = &negative;
    refuse(model, &tensor, ONNXPTQ_ERROR_MODEL, "-2");
    tensor.dims = &n;
    tensor.has_data_file = tensor.has_data_offset = tensor.has_data_length = 1;
    tensor.data_file = 50;
    tensor.data_length = 8;
    refuse(model, &tensor, ONNXPTQ_ERROR_INTERNAL, "outside its file");
    oq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw),          cmocka_unit_test(test_zeros_and_scalars),
        cmocka_unit_test(test_int32_data),   cmocka_unit_test(test_half_in_int32_data),
        cmocka_unit_test(test_other_fields), cmocka_unit_test(test_packed),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
