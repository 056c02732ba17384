/*
 * Sessions: declarations, runs, the observer operator.
 */
#include "model_builder.h"
#include "runtime_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

#define FLOAT ONNXPTQ_TYPE_FLOAT

static struct onnxptq_error error;

/* ---- What the hook saw ---- */

struct seen {
    size_t calls, limit; /* fails from call `limit` on, unless 0 */
    int64_t slot;
    int type;
    size_t rank, n_elements;
    int64_t shape[8];
    bool has_data;
    double sum;
};

struct adding {
    const float *data;
    double parts[16];
};

static void add_part(void *arg, size_t index) {
    struct adding *adding = arg;
    adding->parts[index] = (double)adding->data[index];
}

static bool remember(void *user, const struct oq_observed *tensor) {
    struct seen *seen = user;
    seen->calls++;
    seen->slot = tensor->slot;
    seen->type = tensor->type;
    seen->rank = tensor->rank;
    seen->n_elements = tensor->n_elements;
    seen->has_data = tensor->data != NULL;
    for (size_t i = 0; i < tensor->rank && i < 8; i++) {
        seen->shape[i] = tensor->shape[i];
    }
    if (tensor->type == FLOAT && tensor->n_elements <= 16) {
        struct adding adding = {.data = tensor->data};
        tensor->parallel_for(tensor, tensor->n_elements, add_part, &adding);
        for (size_t i = 0; i < tensor->n_elements; i++) {
            seen->sum += adding.parts[i];
        }
    }
    return seen->limit == 0 || seen->calls < seen->limit;
}

static void observe(struct oq_model *model, Onnx__GraphProto *graph, const char *name,
                    int64_t slot) {
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "onnxptq::Observe", "watcher", name, "");
    assert_true(oq_node_set_int(model, node, "slot", slot));
}

static void set_tensor_type(struct oq_model *model, Onnx__NodeProto *node, int64_t type) {
    assert_true(oq_node_set_int(model, node, "to", type));
}

/* X[n,4] -> Relu -> Y */
static struct oq_model *make_relu(const char *shape) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "X", FLOAT, shape);
    oq_test_add_output(model, graph, "Y", FLOAT, shape);
    oq_test_add_node(model, graph, "Relu", "relu", "X", "Y");
    return model;
}

/* ---- Declarations and runs ---- */

static void test_declarations(void **state) {
    struct oq_model *model = make_relu("n,4");
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "scalar", ONNXPTQ_TYPE_INT64, "");
    oq_test_add_input(model, graph, "any", ONNXPTQ_TYPE_BOOL, NULL);
    oq_test_add_input(model, graph, "weight", FLOAT, "2");
    oq_test_add_floats(model, graph, "weight", "2", NULL);
    struct oq_session *session = oq_test_session(*state, model, NULL);
    assert_int_equal(oq_session_n_inputs(session), 3);
    assert_int_equal(oq_session_n_outputs(session), 1);
    const struct onnxptq_tensor *x = oq_session_input(session, 0);
    assert_string_equal(x->name, "X");
    assert_int_equal(x->type, FLOAT);
    assert_int_equal(x->rank, 2);
    assert_int_equal(x->shape[0], -1);
    assert_int_equal(x->shape[1], 4);
    assert_int_equal(oq_session_input(session, 1)->type, ONNXPTQ_TYPE_INT64);
    assert_int_equal(oq_session_input(session, 1)->rank, 0);
    assert_int_equal(oq_session_input(session, 2)->type, ONNXPTQ_TYPE_UNDEFINED);
    assert_string_equal(oq_session_output(session, 0)->name, "Y");
    oq_session_destroy(session);
    oq_model_destroy(model);
}

