/*
 * The names nearest to one that does not exist, for messages.
 */
#ifndef OQ_QUANT_SUGGEST_H
#define OQ_QUANT_SUGGEST_H

#include <stddef.h>

#define OQ_SUGGEST_COUNT 3

struct oq_suggest {
    const char *wanted;
    size_t n;
    const char *names[OQ_SUGGEST_COUNT]; /* nearest first; borrowed */
    size_t distances[OQ_SUGGEST_COUNT];
};

void oq_suggest_init(struct oq_suggest *nearest, const char *wanted);
/* Offers a name; one that is kept already is ignored. */
void oq_suggest_add(struct oq_suggest *nearest, const char *name);

/* Insertions, deletions and replacements of bytes that turn `a` into `b`, neighbours swapped
 * counting one. Of long names only the first 128 bytes are compared. */
size_t oq_edit_distance(const char *a, const char *b);

#endif
