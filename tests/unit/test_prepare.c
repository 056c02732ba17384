/*
 * The prepare stage on models made in memory, without a runtime: what is a constant, which
 * functions hold what, where nodes come from. What prepared models compute is checked by
 * tests/test_prepare.py.
 */
#include "model/write.h"
#include "model_builder.h"
#include "prepare/constant_find.h"
#include "prepare/functions.h"
#include "prepare/prepare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

#define FLOAT ONNXPTQ_TYPE_FLOAT

static struct onnxptq_error error;

static void ok(enum onnxptq_status status) {
    if (status != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
}

/* ---- Making functions ----------------------------------------------------------------------- */

static char *text(struct oq_model *model, const char *from) {
    char *copy = oq_arena_strdup(oq_model_arena(model), from);
    assert_non_null(copy);
    return copy;
}

/* f::NAME(x, w) -> y, without nodes. */
static Onnx__FunctionProto *add_function(struct oq_model *model, const char *name) {
    struct oq_arena *arena = oq_model_arena(model);
    Onnx__ModelProto *proto = oq_model_proto(model);
    Onnx__FunctionProto *function = oq_arena_alloc(arena, sizeof *function);
    Onnx__FunctionProto **grown = oq_arena_array(arena, proto->n_functions + 1, sizeof(void *));
    assert_non_null(function);
    assert_non_null(grown);
    onnx__function_proto__init(function);
    function->domain = text(model, "f");
    function->name = text(model, name);
    function->input = oq_arena_array(arena, 2, sizeof(char *));
    function->output = oq_arena_array(arena, 1, sizeof(char *));
    function->input[0] = text(model, "x");
    function->input[1] = text(model, "w");
    function->n_input = 2;
    function->output[0] = text(model, "y");
    function->n_output = 1;
    function->opset_import = oq_model_proto(model)->opset_import;
    function->n_opset_import = 1;
    for (size_t i = 0; i < proto->n_functions; i++) {
        grown[i] = proto->functions[i];
    }
    grown[proto->n_functions++] = function;
    proto->functions = grown;
    return function;
}

/* Adds a node to a function by way of a graph that nothing refers to. */
static void add_body_node(struct oq_model *model, Onnx__FunctionProto *function, const char *op,
                          const char *inputs, const char *outputs) {
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    graph.node = function->node;
    graph.n_node = function->n_node;
    oq_test_add_node(model, &graph, op, "n", inputs, outputs);
    function->node = graph.node;
    function->n_node = graph.n_node;
}

/* ---- Functions ------------------------------------------------------------------------------ */

static void test_what_functions_hold(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    add_body_node(model, add_function(model, "Outer"), "f::Inner", "x,w", "y");
    Onnx__FunctionProto *inner = add_function(model, "Inner");
    add_body_node(model, inner, "Relu", "x", "t");
    add_body_node(model, inner, "MatMul", "t,w", "y");
    add_body_node(model, add_function(model, "Act"), "Relu", "x", "y");
    add_body_node(model, add_function(model, "Noise"), "RandomNormalLike", "x", "y");
    add_body_node(model, add_function(model, "Foreign"), "their::MatMul", "x,w", "y");
    add_body_node(model, add_function(model, "Twice"), "f::Foreign", "x,w", "y");
    struct oq_functions functions;
    ok(oq_functions_init(&functions, model, &error));
    const struct {
        bool weighted, pure;
        unsigned height;
    } wanted[] = {{true, true, 1},   {true, true, 0},   {false, true, 0},
                  {false, false, 0}, {false, false, 0}, {false, false, 1}};
    assert_int_equal(functions.n, 6);
    for (size_t i = 0; i < functions.n; i++) {
        assert_int_equal(functions.items[i].weighted, wanted[i].weighted);
        assert_int_equal(functions.items[i].pure, wanted[i].pure);
        assert_int_equal(functions.items[i].height, wanted[i].height);
    }
    oq_functions_reset(&functions);
    oq_model_destroy(model);
}

static void test_functions_in_a_circle(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    add_body_node(model, add_function(model, "A"), "f::B", "x,w", "y");
    add_body_node(model, add_function(model, "B"), "f::A", "x,w", "y");
    struct oq_functions functions;
    assert_int_equal(oq_functions_init(&functions, model, &error), ONNXPTQ_ERROR_MODEL);
    assert_non_null(strstr(error.message, "calls itself"));
    oq_model_destroy(model);
}

/* From either end: a callee may be known, with all that lies below it, before its caller is looked
 * at. */
static void test_chains_of_functions_are_bounded(void **state) {
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct oq_model *model = oq_test_model_create(17);
        for (int i = 0; i < 200; i++) {
            char name[16], callee[24];
            const int k = backwards ? 199 - i : i;
            snprintf(name, sizeof name, "F%d", k);
            snprintf(callee, sizeof callee, "f::F%d", k + 1);
            add_body_node(model, add_function(model, name), callee, "x,w", "y");
        }
        struct oq_functions functions;
        assert_int_equal(oq_functions_init(&functions, model, &error), ONNXPTQ_ERROR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "deep"));
        oq_model_destroy(model);
    }
}

