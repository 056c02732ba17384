/*
 * Calibration data of every kind: what the arrays of a file mean, what is refused, runs and the
 * held-back set.
 */
#include "base/number.h"
#include "data/source.h"

#include "data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_INPUTS 4

/* One model, one set of options, one file. */
struct scene {
    char *folder;
    struct onnxptq_tensor inputs[MAX_INPUTS];
    size_t n_inputs;
    struct onnxptq_quantize_options options;
    struct npz_member members[MAX_INPUTS];
    size_t n_members;
    char *path;
    char log[512]; /* the last message */
    struct oq_log sink;
    struct oq_data_source *source;
    struct onnxptq_error error;
};

static void keep_message(void *user, enum onnxptq_log_level level, const char *message) {
    struct scene *scene = user;
    (void)level;
    snprintf(scene->log, sizeof scene->log, "%s", message);
}

static int set_up(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->folder = make_folder();
    scene->options.struct_size = sizeof scene->options;
    scene->sink = (struct oq_log){.log = keep_message, .log_user = scene};
    *state = scene;
    return 0;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    oq_data_close(scene->source);
    free(scene->path);
    remove_folder(scene->folder);
    free(scene);
    return 0;
}

/* Shape as text: "1,3,-1". */
static void add_input(struct scene *scene, const char *name, enum onnxptq_type type,
                      const char *shape) {
    struct onnxptq_tensor *input = &scene->inputs[scene->n_inputs++];
    *input = (struct onnxptq_tensor){.name = name, .type = type};
    for (const char *at = shape; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        input->shape[input->rank++] = strtol(at, NULL, 10);
    }
}

static void add_array(struct scene *scene, const char *name, struct file_bytes bytes) {
    scene->members[scene->n_members++] = (struct npz_member){name, bytes};
}

static enum onnxptq_status open_data(struct scene *scene) {
    struct oq_data_spec spec = {&scene->options, scene->inputs, scene->n_inputs, &scene->sink};
    return oq_data_open(&spec, &scene->source, &scene->error);
}

static enum onnxptq_status open_npz(struct scene *scene) {
    scene->path = write_npz(scene->folder, "calib.npz", scene->members, scene->n_members, false);
    scene->options.data_path = scene->path;
    return open_data(scene);
}

static void expect_ok(struct scene *scene, enum onnxptq_status status) {
    if (status != ONNXPTQ_OK) {
        fail_msg("%s", scene->error.message);
    }
}

/* Every word is in the message. */
static void expect_error(struct scene *scene, enum onnxptq_status found,
                         enum onnxptq_status expected, const char *const *words) {
    assert_int_equal(found, expected);
    for (; *words != NULL; words++) {
        if (strstr(scene->error.message, *words) == NULL) {
            fail_msg("'%s' lacks '%s'", scene->error.message, *words);
        }
    }
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void read_run(struct scene *scene, const size_t *samples, size_t n,
                     struct onnxptq_tensor *inputs) {
    expect_ok(scene, oq_data_read(scene->source, samples, n, inputs, &scene->error));
    for (size_t i = 0; i < scene->n_inputs; i++) {
        assert_string_equal(inputs[i].name, scene->inputs[i].name);
    }
}

static void expect_tensor(const struct onnxptq_tensor *tensor, enum onnxptq_type type,
                          const char *shape, double first) {
    char found[128] = "";
    size_t elements = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        size_t at = strlen(found);
        snprintf(found + at, sizeof found - at, "%s%ld", i > 0 ? "," : "", (long)tensor->shape[i]);
        elements *= (size_t)tensor->shape[i];
    }
    assert_string_equal(found, shape);
    assert_int_equal(tensor->type, type);
    assert_int_equal(tensor->size, elements * oq_type_size((int)type));
    double value = 0;
    int64_t integer = 0;
    if (oq_type_is_float((int)type)) {
        oq_convert_to_double((int)type, tensor->data, 1, &value);
    } else {
        memcpy(&integer, tensor->data, oq_type_size((int)type));
        value = (double)integer;
    }
    assert_true(value == first);
}

/* ---- What the first dimension means ---- */

