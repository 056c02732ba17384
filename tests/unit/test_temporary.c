/*
 * Temporary files of killed processes, and those of living ones.
 */
#include "base/file.h"
#include "base/temporary.h"
#include "data_files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static bool is_there(const char *folder, const char *name) {
    char *path = path_in(folder, name);
    struct stat info;
    const bool there = lstat(path, &info) == 0;
    free(path);
    return there;
}

static void touch(const char *folder, const char *name) {
    const struct file_bytes nothing = {malloc(1), 0};
    free(write_bytes(folder, name, nothing));
}

static void test_only_its_own_names(void **state) {
    static const char *const others[] = {
        "out.onnx",
        "out.onnx.tmp",
        "out.onnx.12345678.tmp",
        "out.onnx.7.1234567.tmp",
        "out.onnx.7.123456789.tmp",
        "out.onnx.7.1234567g.tmp",
        "out.onnx.x.12345678.tmp",
        "out.onnx..12345678.tmp",
        "out.onnx.7.12345678.tmq",
        "out.onnx.7.12345678.tmp2",
        "out.onnx-7.12345678.tmp",
        "out.onnx.data.7.12345678.tmp",
        "another.onnx.7.12345678.tmp",
    };
    char *path = path_in(*state, "out.onnx");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        touch(*state, others[i]);
    }
    touch(*state, "out.onnx.7.12345678.tmp");
    touch(*state, "out.onnx.4194304.0abcdef9.tmp");
    oq_temporary_remove_stale(path);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(is_there(*state, others[i]));
    }
    assert_false(is_there(*state, "out.onnx.7.12345678.tmp"));
    assert_false(is_there(*state, "out.onnx.4194304.0abcdef9.tmp"));
    free(path);
}

/* What is no regular file was not made by a writer. */
static void test_only_files(void **state) {
    char *path = path_in(*state, "out.onnx");
    char *folder = path_in(*state, "out.onnx.7.11111111.tmp");
    char *link = path_in(*state, "out.onnx.7.22222222.tmp");
    char *pipe = path_in(*state, "out.onnx.7.33333333.tmp");
    touch(*state, "target");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    oq_temporary_remove_stale(path);
    assert_true(is_there(*state, "out.onnx.7.11111111.tmp"));
    assert_true(is_there(*state, "out.onnx.7.22222222.tmp"));
    assert_true(is_there(*state, "out.onnx.7.33333333.tmp"));
    assert_true(is_there(*state, "target"));
    free(pipe);
    free(link);
    free(folder);
    free(path);
}

static void test_missing_folder(void **state) {
    char *path = path_in(*state, "missing/out.onnx");
    oq_temporary_remove_stale(path);
    free(path);
}

/* From its creation until it has its final name or is removed. */
static void test_a_writer_keeps_its_file(void **state) {
    char *path = path_in(*state, "out.onnx");
    struct oq_writer *writer = NULL;
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    oq_temporary_remove_stale(path);
    assert_true(oq_path_exists(oq_writer_path(writer)));
    oq_writer_put(writer, "x", 1);
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    oq_temporary_remove_stale(path);
    assert_true(oq_path_exists(oq_writer_path(writer)));
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
    oq_writer_destroy(writer);
    assert_true(oq_path_exists(path));
    free(path);
}

static void test_long_names(void **state) {
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    char *path = path_in(*state, name);
    struct oq_writer *writer = NULL;
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    char *temporary = strdup(oq_writer_path(writer));
    oq_writer_destroy(writer);
    assert_false(oq_path_exists(temporary));
    touch(*state, oq_path_base(temporary));
    oq_temporary_remove_stale(path);
    assert_false(oq_path_exists(temporary));
    free(temporary);
    free(path);
}

/* Another process that writes the same output: its file stays while it lives, whatever kills it. */
static void test_a_killed_process(void **state) {
    char *path = path_in(*state, "out.onnx");
    int ends[2];
    char name[4096] = "";
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct oq_writer *writer = NULL;
        if (oq_writer_create(path, &writer, NULL) == ONNXPTQ_OK) {
            const char *temporary = oq_writer_path(writer);
            (void)!write(ends[1], temporary, strlen(temporary));
        }
        pause();
        _exit(0);
    }
    assert_true(read(ends[0], name, sizeof name - 1) > 0);
    oq_temporary_remove_stale(path);
    assert_true(oq_path_exists(name));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(oq_path_exists(name));
    oq_temporary_remove_stale(path);
    assert_false(oq_path_exists(name));
    close(ends[0]);
    close(ends[1]);
    free(path);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup_folder, teardown_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_only_its_own_names), IN_FOLDER(test_only_files),
        IN_FOLDER(test_missing_folder),     IN_FOLDER(test_a_writer_keeps_its_file),
        IN_FOLDER(test_long_names),         IN_FOLDER(test_a_killed_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
