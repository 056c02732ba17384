/*
 * The copy of a model that a session gets: shapes that only a run could tell, and plugins under the
 * domain that the runtime looks for them in. The model itself stays as it is.
 */
#include "calib/session_copy.h"
#include "model/edit.h"
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
#define MAX_VALUES 16

static struct onnxptq_error error;

/* ---- One model and what was seen of it ---- */

struct scene {
    struct oq_runtime *runtime;
    struct oq_model *model;
    struct oq_graph *graph;
    struct oq_statistics trace[MAX_VALUES], ranges[MAX_VALUES];
    struct oq_traced_shapes *shapes;
    struct oq_model *copy;
};

static Onnx__GraphProto *graph_of(struct scene *scene) {
    return oq_test_main_graph(scene->model);
}

static void make_scene(struct scene *scene, struct oq_runtime *runtime, const char *input) {
    *scene = (struct scene){.runtime = runtime, .model = oq_test_model_create(17)};
    oq_test_add_input(scene->model, graph_of(scene), "X", FLOAT, input);
}

static void start(struct scene *scene) {
    scene->model = oq_test_model_reload(scene->model);
    scene->graph = oq_test_graph(scene->model);
    assert_true(oq_graph_n_values(scene->graph) <= MAX_VALUES);
    for (size_t i = 0; i < MAX_VALUES; i++) {
        oq_statistics_init(&scene->trace[i]);
        oq_statistics_init(&scene->ranges[i]);
    }
}

/* A tensor of two dimensions. */
static void see(struct oq_statistics *statistics, int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns};
    const float data[64] = {0};
    struct oq_observed tensor = {.type = FLOAT,
                                 .rank = 2,
                                 .shape = shape,
                                 .n_elements = (size_t)(rows * columns),
                                 .data = data};
    assert_true(rows * columns <= 64);
    assert_true(oq_statistics_update(statistics, &tensor, 0, NULL));
}

