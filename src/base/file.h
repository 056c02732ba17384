/*
 * Files, paths and dynamic loading: everything that depends on the platform, in one place.
 */
#ifndef OQ_BASE_FILE_H
#define OQ_BASE_FILE_H

#include "base/error.h"

/* A read-only mapping. An empty file has data NULL and size 0. */
struct oq_mapping {
    const uint8_t *data;
    size_t size;
};
enum onnxptq_status oq_mapping_open(const char *path, struct oq_mapping *out,
                                    struct onnxptq_error *error) OQ_MUST_USE;
void oq_mapping_close(struct oq_mapping *mapping); /* closing twice is allowed */

/* Tells a file from another one that took its name, or from itself after a change. */
struct oq_file_id {
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of the last change of its data */
};
bool oq_file_identify(const char *path, struct oq_file_id *out); /* false: not there */
bool oq_file_id_equal(struct oq_file_id a, struct oq_file_id b);

/* A file being written. Buffered, every error is kept and reported by finish. */
struct oq_writer;
/* Creates `<path>.<process>.<random>.tmp` beside `path` (same folder, so that a rename is atomic);
 * a link is followed. ONNXPTQ_ERROR_IO when `path` is there and no regular file. A process that is
 * killed leaves the temporary file behind, for oq_temporary_remove_stale() of base/temporary.h;
 * every other way out goes through oq_writer_destroy. */
enum onnxptq_status oq_writer_create(const char *path, struct oq_writer **out,
                                     struct onnxptq_error *error) OQ_MUST_USE;
void oq_writer_put(struct oq_writer *writer, const void *data, size_t size);
/* Pads with zero bytes to a multiple of `alignment`. */
void oq_writer_align(struct oq_writer *writer, size_t alignment);
uint64_t oq_writer_offset(const struct oq_writer *writer);
/* Flushes and closes; the temporary file stays under its temporary name. */
enum onnxptq_status oq_writer_finish(struct oq_writer *writer, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Name of the temporary file. Owned by the writer. */
const char *oq_writer_path(const struct oq_writer *writer);
/* After finish: moves the file to its final place, where it replaces what is there. */
enum onnxptq_status oq_writer_commit(struct oq_writer *writer, struct onnxptq_error *error)
    OQ_MUST_USE;
/* The same, but ONNXPTQ_ERROR_IO when something is there. */
enum onnxptq_status oq_writer_commit_new(struct oq_writer *writer, struct onnxptq_error *error)
    OQ_MUST_USE;
/* The same under another name in the same folder, which nobody else uses. */
enum onnxptq_status oq_writer_commit_as(struct oq_writer *writer, const char *path,
                                        struct onnxptq_error *error) OQ_MUST_USE;
/* Closes; removes the file unless committed. NULL is allowed. */
void oq_writer_destroy(struct oq_writer *writer);
/* Hands everything put so far to the system, so that another reader of the file sees it. */
enum onnxptq_status oq_writer_flush(struct oq_writer *writer, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Reads the whole of the file written so far, as a mapping (flushes first). */
enum onnxptq_status oq_writer_map(struct oq_writer *writer, struct oq_mapping *out,
                                  struct onnxptq_error *error) OQ_MUST_USE;

/* A failure to remove a file is not told. */
void oq_file_remove(const char *path);
enum onnxptq_status oq_file_rename(const char *from, const char *to, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Gives the file at `path` the name `name` too, in the same folder, in the place of a file that has
 * it. False when the file system has no such links. */
bool oq_file_link_over(const char *path, const char *name);

/* Malloc'ed results; NULL when out of memory. */
char *oq_path_folder(const char *path); /* "a/b.c" -> "a", "b.c" -> "." */
char *oq_path_join(const char *folder, const char *name);
const char *oq_path_base(const char *path); /* points into path */
/* Absolute path of an existing or not existing file, links kept; NULL when out of memory. */
char *oq_path_absolute(const char *path);
/* The same with every link followed; NULL when the file does not exist. */
char *oq_path_resolve(const char *path);
bool oq_path_exists(const char *path);
bool oq_path_is_taken(const char *path); /* the same for a link that leads nowhere */
bool oq_path_is_folder(const char *path);
bool oq_path_is_regular(const char *path);
bool oq_path_is_link(const char *path);
bool oq_path_same_file(const char *a, const char *b); /* same inode */
/* True when `relative` has no "..", no leading "/" and no empty parts: it stays inside its folder.
 * Symbolic links are resolved by the caller where the file exists. */
bool oq_path_is_inside(const char *relative);

/* Dynamic libraries, which stay loaded: those of others may own threads and exit handlers. `global`
 * makes its symbols visible to libraries loaded later. */
void *oq_library_open(const char *path, bool global, char *reason, size_t reason_size);
void *oq_library_symbol(void *library, const char *name);

/* Seconds of a monotonic clock. */
double oq_clock_seconds(void);
/* That the processors spent on this process so far, all of them together. */
double oq_processor_seconds(void);

/* Peaks of this process so far; 0 where the platform does not tell. Anonymous memory has no
 * high-water mark in the kernel: a sampler thread records it between start and stop. */
struct oq_memory_sampler;
struct oq_memory_sampler *oq_memory_sampler_start(void); /* NULL: not available */
uint64_t
oq_memory_sampler_stop(struct oq_memory_sampler *sampler); /* peak anonymous bytes; frees */
uint64_t oq_memory_sampler_peak(const struct oq_memory_sampler *sampler);
uint64_t oq_memory_peak_resident(void);

#endif
