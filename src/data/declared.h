/*
 * The inputs that the model declares, and the shapes that the user gives them.
 */
#ifndef OQ_DATA_DECLARED_H
#define OQ_DATA_DECLARED_H

#include "data/source.h"

/* Index of the input of that name; n when there is none. */
size_t oq_declared_find(const struct onnxptq_tensor *inputs, size_t n, const char *name);

/* ONNXPTQ_ERROR_USAGE for an option about an input that the model does not have; `what` is
 * "shape". */
enum onnxptq_status oq_declared_fail_name(const struct oq_data_spec *spec, const char *what,
                                          const char *name, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Gives a declaration the user's shape, which must fit what it says. */
enum onnxptq_status oq_declared_set_shape(struct onnxptq_tensor *declared,
                                          const struct onnxptq_input_shape *shape,
                                          struct onnxptq_error *error) OQ_MUST_USE;

/* "1x3x224x224", with the dimensions that are not known as 8 (the first: 1). */
const char *oq_declared_example(char *text, size_t size, const struct onnxptq_tensor *declared);

#endif
