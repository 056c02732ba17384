/*
 * The arena, growing arrays and the hash map.
 */
#include "base/arena.h"
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

static void test_alloc(void **state) {
    (void)state;
    struct oq_arena *arena = oq_arena_create();
    static const size_t sizes[] = {0, 1, 7, 16, 100, 16 * 1024, 63 * 1024, 1000 * 1000};
    for (int round = 0; round < 200; round++) {
        const size_t size = sizes[round % 8];
        unsigned char *p = oq_arena_alloc(arena, size);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++) {
            if (p[i] != 0) {
                fail_msg("byte %zu of %zu is not zero", i, size);
            }
        }
        memset(p, 0xff, size);
    }
    assert_true(oq_arena_used(arena) > (size_t)20 * 1000 * 1000);
    oq_arena_destroy(arena);
    oq_arena_destroy(NULL);
}

static void test_overflow(void **state) {
    (void)state;
    struct oq_arena *arena = oq_arena_create();
    assert_null(oq_arena_array(arena, SIZE_MAX / 2, 3));
    assert_null(oq_arena_alloc(arena, SIZE_MAX));
    assert_null(oq_arena_alloc(arena, SIZE_MAX - 20));
    assert_null(oq_arena_strndup(arena, "x", SIZE_MAX));
    assert_non_null(oq_arena_array(arena, 0, 8));
    oq_arena_destroy(arena);
}

static void test_text(void **state) {
    (void)state;
    struct oq_arena *arena = oq_arena_create();
    assert_string_equal(oq_arena_strdup(arena, "abc"), "abc");
    assert_string_equal(oq_arena_strndup(arena, "abcdef", 3), "abc");
    assert_string_equal(oq_arena_strndup(arena, NULL, 0), "");
    assert_string_equal(oq_arena_printf(arena, "%s-%d", "n", 12), "n-12");
    oq_arena_destroy(arena);
}

static void test_limit(void **state) {
    (void)state;
    struct oq_arena *arena = oq_arena_create();
    oq_arena_set_limit(arena, 1024);
    assert_non_null(oq_arena_alloc(arena, 512));
    assert_null(oq_arena_alloc(arena, 1024));
    assert_non_null(oq_arena_alloc(arena, 512));
    assert_null(oq_arena_alloc(arena, 1));
    oq_arena_set_limit(arena, SIZE_MAX);
    assert_non_null(oq_arena_alloc(arena, 1));
    oq_arena_destroy(arena);
}

static void test_release(void **state) {
    (void)state;
    struct oq_arena *arena = oq_arena_create();
    void *first = oq_arena_alloc(arena, 100000);
    void *second = oq_arena_alloc(arena, 200000);
    void *small = oq_arena_alloc(arena, 10);
    const size_t used = oq_arena_used(arena);
    oq_arena_release(arena, small);
    assert_int_equal(oq_arena_used(arena), used);
    oq_arena_release(arena, first);
    assert_int_equal(oq_arena_used(arena), used - 100000);
    oq_arena_release(arena, second);
    assert_int_equal(oq_arena_used(arena), used - 300000);
    oq_arena_release(arena, NULL);
    oq_arena_destroy(arena);
}

static void test_grow(void **state) {
    (void)state;
    void *items = NULL;
    size_t capacity = 0;
    assert_true(oq_grow(&items, &capacity, 3, 4));
    assert_true(capacity >= 3);
    const void *same = items;
    assert_true(oq_grow(&items, &capacity, capacity, 4));
    assert_ptr_equal(items, same);
    assert_true(oq_grow(&items, &capacity, 1000, 4));
    assert_true(capacity >= 1000);
    const size_t before = capacity;
    assert_false(oq_grow(&items, &capacity, SIZE_MAX / 2, 4));
    assert_false(oq_grow(&items, &capacity, SIZE_MAX, 1));
    assert_int_equal(capacity, before);
    free(items);
}

static void test_map(void **state) {
    (void)state;
    struct oq_map *map = oq_map_create();
    size_t value = 7;
    assert_false(oq_map_get_name(map, "a", &value));
    assert_int_equal(value, 7);
    assert_true(oq_map_put_name(map, "a", 1));
    assert_true(oq_map_put_name(map, "", 2));
    assert_true(oq_map_put_name(map, "a", 3));
    assert_true(oq_map_get_name(map, "a", &value));
    assert_int_equal(value, 3);
    assert_true(oq_map_get_name(map, "", NULL));
    for (size_t i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%zu", i);
        assert_true(oq_map_put_copy(map, key, strlen(key), i));
    }
    for (size_t i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%zu", i);
        assert_true(oq_map_get_name(map, key, &value));
        assert_int_equal(value, i);
    }
    oq_map_destroy(map);
    oq_map_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc), cmocka_unit_test(test_overflow), cmocka_unit_test(test_text),
        cmocka_unit_test(test_limit), cmocka_unit_test(test_release),  cmocka_unit_test(test_grow),
        cmocka_unit_test(test_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
