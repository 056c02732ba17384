/*
 * External data of the input: each file that tensors refer to is mapped once and becomes a data
 * file of the model, so that from here on the tensors look like those of the model file itself.
 */
#include "base/map.h"
#include "model/model_make.h"
#include "model/tensor.h"
#include "model/walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where external data may lie: in the folder of the path that was given, and in the folder of the
 * file that it leads to when it is a link. Download caches keep links to both the model and its
 * data in one folder and the files in another. */
enum { GIVEN, LINKED, N_FOLDERS };

struct attachment {
    struct oq_model *model;
    const char *folder;       /* of the model, or NULL */
    char *folders[N_FOLDERS]; /* links followed; made when first needed; NULL: there is none */
    struct oq_map *files;     /* location -> index of the data file */
};

/* What a tensor's external_data says. */
struct reference {
    const char *location;
    uint64_t offset, length;
    bool has_length;
};

static bool parse_number(const char *text, uint64_t *out) {
    uint64_t value = 0;
    if (text[0] == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

/* Absent is 0. */
static enum onnxptq_status parse_entry(const char *location, const char *key, const char *value,
                                       uint64_t *out, struct onnxptq_error *error) {
    *out = 0;
    if (value == NULL || parse_number(value, out)) {
        return ONNXPTQ_OK;
    }
    return oq_fail(error, ONNXPTQ_ERROR_MODEL, "its external data '%s' has the %s '%s'", location,
                   key, value);
}

static const char *find_entry(const Onnx__TensorProto *tensor, const char *key) {
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = tensor->external_data[i];
        if (entry->key != NULL && strcmp(entry->key, key) == 0) {
            return entry->value;
        }
    }
    return NULL;
}

static enum onnxptq_status read_reference(const Onnx__TensorProto *tensor, struct reference *out,
                                          struct onnxptq_error *error) {
    const char *length = find_entry(tensor, "length");
    out->location = find_entry(tensor, "location");
    out->has_length = length != NULL;
    if (out->location == NULL || out->location[0] == '\0') {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL, "its external data names no file");
    }
    OQ_TRY(parse_entry(out->location, "offset", find_entry(tensor, "offset"), &out->offset, error));
    return parse_entry(out->location, "length", length, &out->length, error);
}

static bool lies_in(const char *target, const char *folder) {
    const size_t length = folder == NULL ? 0 : strlen(folder);
    return folder != NULL && (strcmp(folder, "/") == 0 ||
                              (strncmp(target, folder, length) == 0 && target[length] == '/'));
}

/* A link may lead elsewhere, but not out of the folders: models from strangers must not read any
 * file. */
static enum onnxptq_status check_target(const struct attachment *attachment, const char *location,
                                        const char *target, struct onnxptq_error *error) {
    if (lies_in(target, attachment->folders[GIVEN]) ||
        lies_in(target, attachment->folders[LINKED])) {
        return ONNXPTQ_OK;
    }
    return oq_fail(
        error, ONNXPTQ_ERROR_MODEL,
        "its external data '%s' is a link that leads out of the model's folder; copy the "
        "file there",
        location);
}

/* The file named `location` in the model, links followed; NULL when there is none. */
static char *find_target(const struct attachment *attachment, const char *location) {
    const char *const folders[] = {attachment->folder, attachment->folders[LINKED]};
    char *target = NULL;
    for (size_t i = 0; i < N_FOLDERS && target == NULL; i++) {
        char *path = folders[i] == NULL ? NULL : oq_path_join(folders[i], location);
        target = path == NULL ? NULL : oq_path_resolve(path);
        free(path);
    }
    return target;
}

static enum onnxptq_status map_target(struct attachment *attachment, const char *location,
                                      const char *target, uint32_t *file,
                                      struct onnxptq_error *error) {
    struct oq_mapping mapping = {NULL, 0};
    OQ_TRY(check_target(attachment, location, target, error));
    const enum onnxptq_status status = oq_mapping_open(target, &mapping, error);
    if (status != ONNXPTQ_OK) {
        return oq_prefix(error, status, "its external data '%s': ", location);
    }
    return oq_model_add_input(attachment->model, mapping, target, file, error);
}

static bool resolve_folders(struct attachment *attachment) {
    if (attachment->folders[GIVEN] != NULL) {
        return true;
    }
    char *model = oq_path_resolve(oq_model_path(attachment->model)); /* NULL when in memory */
    attachment->folders[GIVEN] = oq_path_resolve(attachment->folder);
    attachment->folders[LINKED] = model == NULL ? NULL : oq_path_folder(model);
    const bool done = attachment->folders[GIVEN] != NULL &&
                      (model == NULL || attachment->folders[LINKED] != NULL);
    free(model);
    return done;
}

