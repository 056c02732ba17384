/*
 * Files of calibration data for unit tests: .npy and .npz contents, and a folder to put them in.
 */
#ifndef OQ_TEST_DATA_FILES_H
#define OQ_TEST_DATA_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_bytes {
    uint8_t *data; /* malloc'ed */
    size_t size;
};

/* A .npy file with any header text; `version` is 1, 2 or 3. */
struct file_bytes make_npy_text(int version, const char *header, const void *data, size_t size);
/* The usual header: make_npy("<f4", false, "(2, 3)", ...). */
struct file_bytes make_npy(const char *descr, bool fortran, const char *shape, const void *data,
                           size_t size);
/* A float array whose element i is first + i. `shape` as in make_npy, `n` its number of elements.
 */
struct file_bytes make_float_npy(const char *shape, size_t n, float first);
struct file_bytes make_int64_npy(const char *shape, size_t n, int64_t first);
void free_bytes(struct file_bytes *bytes);

/* A member of a .npz; takes `bytes`. */
struct npz_member {
    const char *name; /* with .npy */
    struct file_bytes bytes;
};

/* A new folder under the system's temporary folder; freed and removed, with all in it, by
 * remove_folder. */
char *make_folder(void);
void remove_folder(char *folder);
/* Fixtures of cmocka: *state is a new folder. */
int setup_folder(void **state);
int teardown_folder(void **state);
/* "folder/name", malloc'ed. */
char *path_in(const char *folder, const char *name);
/* Writes bytes (taken) or members (taken) and returns the malloc'ed path. */
char *write_bytes(const char *folder, const char *name, struct file_bytes bytes);
char *write_npz(const char *folder, const char *name, struct npz_member *members, size_t n,
                bool compress);
struct file_bytes read_bytes(const char *path);

#endif
