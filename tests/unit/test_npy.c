/*
 * The header of .npy files, and elements in C order.
 */
#include "base/number.h"
#include "data/npy.h"

#include "data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static enum onnxptq_status parse(struct file_bytes bytes, struct oq_npy *npy, char *message) {
    struct onnxptq_error error = {0};
    enum onnxptq_status status = oq_npy_parse(bytes.data, bytes.size, npy, &error);
    if (message != NULL) {
        snprintf(message, 256, "%.255s", error.message);
    }
    free_bytes(&bytes);
    return status;
}

static void reads_all_versions(void **state) {
    (void)state;
    for (int version = 1; version <= 3; version++) {
        const char *header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n";
        struct oq_npy npy;
        assert_int_equal(parse(make_npy_text(version, header, NULL, 0), &npy, NULL), ONNXPTQ_OK);
        assert_int_equal(npy.type, ONNXPTQ_TYPE_FLOAT);
        assert_int_equal(npy.rank, 2);
        assert_int_equal(npy.shape[0], 3);
        assert_int_equal(npy.shape[1], 4);
        assert_int_equal(npy.n_elements, 12);
        assert_int_equal(npy.n_bytes, 48);
        assert_int_equal(npy.data_offset, (version == 1 ? 10 : 12) + strlen(header));
        assert_false(npy.swapped || npy.fortran);
    }
}

static void knows_every_type(void **state) {
    (void)state;
    static const struct {
        const char *descr;
        enum onnxptq_type type;
    } cases[] = {
        {"|b1", ONNXPTQ_TYPE_BOOL},    {"|i1", ONNXPTQ_TYPE_INT8},    {"<i2", ONNXPTQ_TYPE_INT16},
        {"<i4", ONNXPTQ_TYPE_INT32},   {"<i8", ONNXPTQ_TYPE_INT64},   {"|u1", ONNXPTQ_TYPE_UINT8},
        {"<u2", ONNXPTQ_TYPE_UINT16},  {"<u4", ONNXPTQ_TYPE_UINT32},  {"<u8", ONNXPTQ_TYPE_UINT64},
        {"<f2", ONNXPTQ_TYPE_FLOAT16}, {"<f4", ONNXPTQ_TYPE_FLOAT},   {"<f8", ONNXPTQ_TYPE_DOUBLE},
        {"=f4", ONNXPTQ_TYPE_FLOAT},   {"|V2", ONNXPTQ_TYPE_BFLOAT16}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct oq_npy npy;
        assert_int_equal(parse(make_npy(cases[i].descr, false, "(5,)", NULL, 0), &npy, NULL),
                         ONNXPTQ_OK);
        assert_int_equal(npy.type, cases[i].type);
        assert_int_equal(npy.item_size, oq_type_size((int)npy.type));
        assert_false(npy.swapped);
    }
}

static void reads_odd_but_valid_headers(void **state) {
    (void)state;
    struct oq_npy npy;
    assert_int_equal(
        parse(make_npy_text(1, "{\"shape\":(2L,3L),\"fortran_order\":True,\"descr\":\"<i4\"}", NULL,
                            0),
              &npy, NULL),
        ONNXPTQ_OK);
    assert_int_equal(npy.n_elements, 6);
    assert_true(npy.fortran);
    assert_int_equal(parse(make_npy("<f4", true, "()", NULL, 0), &npy, NULL), ONNXPTQ_OK);
    assert_int_equal(npy.rank, 0);
    assert_int_equal(npy.n_elements, 1);
    assert_int_equal(parse(make_npy("<f4", true, "(1, 7, 1)", NULL, 0), &npy, NULL), ONNXPTQ_OK);
    assert_false(npy.fortran); /* both orders are the same */
    assert_int_equal(parse(make_npy("<f4", false, "(0, 4)", NULL, 0), &npy, NULL), ONNXPTQ_OK);
    assert_int_equal(npy.n_elements, 0);
}

