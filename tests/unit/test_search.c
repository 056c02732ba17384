/* The search for nodes that cost most: losses that add up, that do not, and bounds. */
#include "api/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

#define N 60

struct model {
    double loss[N];
    bool chaotic; /* the more is held, the worse, but for node 7 */
    size_t calls;
};

static enum onnxptq_status measure(void *user, const bool *held, double *loss,
                                   struct onnxptq_error *error) {
    struct model *model = user;
    (void)error;
    model->calls++;
    *loss = 0.0;
    for (size_t i = 0; i < N; i++) {
        *loss += held[i] ? 0.0 : model->loss[i];
        *loss += model->chaotic && held[i] && i != 7 ? 0.02 : 0.0;
    }
    return ONNXPTQ_OK;
}

static struct oq_search_spec spec_of(struct model *model, const uint32_t *nodes) {
    return (struct oq_search_spec){.nodes = nodes,
                                   .n = N,
                                   .n_nodes = N,
                                   .most_loss = 0.01,
                                   .most_held = 1.0,
                                   .max_groups = 8,
                                   .max_singles = 40,
                                   .max_trials = 20,
                                   .measure = measure,
                                   .user = model};
}

static void fill(struct model *model, uint32_t *nodes) {
    *model = (struct model){0};
    for (uint32_t i = 0; i < N; i++) {
        nodes[i] = i;
        model->loss[i] = 1e-5;
    }
}

static size_t count(const bool *held) {
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        n += held[i];
    }
    return n;
}

static void test_nothing_to_hold(void **state) {
    (void)state;
    struct model model;
    uint32_t nodes[N];
    bool held[N] = {false};
    struct oq_search_result result;
    fill(&model, nodes);
    const struct oq_search_spec spec = spec_of(&model, nodes);
    assert_int_equal(oq_search_held(&spec, held, &result, NULL), ONNXPTQ_OK);
    assert_int_equal(count(held), 0);
    assert_int_equal(model.calls, 1);
    oq_search_result_reset(&result);
}

static void test_the_costliest_alone_are_held(void **state) {
    (void)state;
    struct model model;
    uint32_t nodes[N];
    bool held[N] = {false};
    struct oq_search_result result;
    fill(&model, nodes);
    model.loss[7] = 0.3;
    model.loss[41] = 0.05;
    const struct oq_search_spec spec = spec_of(&model, nodes);
    assert_int_equal(oq_search_held(&spec, held, &result, NULL), ONNXPTQ_OK);
    assert_true(held[7] && held[41]);
    assert_int_equal(count(held), 2);
    assert_true(result.loss <= 0.01 && result.loss_before > 0.3);
    assert_int_equal(result.n_measured, model.calls);
    assert_true(model.calls <= 1 + 8 + 40 + 1);
    assert_int_equal(result.units[0].first, 7);
    oq_search_result_reset(&result);
}

/* The loss is spread, so that no node alone helps: whole groups are held, as few as it takes. */
static void test_spread_losses(void **state) {
    (void)state;
    struct model model;
    uint32_t nodes[N];
    bool held[N] = {false};
    struct oq_search_result result;
    fill(&model, nodes);
    for (size_t i = 0; i < N; i++) {
        model.loss[i] = 0.001;
    }
    const struct oq_search_spec spec = spec_of(&model, nodes);
    assert_int_equal(oq_search_held(&spec, held, &result, NULL), ONNXPTQ_OK);
    assert_true(result.loss <= 0.01);
    assert_true(count(held) >= 50 && count(held) <= 58);
    oq_search_result_reset(&result);
}

static void test_no_more_than_may_be_held(void **state) {
    (void)state;
    struct model model;
    uint32_t nodes[N];
    double sizes[N];
    bool held[N] = {false};
    struct oq_search_result result;
    fill(&model, nodes);
    for (size_t i = 0; i < N; i++) {
        sizes[i] = 1.0 / N;
    }
    model.loss[7] = 0.3;
    model.loss[41] = 0.2;
    sizes[7] = 0.5;
    struct oq_search_spec spec = spec_of(&model, nodes);
    spec.sizes = sizes;
    spec.most_held = 0.1;
    assert_int_equal(oq_search_held(&spec, held, &result, NULL), ONNXPTQ_OK);
    assert_true(!held[7] && held[41]);
    assert_true(result.loss >= 0.3 && result.loss < 0.31);
    oq_search_result_reset(&result);
}

/* What does not help is not held. */
static void test_losses_that_do_not_add_up(void **state) {
    (void)state;
    struct model model;
    uint32_t nodes[N];
    bool held[N] = {false};
    struct oq_search_result result;
    fill(&model, nodes);
    model.chaotic = true;
    model.loss[7] = 0.3;
    model.loss[20] = 0.015;
    model.loss[40] = 0.015;
    const struct oq_search_spec spec = spec_of(&model, nodes);
    assert_int_equal(oq_search_held(&spec, held, &result, NULL), ONNXPTQ_OK);
    assert_true(held[7]);
    assert_int_equal(count(held), 1);
    assert_true(result.loss < result.loss_before);
    oq_search_result_reset(&result);
}

static void test_what_is_held_from_the_start_stays(void **state) {
    (void)state;
    struct model model;
    uint32_t nodes[N];
    bool held[N] = {false};
    struct oq_search_result result;
    fill(&model, nodes);
    held[3] = true;
    model.loss[3] = 5.0;
    model.loss[7] = 0.3;
    const struct oq_search_spec spec = spec_of(&model, nodes);
    assert_int_equal(oq_search_held(&spec, held, &result, NULL), ONNXPTQ_OK);
    assert_true(held[3] && held[7]);
    assert_int_equal(count(held), 2);
    oq_search_result_reset(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_hold),
        cmocka_unit_test(test_the_costliest_alone_are_held),
        cmocka_unit_test(test_spread_losses),
        cmocka_unit_test(test_no_more_than_may_be_held),
        cmocka_unit_test(test_losses_that_do_not_add_up),
        cmocka_unit_test(test_what_is_held_from_the_start_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