static void rows_are_samples(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "1,3,2");
    add_array(scene, "x.npy", make_float_npy("(20, 3, 2)", 120, 0));
    expect_ok(scene, open_npz(scene));
    assert_int_equal(oq_data_n_samples(scene->source), 20);
    assert_int_equal(oq_data_batch(scene->source), 1);
    read_run(scene, (size_t[]){7}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "1,3,2", 42);
    read_run(scene, (size_t[]){0}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "1,3,2", 0);
}

static void free_rows_are_joined(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "-1,3");
    add_input(scene, "ids", ONNXPTQ_TYPE_INT64, "-1");
    add_array(scene, "ids.npy", make_int64_npy("(10,)", 10, 100));
    add_array(scene, "x.npy", make_float_npy("(10, 3)", 30, 0));
    scene->options.batch = 4;
    expect_ok(scene, open_npz(scene));
    assert_int_equal(oq_data_batch(scene->source), 4);
    assert_false(oq_data_batch_fixed(scene->source));
    read_run(scene, (size_t[]){9, 2, 5}, 3, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "3,3", 27);
    expect_tensor(&run[1], ONNXPTQ_TYPE_INT64, "3", 109);
    const float *x = run[0].data;
    assert_true(x[3] == 6 && x[6] == 15 && x[8] == 17);
}

static void a_fixed_batch_is_the_default(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "4,3");
    add_array(scene, "x.npy", make_float_npy("(10, 3)", 30, 0));
    expect_ok(scene, open_npz(scene));
    assert_int_equal(oq_data_batch(scene->source), 4);
    assert_true(oq_data_batch_fixed(scene->source));
    read_run(scene, (size_t[]){4, 5, 6, 7}, 4, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "4,3", 12);
    assert_int_equal(oq_data_read(scene->source, (size_t[]){0}, 1, run, &scene->error),
                     ONNXPTQ_ERROR_INTERNAL);
}

static void one_fixed_batch_is_rows_too(void **state) {
    struct scene *scene = *state;
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "-1,3");
    add_input(scene, "y", ONNXPTQ_TYPE_FLOAT, "4,3");
    add_array(scene, "x.npy", make_float_npy("(4, 3)", 12, 0));
    add_array(scene, "y.npy", make_float_npy("(4, 3)", 12, 0));
    expect_ok(scene, open_npz(scene));
    assert_int_equal(oq_data_batch(scene->source), 4);
    assert_true(oq_data_batch_fixed(scene->source));
}

static void entries_are_samples(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "3,2");
    add_input(scene, "bias", ONNXPTQ_TYPE_FLOAT, "");
    add_input(scene, "rows", ONNXPTQ_TYPE_FLOAT, "1,2");
    add_input(scene, "table", ONNXPTQ_TYPE_FLOAT, "5,1");
    add_array(scene, "x.npy", make_float_npy("(5, 3, 2)", 30, 0));
    add_array(scene, "bias.npy", make_float_npy("(5,)", 5, 50));
    add_array(scene, "rows.npy", make_float_npy("(5, 2)", 10, 70));
    add_array(scene, "table.npy", make_float_npy("(5, 1)", 5, 90));
    expect_ok(scene, open_npz(scene));
    assert_int_equal(oq_data_n_samples(scene->source), 5);
    read_run(scene, (size_t[]){2}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "3,2", 12);
    expect_tensor(&run[1], ONNXPTQ_TYPE_FLOAT, "", 52);
    expect_tensor(&run[2], ONNXPTQ_TYPE_FLOAT, "1,2", 74);
    expect_tensor(&run[3], ONNXPTQ_TYPE_FLOAT, "5,1", 90); /* five rows a run do not fit */
}

