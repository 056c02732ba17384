/*
 * The graph index: scopes, values, uses, order, constants, and what it refuses.
 */
#include "model/graph.h"
#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static void assert_refused(struct oq_model *model, const char *const *parts, size_t n) {
    struct oq_graph *graph = NULL;
    struct onnxptq_error error = {ONNXPTQ_OK, ""};
    assert_int_equal(oq_graph_build(model, &graph, &error), ONNXPTQ_ERROR_MODEL);
    assert_null(graph);
    for (size_t i = 0; i < n; i++) {
        if (strstr(error.message, parts[i]) == NULL) {
            fail_msg("'%s' does not hold '%s'", error.message, parts[i]);
        }
    }
    oq_model_destroy(model);
}
#define ASSERT_REFUSED(model, ...)                                                                 \
    assert_refused(model, (const char *const[]){__VA_ARGS__},                                      \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static const struct oq_value *value_named(const struct oq_graph *graph, const char *name) {
    return oq_graph_value(graph, oq_test_value(graph, name));
}

static void assert_uses(const struct oq_graph *graph, const char *value, const char *expected) {
    char text[256] = "";
    const struct oq_value *found = value_named(graph, value);
    for (uint32_t i = 0; i < found->n_uses; i++) {
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%s:%u", i > 0 ? " " : "",
                 oq_graph_node(graph, found->uses[i].node)->name, found->uses[i].input);
    }
    assert_string_equal(text, expected);
}

static void assert_order(const struct oq_graph *graph, const char *expected) {
    char text[512] = "";
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? " " : "",
                 oq_graph_node(graph, i)->name);
    }
    assert_string_equal(text, expected);
}

static void test_simple(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *main = oq_test_main_graph(model);
    oq_test_add_input(model, main, "x", ONNXPTQ_TYPE_FLOAT, "1,3,8,8");
    oq_test_add_floats(model, main, "w", "4,3,1,1", NULL);
    oq_test_add_node(model, main, "Conv", "conv", "x,w", "c");
    oq_test_add_node(model, main, "my.domain::Dummy", NULL, "c,,c", ",d");
    oq_test_add_node(model, main, "NotInOnnx", "strange", "d", "y");
    oq_test_add_output(model, main, "y", ONNXPTQ_TYPE_FLOAT, NULL);
    struct oq_graph *graph = oq_test_graph(model);
    assert_ptr_equal(oq_graph_model(graph), model);
    assert_int_equal(oq_graph_n_scopes(graph), 1);
    assert_int_equal(oq_graph_scope(graph, 0)->parent, OQ_NONE);
    assert_int_equal(oq_graph_scope(graph, 0)->owner_node, OQ_NONE);
    assert_int_equal(oq_graph_n_nodes(graph), 3);
    assert_int_equal(oq_graph_n_values(graph), 5);

    const struct oq_node *conv = oq_graph_node(graph, oq_test_node(graph, "conv"));
    assert_string_equal(conv->op_name, "Conv");
    assert_non_null(conv->op);
    assert_false(conv->foreign);
    assert_int_equal(conv->inputs[1], oq_test_value(graph, "w"));
    const struct oq_node *dummy = oq_graph_node(graph, oq_test_node(graph, "@d"));
    assert_string_equal(dummy->op_name, "my.domain::Dummy");
    assert_true(dummy->foreign);
    assert_null(dummy->op);
    assert_int_equal(dummy->inputs[1], OQ_NONE);
    assert_int_equal(dummy->outputs[0], OQ_NONE);
    const struct oq_node *strange = oq_graph_node(graph, oq_test_node(graph, "strange"));
    assert_false(strange->foreign);
    assert_null(strange->op);

    assert_true(value_named(graph, "x")->is_input);
    assert_true(value_named(graph, "y")->is_output);
    assert_ptr_equal(value_named(graph, "w")->initializer, main->initializer[0]);
    assert_int_equal(value_named(graph, "d")->producer_output, 1);
    assert_int_equal(value_named(graph, "w")->producer, OQ_NONE);
    assert_uses(graph, "c", "@d:0 @d:2");
    assert_uses(graph, "y", "");
    assert_int_equal(oq_graph_find_value(graph, 0, "none"), OQ_NONE);
    oq_graph_destroy(graph);
    oq_graph_destroy(NULL);
    oq_model_destroy(model);
}

