/*
 * Listing folders.
 */
#include "data/listing.h"

#include "base/arena.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool oq_name_ends(const char *name, const char *suffix) {
    size_t length = strlen(name), n = strlen(suffix);
    return length > n && strcasecmp(name + length - n, suffix) == 0;
}

static int compare_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int compare_lengths(const void *a, const void *b) {
    size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);
    return x != y ? (x > y) - (x < y) : compare_bytes(a, b);
}

void oq_names_sort_by_length(struct oq_names *names) {
    if (names->n > 0) {
        qsort((void *)names->items, names->n, sizeof *names->items, compare_lengths);
    }
}

static bool add_name(struct oq_names *names, const char *name) {
    char *copy = strdup(name);
    if (copy == NULL ||
        !oq_grow((void **)&names->items, &names->capacity, names->n + 1, sizeof *names->items)) {
        free(copy);
        return false;
    }
    names->items[names->n++] = copy;
    return true;
}

enum onnxptq_status oq_names_list(const char *folder, bool (*wanted)(const char *name),
                                  struct oq_names *out, struct onnxptq_error *error) {
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return oq_fail_system(error, errno, "read data folder", folder);
    }
    struct oq_names names = {0};
    const struct dirent *entry = NULL;
    bool good = true;
    while (good && (entry = readdir(dir)) != NULL) {
        bool takes = entry->d_name[0] != '.' && (wanted == NULL || wanted(entry->d_name));
        good = !takes || add_name(&names, entry->d_name);
    }
    closedir(dir);
    if (!good) {
        oq_names_reset(&names);
        return oq_fail_memory(error, "the names of a data folder");
    }
    if (names.n > 0) {
        qsort((void *)names.items, names.n, sizeof *names.items, compare_bytes);
    }
    *out = names;
    return ONNXPTQ_OK;
}

void oq_names_reset(struct oq_names *names) {
    for (size_t i = 0; i < names->n; i++) {
        free(names->items[i]);
    }
    free((void *)names->items);
    *names = (struct oq_names){0};
}
