/*
 * Watching tensors while a model runs: which, where, over several samples, and what happens when it
 * fails.
 */
#include "calib/watch.h"
#include "calib/watch_model.h"
#include "model_builder.h"
#include "runtime_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

#define FLOAT ONNXPTQ_TYPE_FLOAT
#define N_SAMPLES 5
#define WIDTH 4
#define MAX_WATCH 16

static struct onnxptq_error error;

/* ---- One bench: a model, its data, what is watched ---- */

/* Sample i of input X[1,4] is {i, -i, 10 i, -10 i}. */
struct bench {
    struct oq_runtime *runtime;
    struct oq_model *model;
    struct oq_graph *graph;
    struct oq_weight_file *weights;
    struct oq_data_source *source;
    struct oq_data_runs runs;
    float row[WIDTH];
    size_t reads, progress, cancel_after;
    struct oq_log log;
    uint32_t values[MAX_WATCH];
    size_t n_values;
    struct oq_statistics seen[MAX_WATCH];
};

static enum onnxptq_status read_sample(void *user, size_t index, struct onnxptq_tensor *inputs,
                                       size_t n, struct onnxptq_error *unused) {
    struct bench *bench = user;
    (void)unused;
    assert_int_equal(n, 1);
    bench->reads++;
    const float i = (float)index;
    const float row[WIDTH] = {i, -i, 10 * i, -10 * i};
    memcpy(bench->row, row, sizeof row);
    inputs[0].type = FLOAT;
    inputs[0].rank = 2;
    inputs[0].shape[0] = 1;
    inputs[0].shape[1] = WIDTH;
    inputs[0].data = bench->row;
    inputs[0].size = sizeof bench->row;
    return ONNXPTQ_OK;
}

static bool count_progress(void *user, const char *stage, size_t done, size_t total) {
    struct bench *bench = user;
    assert_string_equal(stage, "calibrate");
    assert_true(done <= total);
    bench->progress++;
    return bench->cancel_after == 0 || bench->progress < bench->cancel_after;
}

/* X[1,4] is there; the test adds the rest, then calls start(). */
static void make_bench(struct bench *bench, struct oq_runtime *runtime) {
    *bench = (struct bench){.runtime = runtime, .model = oq_test_model_create(17)};
    oq_test_add_input(bench->model, oq_test_main_graph(bench->model), "X", FLOAT, "1,4");
}

static Onnx__GraphProto *main_graph(struct bench *bench) {
    return oq_test_main_graph(bench->model);
}

static void add(struct bench *bench, const char *op, const char *inputs, const char *outputs) {
    oq_test_add_node(bench->model, main_graph(bench), op, NULL, inputs, outputs);
}

