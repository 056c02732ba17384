/*
 * Files of tensors; see tensor_file.h.
 */
#include "model/tensor_file.h"

#include "base/map.h"
#include "model/model_make.h"
#include "model/tensor_data.h"
#include "model/wire_field.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The runtime maps the file, in pages; kernels want vectors aligned. A page for each small tensor
 * would be mostly padding. */
#define PAGE 4096
#define LARGE 65536
#define SMALL_ALIGNMENT 64

struct oq_tensor_file {
    struct oq_writer *writer;
    struct oq_map *offsets; /* struct key -> offset */
    uint64_t n_inside;      /* tensors of the skeleton that this pass has met */
    /* Kept, so that no other data file gets the address of one that is a key. */
    struct oq_data_file **sources;
    size_t n_sources, capacity_sources;
};

/* A place in a data file, or the number of a tensor of the skeleton. */
struct key {
    const struct oq_data_file *source; /* NULL: the skeleton */
    uint64_t offset, length;
};

enum onnxptq_status oq_tensor_file_create(const char *path, struct oq_tensor_file **out,
                                          struct onnxptq_error *error) {
    struct oq_tensor_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        return oq_fail_memory(error, "a file of weights");
    }
    file->offsets = oq_map_create();
    const enum onnxptq_status status = file->offsets == NULL
                                           ? oq_fail_memory(error, "a file of weights")
                                           : oq_writer_create(path, &file->writer, error);
    if (status != ONNXPTQ_OK) {
        oq_tensor_file_destroy(file);
        return status;
    }
    *out = file;
    return ONNXPTQ_OK;
}

void oq_tensor_file_destroy(struct oq_tensor_file *file) {
    if (file == NULL) {
        return;
    }
    for (size_t i = 0; i < file->n_sources; i++) {
        oq_data_file_release(file->sources[i]);
    }
    free(file->sources);
    oq_map_destroy(file->offsets);
    oq_writer_destroy(file->writer);
    free(file);
}

struct oq_writer *oq_tensor_file_writer(const struct oq_tensor_file *file) {
    return file->writer;
}

void oq_tensor_file_rewind(struct oq_tensor_file *file) {
    file->n_inside = 0;
}

/* A few files at most, except for models with one external file per tensor; those come in order. */
static bool keep_source(struct oq_tensor_file *file, struct oq_data_file *source) {
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

static struct key make_key(struct oq_tensor_file *file, const struct oq_data_file *source,
                           const struct oq_wire_tensor *tensor) {
    struct key key;
    memset(&key, 0, sizeof key); /* padding is part of a key */
    key.source = source;
    key.offset = source == NULL ? file->n_inside++ : tensor->offset;
    key.length = tensor->length;
    return key;
}

static uint64_t append(struct oq_tensor_file *file, const struct oq_wire_tensor *tensor,
                       const uint8_t *bytes) {
    uint64_t size = 0;
    oq_writer_align(file->writer,
                    oq_wire_tensor_size(tensor, &size) && size >= LARGE ? PAGE : SMALL_ALIGNMENT);
    const uint64_t offset = oq_writer_offset(file->writer);
    oq_wire_tensor_put(tensor, bytes, file->writer);
    return offset;
}

enum onnxptq_status oq_tensor_file_store(struct oq_tensor_file *file, const struct oq_model *model,
                                         const struct oq_wire_tensor *tensor, uint64_t *offset,
                                         struct onnxptq_error *error) {
    const uint8_t *bytes = oq_wire_tensor_bytes(model, tensor);
    struct oq_data_file *source =
        tensor->bytes != NULL ? NULL : oq_model_data_file(model, tensor->file);
    if (bytes == NULL || (source == NULL && tensor->bytes == NULL)) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "a tensor's data lies outside its file");
    }
    const struct key key = make_key(file, source, tensor);
    size_t known = 0;
    if (oq_map_get(file->offsets, &key, sizeof key, &known)) {
        *offset = known;
        return ONNXPTQ_OK;
    }
    *offset = append(file, tensor, bytes);
    if ((source != NULL && !keep_source(file, source)) || *offset > SIZE_MAX ||
        !oq_map_put_copy(file->offsets, &key, sizeof key, (size_t)*offset)) {
        return oq_fail_memory(error, "a file of weights");
    }
    return ONNXPTQ_OK;
}

/* ---- Who lies where ---- */

bool oq_tensor_stays_inside(const struct oq_wire_tensor *tensor, uint64_t threshold) {
    enum { LARGEST_SHAPE_CONSTANT = 16 * 1024 };
    const bool integer = tensor->type == ONNXPTQ_TYPE_INT64 || tensor->type == ONNXPTQ_TYPE_INT32;
    uint64_t size = 0;
    return !oq_wire_tensor_size(tensor, &size) || size < OQ_MAPPED_MINIMUM || size < threshold ||
           tensor->place == OQ_PLACE_OTHER || (integer && size <= LARGEST_SHAPE_CONSTANT);
}

static void add_entry(struct oq_wire_fields *fields, const char *key, const char *value) {
    struct oq_wire_fields entry;
    entry.head_size = 0;
    oq_wire_add_bytes(&entry, OQ_ENTRY_KEY, key, strlen(key));
    oq_wire_add_bytes(&entry, OQ_ENTRY_VALUE, value, strlen(value));
    oq_wire_add_bytes(fields, OQ_TENSOR_EXTERNAL_DATA, entry.head, entry.head_size);
}

void oq_wire_add_location(struct oq_wire_fields *fields, const char *location, uint64_t offset,
                          uint64_t length) {
    char number[32];
    add_entry(fields, "location", location);
    snprintf(number, sizeof number, "%" PRIu64, offset);
    add_entry(fields, "offset", number);
    snprintf(number, sizeof number, "%" PRIu64, length);
    add_entry(fields, "length", number);
    oq_wire_add_varint(fields, OQ_TENSOR_DATA_LOCATION,
                       ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    fields->sets_location = true;
}