static void test_run(void **state) {
    struct oq_model *model = make_relu("n,4");
    struct oq_session *session = oq_test_session(*state, model, NULL);
    unsigned char odd[1 + 8 * sizeof(float)]; /* data at an odd address is fed all the same */
    const float values[8] = {-1, 2, -3, 4, 5, -6, 7, -8}, expected[8] = {0, 2, 0, 4, 5, 0, 7, 0};
    memcpy(odd + 1, values, sizeof values);
    for (size_t rows = 1; rows <= 2; rows++) {
        struct onnxptq_tensor output,
            input = oq_test_tensor(FLOAT, rows == 1 ? "1,4" : "2,4", odd + 1);
        assert_int_equal(oq_session_run(session, &input, &output, &error), ONNXPTQ_OK);
        assert_string_equal(output.name, "Y");
        assert_int_equal(output.type, FLOAT);
        assert_int_equal(output.rank, 2);
        assert_int_equal(output.shape[0], rows);
        assert_int_equal(output.size, rows * 16);
        assert_memory_equal(output.data, expected, rows * 16);
        assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_OK);
    }
    oq_session_destroy(session);
    oq_model_destroy(model);
}

static void test_run_of_empty_tensor(void **state) {
    struct oq_model *model = make_relu("n,4");
    struct oq_session *session = oq_test_session(*state, model, NULL);
    struct onnxptq_tensor output, input = oq_test_tensor(FLOAT, "0,4", NULL);
    assert_int_equal(oq_session_run(session, &input, &output, &error), ONNXPTQ_OK);
    assert_int_equal(output.shape[0], 0);
    assert_int_equal(output.size, 0);
    oq_session_destroy(session);
    oq_model_destroy(model);
}

static void test_wrong_input(void **state) {
    struct oq_model *model = make_relu("n,4");
    struct oq_session *session = oq_test_session(*state, model, NULL);
    const float values[16] = {0};
    struct onnxptq_tensor input = oq_test_tensor(FLOAT, "2,4", values);
    input.size = 12;
    assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_ERROR_DATA);
    assert_non_null(strstr(error.message, "'X'"));
    input = oq_test_tensor(FLOAT, "2,3", values);
    assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_ERROR_RUNTIME);
    assert_non_null(strstr(error.message, "for a test"));
    input = oq_test_tensor(FLOAT, "2,4", values);
    input.type = ONNXPTQ_TYPE_STRING;
    assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_ERROR_UNSUPPORTED);
    input = oq_test_tensor(FLOAT, "2,4", values);
    assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_OK);
    oq_session_destroy(session);
    oq_model_destroy(model);
}

static void test_outputs_that_are_no_dense_numbers(void **state) {
    struct oq_model *model = make_relu("4");
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    set_tensor_type(model, oq_test_add_node(model, graph, "Cast", NULL, "X", "text"),
                    ONNXPTQ_TYPE_STRING);
    oq_test_add_node(model, graph, "SequenceConstruct", NULL, "X", "sequence");
    oq_test_add_output(model, graph, "text", ONNXPTQ_TYPE_STRING, "4");
    assert_true(oq_graph_add_output(model, graph, "sequence"));
    struct oq_session *session = oq_test_session(*state, model, NULL);
    const float values[4] = {1, 2, 3, 4};
    struct onnxptq_tensor outputs[3], input = oq_test_tensor(FLOAT, "4", values);
    assert_int_equal(oq_session_n_outputs(session), 3);
    assert_int_equal(oq_session_run(session, &input, outputs, &error), ONNXPTQ_OK);
    assert_memory_equal(outputs[0].data, values, sizeof values);
    assert_int_equal(outputs[1].type, ONNXPTQ_TYPE_STRING);
    assert_null(outputs[1].data);
    assert_int_equal(outputs[2].type, ONNXPTQ_TYPE_UNDEFINED);
    assert_null(outputs[2].data);
    oq_session_destroy(session);
    oq_model_destroy(model);
}

