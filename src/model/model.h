/*
 * A model in memory: the protobuf-c tree without its weights, which stay in the mapped file.
 *
 * A pass over the wire format (model/wire.h) runs before parsing: it bounds nesting and sizes, and
 * replaces each large raw_data by private fields of TensorProto, data_file, data_offset and
 * data_length, that say where the bytes lie; the same for large elements in float_data and the
 * like, with data_field telling in which. The writer puts them back. So a model's heap is the size
 * of its skeleton, whatever the size of its weights.
 */
#ifndef OQ_MODEL_MODEL_H
#define OQ_MODEL_MODEL_H

#include "base/arena.h"
#include "base/file.h"
#include "onnx.pb-c.h"

/* raw_data of at least this many bytes is left in the file. */
#define OQ_MAPPED_MINIMUM 128
/* The same for elements in fields of their type. */
#define OQ_MAPPED_TYPED_MINIMUM 65536

struct oq_model;

/* Reads and verifies a model: wire format, nesting depth, sizes, every tensor's data length against
 * its shape, external data present, long enough and inside the model's folder. Structure of the
 * graph (names, order, cycles) is verified by oq_graph_build(). */
enum onnxptq_status oq_model_read(const char *path, struct oq_model **out,
                                  struct onnxptq_error *error) OQ_MUST_USE;
/* The same from memory (copied), for tests and fuzzing; `folder` locates external data. */
enum onnxptq_status oq_model_read_memory(const void *data, size_t size, const char *folder,
                                         struct oq_model **out, struct onnxptq_error *error)
    OQ_MUST_USE;
/* A deep copy of the skeleton that shares the mapped files (reference counted). */
enum onnxptq_status oq_model_clone(const struct oq_model *model, struct oq_model **out,
                                   struct onnxptq_error *error) OQ_MUST_USE;
void oq_model_destroy(struct oq_model *model); /* NULL is allowed */

/* Owned by the model and lives as long. New messages must be allocated from its arena. */
Onnx__ModelProto *oq_model_proto(const struct oq_model *model);
struct oq_arena *oq_model_arena(const struct oq_model *model);
const char *oq_model_path(const struct oq_model *model);
/* Size of the model file and of the external files it refers to. */
uint64_t oq_model_bytes(const struct oq_model *model);
/* True when the input kept tensors in files of their own. */
bool oq_model_is_external(const struct oq_model *model);
/* True when one of them is the file at `path`, under whatever name. */
bool oq_model_keeps_data_in(const struct oq_model *model, const char *path);

/* Adds a mapping as a data file of the model and takes it; `index` goes into TensorProto.data_file.
 */
enum onnxptq_status oq_model_add_file(struct oq_model *model, struct oq_mapping mapping,
                                      uint32_t *index, struct onnxptq_error *error) OQ_MUST_USE;
/* The same with what was written so far, after which nothing may be written. Takes the writer, on
 * failure too: the temporary file goes with the last model that has it. */
enum onnxptq_status oq_model_add_written(struct oq_model *model, struct oq_writer *writer,
                                         uint32_t *index, struct onnxptq_error *error) OQ_MUST_USE;
/* Disk space of its temporary files. */
uint64_t oq_model_temporary_bytes(const struct oq_model *model);
/* Gives the data files back before the model's end. From then on no tensor's data can be read. */
void oq_model_release_files(struct oq_model *model);

/* The bytes of a mapped tensor, or NULL when they do not lie inside that data file. */
const uint8_t *oq_model_data(const struct oq_model *model, uint32_t file, uint64_t offset,
                             uint64_t length);

/* Name of an initializer that its graph listed more than once, equal each time, of which one was
 * kept; NULL: there is none. */
const char *oq_model_repeated_initializer(const struct oq_model *model);

/* Version of the default domain ("" or "ai.onnx"), 0 when it is not imported. */
int64_t oq_model_opset(const struct oq_model *model);

/* True for the spellings of the default domain: NULL, "" and "ai.onnx". */
bool oq_is_default_domain(const char *domain);
/* The same domain, the spellings of the default one being equal. */
bool oq_same_domain(const char *a, const char *b);

/* "" for a text field that is not there. */
static inline const char *oq_text(const char *text) {
    return text == NULL ? "" : text;
}

#endif
