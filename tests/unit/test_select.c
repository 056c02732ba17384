/*
 * Including and excluding nodes by operator type and by name.
 */
#include "model_builder.h"
#include "quant/pattern.h"
#include "quant/select.h"
#include "quant/suggest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* conv1, relu1, conv2 of the default domain; "Conv", "Dummy" and "a::b::Odd" of others; an unnamed
 * Relu. */
static struct oq_model *model;
static struct oq_graph *graph;

static int set_up(void **state) {
    (void)state;
    model = oq_test_model_create(17);
    Onnx__GraphProto *main_graph = oq_test_main_graph(model);
    static const struct {
        const char *op, *name, *input, *output;
    } nodes[] = {{"Conv", "/block/conv1", "x,w", "a"},
                 {"Relu", "relu1", "a", "b"},
                 {"Conv", "/block/conv2", "b,w", "c"},
                 {"custom::Conv", "other", "c", "d"},
                 {"custom::Dummy", "dummy,1", "d", "e"},
                 {"my::Dummy", "d\303\274mmy", "e", "f"},
                 {"Relu", NULL, "f", "y"}};
    oq_test_add_input(model, main_graph, "x", ONNXPTQ_TYPE_FLOAT, "1,4,8,8");
    oq_test_add_input(model, main_graph, "w", ONNXPTQ_TYPE_FLOAT, "4,4,1,1");
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        oq_test_add_node(model, main_graph, nodes[i].op, nodes[i].name, nodes[i].input,
                         nodes[i].output);
    }
    oq_test_add_output(model, main_graph, "y", ONNXPTQ_TYPE_FLOAT, NULL);
    graph = oq_test_graph(model);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    oq_graph_destroy(graph);
    oq_model_destroy(model);
    return 0;
}

/* The options' four lists, each one item; NULL for none. */
struct lists {
    const char *types, *exclude_types, *nodes, *exclude_nodes;
};

static enum onnxptq_status create(const struct lists *lists, struct oq_selection **out,
                                  struct onnxptq_error *error) {
    struct onnxptq_quantize_options options = {
        .op_types = &lists->types,
        .n_op_types = lists->types != NULL,
        .exclude_op_types = &lists->exclude_types,
        .n_exclude_op_types = lists->exclude_types != NULL,
        .nodes = &lists->nodes,
        .n_nodes = lists->nodes != NULL,
        .exclude_nodes = &lists->exclude_nodes,
        .n_exclude_nodes = lists->exclude_nodes != NULL,
    };
    return oq_selection_create(&options, graph, out, error);
}

