/*
 * Options of execution providers, those of TensorRT among them, which no runtime here has.
 */
#include "runtime/provider.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static struct onnxptq_error error;

static char *copy_of(const char *text) {
    char *copy = strdup(text);
    if (copy == NULL) {
        abort();
    }
    return copy;
}

/* oq_providers_reset() frees the list, so it is malloc'ed. */
static struct oq_providers make(const char *first, const char *second) {
    struct oq_providers providers = {.n = second != NULL ? 2 : 1};
    const char *names[] = {first, second};
    providers.items = calloc(2, sizeof *providers.items);
    assert_non_null(providers.items);
    for (size_t i = 0; i < providers.n; i++) {
        providers.items[i].text = copy_of(names[i]);
        providers.items[i].name = copy_of(names[i]);
    }
    return providers;
}

static const char *option(const struct oq_provider *provider, const char *key) {
    for (size_t i = 0; i < provider->n_options; i++) {
        if (strcmp(provider->keys[i], key) == 0) {
            return provider->values[i];
        }
    }
    return "";
}

static void expect_usage(enum onnxptq_status status, const char *part) {
    assert_int_equal(status, ONNXPTQ_ERROR_USAGE);
    if (strstr(error.message, part) == NULL) {
        fail_msg("'%s' does not hold '%s'", error.message, part);
    }
}

/* ---- Any provider ---- */

static void test_behind_the_name(void **state) {
    (void)state;
    struct oq_providers providers = make(OQ_PROVIDER_CUDA, NULL);
    struct oq_provider *cuda = &providers.items[0];
    assert_int_equal(oq_provider_add_inline(cuda, "1", &error), ONNXPTQ_OK);
    assert_string_equal(option(cuda, "device_id"), "1");
    assert_int_equal(oq_provider_add_inline(cuda, "a=x=y;b=;device_id=3", &error), ONNXPTQ_OK);
    assert_string_equal(option(cuda, "a"), "x=y");
    assert_string_equal(option(cuda, "device_id"), "3");
    assert_int_equal(cuda->n_options, 3);
    expect_usage(oq_provider_add_inline(cuda, "", &error), "key=value");
    expect_usage(oq_provider_add_inline(cuda, "=1", &error), "key=value");
    expect_usage(oq_provider_add_inline(cuda, "a=1;", &error), "key=value");
    oq_providers_reset(&providers);
}

static void test_one_by_one(void **state) {
    (void)state;
    struct oq_providers providers = make(OQ_PROVIDER_TENSORRT, OQ_PROVIDER_CUDA);
    const char *texts[] = {"trt:a=1", "CUDA:b=path:with=signs", "TensorrtExecutionProvider:a=2"};
    struct onnxptq_runtime_options options = {.provider_options = texts, .n_provider_options = 3};
    assert_int_equal(oq_providers_add_options(&providers, &options, &error), ONNXPTQ_OK);
    assert_string_equal(option(&providers.items[0], "a"), "2");
    assert_string_equal(option(&providers.items[1], "b"), "path:with=signs");
    assert_int_equal(providers.items[0].n_options + providers.items[1].n_options, 2);
    texts[0] = "dml:a=1";
    expect_usage(oq_providers_add_options(&providers, &options, &error), "dml:a=1");
    oq_providers_reset(&providers);
}

/* ---- TensorRT ---- */

static void test_plugins(void **state) {
    (void)state;
    struct oq_providers providers = make(OQ_PROVIDER_TENSORRT, OQ_PROVIDER_CUDA);
    const char *plugins[] = {ONNXPTQ_TEST_OPS_DIR "/libdummy.so",
                             ONNXPTQ_TEST_OPS_DIR "/libmixed.so"};
    struct onnxptq_runtime_options options = {.trt_plugins = plugins, .n_trt_plugins = 2};
    assert_int_equal(oq_providers_add_options(&providers, &options, &error), ONNXPTQ_OK);
    assert_string_equal(option(&providers.items[0], "trt_extra_plugin_lib_paths"),
                        ONNXPTQ_TEST_OPS_DIR "/libdummy.so;" ONNXPTQ_TEST_OPS_DIR "/libmixed.so");
    assert_int_equal(providers.items[1].n_options, 0);
    static const char *const bad[] = {"", "nosuch.so", "a;b", "/"};
    for (size_t i = 0; i < 4; i++) {
        plugins[1] = bad[i];
        expect_usage(oq_providers_add_options(&providers, &options, &error), "--trt-plugin");
    }
    oq_providers_reset(&providers);
}

