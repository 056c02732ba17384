/*
 * Jobs through the public header alone: steps, callbacks, failures, and what they leave behind.
 */
#include "base/file.h"
#include "model/write.h"
#include "model_builder.h"
#include "runtime_tools.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WIDTH = 32, N_SAMPLES = 24 };

struct scene {
    char folder[64], model[96], output[96];
    float sample[WIDTH];
    size_t n_read, n_progress, stop_at, fail_at, last_total;
    struct onnxptq_data_source source;
    struct onnxptq_quantize_options options;
    struct onnxptq_error error;
};

/* ---- Callbacks ----------------------------------------------------------------------------- */

static enum onnxptq_status read_sample(void *user, size_t index, struct onnxptq_tensor *inputs,
                                       size_t n_inputs, struct onnxptq_error *error) {
    struct scene *scene = user;
    assert_int_equal(n_inputs, 1);
    assert_string_equal(inputs[0].name, "x");
    assert_int_equal(inputs[0].shape[0], -1);
    assert_true(index < N_SAMPLES);
    if (++scene->n_read == scene->fail_at) {
        error->status = ONNXPTQ_ERROR_IO;
        snprintf(error->message, sizeof error->message, "the camera is unplugged");
        return ONNXPTQ_ERROR_IO;
    }
    for (size_t i = 0; i < WIDTH; i++) {
        scene->sample[i] = (float)((i * 7 + index * 3) % 13) - 6.0F;
    }
    inputs[0].shape[0] = 1;
    inputs[0].data = scene->sample;
    inputs[0].size = sizeof scene->sample;
    return ONNXPTQ_OK;
}

static bool count_progress(void *user, const char *stage, size_t done, size_t total) {
    struct scene *scene = user;
    assert_true(done <= total);
    scene->last_total = strcmp(stage, "calibrate") == 0 ? total : scene->last_total;
    return ++scene->n_progress != scene->stop_at;
}

/* ---- The scene ----------------------------------------------------------------------------- */

/* x[n, 32] -> MatMul -> Relu -> MatMul -> y */
static void write_model(const char *path) {
    static float weight[WIDTH * WIDTH];
    for (size_t i = 0; i < WIDTH * WIDTH; i++) {
        weight[i] = (float)((i * 31) % 17) / 17.0F - 0.4F;
    }
    struct oq_model *model = oq_test_model_create(17);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "x", ONNXPTQ_TYPE_FLOAT, "n,32");
    oq_test_add_floats(model, graph, "w1", "32,32", weight);
    oq_test_add_floats(model, graph, "w2", "32,32", weight);
    oq_test_add_node(model, graph, "MatMul", "mm1", "x,w1", "a");
    oq_test_add_node(model, graph, "Relu", "relu", "a", "r");
    oq_test_add_node(model, graph, "MatMul", "mm2", "r,w2", "y");
    oq_test_add_output(model, graph, "y", ONNXPTQ_TYPE_FLOAT, "n,32");
    struct oq_writer *writer = NULL;
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_model_write(model, writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
    oq_writer_destroy(writer);
    oq_model_destroy(model);
}

