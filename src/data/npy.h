/*
 * The header of a .npy file (format versions 1.0, 2.0 and 3.0): element type, shape, order, and
 * where the elements start. Only plain numbers and bools are accepted: no pickled objects, text or
 * records.
 */
#ifndef OQ_DATA_NPY_H
#define OQ_DATA_NPY_H

#include "base/error.h"

struct oq_npy {
    enum onnxptq_type type;
    size_t item_size;
    bool swapped; /* elements are big-endian */
    bool fortran; /* the first index runs fastest */
    size_t rank;
    int64_t shape[ONNXPTQ_MAX_RANK];
    size_t n_elements;
    size_t data_offset; /* from the start of the file */
    size_t n_bytes;     /* of all elements */
};

/* Bytes from which the size of the whole header is known. */
#define OQ_NPY_PREAMBLE 12

/* Size of the header, found in the first bytes of a file: data_offset of what oq_npy_parse returns.
 * `size` may be the whole file. */
enum onnxptq_status oq_npy_header_size(const uint8_t *data, size_t size, size_t *header_size,
                                       struct onnxptq_error *error) OQ_MUST_USE;

/* Parses a header; `size` must cover it and may be larger. Messages state the fact alone; the
 * caller prefixes file and array. ONNXPTQ_ERROR_DATA, or ONNXPTQ_ERROR_UNSUPPORTED for element
 * types that no model input takes. */
enum onnxptq_status oq_npy_parse(const uint8_t *data, size_t size, struct oq_npy *out,
                                 struct onnxptq_error *error) OQ_MUST_USE;

/* Copies elements [first, first + n) in C order out of all elements of the array (`elements`,
 * n_bytes long, as stored) and makes them little-endian. */
void oq_npy_copy(const struct oq_npy *npy, const uint8_t *elements, size_t first, size_t n,
                 uint8_t *out);

/* Makes n elements of an array that is stored in C order little-endian, in place. */
void oq_npy_swap(const struct oq_npy *npy, uint8_t *elements, size_t n);

#endif