static void test_a_relative_plugin(void **state) {
    (void)state;
    struct oq_providers providers = make(OQ_PROVIDER_TENSORRT, NULL);
    const char *plugins[] = {"libdummy.so"};
    struct onnxptq_runtime_options options = {.trt_plugins = plugins, .n_trt_plugins = 1};
    assert_int_equal(chdir(ONNXPTQ_TEST_OPS_DIR), 0);
    assert_int_equal(oq_providers_add_options(&providers, &options, &error), ONNXPTQ_OK);
    const char *path = option(&providers.items[0], "trt_extra_plugin_lib_paths");
    assert_int_equal(path[0], '/');
    assert_non_null(strstr(path, "/libdummy.so"));
    oq_providers_reset(&providers);
}

static void test_profiles(void **state) {
    (void)state;
    struct onnxptq_input_shape min[] = {{"x", 4, {1, 3, 8, 8}}, {"ids", 1, {0}}};
    struct onnxptq_input_shape opt[] = {{"ids", 1, {16}}, {"x", 4, {4, 3, 8, 8}}};
    struct onnxptq_input_shape max[] = {{"x", 4, {8, 3, 8, 8}}, {"ids", 1, {128}}};
    struct onnxptq_runtime_options options = {.trt_profile_min = min,
                                              .trt_profile_opt = opt,
                                              .trt_profile_max = max,
                                              .n_trt_profile_min = 2,
                                              .n_trt_profile_opt = 2,
                                              .n_trt_profile_max = 2};
    struct oq_providers providers = make(OQ_PROVIDER_TENSORRT, NULL);
    const struct oq_provider *trt = &providers.items[0];
    assert_int_equal(oq_providers_add_options(&providers, &options, &error), ONNXPTQ_OK);
    assert_string_equal(option(trt, "trt_profile_min_shapes"), "x:1x3x8x8,ids:0");
    assert_string_equal(option(trt, "trt_profile_opt_shapes"), "ids:16,x:4x3x8x8");
    assert_string_equal(option(trt, "trt_profile_max_shapes"), "x:8x3x8x8,ids:128");

    min[0].shape[0] = 5; /* above opt */
    expect_usage(oq_providers_add_options(&providers, &options, &error), "'x'");
    min[0].shape[0] = 1;
    max[0].rank = 3;
    expect_usage(oq_providers_add_options(&providers, &options, &error), "dimensions");
    max[0].rank = 4;
    options.n_trt_profile_min = 1;
    expect_usage(oq_providers_add_options(&providers, &options, &error), "'ids'");
    options.n_trt_profile_min = 0;
    options.n_trt_profile_opt = 0;
    expect_usage(oq_providers_add_options(&providers, &options, &error), "is missing");
    oq_providers_reset(&providers);
}

static void test_without_tensorrt(void **state) {
    (void)state;
    struct oq_providers providers = make(OQ_PROVIDER_CUDA, NULL);
    const char *plugins[] = {ONNXPTQ_TEST_OPS_DIR "/libdummy.so"};
    struct onnxptq_runtime_options options = {.trt_plugins = plugins, .n_trt_plugins = 1};
    expect_usage(oq_providers_add_options(&providers, &options, &error), "--providers trt");
    oq_providers_reset(&providers);
}

static void test_where_tensors_lie(void **state) {
    (void)state;
    struct oq_providers providers = make(OQ_PROVIDER_CUDA, "OpenVINOExecutionProvider");
    assert_true(oq_provider_has_own_memory(&providers.items[0]));
    assert_false(oq_provider_has_own_memory(&providers.items[1]));
    oq_providers_reset(&providers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_behind_the_name),   cmocka_unit_test(test_one_by_one),
        cmocka_unit_test(test_plugins),           cmocka_unit_test(test_a_relative_plugin),
        cmocka_unit_test(test_profiles),          cmocka_unit_test(test_without_tensorrt),
        cmocka_unit_test(test_where_tensors_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
