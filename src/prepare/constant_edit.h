/*
 * Replacing constants: new initializers for some readings of a tensor, and the removal of what
 * nobody reads any more. Gathered over one index of the graph, then applied at once; the index is
 * void afterwards.
 */
#ifndef OQ_PREPARE_CONSTANT_EDIT_H
#define OQ_PREPARE_CONSTANT_EDIT_H

#include "prepare/preparation.h"
#include "prepare/spill.h"

struct oq_constant_edit;

/* `removable`: per node, may it go when its results are not read? Borrowed, as is the rest. */
struct oq_constant_edit *oq_constant_edit_create(struct oq_preparation *preparation,
                                                 const bool *removable); /* NULL: out of memory */
void oq_constant_edit_destroy(struct oq_constant_edit *edit);            /* NULL is allowed */

/* The uses read `data` instead of `value`. It is an initializer of the graph that defines the
 * value, under the value's name when the value itself goes, under a new one otherwise. `uses` is
 * kept until apply. False when out of memory. */
bool oq_constant_edit_replace(struct oq_constant_edit *edit, uint32_t value,
                              const struct oq_use *uses, size_t n_uses, struct oq_spilled data);
/* Input `input` of a node becomes a new initializer of its graph; it was missing or empty. */
bool oq_constant_edit_add(struct oq_constant_edit *edit, uint32_t node, uint32_t input,
                          const char *name, struct oq_spilled data);
/* The node goes, whether or not its results are read. */
bool oq_constant_edit_remove(struct oq_constant_edit *edit, uint32_t node);

/* Takes the data from `spill`, which is attached to the model already. */
enum onnxptq_status oq_constant_edit_apply(struct oq_constant_edit *edit,
                                           const struct oq_spill *spill,
                                           struct onnxptq_error *error) OQ_MUST_USE;

#endif