static void start(struct bench *bench) {
    static const struct onnxptq_tensor input = {
        .name = "X", .type = FLOAT, .rank = 2, .shape = {1, WIDTH}};
    bench->model = oq_test_model_reload(bench->model);
    bench->graph = oq_test_graph(bench->model);
    const struct onnxptq_data_source callback = {
        .user = bench, .n_samples = N_SAMPLES, .read = read_sample};
    const struct onnxptq_quantize_options options = {
        .struct_size = sizeof options, .data = &callback, .batch = 1};
    const struct oq_data_spec spec = {.options = &options, .inputs = &input, .n_inputs = 1};
    char beside[64];
    (void)snprintf(beside, sizeof beside, "/tmp/onnxptq-test-watch-%p.onnx", (void *)bench);
    bench->log = (struct oq_log){.progress = count_progress, .progress_user = bench};
    if (oq_weight_file_create(beside, &bench->weights, &error) != ONNXPTQ_OK ||
        oq_data_open(&spec, &bench->source, &error) != ONNXPTQ_OK ||
        oq_data_runs(bench->source, OQ_DATA_CALIBRATE, &bench->runs, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
}

static void watch_name(struct bench *bench, const char *name) {
    if (bench->n_values >= MAX_WATCH) {
        abort();
    }
    bench->values[bench->n_values++] = oq_test_value(bench->graph, name);
}

static enum onnxptq_status run(struct bench *bench, size_t max_runs) {
    const struct oq_watch_spec spec = {.runtime = bench->runtime,
                                       .graph = bench->graph,
                                       .weights = bench->weights,
                                       .source = bench->source,
                                       .runs = &bench->runs,
                                       .max_runs = max_runs,
                                       .values = bench->values,
                                       .n_values = bench->n_values,
                                       .stage = "calibrate",
                                       .log = &bench->log};
    memset(&error, 0, sizeof error);
    return oq_watch(&spec, bench->seen, &error);
}

static void run_well(struct bench *bench) {
    if (run(bench, 0) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
}

static void expect(const struct bench *bench, size_t index, uint64_t seen, double min, double max) {
    const struct oq_statistics *s = &bench->seen[index];
    if (s->seen != seen || s->min != min || s->max != max) {
        fail_msg("value %zu: seen %zu times, [%g, %g]", index, (size_t)s->seen, s->min, s->max);
    }
}

static void release(struct bench *bench) {
    oq_data_runs_reset(&bench->runs);
    oq_data_close(bench->source);
    oq_weight_file_destroy(bench->weights);
    oq_graph_destroy(bench->graph);
    oq_model_destroy(bench->model);
}

/* ---- Main graph ---- */

static void test_ranges_over_samples(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    add(&bench, "Relu", "X", "r");
    add(&bench, "Neg", "r", "Y");
    oq_test_add_output(bench.model, main_graph(&bench), "Y", FLOAT, "1,4");
    start(&bench);
    watch_name(&bench, "Y");
    watch_name(&bench, "X");
    watch_name(&bench, "r");
    run_well(&bench);
    expect(&bench, 0, N_SAMPLES, -40, 0);
    expect(&bench, 1, N_SAMPLES, -40, 40);
    expect(&bench, 2, N_SAMPLES, 0, 40);
    assert_int_equal(bench.seen[2].n_finite, N_SAMPLES * WIDTH);
    assert_int_equal(bench.seen[2].rank, 2);
    assert_int_equal(bench.seen[2].shape[1], WIDTH);
    assert_int_equal(bench.progress, N_SAMPLES);
    release(&bench);
}

static void test_max_runs(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    add(&bench, "Relu", "X", "Y");
    oq_test_add_output(bench.model, main_graph(&bench), "Y", FLOAT, "1,4");
    start(&bench);
    watch_name(&bench, "Y");
    assert_int_equal(run(&bench, 2), ONNXPTQ_OK);
    expect(&bench, 0, 2, 0, 10);
    bench.n_values = 0;
    assert_int_equal(run(&bench, 0), ONNXPTQ_OK);
    release(&bench);
}

/* Weights large enough to lie in the file beside the model, with a weight among the watched values.
 */
static void test_weights_from_the_file(void **state) {
    struct bench bench;
    float weight[WIDTH * 64];
    for (size_t i = 0; i < WIDTH * 64; i++) {
        weight[i] = i % 64 == 63 ? 2.0F : -1.0F;
    }
    make_bench(&bench, *state);
    oq_test_add_floats(bench.model, main_graph(&bench), "w", "4,64", weight);
    add(&bench, "Abs", "X", "a");
    add(&bench, "MatMul", "a,w", "Y");
    oq_test_add_output(bench.model, main_graph(&bench), "Y", FLOAT, "1,64");
    start(&bench);
    watch_name(&bench, "Y");
    watch_name(&bench, "w");
    run_well(&bench);
    expect(&bench, 0, N_SAMPLES, -88, 176);
    expect(&bench, 1, N_SAMPLES, -1, 2);
    release(&bench);
}

static void test_behind_a_custom_operator(void **state) {
    struct bench bench;
    (void)state;
    struct oq_runtime *runtime = oq_test_runtime(OQ_TEST_OPS "libdummy.so", NULL);
    make_bench(&bench, runtime);
    add(&bench, "custom_domain::DummyOp", "X", "d");
    add(&bench, "Relu", "d", "Y");
    oq_test_add_output(bench.model, main_graph(&bench), "Y", FLOAT, "1,4");
    start(&bench);
    watch_name(&bench, "d");
    run_well(&bench);
    const float top = 20.0F + 40.0F / 41.0F;
    expect(&bench, 0, N_SAMPLES, -(double)top, (double)top);
    release(&bench);
    oq_runtime_close(runtime);
}

/* ---- Values that are no dense numbers ---- */

/* A sequence that only the runtime can tell (through If), one that the node's type tells, a string.
 */
static void test_values_without_numbers(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    struct oq_model *model = bench.model;
    Onnx__GraphProto *graph = main_graph(&bench);
    add(&bench, "SequenceConstruct", "X,X", "sequence");
    add(&bench, "Identity", "sequence", "same");
    add(&bench, "Identity", "same", "again");
    add(&bench, "SequenceLength", "again", "length");
    add(&bench, "Optional", "X", "optional");
    add(&bench, "Identity", "optional", "still");
    add(&bench, "OptionalGetElement", "still", "tensor");
    Onnx__NodeProto *cast = oq_test_add_node(model, graph, "Cast", NULL, "X", "text");
    assert_true(oq_node_set_int(model, cast, "to", ONNXPTQ_TYPE_STRING));
    oq_test_add_output(model, graph, "length", ONNXPTQ_TYPE_INT64, NULL);
    oq_test_add_output(model, graph, "tensor", FLOAT, NULL);
    oq_test_add_output(model, graph, "text", ONNXPTQ_TYPE_STRING, NULL);
    start(&bench);
    static const char *const names[] = {"sequence", "same",   "again", "optional", "still",
                                        "length",   "tensor", "text",  "X"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        watch_name(&bench, names[i]);
    }
    run_well(&bench);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(bench.seen[i].seen, 0);
    }
    expect(&bench, 5, N_SAMPLES, 2, 2);
    assert_int_equal(bench.seen[5].type, ONNXPTQ_TYPE_INT64);
    expect(&bench, 6, N_SAMPLES, -40, 40);
    assert_int_equal(bench.seen[7].seen, N_SAMPLES);
    assert_int_equal(bench.seen[7].type, ONNXPTQ_TYPE_STRING);
    assert_int_equal(bench.seen[7].n_finite, 0);
    expect(&bench, 8, N_SAMPLES, -40, 40);
    release(&bench);
}

/* ---- Bodies ---- */

static void add_output(struct bench *bench, Onnx__GraphProto *graph, const char *name, int type) {
    oq_test_add_output(bench->model, graph, name, type, NULL);
}

/* If(sum(X) > 0) { then: X + X } else { X - X }, where the condition is false for every sample:
 * only `minus` is made, and the captured X counts once a run. */
static void test_in_a_branch(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    const float zero = 0;
    oq_test_add_floats(bench.model, main_graph(&bench), "zero", "", &zero);
    add(&bench, "ReduceSum", "X", "sum");
    add(&bench, "Squeeze", "sum", "scalar");
    add(&bench, "Greater", "scalar,zero", "condition");
    Onnx__NodeProto *node =
        oq_test_add_node(bench.model, main_graph(&bench), "If", "if", "condition", "Y");
    Onnx__GraphProto *then = oq_test_add_body(bench.model, node, "then_branch", "then");
    oq_test_add_node(bench.model, then, "Add", NULL, "X,X", "plus");
    add_output(&bench, then, "plus", FLOAT);
    Onnx__GraphProto *otherwise = oq_test_add_body(bench.model, node, "else_branch", "else");
    oq_test_add_node(bench.model, otherwise, "Mul", NULL, "X,X", "square");
    oq_test_add_node(bench.model, otherwise, "Neg", NULL, "square", "minus");
    add_output(&bench, otherwise, "minus", FLOAT);
    add_output(&bench, main_graph(&bench), "Y", FLOAT);
    start(&bench);
    watch_name(&bench, "plus");
    watch_name(&bench, "square");
    watch_name(&bench, "minus");
    watch_name(&bench, "X");
    run_well(&bench);
    assert_int_equal(bench.seen[0].seen, 0);
    expect(&bench, 1, N_SAMPLES, 0, 1600);
    expect(&bench, 2, N_SAMPLES, -1600, 0);
    expect(&bench, 3, N_SAMPLES, -40, 40);
    release(&bench);
}

/* Loop(3) { carried = carried + X }: its values are made three times a run. */
static void test_in_a_loop(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    struct oq_model *model = bench.model;
    Onnx__GraphProto *graph = main_graph(&bench);
    const int64_t three = 3;
    Onnx__TensorProto *trips =
        oq_tensor_create(model, "trips", ONNXPTQ_TYPE_INT64, NULL, 0, &three, sizeof three);
    assert_non_null(trips);
    assert_true(oq_graph_add_initializer(model, graph, trips));
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "Loop", "loop", "trips,,X", "Y");
    Onnx__GraphProto *body = oq_test_add_body(model, node, "body", "body");
    oq_test_add_input(model, body, "index", ONNXPTQ_TYPE_INT64, "");
    oq_test_add_input(model, body, "go_on", ONNXPTQ_TYPE_BOOL, "");
    oq_test_add_input(model, body, "carried", FLOAT, NULL);
    oq_test_add_node(model, body, "Identity", NULL, "go_on", "next_go_on");
    oq_test_add_node(model, body, "Add", NULL, "carried,X", "next");
    add_output(&bench, body, "next_go_on", ONNXPTQ_TYPE_BOOL);
    add_output(&bench, body, "next", FLOAT);
    add_output(&bench, graph, "Y", FLOAT);
    start(&bench);
    watch_name(&bench, "carried");
    watch_name(&bench, "next");
    watch_name(&bench, "index");
    watch_name(&bench, "Y");
    run_well(&bench);
    expect(&bench, 0, 3 * N_SAMPLES, -120, 120);
    expect(&bench, 1, 3 * N_SAMPLES, -160, 160);
    expect(&bench, 2, 3 * N_SAMPLES, 0, 2);
    expect(&bench, 3, N_SAMPLES, -160, 160);
    release(&bench);
}

/* ---- The watched copy ---- */

static void test_observers_stand_in_reverse_order(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    add(&bench, "Relu", "X", "a");
    add(&bench, "Neg", "a", "b");
    add(&bench, "Abs", "b", "Y");
    oq_test_add_output(bench.model, main_graph(&bench), "Y", FLOAT, "1,4");
    start(&bench);
    static const char *const names[] = {"b", "X", "Y", "a"}, *const expected[] = {"Y", "b", "a",
                                                                                  "X"};
    for (size_t i = 0; i < 4; i++) {
        watch_name(&bench, names[i]);
    }
    const struct oq_watch_spec spec = {
        .runtime = bench.runtime,
        .graph = bench.graph,
        .values = bench.values,
        .n_values = bench.n_values,
    };
    struct oq_model *copy = NULL;
    assert_int_equal(oq_watch_model_create(&spec, bench.values, NULL, &copy, &error), ONNXPTQ_OK);
    const Onnx__GraphProto *graph = oq_test_main_graph(copy);
    assert_int_equal(graph->n_node, 8);
    assert_string_equal(graph->node[3]->op_type, OQ_MARK_TYPE); /* on the output (marks.h) */
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(graph->node[4 + i]->op_type, OQ_OBSERVE_TYPE);
        assert_string_equal(graph->node[4 + i]->input[0], expected[i]);
    }
    assert_int_equal(oq_test_main_graph(bench.model)->n_node, 3); /* the original is as it was */
    oq_model_destroy(copy);
    release(&bench);
}

