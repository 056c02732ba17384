/*
 * The test data that ONNX's model zoo puts beside its models: folders test_data_set_<n>, with the
 * inputs of one run as input_<k>.pb.
 */
#ifndef OQ_DATA_TEST_DATA_H
#define OQ_DATA_TEST_DATA_H

#include "data/archive.h"

bool oq_test_data_is_set(const char *name);   /* test_data_set_0 */
bool oq_test_data_is_input(const char *name); /* input_0.pb */

/* The inputs of one set as arrays named like the model's inputs: by the tensor's own name where it
 * is one, else by the number in the file's name. */
enum onnxptq_status oq_test_data_open(const char *folder, const struct onnxptq_tensor *inputs,
                                      size_t n_inputs, struct oq_archive **out,
                                      struct onnxptq_error *error) OQ_MUST_USE;

#endif
