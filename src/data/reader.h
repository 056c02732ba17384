/*
 * What every kind of calibration data is to source.c: a reader. A new kind is one file with an open
 * function and one row in source.c.
 */
#ifndef OQ_DATA_READER_H
#define OQ_DATA_READER_H

#include "data/archive.h"
#include "data/listing.h"
#include "data/source.h"

struct oq_reader {
    size_t n_samples;
    size_t batch;     /* samples a run takes at most */
    bool batch_fixed; /* exactly `batch` */
    bool shapes_used; /* the options' input shapes were for this data */
    /* Fills inputs[i].type, rank, shape, data and size for one run; name is set by the caller. n is
     * 1 to batch (exactly batch when fixed), samples are below n_samples. */
    enum onnxptq_status (*read)(struct oq_reader *reader, const size_t *samples, size_t n,
                                struct onnxptq_tensor *inputs, struct onnxptq_error *error);
    void (*close)(struct oq_reader *reader); /* frees the reader */
    const struct oq_names *names;            /* of the files, where each is a sample; else NULL */
};

/* Each copies what it needs of `spec`, except spec->inputs, which outlives the reader. */
enum onnxptq_status oq_reader_open_file(const struct oq_data_spec *spec, struct oq_reader **out,
                                        struct onnxptq_error *error) OQ_MUST_USE;
/* Takes `archive`, also on failure. For tests and fuzzing beside oq_reader_open_file. */
enum onnxptq_status oq_reader_open_archive(const struct oq_data_spec *spec,
                                           struct oq_archive *archive, struct oq_reader **out,
                                           struct onnxptq_error *error) OQ_MUST_USE;
/* One file of bare elements. */
enum onnxptq_status oq_reader_open_raw(const struct oq_data_spec *spec, struct oq_reader **out,
                                       struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_reader_open_folder(const struct oq_data_spec *spec, struct oq_reader **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_reader_open_images(const struct oq_data_spec *spec, struct oq_reader **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_reader_open_callback(const struct oq_data_spec *spec, struct oq_reader **out,
                                            struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_reader_open_random(const struct oq_data_spec *spec, struct oq_reader **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;

/* A buffer that is kept from run to run. */
struct oq_buffer {
    uint8_t *data; /* aligned for vector instructions */
    size_t capacity;
};
/* Contents are lost when it grows; false when out of memory. */
bool oq_buffer_reserve(struct oq_buffer *buffer, size_t size);
void oq_buffer_reset(struct oq_buffer *buffer);

/* Where one element range of an array goes. */
struct oq_element_range {
    size_t array; /* of the archive */
    size_t first, n;
};
/* Reads elements of an array into `out` as type `to` (the array's own type or one it converts to).
 * `scratch` serves the conversion; `input` and `sample` are for messages. */
enum onnxptq_status oq_reader_fetch(struct oq_archive *archive, struct oq_element_range range,
                                    int to, uint8_t *out, struct oq_buffer *scratch,
                                    const char *input, size_t sample, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