/* ---- Failures ---- */

/* Gather of row X[0] fails from sample 2 on, where the index is out of bounds. */
static void test_failure_names_the_sample(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    const float table[2] = {5, 6};
    oq_test_add_floats(bench.model, main_graph(&bench), "table", "2", table);
    add(&bench, "Abs", "X", "absolute");
    Onnx__NodeProto *cast =
        oq_test_add_node(bench.model, main_graph(&bench), "Cast", NULL, "absolute", "index");
    assert_true(oq_node_set_int(bench.model, cast, "to", ONNXPTQ_TYPE_INT64));
    add(&bench, "Gather", "table,index", "Y");
    oq_test_add_output(bench.model, main_graph(&bench), "Y", FLOAT, NULL);
    start(&bench);
    watch_name(&bench, "Y");
    bench.seen[0].seen = 77;
    assert_int_equal(run(&bench, 0), ONNXPTQ_ERROR_RUNTIME);
    assert_non_null(strstr(error.message, "cannot calibrate with sample 1: "));
    assert_int_equal(bench.seen[0].seen, 0); /* nothing is in it */
    assert_int_equal(bench.reads, 2);
    release(&bench);
}

static void test_progress_can_stop(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    add(&bench, "Relu", "X", "Y");
    oq_test_add_output(bench.model, main_graph(&bench), "Y", FLOAT, "1,4");
    start(&bench);
    watch_name(&bench, "Y");
    bench.cancel_after = 2;
    assert_int_equal(run(&bench, 0), ONNXPTQ_ERROR_CANCELLED);
    assert_int_equal(bench.reads, 2);
    release(&bench);
}

static void test_model_that_does_not_load(void **state) {
    struct bench bench;
    make_bench(&bench, *state);
    add(&bench, "nobody::Has", "X", "Y");
    oq_test_add_output(bench.model, main_graph(&bench), "Y", FLOAT, "1,4");
    start(&bench);
    watch_name(&bench, "Y");
    assert_int_equal(run(&bench, 0), ONNXPTQ_ERROR_RUNTIME);
    assert_non_null(strstr(error.message, "calibrate"));
    release(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_over_samples),
        cmocka_unit_test(test_max_runs),
        cmocka_unit_test(test_weights_from_the_file),
        cmocka_unit_test(test_behind_a_custom_operator),
        cmocka_unit_test(test_values_without_numbers),
        cmocka_unit_test(test_in_a_branch),
        cmocka_unit_test(test_in_a_loop),
        cmocka_unit_test(test_observers_stand_in_reverse_order),
        cmocka_unit_test(test_failure_names_the_sample),
        cmocka_unit_test(test_progress_can_stop),
        cmocka_unit_test(test_model_that_does_not_load),
    };
    return cmocka_run_group_tests(tests, oq_test_setup_runtime, oq_test_teardown_runtime);
}
