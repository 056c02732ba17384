/*
 * Summaries that nodes of the graph compute equal those of the observers, to the bit: every float
 * type, values that are not finite, masks, signed zeros, tensors that are empty or have no
 * dimension, and what lies in the body of a loop.
 */
#include "calib/watch.h"
#include "calib/watch_model.h"
#include "model_builder.h"
#include "runtime_tools.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

#define FLOAT ONNXPTQ_TYPE_FLOAT
#define WIDTH 6
#define MAX_VALUES 32

static struct onnxptq_error error;

#define INF INFINITY
static const float rows[][WIDTH] = {
    {0.5F, -2, 3, 1e-40F, -1e-40F, 0}, /* with denormals */
    {-0.0F, 0.0F, -0.0F, 0, 0, 0},
    {-0.0F, -0.0F, -0.0F, -0.0F, -0.0F, -0.0F},
    {NAN, 1, 2, 3, -4, 5},
    {INF, -INF, 7, -8, NAN, 0},
    {NAN, NAN, NAN, NAN, NAN, NAN},
    {INF, INF, -INF, -INF, INF, NAN},
    {-FLT_MAX, 1, -1, -FLT_MAX, 0.25F, 3}, /* a mask of the lowest float */
    {-1e9F, -1e9F, -1e9F, -1e9F, -1e9F, -1e9F},
    {-65504, 65504, 65024, -64992, 1, 2}, /* far in float16, near elsewhere */
    {16777216, 16777215, -16777216, 1e10F, 1, 0},
    {-1, -2, -3, -4, -5, -6}, /* nothing positive: an empty tensor below */
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static enum onnxptq_status read_row(void *user, size_t index, struct onnxptq_tensor *inputs,
                                    size_t n, struct onnxptq_error *unused) {
    (void)user;
    (void)unused;
    assert_int_equal(n, 1);
    inputs[0] = (struct onnxptq_tensor){.name = inputs[0].name,
                                        .type = FLOAT,
                                        .rank = 2,
                                        .shape = {1, WIDTH},
                                        .data = rows[index],
                                        .size = sizeof rows[0]};
    return ONNXPTQ_OK;
}

/* ---- A model with every kind of tensor ---- */

static void add_cast(struct oq_model *model, Onnx__GraphProto *graph, const char *output,
                     int type) {
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "Cast", NULL, "X", output);
    assert_true(oq_node_set_int(model, node, "to", type));
}

/* The body turns what is carried around; three times. */
static void add_loop(struct oq_model *model, Onnx__GraphProto *graph) {
    const int64_t trips = 3;
    Onnx__TensorProto *count =
        oq_tensor_create(model, "trips", ONNXPTQ_TYPE_INT64, NULL, 0, &trips, sizeof trips);
    assert_true(count != NULL && oq_graph_add_initializer(model, graph, count));
    Onnx__NodeProto *loop = oq_test_add_node(model, graph, "Loop", "loop", "trips,,X", "turned");
    Onnx__GraphProto *body = oq_test_add_body(model, loop, "body", "body");
    oq_test_add_input(model, body, "i", ONNXPTQ_TYPE_INT64, "");
    oq_test_add_input(model, body, "on", ONNXPTQ_TYPE_BOOL, "");
    oq_test_add_input(model, body, "carried", FLOAT, NULL);
    oq_test_add_node(model, body, "Identity", NULL, "on", "still_on");
    oq_test_add_node(model, body, "Neg", NULL, "carried", "negated");
    oq_test_add_node(model, body, "Add", NULL, "negated,one", "next");
    oq_test_add_output(model, body, "still_on", ONNXPTQ_TYPE_BOOL, NULL);
    oq_test_add_output(model, body, "next", FLOAT, NULL);
}

