/*
 * State files: which runs are done, joining those of several processes, removing them.
 */
#include "api/state.h"

#include "data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct onnxptq_error error;

/* What a process saw in the runs that are marked: one tensor, which held `value` in each. */
static void leave(const char *path, const char *key, const char *done, double value) {
    struct oq_ranges *ranges = NULL;
    assert_int_equal(oq_ranges_create(&ranges, &error), ONNXPTQ_OK);
    struct oq_ranges_tensor *tensor = oq_ranges_add(ranges, &ranges->tensors, "x");
    assert_non_null(tensor);
    struct oq_statistics *seen = &tensor->statistics;
    seen->type = ONNXPTQ_TYPE_FLOAT;
    seen->min = seen->max = seen->near_min = seen->near_max = value;
    for (size_t run = 0; run < 4 * strlen(done); run++) {
        seen->seen += oq_state_is_done(done, run);
    }
    seen->n_finite = seen->seen;
    ranges->n_samples = seen->seen;
    ranges->state_key = key;
    ranges->state_done = done;
    assert_int_equal(oq_ranges_save(ranges, path, &error), ONNXPTQ_OK);
    oq_ranges_destroy(ranges);
}

static void leave_part(const char *path, size_t part, const char *key, const char *done,
                       double value) {
    char *file = oq_state_part_path(path, part);
    leave(file, key, done, value);
    free(file);
}

static void assert_joined(const char *path, const char *done, size_t n, double min, double max) {
    struct oq_ranges *all = NULL;
    assert_int_equal(oq_state_read_all(path, &all, &error), ONNXPTQ_OK);
    assert_non_null(all);
    assert_string_equal(all->state_done, done);
    assert_int_equal(all->n_samples, n);
    const struct oq_statistics *seen = &oq_ranges_find(&all->tensors, "x")->statistics;
    assert_int_equal(seen->seen, n);
    assert_true(seen->min == min && seen->max == max);
    oq_ranges_destroy(all);
}

static void assert_refused(const char *path) {
    struct oq_ranges *all = NULL;
    memset(&error, 0, sizeof error);
    assert_int_equal(oq_state_read_all(path, &all, &error), ONNXPTQ_ERROR_USAGE);
    assert_null(all);
    assert_int_equal(onnxptq_state_join(path, &error), ONNXPTQ_ERROR_USAGE);
}

static void test_marks(void **state) {
    (void)state;
    for (size_t n = 0; n < 20; n++) {
        char *done = oq_state_done_create(n);
        assert_int_equal(strlen(done), (n + 3) / 4);
        for (size_t run = 0; run < n; run += 3) {
            oq_state_mark_done(done, run);
            oq_state_mark_done(done, run); /* twice is no more */
        }
        for (size_t run = 0; run < n; run++) {
            assert_int_equal(oq_state_is_done(done, run), run % 3 == 0);
        }
        free(done);
    }
}

static void test_nothing_there(void **state) {
    char *path = path_in(*state, "s");
    struct oq_ranges *all = NULL;
    assert_int_equal(oq_state_read_all(path, &all, &error), ONNXPTQ_OK);
    assert_null(all);
    assert_int_equal(onnxptq_state_join(path, &error), ONNXPTQ_OK);
    assert_int_equal(onnxptq_state_discard(path, &error), ONNXPTQ_OK);
    assert_false(oq_path_is_taken(path));
    free(path);
}

static void test_parts_join(void **state) {
    char *path = path_in(*state, "s"), *gone = NULL;
    leave(path, "k", "100", 5);
    leave_part(path, 0, "k", "020", -1);
    leave_part(path, 7, "k", "001", 9); /* others left nothing */
    assert_joined(path, "121", 3, -1, 9);
    assert_int_equal(onnxptq_state_join(path, &error), ONNXPTQ_OK);
    gone = oq_state_part_path(path, 7);
    assert_false(oq_path_is_taken(gone));
    assert_joined(path, "121", 3, -1, 9);
    free(gone);
    free(path);
}

/* As after a kill between writing the joined file and removing the parts. */
static void test_parts_that_are_joined_already(void **state) {
    char *path = path_in(*state, "s");
    leave(path, "k", "f3", 5);
    leave_part(path, 0, "k", "30", -100);
    leave_part(path, 1, "k", "04", 7);
    assert_joined(path, "f7", 7, 5, 7);
    free(path);
}

static void test_of_different_runs(void **state) {
    char *path = path_in(*state, "s");
    leave(path, "k", "30", 5);
    leave_part(path, 0, "other", "c0", 5);
    assert_refused(path);
    leave_part(path, 0, "k", "c00", 5); /* of more runs */
    assert_refused(path);
    leave_part(path, 0, "k", "60", 5); /* which of them is counted is not known */
    assert_refused(path);
    leave_part(path, 0, "k", "c0", 5);
    assert_joined(path, "f0", 4, 5, 5);
    free(path);
}

static void test_files_of_others_stay(void **state) {
    char *path = path_in(*state, "s");
    static const char *const texts[] = {"", "mine",
                                        "{\"format\":\"onnxptq ranges\",\"version\":1}\n",
                                        "{\"format\":\"onnxptq ranges\""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct file_bytes bytes = {.size = strlen(texts[i])};
        bytes.data = malloc(bytes.size + 1);
        memcpy(bytes.data, texts[i], bytes.size);
        free(write_bytes(*state, "s", bytes));
        assert_int_equal(onnxptq_state_discard(path, &error), ONNXPTQ_ERROR_USAGE);
        assert_true(oq_path_is_taken(path));
    }
    leave(path, "k", "30", 5);
    leave_part(path, 2, "k", "c0", 5);
    assert_int_equal(onnxptq_state_discard(path, &error), ONNXPTQ_OK);
    assert_false(oq_path_is_taken(path));
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),
        cmocka_unit_test_setup_teardown(test_nothing_there, setup_folder, teardown_folder),
        cmocka_unit_test_setup_teardown(test_parts_join, setup_folder, teardown_folder),
        cmocka_unit_test_setup_teardown(test_parts_that_are_joined_already, setup_folder,
                                        teardown_folder),
        cmocka_unit_test_setup_teardown(test_of_different_runs, setup_folder, teardown_folder),
        cmocka_unit_test_setup_teardown(test_files_of_others_stay, setup_folder, teardown_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
