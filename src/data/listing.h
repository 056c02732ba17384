/*
 * What lies in a folder of calibration data.
 */
#ifndef OQ_DATA_LISTING_H
#define OQ_DATA_LISTING_H

#include "base/error.h"

struct oq_names {
    char **items; /* names in the folder */
    size_t n, capacity;
};

/* Names of the entries that `wanted` takes, in byte order; hidden ones are never asked about: some
 * systems leave ._name beside name. `wanted` may be NULL. */
enum onnxptq_status oq_names_list(const char *folder, bool (*wanted)(const char *name),
                                  struct oq_names *out, struct onnxptq_error *error) OQ_MUST_USE;
/* Shorter ones first: set_9 before set_10. */
void oq_names_sort_by_length(struct oq_names *names);
void oq_names_reset(struct oq_names *names);

/* True when the name ends so, whatever the case, and is more than that. */
bool oq_name_ends(const char *name, const char *suffix);

#endif
