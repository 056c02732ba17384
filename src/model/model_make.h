/*
 * How a model comes to be, and what it keeps beside its messages. For the files of this folder
 * only.
 */
#ifndef OQ_MODEL_MODEL_MAKE_H
#define OQ_MODEL_MODEL_MAKE_H

#include "base/map.h"
#include "model/data_file.h"
#include "model/model.h"

/* A model without messages. `path` may be NULL. */
enum onnxptq_status oq_model_create(const char *path, struct oq_model **out,
                                    struct onnxptq_error *error) OQ_MUST_USE;
/* Adds a file of the input, or malloc'ed bytes that stand for one; the size counts in
 * oq_model_bytes. Takes mapping or bytes, on failure too. */
enum onnxptq_status oq_model_add_input(struct oq_model *model, struct oq_mapping mapping,
                                       const char *path, uint32_t *index,
                                       struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_model_add_bytes(struct oq_model *model, uint8_t *bytes, size_t size,
                                       uint32_t *index, struct onnxptq_error *error) OQ_MUST_USE;
/* Parses a skeleton into the model's arena. */
enum onnxptq_status oq_model_unpack(struct oq_model *model, const uint8_t *skeleton, size_t size,
                                    struct onnxptq_error *error) OQ_MUST_USE;
/* The skeleton's bytes, malloc'ed. */
enum onnxptq_status oq_model_pack(const struct oq_model *model, uint8_t **bytes, size_t *size,
                                  struct onnxptq_error *error) OQ_MUST_USE;

/* NULL when there is no such file. Borrowed. */
struct oq_data_file *oq_model_data_file(const struct oq_model *model, uint32_t index);
size_t oq_model_n_files(const struct oq_model *model);
/* The first of them, which the model was read from. */
size_t oq_model_n_input_files(const struct oq_model *model);

/* Notes that belong to addresses in the arena: converted typed data of a tensor, capacity of an
 * array. */
struct oq_map *oq_model_notes(const struct oq_model *model);

/* External data of all tensors becomes data files of the model. `folder` NULL: external data is
 * refused. */
enum onnxptq_status oq_model_attach_external(struct oq_model *model, const char *folder,
                                             struct onnxptq_error *error) OQ_MUST_USE;

/* Drops initializers that their graph lists already; see oq_model_repeated_initializer. */
enum onnxptq_status oq_model_drop_repeated(struct oq_model *model, struct onnxptq_error *error)
    OQ_MUST_USE;
const char **oq_model_repeated_slot(struct oq_model *model);

#endif
