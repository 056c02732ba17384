/*
 * "Did you mean": the name with the smallest edit distance.
 */
#include "args.h"

#include <string.h>

#define MAX_LENGTH 63

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Levenshtein's distance, one row at a time. */
static size_t distance(const char *a, const char *b) {
    size_t length_a = strlen(a), length_b = strlen(b);
    if (length_a > MAX_LENGTH || length_b > MAX_LENGTH) {
        return MAX_LENGTH;
    }
    size_t row[MAX_LENGTH + 1];
    for (size_t j = 0; j <= length_b; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= length_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(replaced, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[length_b];
}

const char *nearest_name(const char *word, const char *const *names, size_t n) {
    /* A third of the word may be wrong, and one letter always. */
    size_t best = strlen(word) / 3 + 2;
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t found = distance(word, names[i]);
        if (found < best) {
            best = found;
            nearest = names[i];
        }
    }
    return nearest;
}