static const Onnx__GraphProto *copy(struct scene *scene) {
    if (oq_traced_shapes_create(scene->graph, scene->trace, scene->ranges, false, &scene->shapes,
                                &error) != ONNXPTQ_OK ||
        oq_session_copy_create(scene->model, scene->runtime, scene->shapes, &scene->copy, &error) !=
            ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return oq_test_main_graph(scene->copy);
}

static void release(struct scene *scene) {
    oq_traced_shapes_destroy(scene->shapes);
    oq_model_destroy(scene->copy);
    oq_graph_destroy(scene->graph);
    oq_model_destroy(scene->model);
}

/* `dims` holds -1 for a dimension that is declared and unknown. */
static void expect_shape(const Onnx__ValueInfoProto *info, const char *name, const int64_t *dims) {
    assert_string_equal(info->name, name);
    assert_int_equal(info->type->tensor_type->elem_type, FLOAT);
    const Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
    assert_int_equal(shape->n_dim, 2);
    for (size_t i = 0; i < 2; i++) {
        bool known =
            shape->dim[i]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        assert_int_equal(known, dims[i] >= 0);
        assert_true(!known || shape->dim[i]->dim_value == dims[i]);
    }
}

/* ---- Shapes ---- */

/* X -> nobody::Has -> foreign -> Relu -> Y */
static uint32_t make_foreign(struct scene *scene, struct oq_runtime *runtime, const char *input) {
    make_scene(scene, runtime, input);
    oq_test_add_node(scene->model, graph_of(scene), "nobody::Has", NULL, "X", "foreign");
    oq_test_add_node(scene->model, graph_of(scene), "Relu", NULL, "foreign", "Y");
    oq_test_add_output(scene->model, graph_of(scene), "Y", FLOAT, NULL);
    start(scene);
    return oq_test_value(scene->graph, "foreign");
}

static void test_one_sample_tells_the_rank(void **state) {
    struct scene scene;
    uint32_t value = make_foreign(&scene, *state, "3,7");
    see(&scene.trace[value], 3, 7);
    see(&scene.trace[oq_test_value(scene.graph, "Y")], 3, 7);
    const Onnx__GraphProto *graph = copy(&scene);
    assert_int_equal(graph->n_value_info, 1); /* what can be inferred is left to the runtime */
    expect_shape(graph->value_info[0], "foreign", (const int64_t[]){-1, -1});
    assert_int_equal(graph_of(&scene)->n_value_info, 0);
    release(&scene);
}

static void test_samples_that_agree_tell_the_shape(void **state) {
    struct scene scene;
    uint32_t value = make_foreign(&scene, *state, "3,7");
    see(&scene.trace[value], 3, 7);
    see(&scene.ranges[value], 4, 7);
    see(&scene.ranges[value], 4, 7);
    expect_shape(copy(&scene)->value_info[0], "foreign", (const int64_t[]){-1, 7});
    release(&scene);
}

static void test_an_open_input_leaves_the_shape_open(void **state) {
    struct scene scene;
    uint32_t value = make_foreign(&scene, *state, "n,7");
    see(&scene.trace[value], 3, 7);
    see(&scene.ranges[value], 3, 7);
    see(&scene.ranges[value], 3, 7);
    expect_shape(copy(&scene)->value_info[0], "foreign", (const int64_t[]){-1, -1});
    release(&scene);
}

static void test_what_varies_or_is_unseen_is_not_declared(void **state) {
    struct scene scene;
    uint32_t value = make_foreign(&scene, *state, "3,7");
    const int64_t shape[] = {21};
    const float data[21] = {0};
    const struct oq_observed flat = {
        .type = FLOAT, .rank = 1, .shape = shape, .n_elements = 21, .data = data};
    assert_int_equal(copy(&scene)->n_value_info, 0);
    oq_traced_shapes_destroy(scene.shapes);
    oq_model_destroy(scene.copy);
    see(&scene.trace[value], 3, 7);
    assert_true(oq_statistics_update(&scene.ranges[value], &flat, 0, NULL));
    assert_int_equal(copy(&scene)->n_value_info, 0);
    release(&scene);
}

static void test_a_declaration_of_the_model_stays(void **state) {
    struct scene scene;
    make_scene(&scene, *state, "3,7");
    oq_test_add_node(scene.model, graph_of(&scene), "nobody::Has", NULL, "X", "a,Y");
    oq_test_add_output(scene.model, graph_of(&scene), "Y", FLOAT, NULL);
    const int64_t dims[] = {9, 9};
    assert_true(oq_graph_add_value_info(scene.model, graph_of(&scene), "a", FLOAT, dims, 2));
    start(&scene);
    see(&scene.trace[oq_test_value(scene.graph, "a")], 3, 7);
    see(&scene.trace[oq_test_value(scene.graph, "Y")], 3, 7);
    const Onnx__GraphProto *graph = copy(&scene);
    assert_int_equal(graph->n_value_info, 1);
    expect_shape(graph->value_info[0], "a", dims);
    release(&scene);
}

/* One of the branches never runs, and calls its result as the other does. */
static void test_bodies_that_share_a_name(void **state) {
    struct scene scene;
    make_scene(&scene, *state, "3,7");
    oq_test_add_input(scene.model, graph_of(&scene), "condition", ONNXPTQ_TYPE_BOOL, "");
    Onnx__NodeProto *node =
        oq_test_add_node(scene.model, graph_of(&scene), "If", "if", "condition", "Y");
    static const char *const branches[] = {"then_branch", "else_branch"};
    for (size_t i = 0; i < 2; i++) {
        Onnx__GraphProto *body = oq_test_add_body(scene.model, node, branches[i], branches[i]);
        oq_test_add_node(scene.model, body, "nobody::Has", NULL, "X", "inner");
        oq_test_add_node(scene.model, body, "Relu", NULL, "inner", "out");
        oq_test_add_output(scene.model, body, "out", FLOAT, NULL);
    }
    oq_test_add_output(scene.model, graph_of(&scene), "Y", FLOAT, NULL);
    start(&scene);
    size_t n_bodies = 0;
    for (uint32_t i = 0; i < oq_graph_n_values(scene.graph); i++) {
        if (strcmp(oq_graph_value(scene.graph, i)->name, "inner") == 0 && n_bodies++ == 0) {
            see(&scene.trace[i], 3, 7);
        }
    }
    assert_int_equal(n_bodies, 2);
    const Onnx__GraphProto *graph = copy(&scene);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(graph->node[0]->attribute[i]->g->n_value_info, 0);
    }
    release(&scene);
}

/* ---- Plugins ---- */

