/*
 * Members of a .npz file, which is a zip archive of .npy files, through libzip.
 */
#ifndef OQ_DATA_NPZ_H
#define OQ_DATA_NPZ_H

#include "data/npy.h"

struct oq_npz;

enum onnxptq_status oq_npz_open(const char *path, struct oq_npz **out, struct onnxptq_error *error)
    OQ_MUST_USE;
/* `data` is borrowed until close. */
enum onnxptq_status oq_npz_open_memory(const void *data, size_t size, const char *name,
                                       struct oq_npz **out, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_npz_close(struct oq_npz *npz); /* NULL is allowed */

/* Members, folders left out. The name is the member's without ".npy". */
size_t oq_npz_n_members(const struct oq_npz *npz);
const char *oq_npz_member_name(const struct oq_npz *npz, size_t index);
const struct oq_npy *oq_npz_member_header(const struct oq_npz *npz, size_t index);

/* Elements [first, first + n) in C order, little-endian. Messages state the fact alone. */
enum onnxptq_status oq_npz_read(struct oq_npz *npz, size_t index, size_t first, size_t n, void *out,
                                struct onnxptq_error *error) OQ_MUST_USE;

/* Reads all of a member once and compares its checksum. */
enum onnxptq_status oq_npz_verify(struct oq_npz *npz, size_t index, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
