/*
 * Open files of arrays: the arrays' headers, and their elements on demand. Nothing is loaded whole,
 * with two exceptions: an array in Fortran order inside a .npz, and a TensorProto whose elements
 * are not in raw_data.
 *
 *   .npy, .pb, raw  mapped (array_file.h); one array
 *   .npz, stored    read where the elements lie
 *   .npz, deflated  inflated as a stream; going back starts anew, so read in ascending order
 */
#ifndef OQ_DATA_ARCHIVE_H
#define OQ_DATA_ARCHIVE_H

#include "data/array_file.h"

struct oq_archive;

struct oq_array {
    const char *name; /* without the .npy of its member; "": it feeds the only input */
    const char *path; /* of its file, for messages */
    struct oq_npy npy;
};

/* Opens a .npz, .npy or .pb file, told apart by its first bytes (.pb by its name), and checks the
 * header of every array and that its elements are all there. */
enum onnxptq_status oq_archive_open(const char *path, struct oq_archive **out,
                                    struct onnxptq_error *error) OQ_MUST_USE;
/* The same from memory (borrowed until close), for tests and fuzzing; `name` is for messages. */
enum onnxptq_status oq_archive_open_memory(const void *data, size_t size, const char *name,
                                           struct oq_archive **out, struct onnxptq_error *error)
    OQ_MUST_USE;
/* One array of each file. `path` is of the folder that they lie in. */
struct oq_archive_part {
    const char *name; /* of the array */
    const char *path;
    enum oq_array_file_kind kind;
    const struct oq_npy *raw; /* OQ_ARRAY_FILE_RAW: what the file holds */
};
enum onnxptq_status oq_archive_open_parts(const char *path, const struct oq_archive_part *parts,
                                          size_t n, struct oq_archive **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;
void oq_archive_close(struct oq_archive *archive); /* NULL is allowed */

const char *oq_archive_path(const struct oq_archive *archive);
/* True when it is one array without a name. */
bool oq_archive_is_single(const struct oq_archive *archive);
size_t oq_archive_n_arrays(const struct oq_archive *archive);
const struct oq_array *oq_archive_array(const struct oq_archive *archive, size_t index);

/* Elements [first, first + n) in C order, little-endian, of the array's own type. */
enum onnxptq_status oq_archive_read(struct oq_archive *archive, size_t index, size_t first,
                                    size_t n, void *out, struct onnxptq_error *error) OQ_MUST_USE;

/* Reads everything once and compares the checksums that a .npz has: what is broken shows before
 * anything is run. (Reading an array from its first element to its last checks it too.) */
enum onnxptq_status oq_archive_verify(struct oq_archive *archive, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