static void other_arrays_are_given_to_every_run(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "1,2");
    add_input(scene, "scale", ONNXPTQ_TYPE_FLOAT, "");
    add_input(scene, "anchors", ONNXPTQ_TYPE_FLOAT, "4");
    add_input(scene, "sizes", ONNXPTQ_TYPE_INT64, "-1");
    add_array(scene, "x.npy", make_float_npy("(4, 2)", 8, 0)); /* as many as anchors, by chance */
    add_array(scene, "scale.npy", make_float_npy("()", 1, 9));
    add_array(scene, "anchors.npy", make_float_npy("(4,)", 4, 60));
    add_array(scene, "sizes.npy", make_int64_npy("(3,)", 3, 80));
    expect_ok(scene, open_npz(scene));
    assert_int_equal(oq_data_n_samples(scene->source), 4);
    for (size_t i = 0; i < 2; i++) {
        read_run(scene, &i, 1, run);
        expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "1,2", 2 * (double)i);
        expect_tensor(&run[1], ONNXPTQ_TYPE_FLOAT, "", 9);
        expect_tensor(&run[2], ONNXPTQ_TYPE_FLOAT, "4", 60);
        expect_tensor(&run[3], ONNXPTQ_TYPE_INT64, "3", 80);
    }
    assert_non_null(strstr(scene->log, "'sizes'"));
}

static void an_undeclared_rank_takes_rows(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_UNDEFINED, "");
    add_array(scene, "x.npy", make_float_npy("(4, 2)", 8, 0));
    expect_ok(scene, open_npz(scene));
    assert_int_equal(oq_data_n_samples(scene->source), 4);
    read_run(scene, (size_t[]){3}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "1,2", 6);
}

static void a_npy_serves_the_only_input(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "1,2");
    scene->path = write_bytes(scene->folder, "x.npy", make_float_npy("(4, 2)", 8, 0));
    scene->options.data_path = scene->path;
    expect_ok(scene, open_data(scene));
    read_run(scene, (size_t[]){3}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "1,2", 6);
    oq_data_close(scene->source);
    scene->source = NULL;
    add_input(scene, "y", ONNXPTQ_TYPE_FLOAT, "1,2");
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_DATA, WORDS("x.npy", "'x', 'y'", ".npz"));
}

/* ---- Conversion ---- */

static void floats_are_converted(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    const double wide[2] = {1 + 1e-12, -2};
    const uint16_t half[2] = {0x3e00, 0x4000};
    add_input(scene, "a", ONNXPTQ_TYPE_FLOAT, "1");
    add_input(scene, "b", ONNXPTQ_TYPE_DOUBLE, "1");
    add_input(scene, "c", ONNXPTQ_TYPE_FLOAT16, "1");
    add_input(scene, "d", ONNXPTQ_TYPE_BFLOAT16, "1");
    add_array(scene, "a.npy", make_npy("<f8", false, "(2,)", wide, sizeof wide));
    add_array(scene, "b.npy", make_npy("<f2", false, "(2,)", half, sizeof half));
    add_array(scene, "c.npy", make_npy("<f8", false, "(2,)", wide, sizeof wide));
    add_array(scene, "d.npy", make_float_npy("(2,)", 2, 5));
    expect_ok(scene, open_npz(scene));
    read_run(scene, (size_t[]){0}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "1", 1);
    expect_tensor(&run[1], ONNXPTQ_TYPE_DOUBLE, "1", 1.5);
    expect_tensor(&run[2], ONNXPTQ_TYPE_FLOAT16, "1", 1);
    expect_tensor(&run[3], ONNXPTQ_TYPE_BFLOAT16, "1", 5);
}

static void int64_becomes_int32_and_back(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    const int32_t narrow[3] = {-7, 0, 1};
    add_input(scene, "a", ONNXPTQ_TYPE_INT32, "1");
    add_input(scene, "b", ONNXPTQ_TYPE_INT64, "1");
    add_array(scene, "a.npy", make_int64_npy("(3,)", 3, INT32_MAX - (int64_t)1));
    add_array(scene, "b.npy", make_npy("<i4", false, "(3,)", narrow, sizeof narrow));
    expect_ok(scene, open_npz(scene));
    read_run(scene, (size_t[]){0}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_INT32, "1", INT32_MAX - 1);
    expect_tensor(&run[1], ONNXPTQ_TYPE_INT64, "1", -7);
    expect_error(scene, oq_data_read(scene->source, (size_t[]){2}, 1, run, &scene->error),
                 ONNXPTQ_ERROR_DATA, WORDS("'a'", "sample 2", "int32", "int64"));
}

