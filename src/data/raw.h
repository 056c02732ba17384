/*
 * Files of bare elements: of the type that the model declares, little-endian, in C order. Their
 * shape is the declared one, with the dimensions that the options' input shapes give.
 */
#ifndef OQ_DATA_RAW_H
#define OQ_DATA_RAW_H

#include "data/npy.h"
#include "data/source.h"

/* Declarations with the options' input shapes applied; malloc'ed, names borrowed. */
enum onnxptq_status oq_raw_shapes(const struct oq_data_spec *spec, struct onnxptq_tensor **out,
                                  struct onnxptq_error *error) OQ_MUST_USE;

/* What a file of one run holds: one dimension may be open, its size tells it. */
enum onnxptq_status oq_raw_describe_run(const struct onnxptq_tensor *shape, const char *path,
                                        struct oq_npy *out, struct onnxptq_error *error)
    OQ_MUST_USE;
/* What a file of all samples holds: rows when the first dimension is open, else entries (data/
 * layout.h). */
enum onnxptq_status oq_raw_describe_all(const struct onnxptq_tensor *shape, const char *path,
                                        struct oq_npy *out, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