static struct oq_model *make_model(int64_t opset) {
    struct oq_model *model = oq_test_model_create(opset);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    const float zero = 0, one = 1;
    oq_test_add_input(model, graph, "X", FLOAT, "1,6");
    oq_test_add_floats(model, graph, "zero", "1", &zero);
    oq_test_add_floats(model, graph, "one", "1", &one);
    add_cast(model, graph, "half", ONNXPTQ_TYPE_FLOAT16);
    add_cast(model, graph, "brain", ONNXPTQ_TYPE_BFLOAT16);
    add_cast(model, graph, "wide", ONNXPTQ_TYPE_DOUBLE);
    oq_test_add_node(model, graph, "Greater", NULL, "X,zero", "positive2");
    oq_test_add_node(model, graph, "Reshape", NULL, "positive2,flat", "positive");
    const int64_t flat = -1, shape[] = {1};
    Onnx__TensorProto *tensor =
        oq_tensor_create(model, "flat", ONNXPTQ_TYPE_INT64, shape, 1, &flat, sizeof flat);
    assert_true(tensor != NULL && oq_graph_add_initializer(model, graph, tensor));
    oq_test_add_node(model, graph, "Compress", NULL, "X,positive", "kept");
    Onnx__NodeProto *mean = oq_test_add_node(model, graph, "ReduceMean", NULL, "X", "scalar");
    assert_true(oq_node_set_int(model, mean, "keepdims", 0));
    add_loop(model, graph);
    oq_test_add_node(model, graph, "Relu", NULL, "turned", "Y");
    oq_test_add_output(model, graph, "Y", FLOAT, NULL);
    return oq_test_model_reload(model);
}

static const char *const watched[] = {"X",       "half",    "brain",  "wide", "kept", "scalar",
                                      "carried", "negated", "turned", "Y",    "i",    "positive"};
#define N_WATCHED (sizeof watched / sizeof watched[0])

/* ---- Both ways ---- */

struct bench {
    struct oq_runtime *runtime;
    struct oq_model *model;
    struct oq_graph *graph;
    struct oq_weight_file *weights;
    struct oq_data_source *source;
    struct oq_data_runs runs;
    uint32_t values[N_WATCHED];
    struct oq_statistics trace[MAX_VALUES];
};

