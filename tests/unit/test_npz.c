/*
 * .npz and .npy files: what is found in them, reading in any order, and broken ones.
 */
#include "data/archive.h"

#include "data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 40000 /* above the block in which a stream is skipped */
#define COLUMNS 3

static char *folder;

static int set_up(void **state) {
    (void)state;
    folder = make_folder();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

static struct oq_archive *open_ok(const char *path) {
    struct onnxptq_error error = {0};
    struct oq_archive *archive = NULL;
    if (oq_archive_open(path, &archive, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    return archive;
}

/* Opening, or else verifying, fails with a message that has `word` in it. */
static void expect_refused(char *path, const char *word) {
    struct onnxptq_error error = {0};
    struct oq_archive *archive = NULL;
    enum onnxptq_status status = oq_archive_open(path, &archive, &error);
    if (status == ONNXPTQ_OK) {
        status = oq_archive_verify(archive, &error);
    }
    oq_archive_close(archive);
    assert_int_not_equal(status, ONNXPTQ_OK);
    if (strstr(error.message, word) == NULL || strstr(error.message, path) == NULL) {
        fail_msg("'%s' lacks '%s'", error.message, word);
    }
    free(path);
}

static void expect_row(struct oq_archive *archive, size_t index, size_t row) {
    float out[COLUMNS] = {0};
    struct onnxptq_error error = {0};
    if (oq_archive_read(archive, index, row * COLUMNS, COLUMNS, out, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
    for (size_t i = 0; i < COLUMNS; i++) {
        assert_true(out[i] == (float)(row * COLUMNS + i));
    }
}

/* Up, down, far, near, twice the same. */
static void expect_any_order(struct oq_archive *archive, size_t index) {
    static const size_t order[] = {0, 1, 2, 7, 7, 3, ROWS - 1, 0, ROWS / 2, ROWS - 1, 5, 30000, 6};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        expect_row(archive, index, order[i]);
    }
}

static void reads_rows_in_any_order(void **state) {
    (void)state;
    char shape[32];
    snprintf(shape, sizeof shape, "(%d, %d)", ROWS, COLUMNS);
    for (int compress = 0; compress <= 1; compress++) {
        struct npz_member members[] = {
            {"a/first.npy", make_float_npy(shape, ROWS * COLUMNS, 0)},
            {"second.npy", make_float_npy(shape, ROWS * COLUMNS, 0)},
        };
        char *path = write_npz(folder, "rows.npz", members, 2, compress == 1);
        struct oq_archive *archive = open_ok(path);
        assert_int_equal(oq_archive_n_arrays(archive), 2);
        assert_string_equal(oq_archive_array(archive, 0)->name, "a/first");
        assert_false(oq_archive_is_single(archive));
        expect_any_order(archive, 0);
        expect_row(archive, 1, 9); /* both members are open at once */
        expect_row(archive, 0, 10);
        expect_any_order(archive, 1);
        assert_int_equal(oq_archive_verify(archive, NULL), ONNXPTQ_OK);
        expect_any_order(archive, 0);
        oq_archive_close(archive);
        free(path);
    }
}

static void reads_a_single_array(void **state) {
    (void)state;
    char shape[32];
    snprintf(shape, sizeof shape, "(%d, %d)", ROWS, COLUMNS);
    char *path = write_bytes(folder, "rows.npy", make_float_npy(shape, ROWS * COLUMNS, 0));
    struct oq_archive *archive = open_ok(path);
    assert_true(oq_archive_is_single(archive));
    assert_int_equal(oq_archive_n_arrays(archive), 1);
    expect_any_order(archive, 0);
    float out[COLUMNS];
    assert_int_equal(oq_archive_read(archive, 0, ROWS * COLUMNS - 1, 2, out, NULL),
                     ONNXPTQ_ERROR_INTERNAL);
    oq_archive_close(archive);
    free(path);
}

static void transposes_fortran_order(void **state) {
    (void)state;
    float stored[ROWS / 10 * COLUMNS];
    for (size_t row = 0; row < ROWS / 10; row++) {
        for (size_t c = 0; c < COLUMNS; c++) {
            stored[c * (ROWS / 10) + row] = (float)(row * COLUMNS + c);
        }
    }
    char shape[32];
    snprintf(shape, sizeof shape, "(%d, %d)", ROWS / 10, COLUMNS);
    for (int kind = 0; kind < 3; kind++) {
        struct file_bytes npy = make_npy("<f4", true, shape, stored, sizeof stored);
        struct npz_member member = {"x.npy", npy};
        char *path = kind == 2 ? write_bytes(folder, "f.npy", npy)
                               : write_npz(folder, "f.npz", &member, 1, kind == 1);
        struct oq_archive *archive = open_ok(path);
        expect_row(archive, 0, 17);
        expect_row(archive, 0, 0);
        expect_row(archive, 0, ROWS / 10 - 1);
        oq_archive_close(archive);
        free(path);
    }
}

static char *one_member(const char *name, struct file_bytes bytes) {
    struct npz_member member = {name, bytes};
    return write_npz(folder, "bad.npz", &member, 1, false);
}

static void refuses_members_that_are_no_arrays(void **state) {
    (void)state;
    expect_refused(one_member("x.txt", make_float_npy("(3,)", 3, 0)), "'x.txt'");
    expect_refused(one_member("x.npy", make_npy("|O", false, "(3,)", "abc", 3)), "pickled");
    expect_refused(one_member("x.npy", make_npy("<f4", false, "(3,)", "abcd", 4)), "cut short");
    expect_refused(one_member("x.npy", make_npy("<f4", false, "(1,)", "abcdefgh", 8)), "one array");
    expect_refused(one_member("x.npy", make_npy_text(1, "{", "", 0)), "array 'x'");
    struct file_bytes garbage = make_float_npy("(3,)", 3, 0);
    garbage.data[0] = 'X';
    expect_refused(one_member("x.npy", garbage), "no .npy array");
    struct file_bytes nothing = make_float_npy("(3,)", 3, 0);
    nothing.size = 0;
    expect_refused(one_member("x.npy", nothing), "no .npy array");
}

static void refuses_an_array_that_is_there_twice(void **state) {
    (void)state;
    struct npz_member members[] = {{"x.npy", make_float_npy("(3,)", 3, 0)},
                                   {"y.npy", make_float_npy("(3,)", 3, 0)}};
    char *path = write_npz(folder, "twice.npz", members, 2, false);
    struct file_bytes bytes = read_bytes(path);
    for (size_t i = 0; i + 5 <= bytes.size; i++) {
        if (memcmp(bytes.data + i, "y.npy", 5) == 0) {
            bytes.data[i] = 'x';
        }
    }
    free(path);
    expect_refused(write_bytes(folder, "twice.npz", bytes), "twice");
}

static void refuses_a_wrong_checksum(void **state) {
    (void)state;
    for (int compress = 0; compress <= 1; compress++) {
        struct npz_member member = {"x.npy", make_float_npy("(1000,)", 1000, 0)};
        char *path = write_npz(folder, "sum.npz", &member, 1, compress == 1);
        struct file_bytes bytes = read_bytes(path);
        bytes.data[bytes.size / 2] ^= 0x55;
        free(path);
        expect_refused(write_bytes(folder, "sum.npz", bytes), "array 'x'");
    }
}

/* From memory of the exact size, so that the sanitizer sees every step beyond it. */
static void refuses_every_truncation(void **state) {
    (void)state;
    for (int compress = 0; compress <= 1; compress++) {
        struct npz_member member = {"x.npy", make_float_npy("(20,)", 20, 0)};
        char *path = write_npz(folder, "whole.npz", &member, 1, compress == 1);
        struct file_bytes whole = read_bytes(path);
        for (size_t size = 0; size < whole.size; size++) {
            uint8_t *cut = malloc(size > 0 ? size : 1);
            struct oq_archive *archive = NULL;
            memcpy(cut, whole.data, size);
            assert_int_not_equal(oq_archive_open_memory(cut, size, "cut", &archive, NULL),
                                 ONNXPTQ_OK);
            assert_null(archive);
            free(cut);
        }
        free_bytes(&whole);
        free(path);
    }
}

static void refuses_other_files(void **state) {
    (void)state;
    struct file_bytes text = make_float_npy("(3,)", 3, 0), empty = make_float_npy("(3,)", 3, 0);
    memcpy(text.data, "1,2,3\n", 6);
    empty.size = 0;
    expect_refused(write_bytes(folder, "data.csv", text), "neither");
    expect_refused(write_bytes(folder, "data.npz", empty), "empty");
    expect_refused(path_in(folder, "missing.npz"), "missing.npz");
    expect_refused(write_bytes(folder, "cut.npy", make_npy("<f4", false, "(9,)", "abcd", 4)),
                   "cut short");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_rows_in_any_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_a_single_array, set_up, tear_down),
        cmocka_unit_test_setup_teardown(transposes_fortran_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_members_that_are_no_arrays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_an_array_that_is_there_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_a_wrong_checksum, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_every_truncation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_other_files, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