static void test_a_plugin_is_called_by_its_domain(void **state) {
    (void)state;
    struct scene scene;
    struct oq_runtime *runtime = oq_test_runtime(OQ_TEST_OPS "libtrtplugins.so", NULL);
    make_scene(&scene, runtime, "1,4");
    oq_test_add_node(scene.model, graph_of(&scene), "custom_domain::DummyOp", "n", "X", "Y");
    oq_test_add_output(scene.model, graph_of(&scene), "Y", FLOAT, "1,4");
    start(&scene);
    if (oq_probe_require_all(runtime, scene.graph, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(oq_runtime_calls_plugin(runtime, "custom_domain", "DummyOp"));
    assert_false(oq_runtime_calls_plugin(runtime, "custom_domain", "Dummy"));
    assert_false(oq_runtime_calls_plugin(runtime, "custom", "DummyOp"));
    assert_string_equal(copy(&scene)->node[0]->domain, OQ_PLUGIN_DOMAIN);
    assert_string_equal(graph_of(&scene)->node[0]->domain, "custom_domain");

    struct oq_session *session = oq_test_session(runtime, scene.copy, NULL);
    const float data[] = {1, 2, 3, 4};
    const struct onnxptq_tensor input = oq_test_tensor(FLOAT, "1,4", data);
    struct onnxptq_tensor output = {0};
    assert_int_equal(oq_session_run(session, &input, &output, &error), ONNXPTQ_OK);
    assert_float_equal(((const float *)output.data)[3], 2, 0);
    oq_session_destroy(session);
    release(&scene);
    oq_runtime_close(runtime);
}

static void test_an_operator_that_a_library_has_is_no_plugin(void **state) {
    struct scene scene;
    make_scene(&scene, *state, "1,4");
    oq_test_add_node(scene.model, graph_of(&scene), "custom_domain::DummyOp", "n", "X", "Y");
    oq_test_add_output(scene.model, graph_of(&scene), "Y", FLOAT, "1,4");
    start(&scene);
    assert_int_equal(oq_probe_require_all(*state, scene.graph, &error), ONNXPTQ_OK);
    assert_false(oq_runtime_calls_plugin(*state, "custom_domain", "DummyOp"));
    assert_string_equal(copy(&scene)->node[0]->domain, "custom_domain");
    release(&scene);
}

/* ---- Random numbers ---- */

/* A seed for each name, the user's own left alone. */
static void test_random_operators_are_seeded(void **state) {
    static const char *const names[] = {"one", "other", "seeded"};
    struct scene scene;
    make_scene(&scene, *state, "3,7");
    for (size_t i = 0; i < 3; i++) {
        oq_test_add_node(scene.model, graph_of(&scene), "RandomNormalLike", names[i], "X",
                         names[i]);
        oq_test_add_output(scene.model, graph_of(&scene), names[i], FLOAT, NULL);
    }
    assert_true(oq_node_set_float(scene.model, graph_of(&scene)->node[2], "seed", 7.0F));
    start(&scene);
    float seeds[3];
    for (size_t i = 0; i < 3; i++) {
        seeds[i] = oq_attribute_float(copy(&scene)->node[i], "seed", -1.0F);
        oq_traced_shapes_destroy(scene.shapes);
        oq_model_destroy(scene.copy);
        scene.shapes = NULL;
        scene.copy = NULL;
    }
    assert_true(seeds[0] >= 0.0F && seeds[1] >= 0.0F && seeds[0] != seeds[1]);
    assert_true(seeds[2] == 7.0F);
    assert_null(oq_attribute(graph_of(&scene)->node[0], "seed"));
    release(&scene);
}

/* ---- Main ---- */

static int open_runtime(void **state) {
    *state = oq_test_runtime(OQ_TEST_OPS "libdummy.so", NULL);
    return *state != NULL ? 0 : 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_sample_tells_the_rank),
        cmocka_unit_test(test_samples_that_agree_tell_the_shape),
        cmocka_unit_test(test_an_open_input_leaves_the_shape_open),
        cmocka_unit_test(test_what_varies_or_is_unseen_is_not_declared),
        cmocka_unit_test(test_a_declaration_of_the_model_stays),
        cmocka_unit_test(test_bodies_that_share_a_name),
        cmocka_unit_test(test_a_plugin_is_called_by_its_domain),
        cmocka_unit_test(test_an_operator_that_a_library_has_is_no_plugin),
        cmocka_unit_test(test_random_operators_are_seeded),
    };
    return cmocka_run_group_tests(tests, open_runtime, oq_test_teardown_runtime);
}
