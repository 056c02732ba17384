/*
 * Options: copying by size, defaults, and every check that needs no model.
 */
#include "api/options.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct onnxptq_error error;

static struct onnxptq_quantize_options good_options(void) {
    struct onnxptq_quantize_options options;
    onnxptq_quantize_options_init(&options);
    options.model_path = "model.onnx";
    options.output_path = "out.onnx";
    options.random_samples = 4;
    return options;
}

static enum onnxptq_status check(const struct onnxptq_quantize_options *options) {
    struct oq_options copy;
    enum onnxptq_status status = oq_options_copy(options, &copy, &error);
    return status != ONNXPTQ_OK ? status : oq_options_check(&copy, &error);
}

static void assert_refused(const struct onnxptq_quantize_options *options, const char *words) {
    memset(&error, 0, sizeof error);
    assert_int_equal(check(options), ONNXPTQ_ERROR_USAGE);
    assert_int_equal(error.status, ONNXPTQ_ERROR_USAGE);
    assert_non_null(strstr(error.message, words));
}

/* ---- Sizes --------------------------------------------------------------------------------- */

static void test_defaults(void **state) {
    (void)state;
    struct onnxptq_quantize_options options;
    memset(&options, 0xA5, sizeof options);
    onnxptq_quantize_options_init(&options);
    assert_int_equal(options.struct_size, sizeof options);
    assert_string_equal(options.target, "tensorrt");
    assert_int_equal(options.method, ONNXPTQ_METHOD_AUTO);
    assert_int_equal(options.size_rules, -1);
    assert_null(options.runtime);
    assert_null(options.data);
    struct onnxptq_quantize_options good = good_options();
    assert_int_equal(check(&good), ONNXPTQ_OK);
}

/* A caller built against an older, shorter struct: nothing behind its end is written or read. */
static void test_a_shorter_struct(void **state) {
    (void)state;
    size_t size = offsetof(struct onnxptq_quantize_options, progress);
    struct onnxptq_quantize_options options;
    memset(&options, 0xA5, sizeof options);
    onnxptq_quantize_options_fill(&options, size);
    assert_int_equal(((unsigned char *)&options)[size], 0xA5);
    options.model_path = "model.onnx";
    struct oq_options copy;
    assert_int_equal(oq_options_copy(&options, &copy, &error), ONNXPTQ_OK);
    assert_null(copy.quantize.progress);
    assert_null(copy.quantize.log_user);
    assert_string_equal(copy.quantize.model_path, "model.onnx");
    assert_ptr_equal(copy.quantize.runtime, &copy.runtime);
}

static void test_sizes_that_cannot_be(void **state) {
    (void)state;
    struct onnxptq_quantize_options options = good_options();
    options.struct_size = 0;
    assert_refused(&options, "onnxptq_quantize_options_init()");
    options.struct_size = sizeof options + 8;
    assert_refused(&options, "newer header");
    struct onnxptq_runtime_options runtime = {0};
    options = good_options();
    options.runtime = &runtime;
    assert_refused(&options, "onnxptq_runtime_options_init()");
    assert_int_equal(check(NULL), ONNXPTQ_ERROR_USAGE);
}

static void test_no_target_is_the_default(void **state) {
    (void)state;
    struct onnxptq_quantize_options options = good_options();
    options.target = NULL;
    struct oq_options copy;
    assert_int_equal(oq_options_copy(&options, &copy, NULL), ONNXPTQ_OK);
    assert_string_equal(copy.quantize.target, "tensorrt");
}

/* ---- Checks -------------------------------------------------------------------------------- */

static void test_paths_must_be_given(void **state) {
    (void)state;
    struct onnxptq_quantize_options options = good_options();
    options.model_path = NULL;
    assert_refused(&options, "no model");
    options = good_options();
    options.output_path = "";
    assert_refused(&options, "no output");
}

static enum onnxptq_status never_called(void *user, size_t index, struct onnxptq_tensor *inputs,
                                        size_t n_inputs, struct onnxptq_error *out) {
    (void)user, (void)index, (void)inputs, (void)n_inputs, (void)out;
    return ONNXPTQ_ERROR_INTERNAL;
}

static void test_exactly_one_source(void **state) {
    (void)state;
    struct onnxptq_data_source source = {.n_samples = 1, .read = never_called};
    struct onnxptq_quantize_options options = good_options();
    options.random_samples = 0;
    assert_refused(&options, "--data");
    options.data_path = "a.npz";
    assert_int_equal(check(&options), ONNXPTQ_OK);
    options.data = &source;
    assert_refused(&options, "more than one");
    options.data_path = NULL;
    assert_int_equal(check(&options), ONNXPTQ_OK);
    source.n_samples = 0;
    assert_refused(&options, "no samples");
    source = (struct onnxptq_data_source){.n_samples = 1};
    assert_refused(&options, "no read function");
}

static void test_images_need_to_be_told_how(void **state) {
    (void)state;
    struct onnxptq_quantize_options options = good_options();
    options.preprocess = "imagenet";
    assert_refused(&options, "--images");
    options.images_path = "photos";
    assert_refused(&options, "more than one");
    options.random_samples = 0;
    assert_int_equal(check(&options), ONNXPTQ_OK);
    options.preprocess = NULL;
    assert_refused(&options, "--preprocess");
}

