/*
 * What the dimensions of a file's arrays mean for the model's inputs: which count samples, how many
 * samples there are, and how many rows a run takes. docs/calibration-data.md has the rules for
 * users.
 */
#ifndef OQ_DATA_LAYOUT_H
#define OQ_DATA_LAYOUT_H

#include "base/log.h"
#include "data/archive.h"

enum oq_array_use {
    OQ_ARRAY_ROWS,    /* (N, *row): each row is a sample, the rows of a run are joined */
    OQ_ARRAY_ENTRIES, /* (N, *declared shape): each entry feeds one run */
    OQ_ARRAY_WHOLE    /* given to every run as it is */
};

struct oq_layout {
    size_t n_samples;
    size_t fixed_rows; /* rows a run as the model fixes them; 0: any number */
    bool joinable;     /* a run may take more than one sample */
};

/* The array of each input, found by name (a .npy serves the only input): indices[i] of the archive
 * for input i. */
enum onnxptq_status oq_layout_match(const struct onnxptq_tensor *inputs, size_t n_inputs,
                                    const struct oq_archive *archive, size_t *indices,
                                    struct onnxptq_error *error) OQ_MUST_USE;

/* One file that holds all samples. uses[i] for input i. */
enum onnxptq_status oq_layout_find(const struct onnxptq_tensor *inputs, size_t n_inputs,
                                   const struct oq_archive *archive, const size_t *indices,
                                   const struct oq_log *log, enum oq_array_use *uses,
                                   struct oq_layout *out, struct onnxptq_error *error) OQ_MUST_USE;

/* One file that is one run: every array has its input's declared shape. */
enum onnxptq_status oq_layout_check_run(const struct onnxptq_tensor *inputs, size_t n_inputs,
                                        const struct oq_archive *archive, const size_t *indices,
                                        struct onnxptq_error *error) OQ_MUST_USE;

/* True when dimension `found` may feed a dimension declared as `declared` (negative: any). */
static inline bool oq_dimension_fits(int64_t declared, int64_t found) {
    return declared < 0 || declared == found;
}

#endif
