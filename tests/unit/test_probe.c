/*
 * Which operators of a model are known to the runtime and the libraries, and the message about the
 * others.
 */
#include "model_builder.h"
#include "runtime/probe.h"
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

/* ---- Helpers ---- */

static struct oq_model *make_model(int64_t opset) {
    struct oq_model *model = oq_test_model_create(opset);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "X", FLOAT, "4");
    oq_test_add_node(model, graph, "Relu", "relu", "X", "Y");
    oq_test_add_output(model, graph, "Y", FLOAT, NULL);
    return model;
}

static void add(struct oq_model *model, const char *op, const char *name, const char *output) {
    oq_test_add_node(model, oq_test_main_graph(model), op, name, "X", output);
}

struct probed {
    struct oq_graph *graph;
    struct oq_probe_result *results;
    size_t n;
};

static struct probed probe(struct oq_runtime *runtime, const struct oq_model *model) {
    struct probed probed = {.graph = oq_test_graph(model)};
    if (oq_probe_operators(runtime, probed.graph, &probed.results, &probed.n, &error) !=
        ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return probed;
}

static void release(struct probed *probed) {
    free(probed->results);
    oq_graph_destroy(probed->graph);
}

static const struct oq_probe_result *result_of(const struct probed *probed, const char *op_name) {
    for (size_t i = 0; i < probed->n; i++) {
        if (strcmp(probed->results[i].op_name, op_name) == 0) {
            return &probed->results[i];
        }
    }
    return NULL;
}

static void expect(const struct probed *probed, const char *op_name, bool runnable, bool foreign) {
    const struct oq_probe_result *result = result_of(probed, op_name);
    if (result == NULL) {
        fail_msg("no result for '%s'", op_name);
    } else if (result->runnable != runnable || result->foreign != foreign) {
        fail_msg("'%s': runnable %d, foreign %d", op_name, (int)result->runnable,
                 (int)result->foreign);
    }
}

static enum onnxptq_status require_all(struct oq_runtime *runtime, const struct oq_model *model) {
    struct oq_graph *graph = oq_test_graph(model);
    memset(&error, 0, sizeof error);
    enum onnxptq_status status = oq_probe_require_all(runtime, graph, &error);
    oq_graph_destroy(graph);
    return status;
}

/* ---- Operators ---- */

static void test_known_and_unknown(void **state) {
    struct oq_model *model = make_model(17);
    add(model, "Sigmoid", NULL, "a");
    add(model, "Sigmoid", NULL, "b");
    add(model, "Foo", "foo", "c");
    add(model, "Gelu", "too new", "d"); /* from opset 20 on */
    add(model, "custom_domain::DummyOp", "dummy", "e");
    add(model, "custom_domain::Nothing", "nothing", "f");
    add(model, "nobody::Has", NULL, "g");
    add(model, "com.microsoft::Gelu", NULL, "h");
    add(model, "com.microsoft::Nothing", NULL, "i");
    struct probed probed = probe(*state, model);
    expect(&probed, "Relu", true, false);
    expect(&probed, "Sigmoid", true, false);
    expect(&probed, "Foo", false, false);
    expect(&probed, "Gelu", false, false);
    expect(&probed, "custom_domain::DummyOp", true, true);
    expect(&probed, "custom_domain::Nothing", false, true);
    expect(&probed, "nobody::Has", false, true);
    expect(&probed, "com.microsoft::Gelu", true, true);
    expect(&probed, "com.microsoft::Nothing", false, true);
    assert_int_equal(probed.n, 9);
    assert_int_equal(result_of(&probed, "custom_domain::DummyOp")->library, 0);
    assert_int_equal(result_of(&probed, "custom_domain::Nothing")->library, OQ_NO_LIBRARY);
    assert_int_equal(result_of(&probed, "com.microsoft::Gelu")->library, OQ_NO_LIBRARY);
    assert_int_equal(result_of(&probed, "Relu")->library, OQ_NO_LIBRARY);
    assert_int_equal(result_of(&probed, "Sigmoid")->count, 2);
    assert_string_equal(result_of(&probed, "Sigmoid")->first_node, "@a");
    assert_string_equal(result_of(&probed, "Foo")->first_node, "foo");
    release(&probed);
    oq_model_destroy(model);
}

/* The runtime runs operators of its own domains without an import. */
static void test_domain_without_import(void **state) {
    struct oq_model *model = make_model(17);
    add(model, "com.microsoft::Gelu", NULL, "a");
    add(model, "custom_domain::DummyOp", NULL, "b");
    add(model, "nobody::Has", NULL, "c");
    oq_model_proto(model)->n_opset_import = 1;
    struct probed probed = probe(*state, model);
    expect(&probed, "com.microsoft::Gelu", true, true);
    expect(&probed, "custom_domain::DummyOp", true, true);
    expect(&probed, "nobody::Has", false, true);
    release(&probed);
    oq_model_destroy(model);
}

static void test_without_inputs(void **state) {
    static const char *const ops[] = {"Constant", "RandomNormal", "SequenceEmpty", "Optional"};
    struct oq_model *model = make_model(17);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        oq_test_add_node(model, oq_test_main_graph(model), ops[i], NULL, "", ops[i]);
    }
    struct probed probed = probe(*state, model);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        expect(&probed, ops[i], true, false);
    }
    release(&probed);
    oq_model_destroy(model);
}

