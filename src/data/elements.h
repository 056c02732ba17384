/*
 * Element types on the way into the model: which arrays feed which inputs, conversion, and how a
 * tensor is described in messages.
 */
#ifndef OQ_DATA_ELEMENTS_H
#define OQ_DATA_ELEMENTS_H

#include "base/error.h"

/* True when an array of type `from` may feed an input of type `to`: the same type, any two float
 * types, or int32 and int64. */
bool oq_elements_convertible(int from, int to);

/* Converts n elements between types that oq_elements_convertible allows; both may be unaligned.
 * Returns the index of the first element that `to` cannot hold (a finite float that would become
 * infinite, an integer out of range), or n. Floats are rounded to nearest even; double to a 16-bit
 * type goes through float. */
size_t oq_elements_convert(int from, const void *in, int to, void *out, size_t n);

#define OQ_DESCRIPTION_SIZE 480
/* "float (?, 3, 8, 8)"; a scalar is "float ()"; "?" for an unknown dimension. Returns `text`. */
const char *oq_describe_tensor(char text[OQ_DESCRIPTION_SIZE], int type, const int64_t *shape,
                               size_t rank);
/* "(64, 3, 8, 8)" */
const char *oq_describe_shape(char text[OQ_DESCRIPTION_SIZE], const int64_t *shape, size_t rank);
/* The names of the model's inputs: "'x', 'mask'", cut short with ", ..." when they do not fit. */
const char *oq_describe_inputs(char text[OQ_DESCRIPTION_SIZE], const struct onnxptq_tensor *inputs,
                               size_t n);

#endif