/* One letter per node in order: + allowed, - not. */
static void expect(struct lists lists, const char *expected) {
    struct onnxptq_error error = {0};
    struct oq_selection *selection = NULL;
    char found[16] = "";
    if (create(&lists, &selection, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    for (uint32_t i = 0; i < oq_graph_n_nodes(graph); i++) {
        const char *reason = NULL;
        found[i] = oq_selection_allows(selection, i, &reason) ? '+' : '-';
        assert_true((reason != NULL) == (found[i] == '-'));
    }
    oq_selection_destroy(selection);
    assert_string_equal(found, expected);
}

static void types_select(void **state) {
    (void)state;
    expect((struct lists){0}, "+++++++");
    expect((struct lists){.types = "Conv"}, "+-+----");
    expect((struct lists){.types = " Conv , Relu"}, "+++---+");
    expect((struct lists){.exclude_types = "Conv"}, "-+-++++");
    expect((struct lists){.exclude_types = "Dummy"}, "++++--+");
    expect((struct lists){.exclude_types = "my::Dummy"}, "+++++-+");
    expect((struct lists){.exclude_types = "custom::Conv,Relu"}, "+-+-++-");
    expect((struct lists){.exclude_types = "ai.onnx::Conv"}, "-+-++++");
    expect((struct lists){.exclude_types = "::Conv"}, "-+-++++");
    expect((struct lists){.types = "Conv,Relu", .exclude_types = "Relu"}, "+-+----");
}

static void names_select(void **state) {
    (void)state;
    expect((struct lists){.nodes = "/block/.*"}, "+-+----");
    expect((struct lists){.nodes = "relu1"}, "-+-----");
    expect((struct lists){.exclude_nodes = "/block/conv1|relu."}, "--+++++");
    expect((struct lists){.exclude_nodes = "/block/conv1|/block/conv"
                                           "12?|/block/conv[2]"},
           "-+-++++");
    expect((struct lists){.exclude_nodes = "dummy,1"}, "++++-++");
    expect((struct lists){.exclude_nodes = "d.mmy"}, "+++++-+"); /* a letter, not a byte */
    expect((struct lists){.exclude_nodes = "@y"}, "++++++-");
    expect((struct lists){.nodes = ".*", .exclude_nodes = ".*conv."}, "-+-++++");
    expect((struct lists){.types = "Conv", .nodes = ".*2"}, "--+----");
}

static void reasons_say_by_what(void **state) {
    (void)state;
    struct oq_selection *selection = NULL;
    struct lists lists = {.types = "Conv", .exclude_nodes = ".*conv1"};
    const char *reason = NULL;
    assert_int_equal(create(&lists, &selection, NULL), ONNXPTQ_OK);
    assert_false(oq_selection_allows(selection, 0, &reason));
    assert_non_null(strstr(reason, "'.*conv1'"));
    assert_false(oq_selection_allows(selection, 1, &reason));
    assert_non_null(strstr(reason, "type"));
    oq_selection_destroy(selection);
}

static void refusals_name_the_nearest(void **state) {
    (void)state;
    static const struct {
        struct lists lists;
        const char *words[4];
    } cases[] = {
        {{.types = "Conw"}, {"--op-types", "'Conw'", "'Conv'"}},
        {{.types = "Conv,Reul"}, {"'Reul'", "'Relu'"}},
        {{.exclude_types = "MatMul"}, {"--exclude-op-types", "'MatMul'"}},
        {{.exclude_types = "costum::Dummy"}, {"'costum::Dummy'", "nearest are 'custom::Dummy'"}},
        {{.exclude_types = "custom::Relu"}, {"'custom::Relu'"}},
        {{.types = "Conv,,Relu"}, {"empty name"}},
        {{.types = ""}, {"empty name"}},
        {{.nodes = "conv1"}, {"--nodes", "nearest are '/block/conv1'", "whole name"}},
        {{.exclude_nodes = "reul1"}, {"--exclude-nodes", "nearest are 'relu1'"}},
        {{.exclude_nodes = ""}, {"''"}},
        {{.exclude_nodes = "conv("}, {"--exclude-nodes", "'conv('", "position 5"}},
        {{.exclude_nodes = "*conv"}, {"'*conv'", "position 0"}},
        {{.nodes = "(a+)+(a+)+(a+)+\\C"}, {"position"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct onnxptq_error error = {0};
        struct oq_selection *selection = NULL;
        assert_int_equal(create(&cases[i].lists, &selection, &error), ONNXPTQ_ERROR_USAGE);
        for (size_t w = 0; cases[i].words[w] != NULL; w++) {
            if (strstr(error.message, cases[i].words[w]) == NULL) {
                fail_msg("'%s' lacks '%s'", error.message, cases[i].words[w]);
            }
        }
    }
}

/* A pattern that would take exponential time comes to an end. */
static void costly_patterns_are_refused(void **state) {
    (void)state;
    struct onnxptq_error error = {0};
    struct oq_pattern *pattern = NULL;
    bool matches = false;
    assert_int_equal(oq_pattern_create("((a+)+)+[bd]", &pattern, &error), ONNXPTQ_OK);
    assert_int_equal(oq_pattern_match(pattern, "aab", &matches, &error), ONNXPTQ_OK);
    assert_true(matches);
    assert_int_equal(
        oq_pattern_match(pattern, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", &matches, &error),
        ONNXPTQ_ERROR_USAGE);
    assert_non_null(strstr(error.message, "too many steps"));
    oq_pattern_destroy(pattern);
    assert_int_equal(
        oq_pattern_create("((((a{1,1000}){1,1000}){1,1000}){1,1000})", &pattern, &error),
        ONNXPTQ_ERROR_USAGE);
}

static void names_that_are_no_text_are_matched(void **state) {
    (void)state;
    struct oq_pattern *pattern = NULL;
    bool matches = true;
    assert_int_equal(oq_pattern_create("a.*", &pattern, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_pattern_match(pattern, "a\nb", &matches, NULL), ONNXPTQ_OK);
    assert_true(matches);
    assert_int_equal(oq_pattern_match(pattern, "b\377", &matches, NULL), ONNXPTQ_OK);
    assert_false(matches);
    oq_pattern_destroy(pattern);
    assert_int_equal(oq_pattern_create("abc$", &pattern, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_pattern_match(pattern, "abc\n", &matches, NULL), ONNXPTQ_OK);
    assert_false(matches);
    oq_pattern_destroy(pattern);
}

static void distances(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {{"", "", 0},         {"", "abc", 3},      {"abc", "", 3},
                 {"abc", "abc", 0},   {"conv", "cnov", 1}, {"kitten", "sitting", 3},
                 {"Conv", "conv", 1}, {"ab", "ba", 1},     {"abcdef", "xabdcef", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(oq_edit_distance(cases[i].a, cases[i].b), cases[i].distance);
    }
    char a[300], b[300];
    memset(a, 'a', 299);
    memset(b, 'b', 299);
    a[299] = b[299] = '\0';
    assert_int_equal(oq_edit_distance(a, b), 128);
}

static void suggestions_are_the_three_nearest(void **state) {
    (void)state;
    struct oq_suggest suggest;
    static const char *const names[] = {"zzzzzz", "conv3", "conv", "block/conv1", "conv2", "conv3"};
    oq_suggest_init(&suggest, "conv1");
    for (size_t i = 0; i < 6; i++) {
        oq_suggest_add(&suggest, names[i]);
    }
    assert_int_equal(suggest.n, 3);
    assert_string_equal(suggest.names[0], "block/conv1");
    assert_string_equal(suggest.names[1], "conv3");
    assert_string_equal(suggest.names[2], "conv");
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE(types_select),
        SCENE(names_select),
        SCENE(reasons_say_by_what),
        SCENE(refusals_name_the_nearest),
        cmocka_unit_test(costly_patterns_are_refused),
        cmocka_unit_test(names_that_are_no_text_are_matched),
        cmocka_unit_test(distances),
        cmocka_unit_test(suggestions_are_the_three_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
