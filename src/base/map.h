/*
 * Hash map from bytes (names, mostly) to a size_t: uthash, made to report a failed allocation.
 */
#ifndef OQ_BASE_MAP_H
#define OQ_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct oq_map;

struct oq_map *oq_map_create(void);      /* NULL: out of memory */
void oq_map_destroy(struct oq_map *map); /* NULL is allowed */

/* Adds a copy of a key or replaces its value; false when out of memory. */
bool oq_map_put_copy(struct oq_map *map, const void *key, size_t key_size, size_t value);
/* False when the key is not there; `value` may be NULL. */
bool oq_map_get(const struct oq_map *map, const void *key, size_t key_size, size_t *value);

/* Keys that are text; here they are borrowed for the map's life. */
bool oq_map_put_name(struct oq_map *map, const char *name, size_t value);
bool oq_map_get_name(const struct oq_map *map, const char *name, size_t *value);

#endif
