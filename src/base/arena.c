/*
 * Arena: small allocations are cut from chunks; large ones get a block of their own, so that they
 * can be given back early (protobuf-c's scratch tables) and leave no unused tail.
 */
#include "base/arena.h"

#include "base/size.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define OQ_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OQ_POISON 1
#endif
#endif
#if defined(OQ_POISON) && __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#define OQ_GAP 16 /* between allocations, so that an overrun is seen */
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define OQ_GAP 0
#endif

#define ALIGNMENT _Alignof(max_align_t)
#define CHUNK_SIZE ((size_t)64 * 1024)
#define LARGE ((size_t)16 * 1024)
#define RELEASE_WINDOW 32 /* newest large blocks looked at by oq_arena_release */

/* The allocation follows its header. */
struct block {
    _Alignas(max_align_t) struct block *next;
    size_t size;
};

struct oq_arena {
    struct block *chunks; /* newest first; the first one has room from `offset` on */
    struct block *large;  /* newest first */
    size_t offset;
    size_t used, limit;
};

struct oq_arena *oq_arena_create(void) {
    struct oq_arena *arena = calloc(1, sizeof *arena);
    if (arena != NULL) {
        arena->limit = SIZE_MAX;
    }
    return arena;
}

static void free_blocks(struct block *block) {
    while (block != NULL) {
        struct block *next = block->next;
        ASAN_UNPOISON_MEMORY_REGION(block + 1, block->size);
        free(block);
        block = next;
    }
}

void oq_arena_destroy(struct oq_arena *arena) {
    if (arena != NULL) {
        free_blocks(arena->chunks);
        free_blocks(arena->large);
        free(arena);
    }
}

static struct block *push_block(struct block **list, size_t size) {
    size_t total;
    if (!oq_size_add(sizeof(struct block), size, &total)) {
        return NULL;
    }
    struct block *block = calloc(1, total);
    if (block != NULL) {
        block->next = *list;
        block->size = size;
        *list = block;
    }
    return block;
}

static void *cut(struct oq_arena *arena, size_t size) {
    const size_t step = size + OQ_GAP;
    if (arena->chunks == NULL || CHUNK_SIZE - arena->offset < step) {
        if (push_block(&arena->chunks, CHUNK_SIZE) == NULL) {
            return NULL;
        }
        arena->offset = 0;
        ASAN_POISON_MEMORY_REGION(arena->chunks + 1, CHUNK_SIZE);
    }
    char *start = (char *)(arena->chunks + 1) + arena->offset;
    arena->offset += step;
    return start;
}

void *oq_arena_alloc(struct oq_arena *arena, size_t size) {
    size_t rounded, used;
    if (!oq_size_add(size, ALIGNMENT - 1, &rounded)) {
        return NULL;
    }
    rounded -= rounded % ALIGNMENT;
    rounded = rounded == 0 ? ALIGNMENT : rounded;
    if (!oq_size_add(arena->used, rounded, &used) || used > arena->limit) {
        return NULL;
    }
    void *result;
    if (rounded >= LARGE) {
        struct block *block = push_block(&arena->large, rounded);
        result = block == NULL ? NULL : block + 1;
    } else {
        result = cut(arena, rounded);
        if (result != NULL) {
            ASAN_UNPOISON_MEMORY_REGION(result, size);
        }
    }
    arena->used = result == NULL ? arena->used : used;
    return result;
}

void *oq_arena_array(struct oq_arena *arena, size_t count, size_t size) {
    size_t total;
    return oq_size_mul(count, size, &total) ? oq_arena_alloc(arena, total) : NULL;
}

char *oq_arena_strndup(struct oq_arena *arena, const char *text, size_t length) {
    size_t size;
    char *copy = oq_size_add(length, 1, &size) ? oq_arena_alloc(arena, size) : NULL;
    if (copy != NULL && length > 0) {
        memcpy(copy, text, length);
    }
    return copy;
}

char *oq_arena_strdup(struct oq_arena *arena, const char *text) {
    return oq_arena_strndup(arena, text, strlen(text));
}

char *oq_arena_printf(struct oq_arena *arena, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : oq_arena_alloc(arena, (size_t)length + 1);
    if (text != NULL) {
        vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    return text;
}

size_t oq_arena_used(const struct oq_arena *arena) {
    return arena->used;
}

void oq_arena_set_limit(struct oq_arena *arena, size_t limit) {
    arena->limit = limit;
}

void oq_arena_release(struct oq_arena *arena, const void *pointer) {
    struct block **link = &arena->large;
    for (int i = 0; i < RELEASE_WINDOW && *link != NULL; i++) {
        struct block *block = *link;
        if (block + 1 == pointer) {
            *link = block->next;
            arena->used -= block->size;
            free(block);
            return;
        }
        link = &block->next;
    }
}

bool oq_grow(void **items, size_t *capacity, size_t needed, size_t item_size) {
    if (needed <= *capacity) {
        return true;
    }
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < needed) {
        if (!oq_size_mul(wanted, 2, &wanted)) {
            return false;
        }
    }
    size_t size;
    void *grown = oq_size_mul(wanted, item_size, &size) ? realloc(*items, size) : NULL;
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}
