/*
 * Writing models: to a file with all weights streamed from where they lie, and as the bytes of a
 * runtime session whose weights are external data in one aligned file.
 */
#ifndef OQ_MODEL_WRITE_H
#define OQ_MODEL_WRITE_H

#include "model/model.h"

/* Streams the model, weights inline, into `writer`. Fails above protobuf's 2 GiB. */
enum onnxptq_status oq_model_write(const struct oq_model *model, struct oq_writer *writer,
                                   struct onnxptq_error *error) OQ_MUST_USE;

/* The weights of a model, aligned, in one temporary file for the sessions. */
struct oq_weight_file;

/* Makes an empty one beside `beside_path`. oq_session_bytes() fills it: every mapped tensor once,
 * aligned to 4096 bytes when larger than a page and to 64 otherwise. Models that share data files
 * (oq_model_clone) share what is in it. */
enum onnxptq_status oq_weight_file_create(const char *beside_path, struct oq_weight_file **out,
                                          struct onnxptq_error *error) OQ_MUST_USE;
void oq_weight_file_destroy(struct oq_weight_file *file); /* removes the file; NULL is allowed */
const char *oq_weight_file_folder(const struct oq_weight_file *file);

/* Serialises the skeleton with external_data entries in place of mapped data. What is not yet in
 * the weight file (by data file and offset) is appended to it first. `bytes` is malloc'ed. */
enum onnxptq_status oq_session_bytes(const struct oq_model *model, struct oq_weight_file *file,
                                     uint8_t **bytes, size_t *size, struct onnxptq_error *error)
    OQ_MUST_USE;
#endif
