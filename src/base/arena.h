/*
 * Arena: many small allocations, freed together. Also the allocator behind protobuf-c.
 */
#ifndef OQ_BASE_ARENA_H
#define OQ_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct oq_arena;

struct oq_arena *oq_arena_create(void);        /* NULL: out of memory */
void oq_arena_destroy(struct oq_arena *arena); /* NULL is allowed */

/* Zeroed memory aligned for any type, NULL when out of memory. size 0 gives a valid pointer. */
void *oq_arena_alloc(struct oq_arena *arena, size_t size);
/* The same for an array; NULL on overflow too. */
void *oq_arena_array(struct oq_arena *arena, size_t count, size_t size);
char *oq_arena_strdup(struct oq_arena *arena, const char *text);
char *oq_arena_strndup(struct oq_arena *arena, const char *text, size_t length);
char *oq_arena_printf(struct oq_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes handed out so far. */
size_t oq_arena_used(const struct oq_arena *arena);
/* Allocations that would bring `used` above the limit fail; SIZE_MAX (the default) is no limit. */
void oq_arena_set_limit(struct oq_arena *arena, size_t limit);
/* Gives a large allocation back early, if it is one of the newest; otherwise does nothing. */
void oq_arena_release(struct oq_arena *arena, const void *pointer);

/* Grows a malloc'ed array so that it holds `needed` items: doubles; false when out of memory. */
bool oq_grow(void **items, size_t *capacity, size_t needed, size_t item_size);

#endif