/* ---- Constants ------------------------------------------------------------------------------ */

static void test_what_is_constant(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "X", FLOAT, "4");
    oq_test_add_output(model, graph, "Y", FLOAT, "4");
    oq_test_add_floats(model, graph, "w", "4", NULL);
    oq_test_add_constant(model, graph, "k", "4", (const float[]){1, 2, 3, 4});
    oq_test_add_node(model, graph, "Neg", "neg", "w", "a");
    oq_test_add_node(model, graph, "Add", "sum", "a,k", "b");
    oq_test_add_node(model, graph, "their::Op", "foreign", "b", "c");
    oq_test_add_node(model, graph, "Neg", "behind", "c", "d");
    oq_test_add_node(model, graph, "QuantizeLinear", "q", "w,b", "e");
    oq_test_add_node(model, graph, "RandomNormalLike", "random", "w", "g");
    oq_test_add_node(model, graph, "Dropout", "off", "w,,", "h");
    oq_test_add_node(model, graph, "Dropout", "training", "w,k,k", "i");
    oq_test_add_node(model, graph, "Mul", "mixed", "X,w", "Y");
    const struct oq_prepare_spec spec = {0};
    struct oq_preparation preparation = {.spec = &spec, .model = model};
    ok(oq_preparation_index(&preparation, &error));
    bool *nodes = NULL;
    ok(oq_constant_find_nodes(&preparation, &nodes, &error));
    const struct {
        const char *name;
        bool constant;
    } wanted[] = {{"k", true},         {"neg", true},   {"sum", true},     {"foreign", false},
                  {"behind", false},   {"q", false},    {"random", false}, {"off", true},
                  {"training", false}, {"mixed", false}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const bool got = nodes[oq_test_node(preparation.graph, wanted[i].name)];
        if (got != wanted[i].constant) {
            fail_msg("%s", wanted[i].name);
        }
    }
    const struct oq_graph *index = preparation.graph;
    assert_true(oq_constant_find_value(index, nodes, oq_test_value(index, "w")));
    assert_true(oq_constant_find_value(index, nodes, oq_test_value(index, "b")));
    assert_false(oq_constant_find_value(index, nodes, oq_test_value(index, "X")));
    assert_false(oq_constant_find_value(index, nodes, oq_test_value(index, "d")));
    free(nodes);
    oq_graph_destroy(preparation.graph);
    oq_model_destroy(model);
}

/* ---- The whole stage ------------------------------------------------------------------------ */

/* X -> f::Linear -> Relu -> Y, the function being a MatMul. */
static struct oq_model *make_linear(void) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    add_body_node(model, add_function(model, "Linear"), "MatMul", "x,w", "y");
    oq_test_add_input(model, graph, "X", FLOAT, "4,4");
    oq_test_add_output(model, graph, "Y", FLOAT, "4,4");
    oq_test_add_floats(model, graph, "w", "4,4", NULL);
    oq_test_add_node(model, graph, "f::Linear", "fc", "X,w", "t");
    oq_test_add_node(model, graph, "Relu", "relu", "t", "Y");
    return model;
}

static void count_note(void *user, const char *note) {
    assert_non_null(strstr(note, "f::Linear"));
    ++*(int *)user;
}