static void test_initializer_as_input_and_output(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(9);
    Onnx__GraphProto *main = oq_test_main_graph(model);
    oq_test_add_input(model, main, "w", ONNXPTQ_TYPE_FLOAT, "4");
    oq_test_add_floats(model, main, "w", "4", NULL);
    oq_test_add_output(model, main, "w", ONNXPTQ_TYPE_FLOAT, "4");
    struct oq_graph *graph = oq_test_graph(model);
    const struct oq_value *value = value_named(graph, "w");
    assert_true(value->is_input && value->is_output && value->initializer != NULL);
    assert_ptr_equal(oq_graph_constant(graph, oq_test_value(graph, "w")), value->initializer);
    oq_graph_destroy(graph);
    oq_model_destroy(model);
}

/* x -> a -> If(cond){inner: Neg(a) -> Add(.., w)}{returns a}; the body's "w" hides the outer one.
 */
static struct oq_model *captures(void) {
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *main = oq_test_main_graph(model);
    oq_test_add_input(model, main, "x", ONNXPTQ_TYPE_FLOAT, "4");
    oq_test_add_input(model, main, "cond", ONNXPTQ_TYPE_BOOL, "");
    oq_test_add_floats(model, main, "w", "4", NULL);
    Onnx__NodeProto *branch = oq_test_add_node(model, main, "If", "if", "cond", "y");
    oq_test_add_node(model, main, "Mul", "mul", "x,w", "a"); /* after its reader */
    Onnx__GraphProto *body = oq_test_add_body(model, branch, "then_branch", "then");
    oq_test_add_floats(model, body, "w", "4", NULL);
    oq_test_add_node(model, body, "Neg", "neg", "a", "n");
    oq_test_add_node(model, body, "Add", "add", "n,w", "t");
    oq_test_add_output(model, body, "t", ONNXPTQ_TYPE_FLOAT, NULL);
    body = oq_test_add_body(model, branch, "else_branch", "else");
    oq_test_add_output(model, body, "a", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_output(model, main, "y", ONNXPTQ_TYPE_FLOAT, NULL);
    return model;
}

static void test_bodies(void **state) {
    (void)state;
    struct oq_model *model = captures();
    struct oq_graph *graph = oq_test_graph(model);
    assert_int_equal(oq_graph_n_scopes(graph), 3);
    assert_order(graph, "mul if neg add");
    assert_int_equal(oq_graph_node(graph, 0)->index, 1);
    const uint32_t owner = oq_test_node(graph, "if");
    for (uint32_t scope = 1; scope < 3; scope++) {
        assert_int_equal(oq_graph_scope(graph, scope)->owner_node, owner);
        assert_int_equal(oq_graph_scope(graph, scope)->parent, 0);
        assert_int_equal(oq_graph_scope(graph, scope)->depth, 1);
    }
    assert_true(value_named(graph, "a")->captured);
    assert_true(value_named(graph, "a")->is_output); /* returned by a body */
    assert_int_equal(value_named(graph, "a")->producer, oq_test_node(graph, "mul"));
    assert_uses(graph, "a", "neg:0");
    assert_false(value_named(graph, "w")->captured);
    assert_uses(graph, "w", "mul:1");
    const uint32_t inner = oq_graph_find_value(graph, 1, "w");
    assert_int_not_equal(inner, oq_graph_find_value(graph, 0, "w"));
    assert_int_equal(oq_graph_value(graph, inner)->scope, 1);
    assert_int_equal(oq_graph_find_value(graph, 2, "w"), oq_graph_find_value(graph, 0, "w"));
    assert_int_equal(oq_graph_find_value(graph, 0, "t"), OQ_NONE);
    assert_int_equal(oq_graph_node(graph, oq_test_node(graph, "add"))->inputs[1], inner);
    oq_graph_destroy(graph);
    oq_model_destroy(model);
}

/* Deeper bodies see all the way out, and order counts what they capture. */
static void test_nested_bodies(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *main = oq_test_main_graph(model), *body = main;
    oq_test_add_input(model, main, "x", ONNXPTQ_TYPE_FLOAT, "4");
    for (int i = 0; i < 20; i++) {
        char output[16];
        snprintf(output, sizeof output, "y%d", i);
        Onnx__NodeProto *node = oq_test_add_node(model, body, "my::Wrap", NULL, "", output);
        oq_test_add_output(model, body, output, ONNXPTQ_TYPE_FLOAT, NULL);
        if (i == 10) {
            oq_test_add_node(model, body, "Neg", "late", "x", "l");
        }
        body = oq_test_add_body(model, node, "body", "b");
    }
    oq_test_add_node(model, body, "Add", "innermost", "x,l", "z");
    oq_test_add_output(model, body, "z", ONNXPTQ_TYPE_FLOAT, NULL);
    struct oq_graph *graph = oq_test_graph(model);
    assert_int_equal(oq_graph_n_scopes(graph), 21);
    assert_int_equal(oq_graph_scope(graph, 20)->depth, 20);
    assert_true(oq_test_node(graph, "late") < oq_test_node(graph, "@y10"));
    assert_uses(graph, "l", "innermost:1");
    assert_int_equal(value_named(graph, "x")->n_uses, 2);
    oq_graph_destroy(graph);
    oq_model_destroy(model);
}

static void test_sibling_names(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *main = oq_test_main_graph(model);
    oq_test_add_input(model, main, "cond", ONNXPTQ_TYPE_BOOL, "");
    oq_test_add_floats(model, main, "w", "4", NULL);
    Onnx__NodeProto *branch = oq_test_add_node(model, main, "If", "if", "cond", "y");
    for (int i = 0; i < 2; i++) {
        Onnx__GraphProto *body =
            oq_test_add_body(model, branch, i == 0 ? "then_branch" : "else_branch", "b");
        oq_test_add_node(model, body, "Neg", "same", "w", "same");
        oq_test_add_output(model, body, "same", ONNXPTQ_TYPE_FLOAT, NULL);
    }
    struct oq_graph *graph = oq_test_graph(model);
    assert_int_not_equal(oq_graph_find_value(graph, 1, "same"),
                         oq_graph_find_value(graph, 2, "same"));
    oq_graph_destroy(graph);
    oq_model_destroy(model);
}

static void test_functions(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *main = oq_test_main_graph(model);
    Onnx__FunctionProto function = ONNX__FUNCTION_PROTO__INIT;
    Onnx__FunctionProto *functions[] = {&function};
    function.name = (char *)"F";
    function.domain = (char *)"local";
    function.overload = (char *)"v2";
    oq_model_proto(model)->functions = functions;
    oq_model_proto(model)->n_functions = 1;
    oq_test_add_node(model, main, "local::F", "other overload", "", "a");
    oq_test_add_node(model, main, "local::F", "call", "", "b")->overload = (char *)"v2";
    oq_test_add_node(model, main, "elsewhere::F", "other domain", "", "c")->overload = (char *)"v2";
    struct oq_graph *graph = oq_test_graph(model);
    assert_true(oq_graph_node(graph, oq_test_node(graph, "call"))->local_function);
    assert_true(oq_graph_node(graph, oq_test_node(graph, "call"))->foreign);
    assert_false(oq_graph_node(graph, oq_test_node(graph, "other overload"))->local_function);
    assert_false(oq_graph_node(graph, oq_test_node(graph, "other domain"))->local_function);
    oq_graph_destroy(graph);
    oq_model_proto(model)->n_functions = 0;
    oq_model_destroy(model);
}

/* ---- Order ---- */

static void test_order_is_kept(void **state) {
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *main = oq_test_main_graph(model);
    oq_test_add_input(model, main, "x", ONNXPTQ_TYPE_FLOAT, "4");
    oq_test_add_node(model, main, "Neg", "d", "c", "d");
    oq_test_add_node(model, main, "Neg", "e", "x", "e");
    oq_test_add_node(model, main, "Neg", "b", "a", "b");
    oq_test_add_node(model, main, "Add", "c", "b,a", "c");
    oq_test_add_node(model, main, "Neg", "a", "x", "a");
    oq_test_add_output(model, main, "d", ONNXPTQ_TYPE_FLOAT, NULL);
    struct oq_graph *graph = oq_test_graph(model);
    assert_order(graph, "a b c d e");
    assert_int_equal(oq_graph_node(graph, 0)->index, 4);
    assert_int_equal(value_named(graph, "c")->producer, 2);
    assert_uses(graph, "a", "b:0 c:1");
    oq_graph_destroy(graph);
    oq_model_destroy(model);
}

/* As long as deep recursion would not survive, and backwards. */
static void test_long_chain(void **state) {
    enum { LENGTH = 60000 };
    (void)state;
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *main = oq_test_main_graph(model);
    oq_test_add_input(model, main, "v0", ONNXPTQ_TYPE_FLOAT, "4");
    for (int i = LENGTH; i > 0; i--) {
        char input[16], output[16];
        snprintf(input, sizeof input, "v%d", i - 1);
        snprintf(output, sizeof output, "v%d", i);
        oq_test_add_node(model, main, "Identity", NULL, input, output);
    }
    struct oq_graph *graph = oq_test_graph(model);
    assert_int_equal(oq_graph_n_nodes(graph), LENGTH);
    for (uint32_t i = 0; i < LENGTH; i++) {
        assert_int_equal(oq_graph_node(graph, i)->index, LENGTH - 1 - i);
    }
    assert_null(oq_graph_constant(graph, oq_test_value(graph, "v60000")));
    oq_graph_destroy(graph);
    oq_model_destroy(model);
}

/* ---- Refused ---- */

static struct oq_model *start(Onnx__GraphProto **main) {
    struct oq_model *model = oq_test_model_create(17);
    *main = oq_test_main_graph(model);
    oq_test_add_input(model, *main, "x", ONNXPTQ_TYPE_FLOAT, "4");
    return model;
}

static void test_dangling(void **state) {
    (void)state;
    Onnx__GraphProto *main;
    struct oq_model *model = start(&main);
    oq_test_add_node(model, main, "Add", "lonely", "x,nothing", "y");
    ASSERT_REFUSED(model, "'lonely'", "Add", "'nothing'");
    model = start(&main);
    oq_test_add_output(model, main, "nowhere", ONNXPTQ_TYPE_FLOAT, NULL);
    ASSERT_REFUSED(model, "'nowhere'");
    /* What a body defines is not seen outside of it. */
    model = start(&main);
    Onnx__NodeProto *branch = oq_test_add_node(model, main, "If", "if", "x", "y");
    Onnx__GraphProto *body = oq_test_add_body(model, branch, "then_branch", "b");
    oq_test_add_node(model, body, "Neg", "neg", "x", "inner");
    oq_test_add_node(model, main, "Neg", "peeks", "inner", "z");
    ASSERT_REFUSED(model, "'peeks'", "'inner'");
}

static void test_twice(void **state) {
    (void)state;
    Onnx__GraphProto *main;
    struct oq_model *model = start(&main);
    oq_test_add_node(model, main, "Neg", "first", "x", "y");
    oq_test_add_node(model, main, "Neg", "second", "x", "y");
    ASSERT_REFUSED(model, "'y'", "twice", "'second'");
    model = start(&main);
    oq_test_add_node(model, main, "Neg", "over", "x", "x");
    ASSERT_REFUSED(model, "'x'", "twice", "'over'");
    model = start(&main);
    oq_test_add_input(model, main, "x", ONNXPTQ_TYPE_FLOAT, "4");
    ASSERT_REFUSED(model, "'x'", "graph input");
    model = start(&main);
    oq_test_add_floats(model, main, "w", "4", NULL);
    oq_test_add_floats(model, main, "w", "4", NULL);
    ASSERT_REFUSED(model, "'w'", "an initializer");
}

static void test_cycles(void **state) {
    (void)state;
    Onnx__GraphProto *main;
    struct oq_model *model = start(&main);
    oq_test_add_node(model, main, "Add", "first", "x,c", "a");
    oq_test_add_node(model, main, "Neg", "second", "a", "b");
    oq_test_add_node(model, main, "Neg", "third", "b", "c");
    ASSERT_REFUSED(model, "cycle", "'first'", "'a'");
    model = start(&main);
    oq_test_add_node(model, main, "Add", "self", "x,a", "a");
    ASSERT_REFUSED(model, "cycle", "'self'", "'a'");
    /* A body that reads what its own node produces. */
    model = start(&main);
    Onnx__NodeProto *branch = oq_test_add_node(model, main, "If", "if", "x", "y");
    Onnx__GraphProto *body = oq_test_add_body(model, branch, "then_branch", "b");
    oq_test_add_node(model, body, "Neg", "inner", "y", "z");
    ASSERT_REFUSED(model, "cycle", "'if'", "'y'");
}

static void test_nameless(void **state) {
    (void)state;
    Onnx__GraphProto *main;
    struct oq_model *model = start(&main);
    oq_test_add_floats(model, main, "", "4", NULL);
    ASSERT_REFUSED(model, "an initializer", "no name");
    model = start(&main);
    oq_test_add_input(model, main, "", ONNXPTQ_TYPE_FLOAT, "4");
    ASSERT_REFUSED(model, "input 1", "no name");
}

/* ---- Constants and attributes ---- */

static Onnx__AttributeProto *add_attribute(struct oq_model *model, Onnx__NodeProto *node,
                                           const char *name,
                                           Onnx__AttributeProto__AttributeType type) {
    assert_true(oq_node_set_int(model, node, name, 0));
    Onnx__AttributeProto *attribute = node->attribute[node->n_attribute - 1];
    attribute->type = type;
    return attribute;
}

static void assert_constant(const struct oq_graph *graph, const char *value, int type, size_t rank,
                            size_t n) {
    const Onnx__TensorProto *tensor = oq_graph_constant(graph, oq_test_value(graph, value));
    struct oq_tensor_view view;
    assert_non_null(tensor);
    assert_int_equal(oq_tensor_view(oq_graph_model(graph), tensor, &view, NULL), ONNXPTQ_OK);
    assert_int_equal(view.type, type);
    assert_int_equal(view.rank, rank);
    assert_int_equal(view.n_elements, n);
    /* The last element of each is 5. */
    if (type == ONNXPTQ_TYPE_FLOAT) {
        float last;
        oq_tensor_view_floats(&view, n - 1, 1, &last);
        assert_true(last == 5.0F);
    } else {
        assert_true(oq_tensor_view_integer(&view, n - 1) == 5);
    }
    assert_ptr_equal(oq_graph_constant(graph, oq_test_value(graph, value)), tensor);
}

static void test_constants(void **state) {
    (void)state;
    static float floats[] = {1, 5};
    static int64_t ints[] = {1, 2, 5};
    Onnx__GraphProto *main;
    struct oq_model *model = start(&main);
    oq_test_add_constant(model, main, "tensor", "2", floats);
    Onnx__NodeProto *node = oq_test_add_node(model, main, "Constant", NULL, "", "float");
    add_attribute(model, node, "value_float", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT)->f = 5;
    node = oq_test_add_node(model, main, "Constant", NULL, "", "floats");
    Onnx__AttributeProto *attribute =
        add_attribute(model, node, "value_floats", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    attribute->floats = floats;
    attribute->n_floats = 2;
    node = oq_test_add_node(model, main, "Constant", NULL, "", "int");
    add_attribute(model, node, "value_int", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT)->i = 5;
    node = oq_test_add_node(model, main, "ai.onnx::Constant", NULL, "", "ints");
    attribute =
        add_attribute(model, node, "value_ints", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    attribute->ints = ints;
    attribute->n_ints = 3;
    node = oq_test_add_node(model, main, "Constant", NULL, "", "text");
    add_attribute(model, node, "value_string", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    oq_test_add_node(model, main, "Identity", NULL, "ints", "same");
    oq_test_add_node(model, main, "Identity", NULL, "same", "again");
    oq_test_add_node(model, main, "my::Identity", NULL, "ints", "foreign");
    oq_test_add_node(model, main, "Neg", NULL, "ints", "negated");
    struct oq_graph *graph = oq_test_graph(model);
    assert_constant(graph, "tensor", ONNXPTQ_TYPE_FLOAT, 1, 2);
    assert_constant(graph, "float", ONNXPTQ_TYPE_FLOAT, 0, 1);
    assert_constant(graph, "floats", ONNXPTQ_TYPE_FLOAT, 1, 2);
    assert_constant(graph, "int", ONNXPTQ_TYPE_INT64, 0, 1);
    assert_constant(graph, "ints", ONNXPTQ_TYPE_INT64, 1, 3);
    assert_constant(graph, "again", ONNXPTQ_TYPE_INT64, 1, 3);
    static const char *const variable[] = {"x", "text", "foreign", "negated"};
    for (size_t i = 0; i < 4; i++) {
        assert_null(oq_graph_constant(graph, oq_test_value(graph, variable[i])));
    }
    oq_graph_destroy(graph);
    oq_model_destroy(model);
}

static void test_attributes(void **state) {
    (void)state;
    static int64_t ints[] = {3, 4};
    Onnx__GraphProto *main;
    struct oq_model *model = start(&main);
    Onnx__NodeProto *node = oq_test_add_node(model, main, "my::Op", NULL, "", "y");
    assert_true(oq_node_set_int(model, node, "axis", -1));
    oq_test_set_float(model, node, "alpha", 0.5F);
    Onnx__AttributeProto *list =
        add_attribute(model, node, "pads", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    list->ints = ints;
    list->n_ints = 2;
    size_t n = 9;
    assert_int_equal(oq_attribute_int(node, "axis", 7), -1);
    assert_int_equal(oq_attribute_int(node, "none", 7), 7);
    assert_int_equal(oq_attribute_int(node, "alpha", 7), 7);
    assert_true(oq_attribute_float(node, "alpha", 1) == 0.5F);
    assert_true(oq_attribute_float(node, "axis", 1) == 1);
    assert_ptr_equal(oq_attribute_ints(node, "pads", &n), ints);
    assert_int_equal(n, 2);
    assert_null(oq_attribute_ints(node, "axis", &n));
    assert_int_equal(n, 0);
    /* Old models have no types: the field in use tells. */
    node->attribute[0]->has_type = 0;
    assert_int_equal(oq_attribute_int(node, "axis", 7), -1);
    node->attribute[0]->has_i = 0;
    assert_int_equal(oq_attribute_int(node, "axis", 7), 7);
    oq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_initializer_as_input_and_output),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_nested_bodies),
        cmocka_unit_test(test_sibling_names),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_order_is_kept),
        cmocka_unit_test(test_long_chain),
        cmocka_unit_test(test_dangling),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_nameless),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