static void a_value_that_becomes_infinite_is_refused(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    const double wide[4] = {1, HUGE_VAL, 1e39, 65519.9};
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "1");
    add_array(scene, "x.npy", make_npy("<f8", false, "(4,)", wide, sizeof wide));
    expect_ok(scene, open_npz(scene));
    read_run(scene, (size_t[]){1}, 1, run); /* was infinite before */
    expect_error(scene, oq_data_read(scene->source, (size_t[]){2}, 1, run, &scene->error),
                 ONNXPTQ_ERROR_DATA, WORDS("'x'", "sample 2", "calib.npz"));
}

/* ---- What is refused ---- */

struct refusal {
    enum onnxptq_type type;
    const char *declared, *descr, *shape; /* of x */
    size_t bytes;
    const char *words[4];
};

static void arrays_that_do_not_fit(void **state) {
    struct scene *scene = *state;
    static const uint8_t zeros[4096];
    static const struct refusal cases[] = {
        {ONNXPTQ_TYPE_FLOAT,
         "1,3,2",
         "<f4",
         "(4, 3, 3)",
         144,
         {"float (1, 3, 2)", "float (4, 3, 3)"}},
        {ONNXPTQ_TYPE_FLOAT, "1,3,2", "<f4", "(4, 1, 3, 3)", 144, {"float (4, 1, 3, 3)"}},
        {ONNXPTQ_TYPE_FLOAT, "1,3,2", "<f4", "(4, 2, 3, 2)", 192, {"float (4, 2, 3, 2)"}},
        {ONNXPTQ_TYPE_FLOAT, "1,3,2", "<f4", "(4, 3)", 48, {"float (4, 3)"}},
        {ONNXPTQ_TYPE_FLOAT, "1,3,2", "<f4", "(1, 1, 4, 3, 2)", 96, {"one dimension more"}},
        {ONNXPTQ_TYPE_FLOAT, "1,3,2", "<f4", "()", 4, {"float ()"}},
        {ONNXPTQ_TYPE_FLOAT, "1,3,2", "<f4", "(0, 3, 2)", 0, {"at least one sample"}},
        {ONNXPTQ_TYPE_FLOAT, "-1,3,2", "<f4", "(0, 3, 2)", 0, {"at least one sample"}},
        {ONNXPTQ_TYPE_FLOAT, "1,3,2", "<f4", "(0, 1, 3, 2)", 0, {"at least one sample"}},
        {ONNXPTQ_TYPE_FLOAT, "8,3,2", "<f4", "(4, 3, 2)", 96, {"8 rows", "found 4"}},
        {ONNXPTQ_TYPE_FLOAT, "1,3,2", "<i8", "(4, 3, 2)", 192, {"expected float", "found int64"}},
        {ONNXPTQ_TYPE_INT64, "1,3,2", "<f4", "(4, 3, 2)", 96, {"expected int64", "found float"}},
        {ONNXPTQ_TYPE_INT64, "1,3,2", "<u8", "(4, 3, 2)", 192, {"found uint64"}},
        {ONNXPTQ_TYPE_UINT8, "1,3,2", "|b1", "(4, 3, 2)", 24, {"found bool"}},
        {ONNXPTQ_TYPE_STRING, "1,3,2", "|u1", "(4, 3, 2)", 24, {"expected string"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct refusal *c = &cases[i];
        scene->n_inputs = scene->n_members = 0;
        add_input(scene, "x", c->type, c->declared);
        add_array(scene, "x.npy", make_npy(c->descr, false, c->shape, zeros, c->bytes));
        const char *words[8] = {"calib.npz", "'x'"};
        for (size_t w = 0; c->words[w] != NULL; w++) {
            words[2 + w] = c->words[w];
        }
        expect_error(scene, open_npz(scene), ONNXPTQ_ERROR_DATA, words);
        assert_null(scene->source);
        free(scene->path);
        scene->path = NULL;
    }
}

static void names_must_match(void **state) {
    struct scene *scene = *state;
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "1,2");
    add_input(scene, "mask", ONNXPTQ_TYPE_INT64, "-1,2");
    add_array(scene, "x.npy", make_float_npy("(4, 2)", 8, 0));
    add_array(scene, "Mask.npy", make_int64_npy("(4, 2)", 8, 0));
    expect_error(scene, open_npz(scene), ONNXPTQ_ERROR_DATA,
                 WORDS("calib.npz", "'mask'", "int64 (?, 2)", "'x', 'Mask'"));
    scene->n_members = 0;
    free(scene->path);
    add_array(scene, "x.npy", make_float_npy("(4, 2)", 8, 0));
    add_array(scene, "mask.npy", make_int64_npy("(4, 2)", 8, 0));
    add_array(scene, "labels.npy", make_int64_npy("(4,)", 4, 0));
    expect_error(scene, open_npz(scene), ONNXPTQ_ERROR_DATA,
                 WORDS("calib.npz", "'labels'", "'x', 'mask'"));
}

static void counts_must_agree(void **state) {
    struct scene *scene = *state;
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "1,2");
    add_input(scene, "y", ONNXPTQ_TYPE_FLOAT, "1,2");
    add_array(scene, "x.npy", make_float_npy("(4, 2)", 8, 0));
    add_array(scene, "y.npy", make_float_npy("(3, 2)", 6, 0));
    expect_error(scene, open_npz(scene), ONNXPTQ_ERROR_DATA,
                 WORDS("'y'", "4 samples", "'x'", "(3, 2)"));
}

