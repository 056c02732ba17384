/*
 * Writing models: to a file with all weights streamed from where they lie, inside the file or in
 * one beside it, and as the bytes of a runtime session whose weights are external data.
 */
#ifndef OQ_MODEL_WRITE_H
#define OQ_MODEL_WRITE_H

#include "model/model.h"

/* Bytes of a model with all its weights inside. */
enum onnxptq_status oq_model_whole_size(const struct oq_model *model, uint64_t *size,
                                        struct onnxptq_error *error) OQ_MUST_USE;

/* Streams the model, weights inside, into `writer`. Fails above protobuf's 2 GiB. */
enum onnxptq_status oq_model_write(const struct oq_model *model, struct oq_writer *writer,
                                   struct onnxptq_error *error) OQ_MUST_USE;

/* ---- External data -------------------------------------------------------------------------- */

/* The file of a model's external data, under a temporary name beside `path`. */
struct oq_external_data;
enum onnxptq_status oq_external_data_create(const char *path, uint64_t threshold,
                                            struct oq_external_data **out,
                                            struct onnxptq_error *error) OQ_MUST_USE;
void oq_external_data_destroy(struct oq_external_data *data); /* NULL is allowed */
/* Owned by `data`; to be finished and committed by the caller. */
struct oq_writer *oq_external_data_writer(const struct oq_external_data *data);

/* Streams the model into `writer` and its tensors of at least the threshold into `data`, aligned to
 * 4096 bytes when large and to 64 otherwise. `location` is the name under which the model, in the
 * same folder, looks for them. Written again under another location, the same model finds its
 * tensors where they are: nothing is added.
 *
 * In the model stay attributes of nodes other than Constant, sparse tensors, strings, integers up
 * to 16 KiB and whatever is below 128 bytes. */
enum onnxptq_status oq_model_write_external(const struct oq_model *model, struct oq_writer *writer,
                                            struct oq_external_data *data, const char *location,
                                            struct onnxptq_error *error) OQ_MUST_USE;

/* ---- Sessions ------------------------------------------------------------------------------- */

/* The weights of all sessions. */
struct oq_weight_file;

/* What the runtime cannot map where it lies is kept, aligned, in a temporary file beside
 * `beside_path`, each tensor once: models cloned from one another share it. */
enum onnxptq_status oq_weight_file_create(const char *beside_path, struct oq_weight_file **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;
void oq_weight_file_destroy(struct oq_weight_file *file); /* removes the file; NULL is allowed */
/* What locations in the sessions' models are relative to. */
const char *oq_weight_file_folder(const struct oq_weight_file *file);
/* Bytes of the temporary file so far. */
uint64_t oq_weight_file_size(const struct oq_weight_file *file);

/* Serialises the skeleton with external_data entries in place of mapped data. They name the file
 * that holds the tensor (the model, its external data, a temporary file of ours) when the runtime
 * can map it there: its elements are aligned and the file is still the one that was read. All other
 * data are appended to the weight file first. `bytes` is malloc'ed. */
enum onnxptq_status oq_session_bytes(const struct oq_model *model, struct oq_weight_file *file,
                                     uint8_t **bytes, size_t *size, struct onnxptq_error *error)
    OQ_MUST_USE;
#endif