static void test_the_original_is_left_alone(void **state) {
    (void)state;
    struct oq_model *model = make_linear(), *prepared = NULL;
    struct oq_graph *graph = oq_test_graph(model);
    const size_t size = onnx__model_proto__get_packed_size(oq_model_proto(model));
    uint8_t *before = malloc(size), *after = malloc(size);
    int n_notes = 0;
    assert_non_null(before);
    assert_non_null(after);
    onnx__model_proto__pack(oq_model_proto(model), before);
    const struct oq_prepare_spec spec = {
        .graph = graph, .beside_path = "unused", .note = count_note, .note_user = &n_notes};
    ok(oq_prepare(&spec, &prepared, &error));
    assert_int_equal(onnx__model_proto__get_packed_size(oq_model_proto(model)), size);
    onnx__model_proto__pack(oq_model_proto(model), after);
    assert_memory_equal(before, after, size);
    assert_int_equal(n_notes, 1);
    oq_graph_destroy(graph);
    oq_model_destroy(model); /* the result does not need it */
    graph = oq_test_graph(prepared);
    const struct oq_node *node = oq_graph_node(graph, oq_test_node(graph, "fc/n"));
    assert_string_equal(node->op_name, "MatMul");
    assert_int_equal(node->origin, 0);
    assert_int_equal(oq_graph_node(graph, oq_test_node(graph, "relu"))->origin, 1);
    assert_int_equal(oq_model_proto(prepared)->n_functions, 0);
    oq_graph_destroy(graph);
    oq_model_destroy(prepared);
    free(before);
    free(after);
}

static void test_an_excluded_call_stays(void **state) {
    (void)state;
    struct oq_model *model = make_linear(), *prepared = NULL;
    struct oq_graph *graph = oq_test_graph(model);
    const bool excluded[] = {true, false};
    const struct oq_prepare_spec spec = {
        .graph = graph, .beside_path = "unused", .excluded = excluded};
    ok(oq_prepare(&spec, &prepared, &error));
    struct oq_graph *result = oq_test_graph(prepared);
    assert_true(oq_graph_node(result, oq_test_node(result, "fc"))->local_function);
    assert_int_equal(oq_model_proto(prepared)->n_functions, 1);
    oq_graph_destroy(result);
    oq_graph_destroy(graph);
    oq_model_destroy(prepared);
    oq_model_destroy(model);
}

/* Kept by clones, not written to files, not known of nodes that were never marked. */
static void test_origins(void **state) {
    (void)state;
    char path[] = "/tmp/onnxptq-origin-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    struct oq_model *model = make_linear(), *clone = NULL, *read = NULL;
    struct oq_graph *graph = oq_test_graph(model);
    assert_int_equal(oq_graph_node(graph, 0)->origin, OQ_NONE);
    ok(oq_prepare_mark_origins(model, graph, &error));
    ok(oq_model_clone(model, &clone, &error));
    struct oq_graph *marked = oq_test_graph(clone);
    for (uint32_t i = 0; i < oq_graph_n_nodes(marked); i++) {
        assert_int_equal(oq_graph_node(marked, i)->origin, i);
    }
    struct oq_writer *writer = NULL;
    ok(oq_writer_create(path, &writer, &error));
    ok(oq_model_write(clone, writer, &error));
    ok(oq_writer_finish(writer, &error));
    ok(oq_writer_commit(writer, &error));
    oq_writer_destroy(writer);
    ok(oq_model_read(path, &read, &error));
    for (size_t i = 0; i < oq_test_main_graph(read)->n_node; i++) {
        assert_false(oq_test_main_graph(read)->node[i]->has_origin);
    }
    unlink(path);
    oq_graph_destroy(marked);
    oq_graph_destroy(graph);
    oq_model_destroy(read);
    oq_model_destroy(clone);
    oq_model_destroy(model);
}

static void test_a_marked_file_is_refused(void **state) {
    (void)state;
    struct oq_model *model = make_linear(), *read = NULL;
    struct oq_graph *graph = oq_test_graph(model);
    ok(oq_prepare_mark_origins(model, graph, &error));
    const size_t size = onnx__model_proto__get_packed_size(oq_model_proto(model));
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    onnx__model_proto__pack(oq_model_proto(model), bytes);
    assert_int_equal(oq_model_read_memory(bytes, size, NULL, &read, &error), ONNXPTQ_ERROR_MODEL);
    assert_non_null(strstr(error.message, "reserved"));
    free(bytes);
    oq_graph_destroy(graph);
    oq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_functions_hold),
        cmocka_unit_test(test_functions_in_a_circle),
        cmocka_unit_test(test_chains_of_functions_are_bounded),
        cmocka_unit_test(test_what_is_constant),
        cmocka_unit_test(test_the_original_is_left_alone),
        cmocka_unit_test(test_an_excluded_call_stays),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_a_marked_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
