/*
 * Hash map; see map.h.
 */
#include "base/map.h"

#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(entry) ((entry)->failed = true)
#include <uthash.h>

struct entry {
    UT_hash_handle hh;
    size_t value;
    bool failed; /* not in the table: there was no memory for it */
};

struct oq_map {
    struct oq_arena *arena; /* entries and copied keys */
    struct entry *head;
};

struct oq_map *oq_map_create(void) {
    struct oq_map *map = calloc(1, sizeof *map);
    if (map != NULL) {
        map->arena = oq_arena_create();
        if (map->arena == NULL) {
            free(map);
            map = NULL;
        }
    }
    return map;
}

void oq_map_destroy(struct oq_map *map) {
    if (map != NULL) {
        HASH_CLEAR(hh, map->head);
        oq_arena_destroy(map->arena);
        free(map);
    }
}

/* The macros of uthash are long. NOLINTBEGIN(readability-function-size) */
static struct entry *find(const struct oq_map *map, const void *key, size_t key_size) {
    struct entry *found = NULL;
    if (key_size <= UINT32_MAX) {
        HASH_FIND(hh, map->head, key, key_size, found);
    }
    return found;
}

static bool add(struct oq_map *map, const void *key, size_t key_size, size_t value) {
    struct entry *entry = key_size > UINT32_MAX ? NULL : oq_arena_alloc(map->arena, sizeof *entry);
    if (entry == NULL) {
        return false;
    }
    entry->value = value;
    HASH_ADD_KEYPTR(hh, map->head, key, key_size, entry);
    return !entry->failed;
}
/* NOLINTEND(readability-function-size) */

static bool put(struct oq_map *map, const void *key, size_t key_size, size_t value) {
    struct entry *entry = find(map, key, key_size);
    if (entry != NULL) {
        entry->value = value;
        return true;
    }
    return add(map, key, key_size, value);
}

bool oq_map_put_copy(struct oq_map *map, const void *key, size_t key_size, size_t value) {
    struct entry *entry = find(map, key, key_size);
    if (entry != NULL) {
        entry->value = value;
        return true;
    }
    const char *copy = oq_arena_strndup(map->arena, key, key_size);
    return copy != NULL && add(map, copy, key_size, value);
}

bool oq_map_get(const struct oq_map *map, const void *key, size_t key_size, size_t *value) {
    const struct entry *entry = find(map, key, key_size);
    if (entry != NULL && value != NULL) {
        *value = entry->value;
    }
    return entry != NULL;
}

bool oq_map_put_name(struct oq_map *map, const char *name, size_t value) {
    return put(map, name, strlen(name), value);
}

bool oq_map_get_name(const struct oq_map *map, const char *name, size_t *value) {
    return oq_map_get(map, name, strlen(name), value);
}
