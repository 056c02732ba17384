/*
 * The plan's container.
 */
#include "model_builder.h"
#include "quant/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static const struct oq_quant_spec INT8 = {.type = ONNXPTQ_TYPE_INT8, .symmetric = true};
static const struct oq_quant_spec UINT8 = {.type = ONNXPTQ_TYPE_UINT8};
static const struct oq_quant_spec WEIGHT = {
    .type = ONNXPTQ_TYPE_INT8, .symmetric = true, .narrow = true};
static const struct oq_use NO_USE = {OQ_NONE, 0};

struct scene {
    struct oq_model *model;
    struct oq_graph *graph;
    struct oq_plan *plan;
};

/* X -> MatMul(w) -> a -> custom -> d -> MatMul(w) -> Y, Add(a, k) -> Z */
static int setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->model = oq_test_model_create(17);
    Onnx__GraphProto *g = oq_test_main_graph(s->model);
    oq_test_add_input(s->model, g, "X", ONNXPTQ_TYPE_FLOAT, "2,4");
    oq_test_add_output(s->model, g, "Y", ONNXPTQ_TYPE_FLOAT, "2,4");
    oq_test_add_output(s->model, g, "Z", ONNXPTQ_TYPE_FLOAT, "2,4");
    oq_test_add_floats(s->model, g, "w", "4,4", NULL);
    oq_test_add_floats(s->model, g, "k", "4", NULL);
    oq_test_add_node(s->model, g, "MatMul", "m1", "X,w", "a");
    oq_test_add_node(s->model, g, "my::Op", "f", "a", "d");
    oq_test_add_node(s->model, g, "MatMul", "m2", "d,w", "Y");
    oq_test_add_node(s->model, g, "Add", "add", "a,k", "Z");
    s->graph = oq_test_graph(s->model);
    assert_int_equal(oq_plan_create(s->graph, &s->plan, NULL), ONNXPTQ_OK);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;
    oq_plan_destroy(s->plan);
    oq_graph_destroy(s->graph);
    oq_model_destroy(s->model);
    free(s);
    return 0;
}

static void test_a_new_plan_leaves_everything_float(void **state) {
    struct scene *s = *state;
    assert_int_equal(s->plan->n_nodes, 4);
    for (size_t i = 0; i < s->plan->n_nodes; i++) {
        assert_int_equal(s->plan->nodes[i].decision, ONNXPTQ_DECISION_FLOAT);
        assert_non_null(s->plan->nodes[i].reason);
    }
    assert_int_equal(oq_plan_find_pair(s->plan, oq_test_value(s->graph, "X")), OQ_NONE);
}

static void test_uses_gather_on_one_pair(void **state) {
    struct scene *s = *state;
    uint32_t a = oq_test_value(s->graph, "a");
    char rule[] = "rule";
    uint32_t first = oq_plan_add_pair(s->plan, a, INT8, NO_USE, rule, "because");
    rule[0] = '?'; /* strings are copied */
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(oq_plan_add_pair(s->plan, a, INT8, (struct oq_use){i % 5, 0}, "x", "y"),
                         first);
    }
    const struct oq_plan_pair *pair = &s->plan->pairs[first];
    assert_int_equal(s->plan->n_pairs, 1);
    assert_int_equal(pair->n_uses, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(pair->uses[i].node, i);
    }
    assert_string_equal(pair->rule, "rule");
    assert_string_equal(pair->reason, "because");
    assert_int_equal(oq_plan_find_pair(s->plan, a), first);
}

static void test_another_spec_is_another_pair(void **state) {
    struct scene *s = *state;
    uint32_t a = oq_test_value(s->graph, "a");
    uint32_t first = oq_plan_add_pair(s->plan, a, INT8, NO_USE, "r", "");
    uint32_t second = oq_plan_add_pair(s->plan, a, UINT8, NO_USE, "r", "");
    assert_int_not_equal(first, second);
    assert_int_equal(oq_plan_find_pair(s->plan, a), first);
    assert_int_equal(oq_plan_add_pair(s->plan, a, UINT8, NO_USE, "r", ""), second);
    assert_int_not_equal(s->plan->pairs[first].group, s->plan->pairs[second].group);
}