static void test_in_a_body(void **state) {
    struct oq_model *model = make_model(17);
    Onnx__NodeProto *node =
        oq_test_add_node(model, oq_test_main_graph(model), "If", "if", "X", "Z");
    static const char *const names[] = {"then_branch", "else_branch"};
    for (size_t i = 0; i < 2; i++) {
        Onnx__GraphProto *body = oq_test_add_body(model, node, names[i], names[i]);
        oq_test_add_node(model, body, "nobody::Has", i == 0 ? "inside" : "outside", "X", "inner");
        oq_test_add_output(model, body, "inner", FLOAT, NULL);
    }
    struct probed probed = probe(*state, model);
    expect(&probed, "If", true, false);
    expect(&probed, "nobody::Has", false, true);
    assert_int_equal(result_of(&probed, "nobody::Has")->count, 2);
    assert_string_equal(result_of(&probed, "nobody::Has")->first_node, "inside");
    release(&probed);
    oq_model_destroy(model);
}

/* ---- Local functions ---- */

/* my.fn::`name`(x) = `op`(x), with imports of its own. */
static Onnx__FunctionProto *make_function(struct oq_model *model, const char *name, const char *op,
                                          int64_t opset) {
    struct oq_arena *arena = oq_model_arena(model);
    const char *colons = strstr(op, "::");
    const char *domain = colons != NULL ? oq_arena_strndup(arena, op, (size_t)(colons - op)) : "";
    const char *type = colons != NULL ? colons + 2 : op;
    const char *const in[] = {"x"}, *const out[] = {"y"};
    Onnx__FunctionProto *function = oq_arena_alloc(arena, sizeof *function);
    Onnx__OperatorSetIdProto *imports = oq_arena_array(arena, 2, sizeof *imports);
    onnx__function_proto__init(function);
    function->name = oq_arena_strdup(arena, name);
    function->domain = oq_arena_strdup(arena, "my.fn");
    function->node = oq_arena_alloc(arena, sizeof *function->node);
    function->node[0] = oq_node_create(model, "in function", domain, type, in, 1, out, 1);
    function->n_node = 1;
    function->opset_import = oq_arena_array(arena, 2, sizeof *function->opset_import);
    function->n_opset_import = 2;
    for (size_t i = 0; i < 2; i++) {
        onnx__operator_set_id_proto__init(&imports[i]);
        imports[i].domain = oq_arena_strdup(arena, i == 0 ? "" : domain);
        imports[i].has_version = 1;
        imports[i].version = i == 0 ? opset : 1;
        function->opset_import[i] = &imports[i];
    }
    if (colons == NULL) {
        function->n_opset_import = 1;
    }
    return function;
}

static void test_local_functions(void **state) {
    struct oq_model *model = make_model(17);
    Onnx__ModelProto *proto = oq_model_proto(model);
    Onnx__FunctionProto *functions[] = {
        make_function(model, "Gelu20", "Gelu", 20),           /* its own opset has it */
        make_function(model, "Outer", "my.fn::Inner", 17),    /* calls another one */
        make_function(model, "Inner", "nobody::Has", 17),     /* lacks a library */
        make_function(model, "Unused", "nobody::Unused", 17), /* is not called */
        make_function(model, "Self", "my.fn::Self", 17),      /* never ends */
    };
    proto->functions = functions;
    proto->n_functions = 5;
    add(model, "my.fn::Gelu20", "f", "a");
    add(model, "my.fn::Outer", "g", "b");
    add(model, "my.fn::Self", "h", "c");
    struct probed probed = probe(*state, model);
    expect(&probed, "Relu", true, false);
    expect(&probed, "Gelu", true, false);
    expect(&probed, "nobody::Has", false, true);
    assert_string_equal(result_of(&probed, "nobody::Has")->first_node, "in function");
    assert_int_equal(probed.n, 3);
    release(&probed);
    oq_model_destroy(model);
}