static int set_up(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    *state = scene;
    snprintf(scene->folder, sizeof scene->folder, "/tmp/onnxptq-job-XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    snprintf(scene->model, sizeof scene->model, "%s/model.onnx", scene->folder);
    snprintf(scene->output, sizeof scene->output, "%s/out.onnx", scene->folder);
    write_model(scene->model);
    scene->source =
        (struct onnxptq_data_source){.user = scene, .n_samples = N_SAMPLES, .read = read_sample};
    onnxptq_quantize_options_init(&scene->options);
    scene->options.model_path = scene->model;
    scene->options.output_path = scene->output;
    scene->options.data = &scene->source;
    scene->options.size_rules = 0;
    scene->options.progress = count_progress;
    scene->options.progress_user = scene;
    return 0;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    unlink(scene->model);
    unlink(scene->output);
    int left = rmdir(scene->folder); /* fails when a temporary file is left */
    free(scene);
    return left;
}

static size_t count_files(const struct scene *scene) {
    DIR *folder = opendir(scene->folder);
    assert_non_null(folder);
    if (folder == NULL) {
        return 0;
    }
    size_t n = 0;
    while (readdir(folder) != NULL) {
        n++;
    }
    closedir(folder);
    return n - 2; /* "." and ".." */
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void test_steps(void **state) {
    struct scene *scene = *state;
    struct onnxptq_job *job = NULL;
    assert_int_equal(onnxptq_job_create(&scene->options, &job, &scene->error), ONNXPTQ_OK);
    const struct onnxptq_report *report = onnxptq_job_report(job);
    assert_int_equal(report->n_nodes, 3);
    assert_string_equal(report->nodes[0].rule, "undecided");
    assert_int_equal(scene->n_read, 0);

    assert_int_equal(onnxptq_job_plan(job, &scene->error), ONNXPTQ_OK);
    report = onnxptq_job_report(job);
    assert_int_equal(report->nodes[0].decision, ONNXPTQ_DECISION_QUANTIZED);
    assert_int_equal(report->nodes[1].decision, ONNXPTQ_DECISION_FLOAT);
    assert_int_equal(scene->n_read, 1);
    assert_int_equal(report->n_tensors, 0);

    assert_int_equal(onnxptq_job_calibrate(job, &scene->error), ONNXPTQ_OK);
    assert_int_equal(scene->last_total, N_SAMPLES - N_SAMPLES / 8);
    assert_int_equal(onnxptq_job_emit(job, &scene->error), ONNXPTQ_OK);
    assert_int_equal(onnxptq_job_report(job)->n_weights, 2);
    assert_int_equal(onnxptq_job_check(job, &scene->error), ONNXPTQ_OK);
    report = onnxptq_job_report(job);
    assert_int_equal(report->n_check_samples, N_SAMPLES / 8);
    assert_true(report->held_back);
    assert_true(report->outputs[0].has_sqnr && report->outputs[0].sqnr_db > 30);
    assert_int_equal(access(scene->output, F_OK), -1);

    assert_int_equal(onnxptq_job_commit(job, &scene->error), ONNXPTQ_OK);
    assert_int_equal(count_files(scene), 2); /* before the job ends */
    assert_true(report->peak_anonymous_bytes > 0 && report->output_bytes > 0);
    onnxptq_job_destroy(job);
}

static void test_a_step_runs_those_before_it(void **state) {
    struct scene *scene = *state;
    struct onnxptq_job *job = NULL;
    assert_int_equal(onnxptq_job_create(&scene->options, &job, &scene->error), ONNXPTQ_OK);
    assert_int_equal(onnxptq_job_commit(job, &scene->error), ONNXPTQ_OK);
    size_t n_read = scene->n_read;
    assert_int_equal(onnxptq_job_plan(job, &scene->error), ONNXPTQ_OK); /* done already */
    assert_int_equal(scene->n_read, n_read);
    assert_int_equal(onnxptq_job_report(job)->n_stages, 9);
    onnxptq_job_destroy(job);
    assert_int_equal(count_files(scene), 2);
}

static void test_all_in_one(void **state) {
    struct scene *scene = *state;
    char *report = NULL;
    assert_int_equal(onnxptq_quantize(&scene->options, &report, &scene->error), ONNXPTQ_OK);
    assert_non_null(strstr(report, "\"sqnr_db\""));
    onnxptq_free(report);
    assert_int_equal(onnxptq_quantize(&scene->options, NULL, NULL), ONNXPTQ_ERROR_USAGE);
    scene->options.overwrite = true;
    assert_int_equal(onnxptq_quantize(&scene->options, NULL, NULL), ONNXPTQ_OK);
}

static void test_a_job_that_is_dropped_leaves_nothing(void **state) {
    struct scene *scene = *state;
    struct onnxptq_job *job = NULL;
    assert_int_equal(onnxptq_job_create(&scene->options, &job, &scene->error), ONNXPTQ_OK);
    assert_int_equal(onnxptq_job_emit(job, &scene->error), ONNXPTQ_OK);
    assert_true(count_files(scene) > 1);
    onnxptq_job_destroy(job);
    assert_int_equal(count_files(scene), 1);
}

/* The run is stopped after each of its progress calls in turn. */
static void test_progress_stops_the_run(void **state) {
    struct scene *scene = *state;
    for (scene->stop_at = 1;; scene->stop_at += 7) {
        scene->n_progress = 0;
        enum onnxptq_status status = onnxptq_quantize(&scene->options, NULL, &scene->error);
        if (status == ONNXPTQ_OK) {
            break;
        }
        assert_int_equal(status, ONNXPTQ_ERROR_CANCELLED);
        assert_int_equal(scene->error.status, ONNXPTQ_ERROR_CANCELLED);
        assert_int_equal(scene->n_progress, scene->stop_at);
        assert_int_equal(count_files(scene), 1);
    }
    assert_true(scene->stop_at > N_SAMPLES);
}

static void test_a_data_source_that_fails(void **state) {
    struct scene *scene = *state;
    for (scene->fail_at = 1; scene->fail_at < N_SAMPLES; scene->fail_at += 10) {
        scene->n_read = 0;
        assert_int_equal(onnxptq_quantize(&scene->options, NULL, &scene->error), ONNXPTQ_ERROR_IO);
        assert_non_null(strstr(scene->error.message, "the camera is unplugged"));
        assert_int_equal(count_files(scene), 1);
    }
}

static void test_no_step_after_a_failure(void **state) {
    struct scene *scene = *state;
    struct onnxptq_job *job = NULL;
    scene->fail_at = 1;
    assert_int_equal(onnxptq_job_create(&scene->options, &job, &scene->error), ONNXPTQ_OK);
    assert_int_equal(onnxptq_job_plan(job, &scene->error), ONNXPTQ_ERROR_IO);
    assert_int_equal(onnxptq_job_plan(job, &scene->error), ONNXPTQ_ERROR_USAGE);
    assert_int_equal(onnxptq_job_commit(job, &scene->error), ONNXPTQ_ERROR_USAGE);
    onnxptq_job_destroy(job);
    assert_int_equal(onnxptq_job_plan(NULL, &scene->error), ONNXPTQ_ERROR_USAGE);
    onnxptq_job_destroy(NULL);
}

static void test_inspection(void **state) {
    struct scene *scene = *state;
    struct onnxptq_inspector *inspector = NULL;
    assert_int_equal(onnxptq_inspect(scene->model, NULL, NULL, &inspector, &scene->error),
                     ONNXPTQ_OK);
    const struct onnxptq_inspection *result = onnxptq_inspector_result(inspector);
    assert_int_equal(result->n_operators, 2);
    assert_string_equal(result->operators[0].op, "MatMul");
    assert_int_equal(result->operators[0].n_quantizable, 2);
    assert_int_equal(result->inputs[0].shape[0], -1);
    assert_int_equal(result->weight_bytes, 2 * WIDTH * WIDTH * sizeof(float));
    onnxptq_inspector_destroy(inspector);
    assert_int_equal(onnxptq_inspect(scene->model, "x", NULL, &inspector, &scene->error),
                     ONNXPTQ_ERROR_USAGE);
    assert_int_equal(onnxptq_inspect("", NULL, NULL, &inspector, NULL), ONNXPTQ_ERROR_USAGE);
    assert_int_equal(onnxptq_inspect("/no/model", NULL, NULL, &inspector, NULL), ONNXPTQ_ERROR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_step_runs_those_before_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_in_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_job_that_is_dropped_leaves_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_progress_stops_the_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_data_source_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_step_after_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_inspection, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