static void check(enum onnxptq_status status) {
    if (status != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
}

static void start(struct bench *bench, struct oq_runtime *runtime, int64_t opset) {
    static const struct onnxptq_tensor input = {
        .name = "X", .type = FLOAT, .rank = 2, .shape = {1, WIDTH}};
    const struct onnxptq_data_source callback = {.n_samples = N_ROWS, .read = read_row};
    const struct onnxptq_quantize_options options = {
        .struct_size = sizeof options, .data = &callback, .batch = 1};
    const struct oq_data_spec spec = {.options = &options, .inputs = &input, .n_inputs = 1};
    char beside[64];
    (void)snprintf(beside, sizeof beside, "/tmp/onnxptq-test-reduce-%ld.onnx", (long)getpid());
    *bench = (struct bench){.runtime = runtime, .model = make_model(opset)};
    bench->graph = oq_test_graph(bench->model);
    assert_true(oq_graph_n_values(bench->graph) <= MAX_VALUES);
    check(oq_weight_file_create(beside, &bench->weights, &error));
    check(oq_data_open(&spec, &bench->source, &error));
    check(oq_data_runs(bench->source, OQ_DATA_ALL, &bench->runs, &error));
    for (size_t i = 0; i < MAX_VALUES; i++) {
        oq_statistics_init(&bench->trace[i]);
    }
    for (size_t i = 0; i < N_WATCHED; i++) {
        bench->values[i] = oq_test_value(bench->graph, watched[i]);
    }
}

static void release(struct bench *bench) {
    oq_data_runs_reset(&bench->runs);
    oq_data_close(bench->source);
    oq_weight_file_destroy(bench->weights);
    oq_graph_destroy(bench->graph);
    oq_model_destroy(bench->model);
}

/* What could not be left to nodes would be told so. */
static void refuse_message(void *user, enum onnxptq_log_level level, const char *message) {
    (void)user;
    (void)level;
    fail_msg("%s", message);
}

static void watch(struct bench *bench, const struct oq_statistics *reduce,
                  struct oq_statistics *seen) {
    const struct oq_log log = {.log = refuse_message};
    const struct oq_watch_spec spec = {.runtime = bench->runtime,
                                       .log = &log,
                                       .graph = bench->graph,
                                       .weights = bench->weights,
                                       .source = bench->source,
                                       .runs = &bench->runs,
                                       .values = bench->values,
                                       .n_values = N_WATCHED,
                                       .stage = "calibrate",
                                       .reduce = reduce};
    check(oq_watch(&spec, seen, &error));
}

static void expect_same(const char *name, const struct oq_statistics *a,
                        const struct oq_statistics *b) {
    const double one[] = {a->min, a->max, a->near_min, a->near_max, a->far_least};
    const double other[] = {b->min, b->max, b->near_min, b->near_max, b->far_least};
    for (size_t i = 0; i < 5; i++) {
        if (one[i] != other[i] || signbit(one[i]) != signbit(other[i])) {
            fail_msg("'%s': extreme %zu is %g by observers, %g by nodes", name, i, one[i],
                     other[i]);
        }
    }
    assert_int_equal(a->seen, b->seen);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    assert_memory_equal(a->dim_varies, b->dim_varies, sizeof a->dim_varies);
    assert_int_equal(a->n_empty, b->n_empty);
    assert_int_equal(a->n_finite, b->n_finite);
    assert_int_equal(a->n_far, b->n_far);
    assert_int_equal(a->n_nan, b->n_nan);
    assert_int_equal(a->n_infinite, b->n_infinite);
    assert_int_equal(a->first_nonfinite_sample, b->first_nonfinite_sample);
}

static void compare_ways(struct oq_runtime *runtime, int64_t opset) {
    struct bench bench;
    struct oq_statistics observed[N_WATCHED] = {{0}}, reduced[N_WATCHED] = {{0}};
    start(&bench, runtime, opset);
    watch(&bench, NULL, observed);
    for (size_t i = 0; i < N_WATCHED; i++) {
        bench.trace[bench.values[i]] = observed[i];
    }
    watch(&bench, bench.trace, reduced);
    for (size_t i = 0; i < N_WATCHED; i++) {
        expect_same(watched[i], &observed[i], &reduced[i]);
    }
    assert_true(observed[4].n_empty > 0 && observed[0].n_far > 0 && observed[1].n_nan > 0);
    assert_int_equal(observed[7].seen, 3 * N_ROWS);
    release(&bench);
}

static void test_same_as_the_observers(void **state) {
    static const int64_t opsets[] = {13, 17, 18, 20, 21};
    for (size_t i = 0; i < sizeof opsets / sizeof opsets[0]; i++) {
        compare_ways(*state, opsets[i]);
    }
}

/* Integers and bools are left to the plain observer. */
static void test_what_the_copy_holds(void **state) {
    struct bench bench;
    struct oq_statistics seen[N_WATCHED] = {{0}};
    start(&bench, *state, 17);
    watch(&bench, NULL, seen);
    for (size_t i = 0; i < N_WATCHED; i++) {
        bench.trace[bench.values[i]] = seen[i];
    }
    const struct oq_watch_spec spec = {.runtime = bench.runtime,
                                       .graph = bench.graph,
                                       .values = bench.values,
                                       .n_values = N_WATCHED,
                                       .reduce = bench.trace};
    struct oq_model *copy = NULL;
    check(oq_watch_model_create(&spec, bench.values, NULL, &copy, &error));
    struct oq_graph *graph = oq_test_graph(copy);
    size_t plain = 0, reduced = 0;
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        const char *type = oq_graph_node(graph, i)->proto->op_type;
        plain += strcmp(type, OQ_OBSERVE_TYPE) == 0;
        reduced += strcmp(type, OQ_OBSERVE_REDUCED_TYPE) == 0;
    }
    assert_int_equal(plain, 2);
    assert_int_equal(reduced, N_WATCHED - 2);
    oq_graph_destroy(graph);
    oq_model_destroy(copy);
    release(&bench);
}

static int open_runtime(void **state) {
    *state = oq_test_runtime(NULL, NULL);
    return *state != NULL ? 0 : 1;
}

static int close_runtime(void **state) {
    oq_runtime_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_the_observers),
        cmocka_unit_test(test_what_the_copy_holds),
    };
    return cmocka_run_group_tests(tests, open_runtime, close_runtime);
}
