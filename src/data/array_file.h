/*
 * A mapped file that holds one array: a .npy, an ONNX TensorProto (.pb), or bare elements.
 */
#ifndef OQ_DATA_ARRAY_FILE_H
#define OQ_DATA_ARRAY_FILE_H

#include "base/file.h"
#include "data/npy.h"

enum oq_array_file_kind { OQ_ARRAY_FILE_NPY, OQ_ARRAY_FILE_TENSOR, OQ_ARRAY_FILE_RAW };

struct oq_array_file {
    struct oq_mapping mapping; /* data NULL when opened from memory */
    struct oq_npy npy;
    const uint8_t *elements; /* as stored; in the mapping or in `owned` */
    uint8_t *owned;
    char name[256]; /* of a TensorProto, cut when it is longer; "" else */
};

/* Checks the header and that the elements are all there. `raw` describes OQ_ARRAY_FILE_RAW: its
 * n_bytes are the file's. Messages name the file. */
enum onnxptq_status oq_array_file_open(const char *path, enum oq_array_file_kind kind,
                                       const struct oq_npy *raw, struct oq_array_file *out,
                                       struct onnxptq_error *error) OQ_MUST_USE;
/* The same for bytes that outlive it; messages do not name the file. */
enum onnxptq_status oq_array_file_parse(const uint8_t *data, size_t size,
                                        enum oq_array_file_kind kind, const struct oq_npy *raw,
                                        struct oq_array_file *out, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_array_file_close(struct oq_array_file *file); /* closing twice is allowed */

/* The kind of a file by its first bytes, else by its name; false when it is none of these. */
bool oq_array_file_kind_of(const char *path, const uint8_t *data, size_t size,
                           enum oq_array_file_kind *out);
/* True for a file that is nothing but elements: by its name, unless it begins as a .npy does. */
bool oq_array_file_is_raw(const char *path);
/* The kind that the name alone promises. */
bool oq_array_file_kind_of_name(const char *name, enum oq_array_file_kind *out);

#endif