/* ---- The message ---- */

static void test_nothing_missing(void **state) {
    struct oq_model *model = make_model(17);
    add(model, "custom_domain::DummyOp", "dummy", "a");
    assert_int_equal(require_all(*state, model), ONNXPTQ_OK);
    oq_model_destroy(model);
}

static void expect_in_message(const char *text) {
    if (strstr(error.message, text) == NULL) {
        fail_msg("'%s' lacks '%s'", error.message, text);
    }
}

static void test_message_lists_all(void **state) {
    struct oq_model *model = make_model(17);
    add(model, "custom_domain::DummyOp", "dummy", "a");
    add(model, "my.ops::One", "first one", "b");
    add(model, "my.ops::One", "second one", "c");
    add(model, "Foo", "foo", "d");
    assert_int_equal(require_all(*state, model), ONNXPTQ_ERROR_MISSING_OPERATOR);
    expect_in_message("my.ops::One (2 nodes, first 'first one')");
    expect_in_message("Foo (1 node, first 'foo')");
    expect_in_message("--custom-op-lib");
    expect_in_message("libdummy.so");
    assert_null(strstr(error.message, "DummyOp"));
    assert_null(strstr(error.message, "second one"));
    oq_model_destroy(model);
}

/* More missing operators than a message holds: the rest is counted. */
static void test_message_with_very_many(void **state) {
    struct oq_model *model = make_model(17);
    for (int i = 0; i < 300; i++) {
        const char *op = oq_arena_printf(oq_model_arena(model), "nobody::OperatorNumber%d", i);
        const char *name =
            oq_arena_printf(oq_model_arena(model), "a rather long name of node %d", i);
        add(model, op, name, name);
    }
    assert_int_equal(require_all(*state, model), ONNXPTQ_ERROR_MISSING_OPERATOR);
    expect_in_message("OperatorNumber0 (");
    expect_in_message(" more; ");
    expect_in_message("--custom-op-lib");
    oq_model_destroy(model);
}

static void test_hostile_names(void **state) {
    static const char *const ops[] = {
        "\xff\xfe::\xff", "a::b\nc%s%n",          "onnxptq.end::End",
        "a:: ",           "is not a::registered", "Conv\x01",
        "::Conv",         "ai.onnx::Nothing",     "No Op registered for::X"};
    struct oq_model *model = make_model(17);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        add(model, ops[i], "node\xff", oq_arena_printf(oq_model_arena(model), "y%zu", i));
    }
    char *very_long = malloc(100001);
    assert_non_null(very_long);
    memset(very_long, 'x', 100000);
    very_long[100000] = '\0';
    memcpy(very_long + 50, "::", 2);
    add(model, very_long, very_long, "z");
    free(very_long);
    struct probed probed = probe(*state, model);
    expect(&probed, "\xff\xfe::\xff", false, true);
    expect(&probed, "a::b\nc%s%n", false, true);
    expect(&probed, "Relu", true, false);
    release(&probed);
    assert_int_equal(require_all(*state, model), ONNXPTQ_ERROR_MISSING_OPERATOR);
    oq_model_destroy(model);
}

static int open_runtime(void **state) {
    *state = oq_test_runtime(OQ_TEST_OPS "libdummy.so", NULL);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_and_unknown), cmocka_unit_test(test_domain_without_import),
        cmocka_unit_test(test_without_inputs),    cmocka_unit_test(test_in_a_body),
        cmocka_unit_test(test_local_functions),   cmocka_unit_test(test_nothing_missing),
        cmocka_unit_test(test_message_lists_all), cmocka_unit_test(test_message_with_very_many),
        cmocka_unit_test(test_hostile_names),
    };
    return cmocka_run_group_tests(tests, open_runtime, oq_test_teardown_runtime);
}
