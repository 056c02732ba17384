/*
 * Opening the data that the options name, whatever its kind, and reading runs from it. runs.c
 * splits the samples into runs.
 */
#include "data/source.h"

#include "base/arena.h"
#include "base/file.h"
#include "data/array_file.h"
#include "data/reader.h"

#include <stdio.h>
#include <stdlib.h>

struct oq_data_source {
    struct oq_arena *arena;
    struct oq_data_spec spec; /* inputs are our copy */
    struct oq_reader *reader;
    size_t n_samples;
};

static enum onnxptq_status copy_inputs(struct oq_data_source *source, struct onnxptq_error *error) {
    size_t n = source->spec.n_inputs;
    source->arena = oq_arena_create();
    struct onnxptq_tensor *inputs =
        source->arena != NULL ? oq_arena_array(source->arena, n, sizeof *inputs) : NULL;
    if (inputs == NULL) {
        return oq_fail_memory(error, "the model's inputs");
    }
    for (size_t i = 0; i < n; i++) {
        inputs[i] = source->spec.inputs[i];
        inputs[i].name = oq_arena_strdup(source->arena, inputs[i].name);
        inputs[i].data = NULL;
        inputs[i].size = 0;
        if (inputs[i].name == NULL) {
            return oq_fail_memory(error, "the model's inputs");
        }
    }
    source->spec.inputs = inputs;
    return ONNXPTQ_OK;
}

/* ---- Opening ---- */

static enum onnxptq_status check_options(const struct onnxptq_quantize_options *options,
                                         struct onnxptq_error *error) {
    int given = (options->data_path != NULL) + (options->data != NULL) +
                (options->images_path != NULL) + (options->random_samples > 0);
    if (given == 0) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot calibrate: there is no calibration data; give it with --data or ask for "
            "random samples with --random-data");
    }
    if (given > 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot calibrate: more than one kind of data is given; choose one of --data, "
            "--images, a data callback and --random-data");
    }
    if (options->random_samples == 0 && options->n_input_ranges > 0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot apply input ranges: they are for random data; leave them out or use "
                       "--random-data");
    }
    if (options->data_path != NULL && !oq_path_exists(options->data_path)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO,
                       "cannot read calibration data '%s': there is no such file or folder; check "
                       "--data",
                       options->data_path);
    }
    if (options->images_path != NULL && !oq_path_is_folder(options->images_path)) {
        return oq_fail(error, ONNXPTQ_ERROR_IO,
                       "cannot read images '%s': there is no such folder; check --images",
                       options->images_path);
    }
    return ONNXPTQ_OK;
}

typedef enum onnxptq_status open_function(const struct oq_data_spec *spec, struct oq_reader **out,
                                          struct onnxptq_error *error);

static open_function *choose_reader(const struct onnxptq_quantize_options *options) {
    if (options->data != NULL) {
        return oq_reader_open_callback;
    }
    if (options->images_path != NULL) {
        return oq_reader_open_images;
    }
    if (options->data_path == NULL) {
        return oq_reader_open_random;
    }
    if (oq_path_is_folder(options->data_path)) {
        return oq_reader_open_folder;
    }
    return oq_array_file_is_raw(options->data_path) ? oq_reader_open_raw : oq_reader_open_file;
}

static enum onnxptq_status open_reader(struct oq_data_source *source, struct onnxptq_error *error) {
    struct oq_reader *reader = NULL;
    OQ_TRY(choose_reader(source->spec.options)(&source->spec, &reader, error));
    source->reader = reader;
    if (source->spec.options->n_input_shapes > 0 && !reader->shapes_used) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot apply input shapes: this data has shapes of its own; they are for "
                       "random data and raw files, leave --input-shape out");
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status limit_samples(struct oq_data_source *source,
                                         struct onnxptq_error *error) {
    size_t wanted = source->spec.options->max_samples;
    struct oq_reader *reader = source->reader;
    source->n_samples = reader->n_samples;
    if (wanted > reader->n_samples) {
        oq_log_message(source->spec.log, ONNXPTQ_LOG_WARNING,
                       "%zu samples were asked for, the data has %zu", wanted, reader->n_samples);
    } else if (wanted > 0) {
        source->n_samples = wanted;
    }
    if (!reader->batch_fixed && reader->batch > source->n_samples) {
        reader->batch = source->n_samples;
    }
    if (source->n_samples < reader->batch) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot calibrate with %zu samples: the model takes exactly %zu a run; use at "
            "least as many",
            source->n_samples, reader->batch);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_data_open(const struct oq_data_spec *spec, struct oq_data_source **out,
                                 struct onnxptq_error *error) {
    OQ_TRY(check_options(spec->options, error));
    struct oq_data_source *source = calloc(1, sizeof *source);
    if (source == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    source->spec = *spec;
    OQ_TRY_DONE(copy_inputs(source, error));
    OQ_TRY_DONE(open_reader(source, error));
    OQ_TRY_DONE(limit_samples(source, error));
    *out = source;
    source = NULL;
done:
    oq_data_close(source);
    return status;
}

void oq_data_close(struct oq_data_source *source) {
    if (source == NULL) {
        return;
    }
    if (source->reader != NULL) {
        source->reader->close(source->reader);
    }
    oq_arena_destroy(source->arena);
    free(source);
}

const char *oq_data_describe_sample(const struct oq_data_source *source, size_t sample,
                                    char text[OQ_SAMPLE_TEXT_SIZE]) {
    const struct oq_names *names = source->reader->names;
    if (names != NULL && sample < names->n) {
        (void)snprintf(text, OQ_SAMPLE_TEXT_SIZE, "%zu ('%s')", sample, names->items[sample]);
    } else {
        (void)snprintf(text, OQ_SAMPLE_TEXT_SIZE, "%zu", sample);
    }
    return text;
}

/* ---- Reading ---- */

size_t oq_data_n_samples(const struct oq_data_source *source) {
    return source->n_samples;
}

size_t oq_data_batch(const struct oq_data_source *source) {
    return source->reader->batch;
}

bool oq_data_batch_fixed(const struct oq_data_source *source) {
    return source->reader->batch_fixed;
}

enum onnxptq_status oq_data_read(struct oq_data_source *source, const size_t *samples, size_t n,
                                 struct onnxptq_tensor *inputs, struct onnxptq_error *error) {
    struct oq_reader *reader = source->reader;
    if (n == 0 || n > reader->batch || (reader->batch_fixed && n != reader->batch)) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "cannot read %zu samples: a run takes %zu", n,
                       reader->batch);
    }
    for (size_t i = 0; i < n; i++) {
        if (samples[i] < source->n_samples) {
            continue;
        }
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "cannot read sample %zu: there are %zu",
                       samples[i], source->n_samples);
    }
    for (size_t i = 0; i < source->spec.n_inputs; i++) {
        inputs[i].name = source->spec.inputs[i].name;
    }
    return reader->read(reader, samples, n, inputs, error);
}
