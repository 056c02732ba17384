/*
 * Mappings, writers, paths, libraries and memory figures.
 */
#include "base/file.h"
#include "data_files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static void assert_text(const struct onnxptq_error *error, const char *part) {
    if (strstr(error->message, part) == NULL) {
        fail_msg("'%s' does not hold '%s'", error->message, part);
    }
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        fail_msg("cannot write %s", path);
    }
}

static void assert_file(const char *path, const char *text) {
    struct oq_mapping mapping;
    assert_int_equal(oq_mapping_open(path, &mapping, NULL), ONNXPTQ_OK);
    assert_int_equal(mapping.size, strlen(text));
    assert_memory_equal(mapping.data, text, mapping.size);
    oq_mapping_close(&mapping);
}

static void test_mapping(void **state) {
    struct oq_mapping mapping = {NULL, 0};
    struct onnxptq_error error;
    char *path = path_in(*state, "file");
    assert_int_equal(oq_mapping_open(path, &mapping, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "No such file");
    assert_text(&error, path);
    assert_int_equal(oq_mapping_open(*state, &mapping, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "is a directory");
    write_text(path, "");
    assert_int_equal(oq_mapping_open(path, &mapping, &error), ONNXPTQ_OK);
    assert_null(mapping.data);
    assert_int_equal(mapping.size, 0);
    oq_mapping_close(&mapping);
    write_text(path, "abc");
    assert_file(path, "abc");
    char *pipe_path = path_in(*state, "pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(oq_mapping_open(pipe_path, &mapping, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "not a regular file");
    oq_mapping_close(&mapping);
    oq_mapping_close(&mapping);
    free(pipe_path);
    free(path);
}

static void test_writer(void **state) {
    char *path = path_in(*state, "out.bin");
    struct oq_writer *writer;
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    char *temporary = strdup(oq_writer_path(writer));
    assert_true(oq_path_exists(temporary));
    assert_int_equal(strncmp(temporary, path, strlen(path)), 0);
    oq_writer_put(writer, "ab", 2);
    oq_writer_align(writer, 8);
    assert_int_equal(oq_writer_offset(writer), 8);
    oq_writer_align(writer, 8);
    oq_writer_put(writer, "c", 1);
    struct oq_mapping seen;
    assert_int_equal(oq_writer_map(writer, &seen, NULL), ONNXPTQ_OK);
    assert_int_equal(seen.size, 9);
    assert_memory_equal(seen.data, "ab\0\0\0\0\0\0c", 9);
    oq_writer_put(writer, "d", 1);
    assert_false(oq_path_exists(path));
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    assert_false(oq_path_exists(path));
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
    assert_false(oq_path_exists(temporary));
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_ERROR_INTERNAL);
    oq_writer_destroy(writer);
    assert_memory_equal(seen.data, "ab\0\0\0\0\0\0c", 9); /* a mapping outlives its writer */
    oq_mapping_close(&seen);
    struct file_bytes bytes = read_bytes(path);
    assert_int_equal(bytes.size, 10);
    assert_memory_equal(bytes.data, "ab\0\0\0\0\0\0cd", 10);
    free_bytes(&bytes);
    free(temporary);
    free(path);
}

/* Pieces around the size of the buffer, compared with one long text. */
static void test_large_writes(void **state) {
    enum { PIECES = 9, LARGEST = 600000 };
    static const size_t sizes[PIECES] = {1, 262143, 1, 262144, 5, 262145, LARGEST, 0, 17};
    char *path = path_in(*state, "large.bin");
    uint8_t *data = malloc(LARGEST);
    struct oq_writer *writer;
    assert_non_null(data);
    for (size_t i = 0; i < LARGEST; i++) {
        data[i] = (uint8_t)(i * 31 + i / 251);
    }
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    for (size_t i = 0; i < PIECES; i++) {
        oq_writer_put(writer, data, sizes[i]);
    }
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    struct oq_mapping mapping;
    assert_int_equal(oq_writer_map(writer, &mapping, NULL), ONNXPTQ_OK);
    size_t offset = 0;
    for (size_t i = 0; i < PIECES; i++) {
        assert_memory_equal(mapping.data + offset, data, sizes[i]);
        offset += sizes[i];
    }
    assert_int_equal(mapping.size, offset);
    oq_mapping_close(&mapping);
    char *temporary = strdup(oq_writer_path(writer));
    oq_writer_destroy(writer);
    assert_false(oq_path_exists(temporary));
    assert_false(oq_path_exists(path));
    free(temporary);
    free(data);
    free(path);
}

static void test_replacing(void **state) {
    char *path = path_in(*state, "replaced");
    struct oq_mapping old;
    struct oq_writer *writer;
    struct stat info;
    write_text(path, "old text");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(oq_mapping_open(path, &old, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    oq_writer_put(writer, "new", 3);
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    assert_file(path, "old text");
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
    oq_writer_destroy(writer);
    assert_file(path, "new");
    assert_memory_equal(old.data, "old text", 8); /* who reads the old file goes on doing so */
    oq_mapping_close(&old);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    free(path);
}

static void test_new_permissions(void **state) {
    char *path = path_in(*state, "fresh");
    struct oq_writer *writer;
    struct stat info;
    const mode_t old = umask(027);
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
    umask(old);
    oq_writer_destroy(writer);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    free(path);
}

static enum onnxptq_status write_output(const char *path, const char *text, bool replace,
                                        struct onnxptq_error *error) {
    struct oq_writer *writer = NULL;
    enum onnxptq_status status = oq_writer_create(path, &writer, error);
    if (status == ONNXPTQ_OK) {
        oq_writer_put(writer, text, strlen(text));
        assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
        status = replace ? oq_writer_commit(writer, error) : oq_writer_commit_new(writer, error);
    }
    oq_writer_destroy(writer);
    return status;
}

/* A link stays a link; one that leads nowhere becomes a file. */
static void test_writer_follows_links(void **state) {
    char *file = path_in(*state, "linked.bin"), *link = path_in(*state, "link");
    char *dangling = path_in(*state, "dangling");
    struct stat info;
    assert_int_equal(write_output(file, "old", true, NULL), ONNXPTQ_OK);
    assert_int_equal(symlink("linked.bin", link), 0);
    assert_int_equal(symlink("nowhere", dangling), 0);
    assert_int_equal(write_output(link, "new", true, NULL), ONNXPTQ_OK);
    assert_file(file, "new");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_false(oq_path_exists(dangling));
    assert_true(oq_path_is_taken(dangling));
    assert_int_equal(write_output(dangling, "new", false, NULL), ONNXPTQ_ERROR_IO);
    assert_int_equal(write_output(dangling, "new", true, NULL), ONNXPTQ_OK);
    assert_file(dangling, "new");
    free(dangling);
    free(link);
    free(file);
}

/* A file that came while ours was written stays, and so does what is no file at all. */
static void test_writer_spares_others(void **state) {
    char *path = path_in(*state, "new.bin"), *pipe_path = path_in(*state, "output_pipe");
    struct onnxptq_error error;
    struct stat info;
    assert_int_equal(write_output(path, "first", false, NULL), ONNXPTQ_OK);
    assert_int_equal(write_output(path, "second", false, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "meanwhile");
    assert_file(path, "first");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(write_output(pipe_path, "x", true, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "no regular file");
    assert_int_equal(lstat(pipe_path, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    free(pipe_path);
    free(path);
}

static void test_writer_errors(void **state) {
    struct onnxptq_error error;
    struct oq_writer *writer = NULL;
    assert_int_equal(oq_writer_create(*state, &writer, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "is a directory");
    char *path = path_in(*state, "missing/out");
    assert_int_equal(oq_writer_create(path, &writer, &error), ONNXPTQ_ERROR_IO);
    assert_text(&error, "No such file");
    assert_text(&error, path);
    assert_null(writer);
    free(path);
}

/* A limit on file sizes stands for a full disk: the first failure is kept, nothing is left behind.
 */
static void test_full_disk(void **state) {
    enum { LIMIT = 300000 };
    char *path = path_in(*state, "full");
    struct oq_writer *writer;
    struct onnxptq_error error;
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {LIMIT, old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint8_t *data = calloc(1, LIMIT);
    assert_non_null(data);
    oq_writer_put(writer, data, LIMIT);
    oq_writer_put(writer, data, LIMIT);
    oq_writer_put(writer, "x", 1);
    free(data);
    const enum onnxptq_status flushed = oq_writer_flush(writer, &error);
    const enum onnxptq_status finished = oq_writer_finish(writer, &error);
    const enum onnxptq_status committed = oq_writer_commit(writer, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(flushed, ONNXPTQ_ERROR_IO);
    assert_int_equal(finished, ONNXPTQ_ERROR_IO);
    assert_int_equal(committed, ONNXPTQ_ERROR_IO);
    assert_text(&error, "File too large");
    assert_text(&error, path);
    char *temporary = strdup(oq_writer_path(writer));
    oq_writer_destroy(writer);
    assert_false(oq_path_exists(temporary));
    assert_false(oq_path_exists(path));
    free(temporary);
    free(path);
}

static void test_long_name(void **state) {
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    char *path = path_in(*state, name);
    struct oq_writer *writer;
    assert_int_equal(oq_writer_create(path, &writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_finish(writer, NULL), ONNXPTQ_OK);
    assert_int_equal(oq_writer_commit(writer, NULL), ONNXPTQ_OK);
    oq_writer_destroy(writer);
    assert_true(oq_path_exists(path));
    free(path);
}

static void assert_owned(char *text, const char *expected) {
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void test_paths(void **state) {
    assert_owned(oq_path_folder("a/b.c"), "a");
    assert_owned(oq_path_folder("b.c"), ".");
    assert_owned(oq_path_folder("/b"), "/");
    assert_owned(oq_path_join("a", "b"), "a/b");
    assert_owned(oq_path_join("a/", "b"), "a/b");
    assert_owned(oq_path_join("", "b"), "b");
    assert_string_equal(oq_path_base("x/y/z"), "z");
    assert_string_equal(oq_path_base("z"), "z");
    assert_owned(oq_path_absolute("/x/../y"), "/x/../y");
    char *absolute = oq_path_absolute("some/file");
    assert_true(absolute[0] == '/' && strstr(absolute, "/some/file") != NULL);
    free(absolute);
    absolute = oq_path_absolute(".//./some/file");
    assert_true(strstr(absolute, "/some/file") != NULL && strstr(absolute, "/./") == NULL);
    free(absolute);
    assert_true(oq_path_is_folder(*state));
    assert_false(oq_path_is_folder("/dev/null"));
    assert_true(oq_path_same_file("/", "/../"));
    assert_false(oq_path_same_file("/", *state));
    assert_false(oq_path_same_file("/nonexistent", "/nonexistent"));
    assert_null(oq_path_resolve("/nonexistent/file"));
    assert_owned(oq_path_resolve("/.."), "/");
}

static void test_inside(void **state) {
    (void)state;
    static const char *const inside[] = {"a", "a/b", "./a", "a..b", "..a/b", "a/.hidden"};
    static const char *const outside[] = {"",       "/",    "/a", "..",       "../a", "a/..",
                                          "a/../b", "a//b", "a/", "a\\..\\b", "\\a"};
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        if (!oq_path_is_inside(inside[i])) {
            fail_msg("'%s' was refused", inside[i]);
        }
    }
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        if (oq_path_is_inside(outside[i])) {
            fail_msg("'%s' was let through", outside[i]);
        }
    }
}

static void test_libraries(void **state) {
    char reason[256] = "";
    char *path = path_in(*state, "library.so");
    write_text(path, "no library");
    assert_null(oq_library_open(path, false, reason, sizeof reason));
    assert_non_null(strstr(reason, "library.so"));
    void *self = oq_library_open(NULL, false, reason, sizeof reason);
    assert_non_null(self);
    assert_null(oq_library_symbol(self, "oq_there_is_no_such_symbol"));
    assert_non_null(oq_library_symbol(self, "malloc"));
    free(path);
}

static void test_memory(void **state) {
    enum { SIZE = 64 * 1024 * 1024 };
    (void)state;
    const double start = oq_clock_seconds();
    struct oq_memory_sampler *sampler = oq_memory_sampler_start();
    assert_non_null(sampler);
    const uint64_t before = oq_memory_sampler_peak(sampler);
    assert_true(before > 0);
    uint8_t *data = malloc(SIZE);
    assert_non_null(data);
    memset(data, 1, SIZE);
    while (oq_memory_sampler_peak(sampler) < before + SIZE / 2 && oq_clock_seconds() < start + 20) {
        usleep(1000);
    }
    free(data);
    assert_true(oq_memory_sampler_stop(sampler) >= before + SIZE / 2);
    assert_true(oq_memory_peak_resident() >= SIZE);
    assert_int_equal(oq_memory_sampler_stop(NULL), 0);
    assert_true(oq_clock_seconds() > start);
}

static void test_messages(void **state) {
    (void)state;
    struct onnxptq_error error;
    assert_int_equal(oq_fail(&error, ONNXPTQ_ERROR_DATA, "fact %d", 7), ONNXPTQ_ERROR_DATA);
    assert_int_equal(oq_prefix(&error, ONNXPTQ_ERROR_DATA, "cannot %s: ", "go"),
                     ONNXPTQ_ERROR_DATA);
    assert_string_equal(error.message, "cannot go: fact 7");
    assert_int_equal(error.status, ONNXPTQ_ERROR_DATA);
    assert_int_equal(oq_prefix(NULL, ONNXPTQ_ERROR_DATA, "x"), ONNXPTQ_ERROR_DATA);
    assert_int_equal(oq_prefix(&error, ONNXPTQ_OK, "x"), ONNXPTQ_OK);
    assert_string_equal(error.message, "cannot go: fact 7");
    /* Names come from files: a message stays one line, and harmless on a terminal. */
    (void)oq_fail(&error, ONNXPTQ_ERROR_MODEL, "node '%s'", "a\nb\r\tc\033[31m\x7F\xC3\xA9");
    assert_string_equal(error.message, "node 'a b  c?[31m?\xC3\xA9'");
    (void)oq_prefix(&error, ONNXPTQ_ERROR_MODEL, "tensor '%s': ", "x\ny");
    assert_string_equal(error.message, "tensor 'x y': node 'a b  c?[31m?\xC3\xA9'");
    memset(error.message, 'm', sizeof error.message);
    error.message[sizeof error.message - 1] = '\0';
    (void)oq_prefix(&error, ONNXPTQ_ERROR_DATA, "prefix ");
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    assert_int_equal(strncmp(error.message, "prefix mmm", 10), 0);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup_folder, teardown_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_mapping),
        IN_FOLDER(test_writer),
        IN_FOLDER(test_large_writes),
        IN_FOLDER(test_replacing),
        IN_FOLDER(test_new_permissions),
        IN_FOLDER(test_writer_errors),
        IN_FOLDER(test_full_disk),
        IN_FOLDER(test_long_name),
        IN_FOLDER(test_writer_follows_links),
        IN_FOLDER(test_writer_spares_others),
        IN_FOLDER(test_paths),
        cmocka_unit_test(test_inside),
        IN_FOLDER(test_libraries),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