static void test_custom_operator(void **state) {
    (void)state;
    struct oq_runtime *runtime = oq_test_runtime(OQ_TEST_OPS "libdummy.so", NULL);
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "X", FLOAT, "2");
    oq_test_add_output(model, graph, "Y", FLOAT, NULL);
    oq_test_add_node(model, graph, "custom_domain::DummyOp", "dummy", "X", "Y");
    struct oq_session *session = oq_test_session(runtime, model, NULL);
    const float values[2] = {1, -3}, expected[2] = {1.0F, -2.25F};
    struct onnxptq_tensor output, input = oq_test_tensor(FLOAT, "2", values);
    assert_int_equal(oq_session_output(session, 0)->type, ONNXPTQ_TYPE_UNDEFINED);
    assert_int_equal(oq_session_run(session, &input, &output, &error), ONNXPTQ_OK);
    assert_memory_equal(output.data, expected, sizeof expected);
    oq_session_destroy(session);
    oq_runtime_close(runtime);
    oq_model_destroy(model);
}

static void test_model_that_does_not_load(void **state) {
    struct oq_model *model = make_relu("4");
    oq_test_add_node(model, oq_test_main_graph(model), "nobody::Has", "it", "X", "Z");
    struct oq_session *session = NULL;
    assert_int_equal(oq_test_session_try(*state, model, NULL, &session, &error),
                     ONNXPTQ_ERROR_RUNTIME);
    assert_null(session);
    assert_non_null(strstr(error.message, "nobody"));
    assert_null(strchr(error.message, '\n'));
    const struct oq_session_spec spec = {.model = "\xff\xff\xff", .size = 3, .purpose = "a test"};
    assert_int_equal(oq_session_create(*state, &spec, &session, &error), ONNXPTQ_ERROR_RUNTIME);
    oq_session_destroy(NULL);
    oq_model_destroy(model);
}

/* ---- Logging ---- */

static void count_message(void *user, enum onnxptq_log_level level, const char *message) {
    size_t *counts = user;
    assert_non_null(message);
    counts[level]++;
}

/* An unused initializer makes the runtime warn: that is detail to us, and it is not printed. */
static void test_messages_go_to_the_log(void **state) {
    (void)state;
    size_t counts[4] = {0};
    const struct oq_log log = {.log = count_message, .log_user = counts};
    struct oq_runtime *runtime = oq_test_runtime(NULL, &log);
    struct oq_model *model = make_relu("4");
    oq_test_add_floats(model, oq_test_main_graph(model), "unused", "2", NULL);
    oq_session_destroy(oq_test_session(runtime, model, NULL));
    assert_true(counts[ONNXPTQ_LOG_DEBUG] > 0);
    assert_int_equal(counts[ONNXPTQ_LOG_WARNING], 0);
    oq_runtime_close(runtime);
    oq_model_destroy(model);
}

/* ---- The observer ---- */

static void test_observer_sees_a_tensor(void **state) {
    struct oq_model *model = make_relu("n,4");
    observe(model, oq_test_main_graph(model), "Y", 41);
    struct seen seen = {0};
    const struct oq_observer_hook hook = {remember, &seen};
    struct oq_session *session = oq_test_session(*state, model, &hook);
    const float values[8] = {-1, 2, 3, 4, 5, -6, 7, 8};
    struct onnxptq_tensor input = oq_test_tensor(FLOAT, "2,4", values);
    assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_OK);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.slot, 41);
    assert_int_equal(seen.type, FLOAT);
    assert_int_equal(seen.rank, 2);
    assert_int_equal(seen.shape[0], 2);
    assert_int_equal(seen.shape[1], 4);
    assert_int_equal(seen.n_elements, 8);
    assert_true(seen.sum == 29.0);
    oq_session_destroy(session);
    oq_model_destroy(model);
}

static void test_observer_stops_the_run(void **state) {
    struct oq_model *model = make_relu("4");
    observe(model, oq_test_main_graph(model), "Y", 0);
    struct seen seen = {.limit = 2};
    const struct oq_observer_hook hook = {remember, &seen};
    struct oq_session *session = oq_test_session(*state, model, &hook);
    const float values[4] = {1, 2, 3, 4};
    struct onnxptq_tensor input = oq_test_tensor(FLOAT, "4", values);
    assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_OK);
    assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_ERROR_RUNTIME);
    assert_non_null(strstr(error.message, "stopped by the observer"));
    oq_session_destroy(session);
    oq_model_destroy(model);
}

