/*
 * Writing models; see write.h.
 */
#include "model/write.h"

#include "base/map.h"
#include "model/model_make.h"
#include "model/wire_field.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum onnxptq_status put_inline(const struct oq_model *model,
                                      const struct oq_wire_tensor *tensor,
                                      struct oq_wire_fields *fields, struct onnxptq_error *error) {
    fields->body = oq_model_data(model, tensor->file, tensor->offset, tensor->length);
    fields->body_size = (size_t)tensor->length;
    if (fields->body == NULL && tensor->length > 0) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "a tensor's data lies outside its file");
    }
    oq_wire_add_length(fields, OQ_TENSOR_RAW_DATA, fields->body_size);
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_size(uint64_t size, struct onnxptq_error *error) {
    if (size <= OQ_WIRE_MAX_SIZE) {
        return ONNXPTQ_OK;
    }
    return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                   "it takes %" PRIu64 " bytes, and a model in one file cannot exceed 2 GiB", size);
}

/* ---- To a file ---- */

struct file_output {
    const struct oq_model *model;
    struct oq_writer *writer;
};

static enum onnxptq_status replace_in_file(void *user, const struct oq_wire_tensor *tensor,
                                           struct oq_wire_fields *fields,
                                           struct onnxptq_error *error) {
    const struct file_output *output = user;
    return put_inline(output->model, tensor, fields, error);
}

static enum onnxptq_status begin_file(void *user, uint64_t size, struct onnxptq_error *error) {
    (void)user;
    return check_size(size, error);
}

static void put_in_file(void *user, const void *data, size_t size) {
    const struct file_output *output = user;
    oq_writer_put(output->writer, data, size);
}

static enum onnxptq_status expand(const struct oq_model *model,
                                  const struct oq_wire_expansion *expansion,
                                  struct onnxptq_error *error) {
    uint8_t *skeleton = NULL;
    size_t size = 0;
    OQ_TRY(oq_model_pack(model, &skeleton, &size, error));
    const enum onnxptq_status status = oq_wire_expand(skeleton, size, expansion, error);
    free(skeleton);
    return status;
}

enum onnxptq_status oq_model_write(const struct oq_model *model, struct oq_writer *writer,
                                   struct onnxptq_error *error) {
    struct file_output output = {model, writer};
    const struct oq_wire_expansion expansion = {
        .user = &output, .replace = replace_in_file, .begin = begin_file, .put = put_in_file};
    const enum onnxptq_status status = expand(model, &expansion, error);
    return oq_prefix(error, status, "cannot write model '%s': ", oq_writer_path(writer));
}

/* ---- Weights of the sessions ---- */

/* The runtime maps the file; kernels want vectors aligned. */
#define PAGE 4096
#define SMALL_ALIGNMENT 64

struct oq_weight_file {
    struct oq_writer *writer;
    char *folder;
    struct oq_map *offsets; /* struct key -> offset in the weight file */
    /* Kept, so that no other data file gets the address of one that is a key. */
    struct oq_data_file **sources;
    size_t n_sources, capacity_sources;
};

struct key {
    const struct oq_data_file *source;
    uint64_t offset, length;
};

enum onnxptq_status oq_weight_file_create(const char *beside_path, struct oq_weight_file **out,
                                          struct onnxptq_error *error) {
    struct oq_weight_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        return oq_fail_memory(error, "the weight file");
    }
    enum onnxptq_status status = oq_writer_create(beside_path, &file->writer, error);
    if (status == ONNXPTQ_OK) {
        char *folder = oq_path_folder(oq_writer_path(file->writer));
        file->folder = folder == NULL ? NULL : oq_path_absolute(folder);
        free(folder);
        file->offsets = oq_map_create();
        if (file->folder == NULL || file->offsets == NULL) {
            status = oq_fail_memory(error, "the weight file");
        }
    }
    if (status != ONNXPTQ_OK) {
        oq_weight_file_destroy(file);
        return status;
    }
    *out = file;
    return ONNXPTQ_OK;
}

void oq_weight_file_destroy(struct oq_weight_file *file) {
    if (file == NULL) {
        return;
    }
    for (size_t i = 0; i < file->n_sources; i++) {
        oq_data_file_release(file->sources[i]);
    }
    free(file->sources);
    oq_map_destroy(file->offsets);
    oq_writer_destroy(file->writer);
    free(file->folder);
    free(file);
}

const char *oq_weight_file_folder(const struct oq_weight_file *file) {
    return file->folder;
}

/* A few files at most, except for models with one external file per tensor; those come in order. */
static bool keep_source(struct oq_weight_file *file, struct oq_data_file *source) {
    for (size_t i = file->n_sources; i > 0; i--) {
        if (file->sources[i - 1] == source) {
            return true;
        }
    }
    void *items = file->sources;
    if (!oq_grow(&items, &file->capacity_sources, file->n_sources + 1,
                 sizeof(struct oq_data_file *))) {
        return false;
    }
    file->sources = items;
    file->sources[file->n_sources++] = oq_data_file_keep(source);
    return true;
}