static enum onnxptq_status open_location(struct attachment *attachment, const char *location,
                                         uint32_t *file, struct onnxptq_error *error) {
    if (attachment->folder == NULL || !oq_path_is_inside(location)) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL,
                       "its external data '%s' is outside the model's folder, which is not allowed",
                       location);
    }
    if (!resolve_folders(attachment)) {
        return oq_fail_memory(error, "a path");
    }
    char *target = find_target(attachment, location);
    if (target == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_IO,
                       "its external data '%s' is missing; put the file beside the model",
                       location);
    }
    const enum onnxptq_status status = map_target(attachment, location, target, file, error);
    free(target);
    return status;
}

static enum onnxptq_status find_file(struct attachment *attachment, const char *location,
                                     uint32_t *file, struct onnxptq_error *error) {
    size_t known;
    if (oq_map_get_name(attachment->files, location, &known)) {
        *file = (uint32_t)known;
        return ONNXPTQ_OK;
    }
    OQ_TRY(open_location(attachment, location, file, error));
    if (!oq_map_put_name(attachment->files, location, *file)) {
        return oq_fail_memory(error, "the list of external files");
    }
    return ONNXPTQ_OK;
}

/* The end of the data: as told, else as the shape asks, else the end of the file. */
static enum onnxptq_status place(const struct attachment *attachment, Onnx__TensorProto *tensor,
                                 struct reference reference, uint32_t file,
                                 struct onnxptq_error *error) {
    const uint64_t available =
        oq_data_file_mapping(oq_model_data_file(attachment->model, file))->size;
    size_t n_elements, size;
    const bool known = oq_tensor_byte_size(tensor, &n_elements, &size);
    if (!reference.has_length) {
        const uint64_t rest = available > reference.offset ? available - reference.offset : 0;
        reference.length = known ? size : rest;
    } else if (known && reference.length != size) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL,
                       "its shape and type ask for %zu bytes, its external data '%s' has %" PRIu64
                       " for it",
                       size, reference.location, reference.length);
    }
    if (reference.offset > available || reference.length > available - reference.offset) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL,
                       "its external data '%s' is too short: %" PRIu64 " bytes at offset %" PRIu64
                       " are asked for, the file has %" PRIu64,
                       reference.location, reference.length, reference.offset, available);
    }
    tensor->has_data_file = tensor->has_data_offset = tensor->has_data_length = 1;
    tensor->data_file = file;
    tensor->data_offset = reference.offset;
    tensor->data_length = reference.length;
    tensor->n_external_data = 0;
    tensor->external_data = NULL;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
    return ONNXPTQ_OK;
}

static enum onnxptq_status attach(struct attachment *attachment, Onnx__TensorProto *tensor,
                                  struct onnxptq_error *error) {
    struct reference reference = {0};
    uint32_t file = 0;
    if (tensor->has_data_length || (tensor->has_raw_data && tensor->raw_data.len > 0)) {
        return oq_fail(error, ONNXPTQ_ERROR_MODEL, "it has both data and external data");
    }
    OQ_TRY(read_reference(tensor, &reference, error));
    OQ_TRY(find_file(attachment, reference.location, &file, error));
    tensor->has_raw_data = 0;
    return place(attachment, tensor, reference, file, error);
}

static enum onnxptq_status visit(void *user, const struct oq_tensor_site *site,
                                 Onnx__TensorProto *tensor, struct onnxptq_error *error) {
    if (!tensor->has_data_location ||
        tensor->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        return ONNXPTQ_OK;
    }
    const enum onnxptq_status status = attach(user, tensor, error);
    if (status == ONNXPTQ_OK) {
        return ONNXPTQ_OK;
    }
    char text[1024];
    oq_tensor_site_text(site, tensor, text, sizeof text);
    return oq_prefix(error, status, "%s: ", text);
}

enum onnxptq_status oq_model_attach_external(struct oq_model *model, const char *folder,
                                             struct onnxptq_error *error) {
    struct attachment attachment = {.model = model, .folder = folder, .files = oq_map_create()};
    if (attachment.files == NULL) {
        return oq_fail_memory(error, "the list of external files");
    }
    const struct oq_visitor visitor = {.user = &attachment, .tensor = visit};
    const enum onnxptq_status status = oq_walk_model(oq_model_proto(model), &visitor, error);
    oq_map_destroy(attachment.files);
    free(attachment.folders[GIVEN]);
    free(attachment.folders[LINKED]);
    return status;
}