static void rows_a_run_must_agree(void **state) {
    struct scene *scene = *state;
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "2,2");
    add_input(scene, "y", ONNXPTQ_TYPE_FLOAT, "4,2");
    add_array(scene, "x.npy", make_float_npy("(8, 2)", 16, 0));
    add_array(scene, "y.npy", make_float_npy("(8, 2)", 16, 0));
    expect_error(scene, open_npz(scene), ONNXPTQ_ERROR_DATA,
                 WORDS("'y'", "float (4, 2)", "2 rows"));
}

static void a_batch_that_contradicts(void **state) {
    struct scene *scene = *state;
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "2,2");
    add_array(scene, "x.npy", make_float_npy("(8, 2)", 16, 0));
    scene->options.batch = 4;
    expect_error(scene, open_npz(scene), ONNXPTQ_ERROR_USAGE, WORDS("exactly 2"));
    scene->options.batch = 2;
    expect_ok(scene, open_data(scene));
    oq_data_close(scene->source);
    scene->source = NULL;
    free(scene->path);
    scene->n_members = 0;
    add_array(scene, "x.npy", make_float_npy("(3, 2, 2)", 12, 0));
    expect_error(scene, open_npz(scene), ONNXPTQ_ERROR_USAGE, WORDS("whole run"));
}

static void exactly_one_kind_of_data(void **state) {
    struct scene *scene = *state;
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "2,2");
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_USAGE, WORDS("--data", "--random-data"));
    scene->options.data_path = "x.npz";
    scene->options.random_samples = 3;
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_USAGE, WORDS("more than one"));
    struct onnxptq_input_range range = {"x", 0, 1};
    scene->options.random_samples = 0;
    scene->options.input_ranges = &range;
    scene->options.n_input_ranges = 1;
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_USAGE, WORDS("--random-data"));
}

/* ---- A folder ---- */

static void add_file(struct scene *scene, const char *name, const char *shape, size_t n,
                     float first) {
    struct npz_member member = {"x.npy", make_float_npy(shape, n, first)};
    free(write_npz(scene->folder, name, &member, 1, false));
}

static void a_folder_is_one_run_a_file(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "-1,-1");
    add_file(scene, "b.npz", "(1, 3)", 3, 20);
    add_file(scene, "a10.npz", "(2, 5)", 10, 0);
    add_file(scene, "a9.npz", "(1, 1)", 1, 10);
    add_file(scene, ".hidden.npz", "(7,)", 7, 0);
    free(write_bytes(scene->folder, "notes.txt", make_float_npy("(1,)", 1, 0)));
    scene->options.data_path = scene->folder;
    expect_ok(scene, open_data(scene));
    assert_int_equal(oq_data_n_samples(scene->source), 3);
    assert_int_equal(oq_data_batch(scene->source), 1);
    read_run(scene, (size_t[]){2}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "1,3", 20);
    read_run(scene, (size_t[]){0}, 1, run); /* "a10" < "a9" */
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "2,5", 0);
    read_run(scene, (size_t[]){1}, 1, run);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "1,1", 10);
}