static void test_groups_join_transitively(void **state) {
    struct scene *s = *state;
    uint32_t pairs[5];
    const char *names[] = {"X", "a", "d", "Y", "Z"};
    for (size_t i = 0; i < 5; i++) {
        pairs[i] =
            oq_plan_add_pair(s->plan, oq_test_value(s->graph, names[i]), INT8, NO_USE, "r", "");
    }
    oq_plan_join_groups(s->plan, pairs[0], pairs[1]);
    oq_plan_join_groups(s->plan, pairs[3], pairs[2]);
    oq_plan_join_groups(s->plan, pairs[1], pairs[2]);
    oq_plan_join_groups(s->plan, pairs[1], pairs[2]);
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(s->plan->pairs[pairs[i]].group, s->plan->pairs[pairs[0]].group);
    }
    assert_int_not_equal(s->plan->pairs[pairs[4]].group, s->plan->pairs[pairs[0]].group);
    for (size_t i = 0; i < 5; i++) {
        assert_true(s->plan->pairs[i].group < s->plan->n_groups);
    }
}

static void test_weights_differ_by_axis(void **state) {
    struct scene *s = *state;
    uint32_t w = oq_test_value(s->graph, "w");
    struct oq_use first_use = {oq_test_node(s->graph, "m1"), 1};
    struct oq_use second_use = {oq_test_node(s->graph, "m2"), 1};
    uint32_t one = oq_plan_add_weight(s->plan, w, WEIGHT, 1, first_use, "r", "");
    assert_int_equal(oq_plan_add_weight(s->plan, w, WEIGHT, 1, second_use, "r", ""), one);
    assert_int_equal(s->plan->weights[one].n_uses, 2);
    uint32_t other = oq_plan_add_weight(s->plan, w, WEIGHT, 0, second_use, "r", "");
    assert_int_not_equal(other, one);
    assert_int_equal(oq_plan_add_weight(s->plan, w, WEIGHT, 0, second_use, "r", ""), other);
    assert_int_equal(s->plan->weights[other].n_uses, 1);
    struct oq_plan_bias bias = {.value = w, .weight = one, .use = first_use, .factor = 1.0};
    assert_int_equal(oq_plan_add_bias(s->plan, bias), 0);
    assert_int_equal(s->plan->biases[0].weight, one);
}

static void test_decisions_are_kept(void **state) {
    struct scene *s = *state;
    uint32_t m1 = oq_test_node(s->graph, "m1");
    char reason[] = "int8 inputs";
    oq_plan_set_node(s->plan, m1, ONNXPTQ_DECISION_QUANTIZED, "weighted-input", reason);
    memset(reason, 'x', sizeof reason - 1);
    assert_int_equal(s->plan->nodes[m1].decision, ONNXPTQ_DECISION_QUANTIZED);
    assert_string_equal(s->plan->nodes[m1].rule, "weighted-input");
    assert_string_equal(s->plan->nodes[m1].reason, "int8 inputs");
}

/* What has a fixed range or is a constant is not watched; what a foreign operator makes always is.
 */
static void test_watched_values(void **state) {
    struct scene *s = *state;
    uint32_t x = oq_test_value(s->graph, "X");
    uint32_t a = oq_test_value(s->graph, "a");
    uint32_t d = oq_test_value(s->graph, "d");
    uint32_t y = oq_test_value(s->graph, "Y");
    uint32_t *values = NULL;
    size_t n = 0;
    assert_int_equal(oq_plan_watched(s->plan, &values, &n, NULL), ONNXPTQ_OK);
    assert_int_equal(n, 1);
    assert_int_equal(values[0], d);
    free(values);
    oq_plan_add_pair(s->plan, y, INT8, NO_USE, "r", "");
    oq_plan_add_pair(s->plan, x, INT8, NO_USE, "r", "");
    oq_plan_add_pair(s->plan, x, UINT8, NO_USE, "r", "");
    oq_plan_add_pair(s->plan, oq_test_value(s->graph, "k"), INT8, NO_USE, "r", "");
    uint32_t fixed = oq_plan_add_pair(s->plan, a, INT8, NO_USE, "r", "");
    s->plan->pairs[fixed].has_fixed_range = true;
    assert_int_equal(oq_plan_watched(s->plan, &values, &n, NULL), ONNXPTQ_OK);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_true(values[i] == x || values[i] == d || values[i] == y);
        assert_true(i == 0 || values[i] > values[i - 1]);
    }
    free(values);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_plan_leaves_everything_float),
        TEST(test_uses_gather_on_one_pair),
        TEST(test_another_spec_is_another_pair),
        TEST(test_groups_join_transitively),
        TEST(test_weights_differ_by_axis),
        TEST(test_decisions_are_kept),
        TEST(test_watched_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
