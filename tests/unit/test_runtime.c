/*
 * Loading ONNX Runtime and the custom operator libraries: what works, and the reason given for what
 * does not.
 */
#include "base/file.h"
#include "runtime/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OPS ONNXPTQ_TEST_OPS_DIR "/"

static char folder[64];
static struct onnxptq_error error;

/* ---- Helpers ---- */

static const char *path_in_folder(const char *name) {
    static char path[8][160];
    static size_t next;
    char *text = path[next++ % 8];
    (void)snprintf(text, sizeof path[0], "%s/%s", folder, name);
    return text;
}

static const char *write_file(const char *name, const char *content) {
    const char *path = path_in_folder(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (file == NULL) {
        abort(); /* the static analyzer does not know assertions */
    }
    assert_int_equal(fwrite(content, 1, strlen(content), file), strlen(content));
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char *copy_library(const char *from, const char *name) {
    struct oq_mapping library;
    assert_int_equal(oq_mapping_open(from, &library, NULL), ONNXPTQ_OK);
    const char *path = path_in_folder(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (file == NULL) {
        abort(); /* the static analyzer does not know assertions */
    }
    assert_int_equal(fwrite(library.data, 1, library.size, file), library.size);
    assert_int_equal(fclose(file), 0);
    oq_mapping_close(&library);
    return path;
}

struct list {
    const char *items[8];
};

static size_t list_length(const struct list *list) {
    size_t n = 0;
    while (n < 8 && list->items[n] != NULL) {
        n++;
    }
    return n;
}

static enum onnxptq_status open_runtime(const char *ort, struct list libraries,
                                        struct list providers, struct oq_runtime **out) {
    struct onnxptq_runtime_options options = {
        .struct_size = sizeof options,
        .ort_library = ort,
        .custom_op_libraries = libraries.items,
        .n_custom_op_libraries = list_length(&libraries),
        .providers = providers.items,
        .n_providers = list_length(&providers),
    };
    *out = NULL;
    memset(&error, 0, sizeof error);
    return oq_runtime_open(&options, NULL, out, &error);
}

static void expect_good(struct list libraries, struct list providers, size_t n_libraries) {
    struct oq_runtime *runtime = NULL;
    enum onnxptq_status status = open_runtime(NULL, libraries, providers, &runtime);
    if (status != ONNXPTQ_OK) {
        print_message("%s\n", error.message);
    }
    assert_int_equal(status, ONNXPTQ_OK);
    assert_int_equal(oq_runtime_n_libraries(runtime), n_libraries);
    oq_runtime_close(runtime);
}

/* The message holds all of `parts` and is one line. */
static void expect_error(enum onnxptq_status expected, enum onnxptq_status got, struct list parts) {
    assert_int_equal(got, expected);
    assert_int_equal(error.status, expected);
    assert_null(strchr(error.message, '\n'));
    assert_memory_equal(error.message, "cannot ", 7);
    for (size_t i = 0; i < list_length(&parts); i++) {
        if (strstr(error.message, parts.items[i]) == NULL) {
            fail_msg("'%s' does not hold '%s'", error.message, parts.items[i]);
        }
    }
}

static void expect_bad_runtime(const char *path, const char *reason) {
    struct oq_runtime *runtime;
    enum onnxptq_status got = open_runtime(path, (struct list){{0}}, (struct list){{0}}, &runtime);
    expect_error(ONNXPTQ_ERROR_RUNTIME, got, (struct list){{path, reason, "--ort-lib"}});
    assert_null(runtime);
}

static void expect_bad_library(struct list libraries, const char *reason) {
    struct oq_runtime *runtime;
    enum onnxptq_status got = open_runtime(NULL, libraries, (struct list){{0}}, &runtime);
    expect_error(ONNXPTQ_ERROR_LIBRARY, got,
                 (struct list){{libraries.items[list_length(&libraries) - 1], reason}});
    assert_null(runtime);
}

/* ---- The runtime's library ---- */

static void test_runtime_opens(void **state) {
    (void)state;
    struct oq_runtime *runtime;
    enum onnxptq_status got = open_runtime(NULL, (struct list){{0}}, (struct list){{0}}, &runtime);
    if (got != ONNXPTQ_OK) {
        print_message("%s\n", error.message);
    }
    assert_int_equal(got, ONNXPTQ_OK);
    assert_int_equal(strncmp(oq_runtime_version(runtime), "1.", 2), 0);
    assert_non_null(strstr(oq_runtime_library(runtime), "onnxruntime"));
    struct oq_runtime *second;
    got = open_runtime(NULL, (struct list){{0}}, (struct list){{0}}, &second);
    assert_int_equal(got, ONNXPTQ_OK);
    oq_runtime_close(runtime);
    oq_runtime_close(second);
    oq_runtime_close(NULL);
}

static void test_runtime_that_cannot_be_loaded(void **state) {
    (void)state;
    expect_bad_runtime("/no/such/libonnxruntime.so", "no such file");
    expect_bad_runtime("libonnxruntime-missing.so", "no such file");
    expect_bad_runtime(folder, "directory");
    expect_bad_runtime(write_file("empty.so", ""), "empty");
    expect_bad_runtime(write_file("text.so", "this is no library, whatever its name says\n"),
                       "no shared library");
    expect_bad_runtime(OPS "libdummy.so", "not ONNX Runtime");
}

static void test_runtime_from_environment(void **state) {
    (void)state;
    const char *before = getenv("ONNXPTQ_ORT_LIB");
    char *kept = before != NULL ? strdup(before) : NULL;
    assert_int_equal(setenv("ONNXPTQ_ORT_LIB", "/no/such/thing.so", 1), 0);
    struct oq_runtime *runtime;
    enum onnxptq_status got = open_runtime(NULL, (struct list){{0}}, (struct list){{0}}, &runtime);
    expect_error(ONNXPTQ_ERROR_RUNTIME, got,
                 (struct list){{"/no/such/thing.so", "ONNXPTQ_ORT_LIB", "no such file"}});
    /* The option goes before the variable. */
    expect_bad_runtime("/no/other.so", "no such file");
    assert_int_equal(
        kept != NULL ? setenv("ONNXPTQ_ORT_LIB", kept, 1) : unsetenv("ONNXPTQ_ORT_LIB"), 0);
    free(kept);
}

/* ---- Custom operator libraries ---- */

static void test_libraries_load(void **state) {
    (void)state;
    expect_good((struct list){{OPS "libdummy.so"}}, (struct list){{0}}, 1);
    expect_good((struct list){{OPS "libdummy.so", OPS "libtopidx.so"}}, (struct list){{0}}, 2);
    expect_good((struct list){{OPS "libentry.so@RegisterMyOps"}}, (struct list){{0}}, 1);
}

static void test_library_given_twice_counts_once(void **state) {
    (void)state;
    const char *link = path_in_folder("link.so");
    assert_int_equal(symlink(OPS "libdummy.so", link), 0);
    expect_good(
        (struct list){{OPS "libdummy.so", OPS "libdummy.so", link, OPS "../test-ops/libdummy.so"}},
        (struct list){{0}}, 1);
}

static void test_relative_path(void **state) {
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(ONNXPTQ_TEST_OPS_DIR), 0);
    expect_good((struct list){{"libdummy.so", "./libtopidx.so", OPS "libdummy.so"}},
                (struct list){{0}}, 2);
    assert_int_equal(chdir(before), 0);
}

static void test_file_name_with_at_sign(void **state) {
    (void)state;
    const char *plain = copy_library(OPS "libdummy.so", "ops@2.so");
    const char *entry = copy_library(OPS "libentry.so", "entry@2.so");
    char with_function[200];
    (void)snprintf(with_function, sizeof with_function, "%s@RegisterMyOps", entry);
    expect_good((struct list){{plain, with_function}}, (struct list){{0}}, 2);
}

static void test_bad_libraries(void **state) {
    (void)state;
    expect_bad_library((struct list){{"/no/such/ops.so"}}, "no such file");
    expect_bad_library((struct list){{"no-such-ops.so"}}, "no such file");
    expect_bad_library((struct list){{"/no/such/ops.so@RegisterMyOps"}}, "no such file");
    expect_bad_library((struct list){{write_file("empty-ops.so", "")}}, "empty");
    expect_bad_library((struct list){{folder}}, "directory");
    expect_bad_library((struct list){{write_file("ops.txt", "not a library, just text, and a long "
                                                            "one so that a header would fit\n")}},
                       "no shared library");
    expect_bad_library((struct list){{OPS "libnoentry.so"}}, "no entry point 'RegisterCustomOps'");
    expect_bad_library((struct list){{OPS "libdummy.so@Missing"}}, "no entry point 'Missing'");
    expect_bad_library((struct list){{OPS "librefusing.so"}},
                       "licence of the operators has expired");
    /* The one that fails is named, not the good one before it. */
    expect_bad_library((struct list){{OPS "libdummy.so", OPS "librefusing.so"}}, "licence");
}

static void test_two_libraries_of_one_domain(void **state) {
    (void)state;
    struct oq_runtime *runtime;
    enum onnxptq_status got = open_runtime(
        NULL, (struct list){{OPS "libdummy.so", OPS "libtopidx.so", OPS "libother.so"}},
        (struct list){{0}}, &runtime);
    expect_error(ONNXPTQ_ERROR_LIBRARY, got,
                 (struct list){{OPS "libdummy.so", OPS "libother.so", "same domain"}});
}

static void test_empty_library_name(void **state) {
    (void)state;
    struct oq_runtime *runtime;
    enum onnxptq_status got = open_runtime(NULL, (struct list){{""}}, (struct list){{0}}, &runtime);
    expect_error(ONNXPTQ_ERROR_USAGE, got, (struct list){{"empty"}});
}

/* ---- Providers ---- */

static void test_providers(void **state) {
    (void)state;
    expect_good((struct list){{0}}, (struct list){{"cpu"}}, 0);
    expect_good((struct list){{0}}, (struct list){{"CPUExecutionProvider", "cpu", "CPU"}}, 0);
}

static void test_bad_providers(void **state) {
    (void)state;
    static const char *const missing[] = {"cuda:0", "trt:1", "no-such-provider", "",
                                          "MIGraphXExecutionProvider"};
    struct oq_runtime *runtime;
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        enum onnxptq_status got =
            open_runtime(NULL, (struct list){{0}}, (struct list){{"cpu", missing[i]}}, &runtime);
        expect_error(ONNXPTQ_ERROR_RUNTIME, got,
                     (struct list){{missing[i], "cpu (CPUExecutionProvider)"}});
    }
    enum onnxptq_status got =
        open_runtime(NULL, (struct list){{0}}, (struct list){{"cpu:fast"}}, &runtime);
    expect_error(ONNXPTQ_ERROR_USAGE, got, (struct list){{"cpu:fast", "key=value"}});
}

static int make_folder(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/onnxptq-test-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"empty.so", "text.so",  "empty-ops.so", "ops.txt",
                                        "link.so",  "ops@2.so", "entry@2.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)remove(path_in_folder(names[i]));
    }
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runtime_opens),
        cmocka_unit_test(test_runtime_that_cannot_be_loaded),
        cmocka_unit_test(test_runtime_from_environment),
        cmocka_unit_test(test_libraries_load),
        cmocka_unit_test(test_library_given_twice_counts_once),
        cmocka_unit_test(test_relative_path),
        cmocka_unit_test(test_file_name_with_at_sign),
        cmocka_unit_test(test_bad_libraries),
        cmocka_unit_test(test_two_libraries_of_one_domain),
        cmocka_unit_test(test_empty_library_name),
        cmocka_unit_test(test_providers),
        cmocka_unit_test(test_bad_providers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