static void a_folder_is_checked_when_opened(void **state) {
    struct scene *scene = *state;
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "-1,3");
    scene->options.data_path = scene->folder;
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_DATA, WORDS("no .npz"));
    add_file(scene, "a.npz", "(1, 3)", 3, 0);
    add_file(scene, "b.npz", "(1, 4)", 4, 0);
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_DATA,
                 WORDS("b.npz", "'x'", "float (?, 3)", "float (1, 4)"));
    add_file(scene, "b.npz", "(5, 1, 3)", 15, 0);
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_DATA, WORDS("b.npz", "(5, 1, 3)"));
    add_file(scene, "b.npz", "(5, 3)", 15, 0);
    scene->options.batch = 2;
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_USAGE, WORDS("each file"));
}

static void a_file_of_a_folder_is_checked_when_read(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "-1,3");
    add_file(scene, "a.npz", "(1, 3)", 3, 0);
    scene->options.data_path = scene->folder;
    expect_ok(scene, open_data(scene));
    char *path = path_in(scene->folder, "a.npz");
    struct file_bytes bytes = read_bytes(path);
    for (size_t i = 0; i + 4 <= bytes.size; i++) { /* the number 2 */
        if (memcmp(bytes.data + i, "\0\0\0\x40", 4) == 0) {
            bytes.data[i] = 1;
        }
    }
    free(path);
    free(write_bytes(scene->folder, "a.npz", bytes));
    expect_error(scene, oq_data_read(scene->source, (size_t[]){0}, 1, run, &scene->error),
                 ONNXPTQ_ERROR_DATA, WORDS("a.npz", "'x'", "broken"));
    add_file(scene, "a.npz", "(1, 4)", 4, 0);
    expect_error(scene, oq_data_read(scene->source, (size_t[]){0}, 1, run, &scene->error),
                 ONNXPTQ_ERROR_DATA, WORDS("a.npz", "(1, 4)"));
}

/* ---- A callback ---- */

struct answer {
    struct onnxptq_tensor tensor;
    enum onnxptq_status status;
    const char *message;
    size_t asked;
    float data[6];
};

static enum onnxptq_status give(void *user, size_t index, struct onnxptq_tensor *inputs,
                                size_t n_inputs, struct onnxptq_error *error) {
    struct answer *answer = user;
    assert_int_equal(n_inputs, 1);
    assert_string_equal(inputs[0].name, "x");
    assert_int_equal(inputs[0].shape[0], -1);
    answer->asked = index;
    if (answer->message != NULL) {
        snprintf(error->message, sizeof error->message, "%s", answer->message);
    }
    inputs[0] = answer->tensor;
    return answer->status;
}

static void a_callback_is_checked(void **state) {
    struct scene *scene = *state;
    struct onnxptq_tensor run[MAX_INPUTS];
    struct answer answer = {.data = {3}};
    struct onnxptq_data_source source = {.user = &answer, .n_samples = 9, .read = give};
    const struct onnxptq_tensor good = {.type = ONNXPTQ_TYPE_FLOAT,
                                        .rank = 2,
                                        .shape = {2, 3},
                                        .data = answer.data,
                                        .size = sizeof answer.data};
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, "-1,3");
    scene->options.data = &source;
    expect_ok(scene, open_data(scene));
    assert_int_equal(oq_data_n_samples(scene->source), 9);
    answer.tensor = good;
    read_run(scene, (size_t[]){5}, 1, run);
    assert_int_equal(answer.asked, 5);
    expect_tensor(&run[0], ONNXPTQ_TYPE_FLOAT, "2,3", 3);
    struct onnxptq_tensor bad[8];
    for (size_t i = 0; i < 8; i++) {
        bad[i] = good;
    }
    bad[0].type = ONNXPTQ_TYPE_DOUBLE;
    bad[1].rank = 1;
    bad[2].shape[1] = 2;
    bad[3].size = 20;
    bad[4].data = NULL;
    bad[5].shape[0] = -1;
    bad[6].rank = 17;
    bad[7].shape[0] = INT64_MAX / 2;
    for (size_t i = 0; i < 8; i++) {
        answer.tensor = bad[i];
        expect_error(scene, oq_data_read(scene->source, (size_t[]){5}, 1, run, &scene->error),
                     ONNXPTQ_ERROR_DATA, WORDS("sample 5", "'x'", "float (?, 3)"));
    }
    answer.status = ONNXPTQ_ERROR_IO;
    expect_error(scene, oq_data_read(scene->source, (size_t[]){5}, 1, run, &scene->error),
                 ONNXPTQ_ERROR_IO, WORDS("sample 5", "callback failed"));
    answer.message = "the camera is off";
    expect_error(scene, oq_data_read(scene->source, (size_t[]){5}, 1, run, &scene->error),
                 ONNXPTQ_ERROR_IO, WORDS("sample 5", "the camera is off"));
    assert_int_equal(oq_data_read(scene->source, (size_t[]){5}, 1, run, NULL), ONNXPTQ_ERROR_IO);
    source.n_samples = 0;
    oq_data_close(scene->source);
    scene->source = NULL;
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_USAGE, WORDS("no sample"));
}

