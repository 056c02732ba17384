/*
 * Ranges files: what a calibration saw, to be saved, merged and used again (docs/ranges.md).
 * TensorRT's calibration caches are read and written too.
 */
#ifndef OQ_API_RANGES_H
#define OQ_API_RANGES_H

#include "base/arena.h"
#include "base/file.h"
#include "base/map.h"
#include "calib/statistics.h"

#define OQ_RANGES_FORMAT "onnxptq ranges"
#define OQ_RANGES_VERSION 1

struct oq_ranges_tensor {
    const char *name;
    struct oq_statistics statistics; /* owned, unless the whole is only a view */
    bool fixed;                      /* the range is given, whatever was seen */
    double fixed_min, fixed_max;
};

struct oq_ranges_list {
    struct oq_ranges_tensor *tensors; /* malloc'ed */
    size_t n, capacity;
    struct oq_map *by_name;
};

struct oq_ranges {
    struct oq_arena *arena;
    char fingerprint[17];        /* of the model, in hexadecimal; empty: not known */
    const char *model, *target;  /* for people; NULL: not known */
    uint64_t n_samples;          /* calibrated with */
    struct oq_ranges_list trace; /* of one sample: every tensor, condensed; empty: not known */
    struct oq_ranges_list tensors;
    bool is_view; /* statistics belong to someone else */
    /* Of a calibration that is not over (job_state.h); NULL: it is. */
    const char *state_key, *state_done;
};

enum onnxptq_status oq_ranges_create(struct oq_ranges **out, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_ranges_destroy(struct oq_ranges *ranges); /* NULL is allowed */

/* Adds a tensor with empty statistics; the name is copied. NULL: out of memory. */
struct oq_ranges_tensor *oq_ranges_add(struct oq_ranges *ranges, struct oq_ranges_list *list,
                                       const char *name);
/* NULL: there is none. */
struct oq_ranges_tensor *oq_ranges_find(const struct oq_ranges_list *list, const char *name);

/* Adds what `other`, read from `path`, has seen. Refused (ONNXPTQ_ERROR_USAGE) unless both are of
 * the same model and have the same tensors. */
enum onnxptq_status oq_ranges_merge(struct oq_ranges *ranges, const struct oq_ranges *other,
                                    const char *path, struct onnxptq_error *error) OQ_MUST_USE;

/* Of either kind, told by its first bytes. */
enum onnxptq_status oq_ranges_read(const char *path, struct oq_ranges **out,
                                   struct onnxptq_error *error) OQ_MUST_USE;
/* The same from memory; `path` is for messages. */
enum onnxptq_status oq_ranges_parse(const char *path, const char *text, size_t size,
                                    struct oq_ranges **out, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Text of a ranges file. */
enum onnxptq_status oq_ranges_write(const struct oq_ranges *ranges, struct oq_writer *writer,
                                    struct onnxptq_error *error) OQ_MUST_USE;
/* The same as a file, whole or not at all; what is there is replaced. */
enum onnxptq_status oq_ranges_save(const struct oq_ranges *ranges, const char *path,
                                   struct onnxptq_error *error) OQ_MUST_USE;

/* ---- TensorRT's calibration cache ---- */

/* True for what is written as one: a path that ends in ".cache". */
bool oq_ranges_is_cache_path(const char *path);
/* A first line "TRT-<version>-<algorithm>", then "<tensor>: <bits of the float32 scale>". */
enum onnxptq_status oq_ranges_parse_cache(const char *path, const char *text, size_t size,
                                          struct oq_ranges *ranges, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_ranges_write_cache_line(struct oq_writer *writer, const char *name, double range);
void oq_ranges_write_cache_head(struct oq_writer *writer);

#endif