/* Inputs, strings and constants can be observed; each element type is told. */
static void test_observer_takes_every_tensor_type(void **state) {
    static const int types[] = {ONNXPTQ_TYPE_STRING, ONNXPTQ_TYPE_BOOL,     ONNXPTQ_TYPE_FLOAT16,
                                ONNXPTQ_TYPE_INT64,  ONNXPTQ_TYPE_BFLOAT16, ONNXPTQ_TYPE_DOUBLE,
                                ONNXPTQ_TYPE_UINT8};
    const float values[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct oq_model *model = make_relu("4");
        Onnx__GraphProto *graph = oq_test_main_graph(model);
        set_tensor_type(model, oq_test_add_node(model, graph, "Cast", NULL, "X", "cast"), types[i]);
        observe(model, graph, "cast", 0);
        struct seen seen = {0};
        const struct oq_observer_hook hook = {remember, &seen};
        struct oq_session *session = oq_test_session(*state, model, &hook);
        struct onnxptq_tensor input = oq_test_tensor(FLOAT, "4", values);
        assert_int_equal(oq_session_run(session, &input, NULL, &error), ONNXPTQ_OK);
        assert_int_equal(seen.calls, 1);
        assert_int_equal(seen.type, types[i]);
        assert_int_equal(seen.has_data, types[i] != ONNXPTQ_TYPE_STRING);
        oq_session_destroy(session);
        oq_model_destroy(model);
    }
}

/* If(c) { then: 2x } else { x }, observed inside the branch. */
static void test_observer_in_a_body(void **state) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "X", FLOAT, "4");
    oq_test_add_input(model, graph, "c", ONNXPTQ_TYPE_BOOL, "");
    oq_test_add_output(model, graph, "Y", FLOAT, NULL);
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "If", "if", "c", "Y");
    Onnx__GraphProto *then = oq_test_add_body(model, node, "then_branch", "then");
    oq_test_add_node(model, then, "Add", NULL, "X,X", "twice");
    oq_test_add_output(model, then, "twice", FLOAT, NULL);
    observe(model, then, "twice", 3);
    Onnx__GraphProto *otherwise = oq_test_add_body(model, node, "else_branch", "else");
    oq_test_add_node(model, otherwise, "Identity", NULL, "X", "same");
    oq_test_add_output(model, otherwise, "same", FLOAT, NULL);
    struct seen seen = {0};
    const struct oq_observer_hook hook = {remember, &seen};
    struct oq_session *session = oq_test_session(*state, model, &hook);
    const float values[4] = {1, 2, 3, 4};
    const bool yes = true, no = false;
    struct onnxptq_tensor inputs[] = {oq_test_tensor(FLOAT, "4", values),
                                      oq_test_tensor(ONNXPTQ_TYPE_BOOL, "", &no)};
    assert_int_equal(oq_session_run(session, inputs, NULL, &error), ONNXPTQ_OK);
    assert_int_equal(seen.calls, 0);
    inputs[1].data = &yes;
    assert_int_equal(oq_session_run(session, inputs, NULL, &error), ONNXPTQ_OK);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.slot, 3);
    assert_true(seen.sum == 20.0);
    oq_session_destroy(session);
    oq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declarations),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_run_of_empty_tensor),
        cmocka_unit_test(test_wrong_input),
        cmocka_unit_test(test_outputs_that_are_no_dense_numbers),
        cmocka_unit_test(test_custom_operator),
        cmocka_unit_test(test_model_that_does_not_load),
        cmocka_unit_test(test_messages_go_to_the_log),
        cmocka_unit_test(test_observer_sees_a_tensor),
        cmocka_unit_test(test_observer_stops_the_run),
        cmocka_unit_test(test_observer_takes_every_tensor_type),
        cmocka_unit_test(test_observer_in_a_body),
    };
    return cmocka_run_group_tests(tests, oq_test_setup_runtime, oq_test_teardown_runtime);
}