/* ---- Runs ---- */

static void expect_runs(struct scene *scene, enum oq_data_part part, const char *expected,
                        size_t n_samples, size_t n_skipped) {
    char found[512] = "";
    struct oq_data_runs runs;
    expect_ok(scene, oq_data_runs(scene->source, part, &runs, &scene->error));
    for (size_t r = 0; r < runs.n_runs; r++) {
        for (size_t i = runs.first[r]; i < runs.first[r + 1]; i++) {
            size_t at = strlen(found);
            snprintf(found + at, sizeof found - at, "%s%zu",
                     i > runs.first[r] ? ","
                     : r > 0           ? " "
                                       : "",
                     runs.samples[i]);
        }
    }
    assert_string_equal(found, expected);
    assert_int_equal(runs.n_samples, n_samples);
    assert_int_equal(runs.n_skipped, n_skipped);
    oq_data_runs_reset(&runs);
}

static void open_rows(struct scene *scene, const char *declared, size_t n, size_t batch,
                      size_t max_samples) {
    char shape[32];
    oq_data_close(scene->source);
    scene->source = NULL;
    free(scene->path);
    scene->n_inputs = scene->n_members = 0;
    snprintf(shape, sizeof shape, "(%zu, 1)", n);
    add_input(scene, "x", ONNXPTQ_TYPE_FLOAT, declared);
    add_array(scene, "x.npy", make_float_npy(shape, n, 0));
    scene->options.batch = batch;
    scene->options.max_samples = max_samples;
    expect_ok(scene, open_npz(scene));
}

