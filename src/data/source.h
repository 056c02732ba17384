/*
 * Calibration data: samples that the model's inputs are fed with, from wherever they come.
 *
 * A run feeds one or more samples. Rules (docs/calibration-data.md): for .npz and .npy the first
 * dimension counts the samples when the array has the declared rank (rows are samples, and up to
 * `batch` of them are joined in one run) or one more (each entry is a sample, one a run); inputs
 * without a batch axis are (N, *shape); an array whose first dimension is not N is a constant given
 * to every run. A folder's files are one run each, in name order, unless they are named like the
 * inputs. Random floats are N(0,1), integers and bools 0 or 1, unless a range is given.
 */
#ifndef OQ_DATA_SOURCE_H
#define OQ_DATA_SOURCE_H

#include "base/log.h"

struct oq_data_source;

struct oq_data_spec {
    /* Of these: data_path, data, images_path, preprocess, random_*, seed, input_*, max_samples,
     * batch. */
    const struct onnxptq_quantize_options *options;
    const struct onnxptq_tensor *inputs; /* the model's declarations, in order */
    size_t n_inputs;
    const struct oq_log *log;
};

enum onnxptq_status oq_data_open(const struct oq_data_spec *spec, struct oq_data_source **out,
                                 struct onnxptq_error *error) OQ_MUST_USE;
void oq_data_close(struct oq_data_source *source); /* NULL is allowed */

/* Samples in use (after max_samples). */
size_t oq_data_n_samples(const struct oq_data_source *source);
/* How many samples one run takes at most; 1 when they cannot be joined. */
size_t oq_data_batch(const struct oq_data_source *source);
/* True when the batch is fixed by the model, so that a short last run is not possible. */
bool oq_data_batch_fixed(const struct oq_data_source *source);

/* Feed of one run made of the given samples (n <= batch). `inputs` has n_inputs entries; all are
 * filled and valid until the next call. */
enum onnxptq_status oq_data_read(struct oq_data_source *source, const size_t *samples, size_t n,
                                 struct onnxptq_tensor *inputs, struct onnxptq_error *error)
    OQ_MUST_USE;

/* "12 ('0012.jpg')" where a sample is a file of a folder, else "12". Returns `text`. */
#define OQ_SAMPLE_TEXT_SIZE 288
const char *oq_data_describe_sample(const struct oq_data_source *source, size_t sample,
                                    char text[OQ_SAMPLE_TEXT_SIZE]);

/* Which samples serve what. Below 16 samples all serve for both; else sample i is held back for the
 * check when i % 8 == 7. */
enum oq_data_part { OQ_DATA_CALIBRATE, OQ_DATA_CHECK, OQ_DATA_ALL };

/* The runs of one part, in order: plan[i] samples for run i. */
struct oq_data_runs {
    size_t n_runs;
    size_t n_samples;    /* fed in all */
    size_t n_skipped;    /* samples of a short last batch that a fixed batch cannot take */
    const size_t *first; /* n_runs + 1 entries: run i uses samples[first[i] .. first[i + 1]) */
    const size_t *samples;
};
enum onnxptq_status oq_data_runs(struct oq_data_source *source, enum oq_data_part part,
                                 struct oq_data_runs *out, struct onnxptq_error *error) OQ_MUST_USE;
/* So many runs of each, evenly spread: at most as many as there are. */
enum onnxptq_status oq_data_runs_pick(const struct oq_data_runs *one, size_t n_one,
                                      const struct oq_data_runs *other, size_t n_other,
                                      struct oq_data_runs *out, struct onnxptq_error *error)
    OQ_MUST_USE;
void oq_data_runs_reset(struct oq_data_runs *runs);
bool oq_data_held_back(const struct oq_data_source *source);

#endif
