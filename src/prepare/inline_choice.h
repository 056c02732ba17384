/*
 * Which local functions are inlined.
 */
#ifndef OQ_PREPARE_INLINE_CHOICE_H
#define OQ_PREPARE_INLINE_CHOICE_H

#include "prepare/functions.h"

struct oq_inline_choice {
    bool inlined;   /* where it is called */
    bool removed;   /* for inline.c */
    size_t n_calls; /* for inline.c: inlined so far */
};

/* Fills one choice for each function. Bodies of functions to be inlined are converted to the
 * model's version of the default domain, and what else they import is imported by the model. */
enum onnxptq_status oq_inline_choose(struct oq_preparation *preparation,
                                     const struct oq_functions *functions,
                                     struct oq_inline_choice *choices, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
