/*
 * Nearest names by edit distance (optimal string alignment).
 */
#include "quant/suggest.h"

#include <stdbool.h>
#include <string.h>

#define MAX_COMPARED 128

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* One row of the table per byte of `a`; the two rows before are all that is needed. */
size_t oq_edit_distance(const char *a, const char *b) {
    size_t rows[3][MAX_COMPARED + 1];
    size_t n_a = strnlen(a, MAX_COMPARED), n_b = strnlen(b, MAX_COMPARED);
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= n_b; j++) {
        last[j] = j;
    }
    memcpy(before, last, sizeof rows[0]);
    for (size_t i = 1; i <= n_a; i++) {
        now[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least(change, least(last[j], now[j - 1]) + 1);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) {
                now[j] = least(now[j], before[j - 2] + 1);
            }
        }
        size_t *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[n_b];
}

void oq_suggest_init(struct oq_suggest *nearest, const char *wanted) {
    *nearest = (struct oq_suggest){.wanted = wanted};
}

/* A name that holds what was asked for is nearer than any misspelling: the user gave a part. */
static size_t distance(const char *wanted, const char *name) {
    if (*wanted != '\0' && strstr(name, wanted) != NULL) {
        return 0;
    }
    return oq_edit_distance(wanted, name);
}

void oq_suggest_add(struct oq_suggest *nearest, const char *name) {
    size_t d = distance(nearest->wanted, name), at = 0;
    for (size_t i = 0; i < nearest->n; i++) {
        if (strcmp(nearest->names[i], name) == 0) {
            return;
        }
    }
    while (at < nearest->n && nearest->distances[at] <= d) {
        at++;
    }
    if (at == OQ_SUGGEST_COUNT) {
        return;
    }
    if (nearest->n < OQ_SUGGEST_COUNT) {
        nearest->n++;
    }
    for (size_t i = nearest->n - 1; i > at; i--) {
        nearest->names[i] = nearest->names[i - 1];
        nearest->distances[i] = nearest->distances[i - 1];
    }
    nearest->names[at] = name;
    nearest->distances[at] = d;
}
