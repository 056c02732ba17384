/*
 * Marks tell which node of a user's library runs, at the right time: before it, and behind it, in
 * every order of the graph, in bodies, and beside observers; nothing else of the model changes.
 */
#include "calib/marks.h"
#include "calib/watch_model.h"
#include "model_builder.h"
#include "runtime/probe.h"
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

static struct onnxptq_error error;

/* ---- What was told ---- */

/* "a+ a- b+ b-": node a begins, has ended, ... */
struct told {
    char text[512];
    char last[64];
};

static void listen(void *user, const struct onnxptq_activity *activity) {
    struct told *told = user;
    size_t used = strlen(told->text);
    if (activity->node != NULL) {
        assert_string_equal(activity->op, "my.ops::ScaleBy2");
        assert_non_null(strstr(activity->library, "libscaleby2.so"));
        (void)snprintf(told->text + used, sizeof told->text - used, "%s%s+", used > 0 ? " " : "",
                       activity->node);
        (void)snprintf(told->last, sizeof told->last, "%s", activity->node);
    } else if (told->last[0] != '\0' && activity->stage != NULL) {
        (void)snprintf(told->text + used, sizeof told->text - used, " %s-", told->last);
        told->last[0] = '\0';
    }
}

struct scene {
    struct told told;
    struct oq_runtime *runtime;
    struct oq_model *model;
};

static Onnx__GraphProto *graph_of(struct scene *scene) {
    return oq_test_main_graph(scene->model);
}

static void make_scene(struct scene *scene, onnxptq_activity_fn activity) {
    static const char *const libraries[] = {OQ_TEST_OPS "libscaleby2.so"};
    *scene = (struct scene){.model = oq_test_model_create(17)};
    const struct onnxptq_runtime_options options = {.struct_size = sizeof options,
                                                    .custom_op_libraries = libraries,
                                                    .n_custom_op_libraries = 1,
                                                    .activity = activity,
                                                    .activity_user = &scene->told};
    if (oq_runtime_open(&options, NULL, &scene->runtime, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    oq_test_add_input(scene->model, graph_of(scene), "X", FLOAT, "1,4");
}

static void scale(struct scene *scene, Onnx__GraphProto *graph, const char *name, const char *input,
                  const char *output) {
    oq_test_add_node(scene->model, graph, "my.ops::ScaleBy2", name, input, output);
}

static void finish_model(struct scene *scene) {
    oq_test_add_output(scene->model, graph_of(scene), "Y", FLOAT, "1,4");
    scene->model = oq_test_model_reload(scene->model);
    struct oq_graph *graph = oq_test_graph(scene->model);
    if (oq_probe_require_all(scene->runtime, graph, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    oq_graph_destroy(graph);
}

/* Runs a copy with marks; the last output's first element. */
static float run(struct scene *scene) {
    struct oq_model *copy = NULL;
    assert_int_equal(oq_model_clone(scene->model, &copy, &error), ONNXPTQ_OK);
    assert_int_equal(oq_marks_add(copy, scene->runtime, &error), ONNXPTQ_OK);
    struct oq_session *session = oq_test_session(scene->runtime, copy, NULL);
    const float data[] = {1, 2, 3, 4};
    const struct onnxptq_tensor input = oq_test_tensor(FLOAT, "1,4", data);
    struct onnxptq_tensor outputs[2] = {{0}};
    scene->told.text[0] = '\0';
    oq_runtime_tell_run(scene->runtime, "test", 0, 1);
    if (oq_session_run(session, &input, outputs, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    const float result = *(const float *)outputs[0].data;
    oq_session_destroy(session);
    oq_model_destroy(copy);
    return result;
}

static void release(struct scene *scene) {
    oq_model_destroy(scene->model);
    oq_runtime_close(scene->runtime);
}

/* ---- Tests ---- */

static void test_a_chain(void **state) {
    (void)state;
    struct scene scene;
    make_scene(&scene, listen);
    scale(&scene, graph_of(&scene), "a", "X", "1");
    scale(&scene, graph_of(&scene), "b", "1", "2");
    oq_test_add_node(scene.model, graph_of(&scene), "Relu", NULL, "2", "3");
    scale(&scene, graph_of(&scene), "c", "3", "Y");
    finish_model(&scene);
    assert_float_equal(run(&scene), 8, 0);
    assert_string_equal(scene.told.text, "a+ a- b+ b- c+ c-");
    release(&scene);
}

/* All of the branches could run at any time; at each moment one does. */
static void test_branches(void **state) {
    (void)state;
    struct scene scene;
    make_scene(&scene, listen);
    scale(&scene, graph_of(&scene), "a", "X", "1");
    scale(&scene, graph_of(&scene), "b", "X", "2");
    scale(&scene, graph_of(&scene), "c", "2", "3");
    scale(&scene, graph_of(&scene), "d", "1", "4");
    oq_test_add_node(scene.model, graph_of(&scene), "Add", NULL, "3,4", "Y");
    finish_model(&scene);
    assert_float_equal(run(&scene), 8, 0);
    assert_int_equal(strlen(scene.told.text), strlen("a+ a- b+ b- c+ c- d+ d-"));
    static const char *const pairs[] = {"a+ a-", "b+ b-", "c+ c-", "d+ d-"};
    for (size_t i = 0; i < 4; i++) {
        assert_non_null(strstr(scene.told.text, pairs[i]));
    }
    release(&scene);
}

static void test_in_a_body(void **state) {
    (void)state;
    struct scene scene;
    make_scene(&scene, listen);
    const int64_t trips = 3;
    Onnx__TensorProto *count =
        oq_tensor_create(scene.model, "trips", ONNXPTQ_TYPE_INT64, NULL, 0, &trips, sizeof trips);
    assert_true(count != NULL && oq_graph_add_initializer(scene.model, graph_of(&scene), count));
    scale(&scene, graph_of(&scene), "a", "X", "1");
    Onnx__NodeProto *loop =
        oq_test_add_node(scene.model, graph_of(&scene), "Loop", "loop", "trips,,1", "Y");
    Onnx__GraphProto *body = oq_test_add_body(scene.model, loop, "body", "body");
    oq_test_add_input(scene.model, body, "i", ONNXPTQ_TYPE_INT64, "");
    oq_test_add_input(scene.model, body, "on", ONNXPTQ_TYPE_BOOL, "");
    oq_test_add_input(scene.model, body, "carried", FLOAT, NULL);
    oq_test_add_node(scene.model, body, "Identity", NULL, "on", "still");
    scale(&scene, body, "b", "carried", "next");
    oq_test_add_output(scene.model, body, "still", ONNXPTQ_TYPE_BOOL, NULL);
    oq_test_add_output(scene.model, body, "next", FLOAT, NULL);
    finish_model(&scene);
    assert_float_equal(run(&scene), 16, 0);
    assert_string_equal(scene.told.text, "a+ a- b+ b- b+ b- b+ b-");
    release(&scene);
}

static void test_nobody_listens(void **state) {
    (void)state;
    struct scene scene;
    make_scene(&scene, NULL);
    scale(&scene, graph_of(&scene), "a", "X", "Y");
    finish_model(&scene);
    struct oq_model *copy = NULL;
    assert_int_equal(oq_model_clone(scene.model, &copy, &error), ONNXPTQ_OK);
    assert_int_equal(oq_marks_add(copy, scene.runtime, &error), ONNXPTQ_OK);
    assert_int_equal(oq_test_main_graph(copy)->n_node, 1);
    oq_model_destroy(copy);
    release(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chain),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_in_a_body),
        cmocka_unit_test(test_nobody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
