/*
 * A model in memory; see model.h and model_make.h.
 */
#include "base/size.h"
#include "model/model_make.h"

#include <stdlib.h>
#include <string.h>

struct oq_model {
    char *path;
    struct oq_arena *arena;
    Onnx__ModelProto *proto; /* in the arena */
    struct oq_data_file **files;
    size_t n_files, capacity_files;
    uint64_t input_bytes;
    size_t n_inputs; /* the first data files: the model's own, then its external data */
    struct oq_map *notes;
    const char *repeated; /* an initializer of which all but one were dropped, or NULL */
};

/* ---- Data files ---- */

/* Takes the reference, on failure too; NULL is a failure already. */
static enum onnxptq_status add_file(struct oq_model *model, struct oq_data_file *file,
                                    uint32_t *index, struct onnxptq_error *error) {
    void *items = model->files;
    if (file == NULL || model->n_files >= UINT32_MAX ||
        !oq_grow(&items, &model->capacity_files, model->n_files + 1,
                 sizeof(struct oq_data_file *))) {
        oq_data_file_release(file);
        return oq_fail_memory(error, "the model's data files");
    }
    model->files = items;
    model->files[model->n_files] = file;
    *index = (uint32_t)model->n_files++;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_model_add_file(struct oq_model *model, struct oq_mapping mapping,
                                      uint32_t *index, struct onnxptq_error *error) {
    return add_file(model, oq_data_file_create(mapping, NULL), index, error);
}

enum onnxptq_status oq_model_add_bytes(struct oq_model *model, uint8_t *bytes, size_t size,
                                       uint32_t *index, struct onnxptq_error *error) {
    OQ_TRY(add_file(model, oq_data_file_create_bytes(bytes, size), index, error));
    model->input_bytes += size;
    model->n_inputs++;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_model_add_input(struct oq_model *model, struct oq_mapping mapping,
                                       const char *path, uint32_t *index,
                                       struct onnxptq_error *error) {
    OQ_TRY(add_file(model, oq_data_file_create(mapping, path), index, error));
    model->input_bytes += mapping.size;
    model->n_inputs++;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_model_add_written(struct oq_model *model, struct oq_writer *writer,
                                         uint32_t *index, struct onnxptq_error *error) {
    struct oq_mapping mapping;
    const enum onnxptq_status status = oq_writer_map(writer, &mapping, error);
    if (status != ONNXPTQ_OK) {
        oq_writer_destroy(writer);
        return status;
    }
    return add_file(model, oq_data_file_create_written(mapping, writer), index, error);
}

struct oq_data_file *oq_model_data_file(const struct oq_model *model, uint32_t index) {
    return index < model->n_files ? model->files[index] : NULL;
}

size_t oq_model_n_files(const struct oq_model *model) {
    return model->n_files;
}

uint64_t oq_model_temporary_bytes(const struct oq_model *model) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < model->n_files; i++) {
        if (oq_data_file_is_temporary(model->files[i])) {
            bytes += oq_data_file_mapping(model->files[i])->size;
        }
    }
    return bytes;
}

void oq_model_release_files(struct oq_model *model) {
    for (size_t i = 0; i < model->n_files; i++) {
        oq_data_file_release(model->files[i]);
    }
    model->n_files = 0;
}

const uint8_t *oq_model_data(const struct oq_model *model, uint32_t file, uint64_t offset,
                             uint64_t length) {
    if (file >= model->n_files) {
        return NULL;
    }
    const struct oq_mapping *mapping = oq_data_file_mapping(model->files[file]);
    if (mapping->data == NULL || offset > mapping->size || length > mapping->size - offset) {
        return NULL;
    }
    return mapping->data + offset;
}

/* ---- Life ---- */

enum onnxptq_status oq_model_create(const char *path, struct oq_model **out,
                                    struct onnxptq_error *error) {
    struct oq_model *model = calloc(1, sizeof *model);
    if (model != NULL) {
        model->path = strdup(path == NULL ? "<memory>" : path);
        model->arena = oq_arena_create();
        model->notes = oq_map_create();
    }
    if (model == NULL || model->path == NULL || model->arena == NULL || model->notes == NULL) {
        oq_model_destroy(model);
        return oq_fail_memory(error, "a model");
    }
    *out = model;
    return ONNXPTQ_OK;
}

void oq_model_destroy(struct oq_model *model) {
    if (model == NULL) {
        return;
    }
    oq_model_release_files(model);
    free(model->files);
    oq_map_destroy(model->notes);
    oq_arena_destroy(model->arena);
    free(model->path);
    free(model);
}

/* ---- Messages ---- */

/* Structs take more room than the bytes they are read from: at most this many times for real models
 * (about 20 for one-letter names). More is an attack on memory: an empty tensor takes 2 bytes in
 * the file, 300 here. */
#define EXPANSION_LIMIT 48
#define FREE_SIZE ((size_t)64 * 1024 * 1024)

struct allocation {
    struct oq_arena *arena;
    bool failed;
};

static void *allocate(void *user, size_t size) {
    struct allocation *allocation = user;
    void *result = oq_arena_alloc(allocation->arena, size);
    allocation->failed = allocation->failed || result == NULL;
    return result;
}

static void release(void *user, void *pointer) {
    struct allocation *allocation = user;
    oq_arena_release(allocation->arena, pointer);
}

static size_t memory_limit(const struct oq_arena *arena, size_t size) {
    size_t limit;
    if (!oq_size_mul(size, EXPANSION_LIMIT, &limit) || !oq_size_add(limit, FREE_SIZE, &limit) ||
        !oq_size_add(limit, oq_arena_used(arena), &limit)) {
        return SIZE_MAX;
    }
    return limit;
}

enum onnxptq_status oq_model_unpack(struct oq_model *model, const uint8_t *skeleton, size_t size,
                                    struct onnxptq_error *error) {
    static const uint8_t nothing[1];
    struct allocation allocation = {model->arena, false};
    ProtobufCAllocator allocator = {allocate, release, &allocation};
    oq_arena_set_limit(model->arena, memory_limit(model->arena, size));
    Onnx__ModelProto *proto =
        onnx__model_proto__unpack(&allocator, size, size > 0 ? skeleton : nothing);
    oq_arena_set_limit(model->arena, SIZE_MAX);
    if (proto != NULL) {
        model->proto = proto;
        return ONNXPTQ_OK;
    }
    if (allocation.failed) {
        return oq_fail(error, ONNXPTQ_ERROR_MEMORY,
                       "not enough memory for its structure of %zu bytes", size);
    }
    return oq_fail(error, ONNXPTQ_ERROR_MODEL, "it is not a valid ONNX file: a field is broken");
}

enum onnxptq_status oq_model_pack(const struct oq_model *model, uint8_t **bytes, size_t *size,
                                  struct onnxptq_error *error) {
    const size_t needed = onnx__model_proto__get_packed_size(model->proto);
    if (needed > INT32_MAX) {
        return oq_fail(
            error, ONNXPTQ_ERROR_UNSUPPORTED,
            "its structure without large weights takes %zu bytes, more than protobuf's 2 "
            "GiB",
            needed);
    }
    uint8_t *packed = malloc(needed > 0 ? needed : 1);
    if (packed == NULL) {
        return oq_fail_memory(error, "the packed model");
    }
    *size = onnx__model_proto__pack(model->proto, packed);
    *bytes = packed;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_model_clone(const struct oq_model *model, struct oq_model **out,
                                   struct onnxptq_error *error) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct oq_model *clone = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(oq_model_create(model->path, &clone, error));
    for (size_t i = 0; i < model->n_files; i++) {
        uint32_t index;
        OQ_TRY_DONE(add_file(clone, oq_data_file_keep(model->files[i]), &index, error));
    }
    clone->input_bytes = model->input_bytes;
    clone->n_inputs = model->n_inputs;
    OQ_TRY_DONE(oq_model_pack(model, &bytes, &size, error));
    OQ_TRY_DONE(oq_model_unpack(clone, bytes, size, error));
    *out = clone;
    clone = NULL;
done:
    oq_model_destroy(clone);
    free(bytes);
    return status == ONNXPTQ_OK ? status
                                : oq_prefix(error, status, "cannot copy model '%s': ", model->path);
}

/* ---- Access ---- */

Onnx__ModelProto *oq_model_proto(const struct oq_model *model) {
    return model->proto;
}

struct oq_arena *oq_model_arena(const struct oq_model *model) {
    return model->arena;
}

const char *oq_model_path(const struct oq_model *model) {
    return model->path;
}

uint64_t oq_model_bytes(const struct oq_model *model) {
    return model->input_bytes;
}

size_t oq_model_n_input_files(const struct oq_model *model) {
    return model->n_inputs;
}

bool oq_model_is_external(const struct oq_model *model) {
    return model->n_inputs > 1;
}

bool oq_model_keeps_data_in(const struct oq_model *model, const char *path) {
    for (size_t i = 1; i < model->n_inputs && i < model->n_files; i++) {
        if (oq_data_file_is_at(model->files[i], path)) {
            return true;
        }
    }
    return false;
}

struct oq_map *oq_model_notes(const struct oq_model *model) {
    return model->notes;
}

const char **oq_model_repeated_slot(struct oq_model *model) {
    return &model->repeated;
}

const char *oq_model_repeated_initializer(const struct oq_model *model) {
    return model->repeated;
}

bool oq_is_default_domain(const char *domain) {
    return domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

bool oq_same_domain(const char *a, const char *b) {
    return oq_is_default_domain(a) ? oq_is_default_domain(b)
                                   : !oq_is_default_domain(b) && strcmp(a, b) == 0;
}

int64_t oq_model_opset(const struct oq_model *model) {
    for (size_t i = 0; i < model->proto->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *import = model->proto->opset_import[i];
        if (oq_is_default_domain(import->domain)) {
            return import->version;
        }
    }
    return 0;
}
