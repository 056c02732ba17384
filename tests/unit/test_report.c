/*
 * The report: what it keeps, what it warns of, and its JSON, read back by yyjson.
 */
#include "api/json.h"
#include "api/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct onnxptq_error error;

static int set_up(void **state) {
    struct oq_report *report = calloc(1, sizeof *report);
    *state = report;
    return report == NULL || oq_report_init(report, &error) != ONNXPTQ_OK;
}

static int tear_down(void **state) {
    oq_report_reset(*state);
    free(*state);
    return 0;
}

static yyjson_doc *read_back(const struct oq_report *report) {
    char *text = NULL;
    assert_int_equal(oq_report_write_json(&report->public, &text, &error), ONNXPTQ_OK);
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    assert_non_null(doc);
    onnxptq_free(text);
    return doc;
}

static bool has_note(const struct oq_report *report, const char *words) {
    for (size_t i = 0; i < report->public.n_notes; i++) {
        if (strstr(report->public.notes[i], words) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- Notes and stages ---------------------------------------------------------------------- */

static void test_a_note_is_kept_once(void **state) {
    struct oq_report *report = *state;
    for (int i = 0; i < 3; i++) {
        oq_report_add_note(report, "%d samples", 5);
    }
    oq_report_add_note(report, "other");
    assert_int_equal(report->public.n_notes, 2);
    assert_string_equal(report->public.notes[0], "5 samples");
}

static void test_stages_do_not_overflow(void **state) {
    struct oq_report *report = *state;
    for (int i = 0; i < 2 * OQ_REPORT_MAX_STAGES; i++) {
        oq_report_add_stage(report, "read", 0.5, 0.75);
    }
    assert_int_equal(report->public.n_stages, OQ_REPORT_MAX_STAGES);
}

/* ---- Outputs ------------------------------------------------------------------------------- */

static struct oq_output_quality quality(const char *name, double signal, double noise) {
    return (struct oq_output_quality){.name = name,
                                      .type = ONNXPTQ_TYPE_FLOAT,
                                      .comparable = true,
                                      .exact = noise == 0,
                                      .signal = signal,
                                      .noise = noise,
                                      .max_abs_error = sqrt(noise),
                                      .n_elements = 10};
}

static void test_outputs(void **state) {
    struct oq_report *report = *state;
    char name[] = "good"; /* borrowed for the call only */
    struct oq_output_quality measured[] = {quality(name, 1000, 1), quality("bad", 5, 1),
                                           quality("exact", 5, 0), quality("silent", 0, 4)};
    assert_int_equal(oq_report_add_outputs(report, measured, 4, &error), ONNXPTQ_OK);
    memset(name, 'x', sizeof name - 1);
    const struct onnxptq_output_report *outputs = report->public.outputs;
    assert_string_equal(outputs[0].name, "good");
    assert_true(fabs(outputs[0].sqnr_db - 30) < 1e-9);
    assert_false(outputs[0].exact);
    assert_true(outputs[2].exact);
    assert_false(outputs[3].has_sqnr);
    assert_true(has_note(report, "LOW QUALITY: output 'bad'"));
    assert_false(has_note(report, "'good'"));
    assert_false(has_note(report, "'exact'"));
}

static void test_outputs_that_cannot_be_compared(void **state) {
    struct oq_report *report = *state;
    struct oq_output_quality text = {.name = "label", .type = ONNXPTQ_TYPE_STRING};
    struct oq_output_quality other = {.name = "y", .type = ONNXPTQ_TYPE_FLOAT};
    struct oq_output_quality index = quality("i", 5, 1);
    index.type = ONNXPTQ_TYPE_INT64;
    struct oq_output_quality measured[] = {text, other, index};
    assert_int_equal(oq_report_add_outputs(report, measured, 3, &error), ONNXPTQ_OK);
    assert_true(has_note(report, "output 'label' was not measured"));
    assert_true(has_note(report, "LOW QUALITY: output 'y'"));
    assert_true(has_note(report, "output 'i' is not equal"));
    for (size_t i = 0; i < 3; i++) {
        assert_false(report->public.outputs[i].has_sqnr);
        assert_false(report->public.outputs[i].exact);
    }
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void fill(struct oq_report *report) {
    static const struct onnxptq_node_report nodes[] = {
        {.name = "c1",
         .op = "Conv",
         .decision = ONNXPTQ_DECISION_QUANTIZED,
         .rule = "weighted-input",
         .reason = "it has a weight"},
        {.name = "r",
         .op = "Relu",
         .decision = ONNXPTQ_DECISION_FLOAT,
         .rule = "fused",
         .reason = "it follows a convolution"},
        {.name = "d",
         .op = "my::Op",
         .decision = ONNXPTQ_DECISION_FOREIGN,
         .rule = "foreign",
         .reason = "another domain"},
        {.name = "c2",
         .op = "Conv",
         .decision = ONNXPTQ_DECISION_QUANTIZED,
         .rule = "weighted-input",
         .reason = "it has a weight"},
        {.name = "c3",
         .op = "Conv",
         .decision = ONNXPTQ_DECISION_EXCLUDED,
         .rule = "excluded",
         .reason = "\"c3\""},
    };
    static const struct onnxptq_tensor_report tensors[] = {
        {"x", ONNXPTQ_TYPE_INT8, 0.1, -3, -1.5, INFINITY, "weighted-input", "read by c1"}};
    static const struct onnxptq_weight_report weights[] = {
        {"w", ONNXPTQ_TYPE_INT8, 0, 32, 0.25, 0.5}};
    static const struct onnxptq_tensor inputs[] = {
        {.name = "x", .type = ONNXPTQ_TYPE_FLOAT, .rank = 2, .shape = {-1, 3}},
        {.name = "u", .type = ONNXPTQ_TYPE_UNDEFINED}};
    struct onnxptq_report *public = &report->public;
    public->model_path = "a\xFF"
                         "b.onnx";
    public->target = "tensorrt";
    public->nodes = nodes, public->n_nodes = 5;
    public->tensors = tensors, public->n_tensors = 1;
    public->weights = weights, public->n_weights = 1;
    public->inputs = inputs, public->n_inputs = 2;
    public->n_check_samples = 7, public->held_back = true, public->measured_unoptimized = true;
    public->model_bytes = UINT64_MAX;
}

static yyjson_val *at(yyjson_doc *doc, const char *pointer) {
    yyjson_val *value = yyjson_doc_ptr_get(doc, pointer);
    assert_non_null(value);
    return value;
}

static void test_json(void **state) {
    struct oq_report *report = *state;
    fill(report);
    struct oq_output_quality measured[] = {quality("y", 100, 1), quality("e", 100, 0)};
    assert_int_equal(oq_report_add_outputs(report, measured, 2, &error), ONNXPTQ_OK);
    oq_report_add_stage(report, "read", 0.5, 0.75);
    yyjson_doc *doc = read_back(report);
    assert_string_equal(yyjson_get_str(at(doc, "/model")), "a\xEF\xBF\xBD"
                                                           "b.onnx");
    assert_true(yyjson_is_null(at(doc, "/output")));
    assert_string_equal(yyjson_get_str(at(doc, "/nodes/2/decision")), "foreign");
    assert_string_equal(yyjson_get_str(at(doc, "/nodes/4/reason")), "\"c3\"");
    assert_int_equal(yyjson_get_int(at(doc, "/summary/quantized/Conv")), 2);
    assert_int_equal(yyjson_get_int(at(doc, "/summary/float/Conv")), 1);
    assert_int_equal(yyjson_get_int(at(doc, "/summary/float/my::Op")), 1);
    assert_int_equal(yyjson_obj_size(at(doc, "/summary/float")), 3);
    assert_int_equal(yyjson_get_sint(at(doc, "/tensors/0/zero_point")), -3);
    assert_true(yyjson_is_null(at(doc, "/tensors/0/max")));
    assert_true(yyjson_get_real(at(doc, "/tensors/0/min")) == -1.5);
    assert_int_equal(yyjson_get_int(at(doc, "/weights/0/channels")), 32);
    assert_true(yyjson_is_null(at(doc, "/inputs/0/shape/0")));
    assert_int_equal(yyjson_get_int(at(doc, "/inputs/0/shape/1")), 3);
    assert_true(yyjson_is_null(at(doc, "/inputs/1/shape")));
    assert_true(yyjson_get_bool(at(doc, "/check/held_back")));
    assert_true(yyjson_get_bool(at(doc, "/check/unoptimized")));
    assert_true(fabs(yyjson_get_real(at(doc, "/check/outputs/0/sqnr_db")) - 20) < 1e-9);
    assert_true(yyjson_is_null(at(doc, "/check/outputs/1/sqnr_db")));
    assert_true(yyjson_get_bool(at(doc, "/check/outputs/1/exact")));
    assert_string_equal(yyjson_get_str(at(doc, "/stages/0/name")), "read");
    assert_true(yyjson_get_uint(at(doc, "/model_bytes")) == UINT64_MAX);
    yyjson_doc_free(doc);
}

static void test_an_empty_report_is_an_object_too(void **state) {
    yyjson_doc *doc = read_back(*state);
    assert_int_equal(yyjson_arr_size(at(doc, "/nodes")), 0);
    assert_int_equal(yyjson_obj_size(at(doc, "/summary/quantized")), 0);
    yyjson_doc_free(doc);
}

static const char *round_trip(const char *text, char *copy, size_t size) {
    struct oq_json json;
    oq_json_init(&json);
    oq_json_text(&json, json.root, "t", text);
    char *written = NULL;
    assert_int_equal(oq_json_finish(&json, &written, NULL), ONNXPTQ_OK);
    yyjson_doc *doc = yyjson_read(written, strlen(written), 0);
    assert_non_null(doc);
    snprintf(copy, size, "%s", yyjson_get_str(at(doc, "/t")));
    yyjson_doc_free(doc);
    onnxptq_free(written);
    return copy;
}

/* Names in a model are bytes; in JSON they are UTF-8. */
static void test_text_is_always_utf8(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"plain \"\\\n\x01", "plain \"\\\n\x01"},
        {"m\xC3\xB6"
         "del \xE2\x82\xAC \xF0\x9F\x98\x80",
         "m\xC3\xB6"
         "del \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* overlong */
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* surrogate */
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"end \xE2\x82", "end \xEF\xBF\xBD\xEF\xBF\xBD"}, /* cut off */
        {"end \xF0", "end \xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char copy[64];
        assert_string_equal(round_trip(cases[i][0], copy, sizeof copy), cases[i][1]);
    }
}

static void test_errors_as_json(void **state) {
    (void)state;
    struct onnxptq_error failure = {.status = ONNXPTQ_ERROR_MISSING_OPERATOR,
                                    .message = "cannot run 'a\"b'"};
    char *text = onnxptq_error_json(&failure);
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    assert_string_equal(yyjson_get_str(at(doc, "/error/status")), "missing operator");
    assert_string_equal(yyjson_get_str(at(doc, "/error/message")), "cannot run 'a\"b'");
    yyjson_doc_free(doc);
    onnxptq_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_note_is_kept_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stages_do_not_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_outputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_outputs_that_cannot_be_compared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_empty_report_is_an_object_too, set_up, tear_down),
        cmocka_unit_test(test_text_is_always_utf8),
        cmocka_unit_test(test_errors_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