/* Offset in the weight file of a tensor's data, which is appended when it is not there yet. */
static enum onnxptq_status store(struct oq_weight_file *file, const struct oq_model *model,
                                 const struct oq_wire_tensor *tensor, size_t *offset,
                                 struct onnxptq_error *error) {
    const uint8_t *data = oq_model_data(model, tensor->file, tensor->offset, tensor->length);
    struct oq_data_file *source = oq_model_data_file(model, tensor->file);
    if (data == NULL || source == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "a tensor's data lies outside its file");
    }
    struct key key;
    memset(&key, 0, sizeof key);
    key.source = source;
    key.offset = tensor->offset;
    key.length = tensor->length;
    if (oq_map_get(file->offsets, &key, sizeof key, offset)) {
        return ONNXPTQ_OK;
    }
    oq_writer_align(file->writer, tensor->length > PAGE ? PAGE : SMALL_ALIGNMENT);
    *offset = (size_t)oq_writer_offset(file->writer);
    oq_writer_put(file->writer, data, (size_t)tensor->length);
    if (!keep_source(file, source) || !oq_map_put_copy(file->offsets, &key, sizeof key, *offset)) {
        return oq_fail_memory(error, "the weight file");
    }
    return ONNXPTQ_OK;
}

/* ---- To a session ---- */

struct session_output {
    const struct oq_model *model;
    struct oq_weight_file *file;
    uint8_t *bytes;
    size_t size, filled;
};

/* Shape inference and kernels of the runtime read integer constants (shapes, axes, splits, pads)
 * only from inside the model, as they do every attribute but a Constant's. */
static bool stays_inside(const struct oq_wire_tensor *tensor) {
    enum { LARGEST_SHAPE_CONSTANT = 16 * 1024 };
    const bool integer = tensor->type == ONNXPTQ_TYPE_INT64 || tensor->type == ONNXPTQ_TYPE_INT32;
    return tensor->length < OQ_MAPPED_MINIMUM || tensor->place == OQ_PLACE_OTHER ||
           (integer && tensor->length <= LARGEST_SHAPE_CONSTANT);
}

static void add_entry(struct oq_wire_fields *fields, const char *key, const char *value) {
    struct oq_wire_fields entry;
    entry.head_size = 0;
    oq_wire_add_bytes(&entry, OQ_ENTRY_KEY, key, strlen(key));
    oq_wire_add_bytes(&entry, OQ_ENTRY_VALUE, value, strlen(value));
    oq_wire_add_bytes(fields, OQ_TENSOR_EXTERNAL_DATA, entry.head, entry.head_size);
}

static enum onnxptq_status replace_in_session(void *user, const struct oq_wire_tensor *tensor,
                                              struct oq_wire_fields *fields,
                                              struct onnxptq_error *error) {
    const struct session_output *output = user;
    if (stays_inside(tensor)) {
        return put_inline(output->model, tensor, fields, error);
    }
    size_t offset = 0;
    OQ_TRY(store(output->file, output->model, tensor, &offset, error));
    char number[32];
    add_entry(fields, "location", oq_path_base(oq_writer_path(output->file->writer)));
    snprintf(number, sizeof number, "%zu", offset);
    add_entry(fields, "offset", number);
    snprintf(number, sizeof number, "%" PRIu64, tensor->length);
    add_entry(fields, "length", number);
    oq_wire_add_varint(fields, OQ_TENSOR_DATA_LOCATION,
                       ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    return ONNXPTQ_OK;
}

static enum onnxptq_status begin_session(void *user, uint64_t size, struct onnxptq_error *error) {
    struct session_output *output = user;
    OQ_TRY(check_size(size, error));
    output->size = (size_t)size;
    output->bytes = malloc(size > 0 ? (size_t)size : 1);
    return output->bytes == NULL ? oq_fail_memory(error, "a session's model") : ONNXPTQ_OK;
}

static void put_in_session(void *user, const void *data, size_t size) {
    struct session_output *output = user;
    if (size <= output->size - output->filled) {
        memcpy(output->bytes + output->filled, data, size);
        output->filled += size;
    }
}

enum onnxptq_status oq_session_bytes(const struct oq_model *model, struct oq_weight_file *file,
                                     uint8_t **bytes, size_t *size, struct onnxptq_error *error) {
    struct session_output output = {.model = model, .file = file};
    const struct oq_wire_expansion expansion = {.user = &output,
                                                .replace = replace_in_session,
                                                .begin = begin_session,
                                                .put = put_in_session,
                                                .drop_training = true};
    enum onnxptq_status status = expand(model, &expansion, error);
    if (status != ONNXPTQ_OK) {
        oq_prefix(error, status, "cannot prepare model '%s' for a session: ", oq_model_path(model));
    } else {
        status = oq_writer_flush(file->writer, error);
    }
    if (status == ONNXPTQ_OK && output.filled != output.size) {
        status = oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                         "cannot prepare model '%s' for a session: its size changed",
                         oq_model_path(model));
    }
    if (status != ONNXPTQ_OK) {
        free(output.bytes);
        return status;
    }
    *bytes = output.bytes;
    *size = output.size;
    return ONNXPTQ_OK;
}