static void every_eighth_is_held_back_from_sixteen_on(void **state) {
    struct scene *scene = *state;
    open_rows(scene, "-1,1", 15, 0, 0);
    assert_false(oq_data_held_back(scene->source));
    expect_runs(scene, OQ_DATA_CHECK, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14", 15, 0);
    expect_runs(scene, OQ_DATA_CALIBRATE, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14", 15, 0);
    open_rows(scene, "-1,1", 17, 0, 0);
    assert_true(oq_data_held_back(scene->source));
    expect_runs(scene, OQ_DATA_CALIBRATE, "0 1 2 3 4 5 6 8 9 10 11 12 13 14 16", 15, 0);
    expect_runs(scene, OQ_DATA_CHECK, "7 15", 2, 0);
    open_rows(scene, "-1,1", 40, 0, 15);
    assert_false(oq_data_held_back(scene->source));
    assert_int_equal(oq_data_n_samples(scene->source), 15);
}

static void a_short_last_run(void **state) {
    struct scene *scene = *state;
    open_rows(scene, "-1,1", 18, 4, 0);
    expect_runs(scene, OQ_DATA_CALIBRATE, "0,1,2,3 4,5,6,8 9,10,11,12 13,14,16,17", 16, 0);
    expect_runs(scene, OQ_DATA_CHECK, "7,15", 2, 0);
    open_rows(scene, "-1,1", 5, 4, 0);
    expect_runs(scene, OQ_DATA_ALL, "0,1,2,3 4", 5, 0);
    open_rows(scene, "4,1", 10, 0, 0);
    expect_runs(scene, OQ_DATA_ALL, "0,1,2,3 4,5,6,7", 8, 2);
    open_rows(scene, "-1,1", 5, 64, 0);
    expect_runs(scene, OQ_DATA_ALL, "0,1,2,3,4", 5, 0);
}

static void a_part_below_one_fixed_batch_starts_over(void **state) {
    struct scene *scene = *state;
    open_rows(scene, "5,1", 16, 0, 0);
    expect_runs(scene, OQ_DATA_CHECK, "7,15,7,15,7", 2, 0);
    expect_runs(scene, OQ_DATA_CALIBRATE, "0,1,2,3,4 5,6,8,9,10", 10, 4);
    scene->options.max_samples = 4;
    oq_data_close(scene->source);
    scene->source = NULL;
    expect_error(scene, open_data(scene), ONNXPTQ_ERROR_USAGE, WORDS("4 samples", "exactly 5"));
}

/* `n_held_back` runs of the samples held back, then `n_others` of the others. */
static void expect_picked(struct scene *scene, size_t n_held_back, size_t n_others,
                          const size_t *expected, size_t n_expected) {
    struct oq_data_runs held_back, others, picked;
    expect_ok(scene, oq_data_runs(scene->source, OQ_DATA_CHECK, &held_back, &scene->error));
    expect_ok(scene, oq_data_runs(scene->source, OQ_DATA_CALIBRATE, &others, &scene->error));
    expect_ok(scene, oq_data_runs_pick(&held_back, n_held_back, &others, n_others, &picked,
                                       &scene->error));
    assert_int_equal(picked.n_samples, n_expected);
    assert_int_equal(picked.first[picked.n_runs], n_expected);
    assert_memory_equal(picked.samples, expected, n_expected * sizeof *expected);
    oq_data_runs_reset(&picked);
    oq_data_runs_reset(&others);
    oq_data_runs_reset(&held_back);
}

static void picked_runs_are_evenly_spread(void **state) {
    struct scene *scene = *state;
    static const size_t single[] = {7, 15, 23, 0, 8, 16}, all[] = {7, 15, 23};
    static const size_t joined[] = {7, 15, 23, 0, 1, 2, 3, 13, 14, 16, 17};
    open_rows(scene, "-1,1", 24, 0, 0);
    expect_picked(scene, 3, 3, single, 6);
    expect_picked(scene, 9, 0, all, 3);
    open_rows(scene, "-1,1", 24, 4, 0);
    expect_picked(scene, 1, 2, joined, 11);
}

static void more_samples_than_there_are(void **state) {
    struct scene *scene = *state;
    open_rows(scene, "-1,1", 5, 0, 9);
    assert_int_equal(oq_data_n_samples(scene->source), 5);
    assert_non_null(strstr(scene->log, "9 samples"));
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE(rows_are_samples),
        SCENE(free_rows_are_joined),
        SCENE(a_fixed_batch_is_the_default),
        SCENE(one_fixed_batch_is_rows_too),
        SCENE(entries_are_samples),
        SCENE(other_arrays_are_given_to_every_run),
        SCENE(an_undeclared_rank_takes_rows),
        SCENE(a_npy_serves_the_only_input),
        SCENE(floats_are_converted),
        SCENE(int64_becomes_int32_and_back),
        SCENE(a_value_that_becomes_infinite_is_refused),
        SCENE(arrays_that_do_not_fit),
        SCENE(names_must_match),
        SCENE(counts_must_agree),
        SCENE(rows_a_run_must_agree),
        SCENE(a_batch_that_contradicts),
        SCENE(exactly_one_kind_of_data),
        SCENE(a_folder_is_one_run_a_file),
        SCENE(a_folder_is_checked_when_opened),
        SCENE(a_file_of_a_folder_is_checked_when_read),
        SCENE(a_callback_is_checked),
        SCENE(every_eighth_is_held_back_from_sixteen_on),
        SCENE(a_short_last_run),
        SCENE(a_part_below_one_fixed_batch_starts_over),
        SCENE(picked_runs_are_evenly_spread),
        SCENE(more_samples_than_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