static void refuses_types_that_no_input_takes(void **state) {
    (void)state;
    static const struct {
        const char *descr, *word;
    } cases[] = {{"|O", "pickled"}, {"<U5", "<U5"},    {"|S3", "|S3"},   {"<c8", "<c8"},
                 {"<f16", "<f16"},  {"<M8[ns]", "M8"}, {"|V4", "|V4"},   {"<i3", "<i3"},
                 {"", "type"},      {"<", "type"},     {"<f44", "<f44"}, {"f", "'f'"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct oq_npy npy;
        char message[256];
        assert_int_equal(parse(make_npy(cases[i].descr, false, "(5,)", NULL, 0), &npy, message),
                         ONNXPTQ_ERROR_UNSUPPORTED);
        assert_non_null(strstr(message, cases[i].word));
    }
}

static void refuses_broken_headers(void **state) {
    (void)state;
    static const struct {
        const char *header, *word;
    } cases[] = {
        {"", "broken"},
        {"{", "broken"},
        {"{}", "exactly"},
        {"{'descr': '<f4', 'fortran_order': False, }", "exactly"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x", "exactly"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}", "'more'"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (3,)}", "'descr'"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}", "broken"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}", "fortran_order"},
        {"{'descr': <f4, 'fortran_order': False, 'shape': (3,)}", "descr"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}", "type"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 3}", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,)}", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "address"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2305843009213693952, 2)}", "address"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "structured"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
         "17 dimensions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct oq_npy npy;
        char message[256];
        assert_int_not_equal(parse(make_npy_text(1, cases[i].header, NULL, 0), &npy, message),
                             ONNXPTQ_OK);
        if (strstr(message, cases[i].word) == NULL) {
            fail_msg("'%s' gave '%s'", cases[i].header, message);
        }
    }
}

static void refuses_other_versions_and_huge_headers(void **state) {
    (void)state;
    const uint8_t version9[16] = "\x93NUMPY\x09\x00\x02\x00{}";
    const uint8_t minor[16] = "\x93NUMPY\x01\x01\x02\x00{}";
    const uint8_t huge[16] = "\x93NUMPY\x02\x00\xff\xff\xff\xff{}";
    struct oq_npy npy;
    assert_int_equal(oq_npy_parse(version9, 16, &npy, NULL), ONNXPTQ_ERROR_UNSUPPORTED);
    assert_int_equal(oq_npy_parse(minor, 16, &npy, NULL), ONNXPTQ_ERROR_UNSUPPORTED);
    assert_int_equal(oq_npy_parse(huge, 16, &npy, NULL), ONNXPTQ_ERROR_DATA);
}

/* The bytes are exactly as long as said, so that the sanitizer sees every step beyond them. */
static void refuses_every_truncation(void **state) {
    (void)state;
    for (int version = 1; version <= 2; version++) {
        struct file_bytes whole = make_npy_text(
            version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", NULL, 0);
        for (size_t size = 0; size < whole.size; size++) {
            uint8_t *cut = malloc(size > 0 ? size : 1);
            struct oq_npy npy;
            memcpy(cut, whole.data, size);
            assert_int_not_equal(oq_npy_parse(cut, size, &npy, NULL), ONNXPTQ_OK);
            free(cut);
        }
        free_bytes(&whole);
    }
}

static void copies_any_range_of_fortran_order(void **state) {
    (void)state;
    /* Element (i, j, k) of shape (2, 3, 4) is 100 i + 10 j + k. */
    int32_t stored[24], out[24];
    size_t at = 0;
    for (int k = 0; k < 4; k++) {
        for (int j = 0; j < 3; j++) {
            for (int i = 0; i < 2; i++) {
                stored[at++] = 100 * i + 10 * j + k;
            }
        }
    }
    struct oq_npy npy;
    assert_int_equal(parse(make_npy("<i4", true, "(2, 3, 4)", NULL, 0), &npy, NULL), ONNXPTQ_OK);
    for (size_t first = 0; first <= 24; first++) {
        for (size_t n = 0; n <= 24 - first; n++) {
            oq_npy_copy(&npy, (const uint8_t *)stored, first, n, (uint8_t *)out);
            for (size_t e = 0; e < n; e++) {
                size_t c = first + e;
                assert_int_equal(out[e], 100 * (c / 12) + 10 * (c / 4 % 3) + c % 4);
            }
        }
    }
}

static void swaps_big_endian(void **state) {
    (void)state;
    const uint8_t stored[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0};
    float out[2];
    struct oq_npy npy;
    assert_int_equal(parse(make_npy(">f4", false, "(2,)", NULL, 0), &npy, NULL), ONNXPTQ_OK);
    oq_npy_copy(&npy, stored, 0, 2, (uint8_t *)out);
    assert_true(out[0] == 1.0f && out[1] == -2.0f);
    const uint8_t wide[] = {0, 0, 0, 0, 0, 0, 1, 2};
    int64_t value = 0;
    assert_int_equal(parse(make_npy(">i8", false, "(1,)", NULL, 0), &npy, NULL), ONNXPTQ_OK);
    oq_npy_copy(&npy, wide, 0, 1, (uint8_t *)&value);
    assert_int_equal(value, 258);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_versions),
        cmocka_unit_test(knows_every_type),
        cmocka_unit_test(reads_odd_but_valid_headers),
        cmocka_unit_test(refuses_types_that_no_input_takes),
        cmocka_unit_test(refuses_broken_headers),
        cmocka_unit_test(refuses_other_versions_and_huge_headers),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(copies_any_range_of_fortran_order),
        cmocka_unit_test(swaps_big_endian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