static void test_choices(void **state) {
    (void)state;
    struct onnxptq_quantize_options options = good_options();
    options.target = "tensorflow";
    assert_refused(&options, "tensorrt, onnxruntime");
    options = good_options();
    options.size_rules = 2;
    assert_refused(&options, "size_rules");
    options = good_options();
    const int unknown = 77; /* copied in: no value of the enums */
    memcpy(&options.method, &unknown, sizeof unknown);
    assert_refused(&options, "method");
    options = good_options();
    memcpy(&options.foreign_edges, &unknown, sizeof unknown);
    assert_refused(&options, "foreign_edges");
    struct onnxptq_runtime_options runtime;
    onnxptq_runtime_options_init(&runtime);
    runtime.threads = -1;
    options = good_options();
    options.runtime = &runtime;
    assert_refused(&options, "threads");
}

static void test_lists_hold_text(void **state) {
    (void)state;
    const char *nodes[] = {"conv.*", NULL};
    struct onnxptq_quantize_options options = good_options();
    options.nodes = nodes;
    options.n_nodes = 1;
    assert_int_equal(check(&options), ONNXPTQ_OK);
    options.n_nodes = 2;
    assert_refused(&options, "node patterns");
    options = good_options();
    options.n_op_types = 1;
    assert_refused(&options, "operator types");
}

static void test_random_ranges_and_shapes(void **state) {
    (void)state;
    struct onnxptq_input_range range = {.name = "x", .low = 1, .high = 0};
    struct onnxptq_quantize_options options = good_options();
    options.input_ranges = &range;
    options.n_input_ranges = 1;
    assert_refused(&options, "'x'");
    range.high = 1;
    assert_int_equal(check(&options), ONNXPTQ_OK);
    range.high = (double)INFINITY;
    assert_refused(&options, "'x'");
    range.high = 2;
    options.random_samples = 0;
    options.data_path = "a.npz";
    assert_refused(&options, "--input-range");

    struct onnxptq_input_shape shape = {.name = "y", .rank = 1, .shape = {-1}};
    options = good_options();
    options.input_shapes = &shape;
    options.n_input_shapes = 1;
    assert_refused(&options, "'y'");
    shape.rank = ONNXPTQ_MAX_RANK + 1;
    assert_refused(&options, "'y'");
}

/* ---- Files --------------------------------------------------------------------------------- */

static enum onnxptq_status check_files(const char *model, const char *output, bool overwrite) {
    struct onnxptq_quantize_options options = good_options();
    options.model_path = model;
    options.output_path = output;
    options.overwrite = overwrite;
    struct oq_options copy;
    assert_int_equal(oq_options_copy(&options, &copy, &error), ONNXPTQ_OK);
    memset(&error, 0, sizeof error);
    return oq_options_check_files(&copy, &error);
}

static void test_shares(void **state) {
    (void)state;
    struct onnxptq_quantize_options options = good_options();
    options.shard = 2;
    assert_refused(&options, "shard 2 of 0");
    options.n_shards = 2;
    assert_refused(&options, "shard 2 of 2");
    options.shard = 1;
    assert_refused(&options, "one shard");
    options.output_path = NULL;
    options.save_ranges_path = "out.cache";
    assert_refused(&options, "one shard");
    options.save_ranges_path = "out.json";
    assert_int_equal(check(&options), ONNXPTQ_OK);
    options.n_parts = 3;
    assert_refused(&options, "part 0 of 3"); /* without a state */
    options.state_path = "state";
    assert_int_equal(check(&options), ONNXPTQ_OK);
    options.part = 3;
    assert_refused(&options, "part 3 of 3");
    options.part = 0;
    options.n_parts = 100000;
    assert_refused(&options, "at most");
}

static void test_files(void **state) {
    (void)state;
    char folder[] = "/tmp/onnxptq-options-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char out[64], inside[64];
    snprintf(out, sizeof out, "%s/out.onnx", folder);
    snprintf(inside, sizeof inside, "%s/missing/out.onnx", folder);

    assert_int_equal(check_files("/nonexistent.onnx", out, false), ONNXPTQ_ERROR_IO);
    assert_non_null(strstr(error.message, "/nonexistent.onnx"));
    assert_int_equal(check_files("/bin/sh", out, false), ONNXPTQ_OK);
    assert_int_equal(access(out, F_OK), -1);
    assert_int_equal(check_files("/bin/sh", inside, false), ONNXPTQ_ERROR_IO);
    assert_non_null(strstr(error.message, "/missing'; create it"));
    assert_int_equal(check_files("/bin/sh", folder, true), ONNXPTQ_ERROR_IO);
    assert_non_null(strstr(error.message, "directory"));

    FILE *file = fopen(out, "w");
    assert_non_null(file);
    assert_true(file != NULL && fclose(file) == 0);
    assert_int_equal(check_files("/bin/sh", out, false), ONNXPTQ_ERROR_USAGE);
    assert_non_null(strstr(error.message, "--force"));
    assert_int_equal(check_files("/bin/sh", out, true), ONNXPTQ_OK);
    assert_int_equal(access(out, F_OK), 0);

    assert_int_equal(unlink(out), 0);
    assert_int_equal(rmdir(folder), 0); /* fails when a temporary file was left */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_a_shorter_struct),
        cmocka_unit_test(test_sizes_that_cannot_be),
        cmocka_unit_test(test_no_target_is_the_default),
        cmocka_unit_test(test_paths_must_be_given),
        cmocka_unit_test(test_exactly_one_source),
        cmocka_unit_test(test_images_need_to_be_told_how),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_lists_hold_text),
        cmocka_unit_test(test_random_ranges_and_shapes),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
