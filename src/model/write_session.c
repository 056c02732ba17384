/*
 * Models for sessions; see write.h.
 */
#include "model/write.h"

#include "base/number.h"
#include "model/model_make.h"
#include "model/tensor_data.h"
#include "model/tensor_file.h"
#include "model/write_inline.h"

#include <stdlib.h>
#include <string.h>

/* The runtime takes one folder for all locations and refuses what leads out of it. Under the root
 * lies everything: the input's folder, which need not be writable, and the output's. */
#define ROOT "/"

struct oq_weight_file {
    struct oq_tensor_file *tensors;
    char *path; /* of the temporary file: absolute, links followed */
};

enum onnxptq_status oq_weight_file_create(const char *beside_path, struct oq_weight_file **out,
                                          struct onnxptq_error *error) {
    struct oq_weight_file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        return oq_fail_memory(error, "the weight file");
    }
    enum onnxptq_status status = oq_tensor_file_create(beside_path, &file->tensors, error);
    if (status == ONNXPTQ_OK) {
        file->path = oq_path_resolve(oq_writer_path(oq_tensor_file_writer(file->tensors)));
        status = file->path == NULL ? oq_fail_memory(error, "the weight file") : ONNXPTQ_OK;
    }
    if (status != ONNXPTQ_OK) {
        oq_weight_file_destroy(file);
        return status;
    }
    *out = file;
    return ONNXPTQ_OK;
}

void oq_weight_file_destroy(struct oq_weight_file *file) {
    if (file != NULL) {
        oq_tensor_file_destroy(file->tensors);
        free(file->path);
        free(file);
    }
}

const char *oq_weight_file_folder(const struct oq_weight_file *file) {
    (void)file;
    return ROOT;
}

uint64_t oq_weight_file_size(const struct oq_weight_file *file) {
    return oq_writer_offset(oq_tensor_file_writer(file->tensors));
}

/* ---- To a session ---- */

struct output {
    const struct oq_model *model;
    struct oq_weight_file *file;
    uint8_t *bytes;
    size_t size, filled;
};

/* Types below a byte and types of several numbers are addressed by bytes and by numbers. */
static bool is_aligned(const struct oq_wire_tensor *tensor) {
    const size_t bits = oq_type_bits(tensor->type);
    const size_t size = bits == 0 || bits > 64 ? 8 : bits < 8 ? 1 : bits / 8;
    return tensor->offset % size == 0;
}

/* The path of the file in which the runtime can map the tensor, or NULL. */
static const char *find_in_place(const struct oq_model *model,
                                 const struct oq_wire_tensor *tensor) {
    const struct oq_data_file *source = oq_model_data_file(model, tensor->file);
    return source != NULL && oq_field_is_raw(tensor->field) && is_aligned(tensor)
               ? oq_data_file_path(source)
               : NULL;
}

static void add_path(struct oq_wire_fields *fields, const char *path, uint64_t offset,
                     uint64_t length) {
    oq_wire_add_location(fields, path + strlen(ROOT), offset, length);
}

static enum onnxptq_status replace(void *user, const struct oq_wire_tensor *tensor,
                                   struct oq_wire_fields *fields, struct onnxptq_error *error) {
    const struct output *output = user;
    if (oq_tensor_stays_inside(tensor, 0)) {
        return oq_write_inline(output->model, tensor, fields, error);
    }
    const char *path = find_in_place(output->model, tensor);
    if (path != NULL) {
        add_path(fields, path, tensor->offset, tensor->length);
        return ONNXPTQ_OK;
    }
    uint64_t offset = 0, size = 0;
    OQ_TRY(oq_tensor_file_store(output->file->tensors, output->model, tensor, &offset, error));
    (void)oq_wire_tensor_size(tensor, &size); /* what has no size stays inside */
    add_path(fields, output->file->path, offset, size);
    return ONNXPTQ_OK;
}

static enum onnxptq_status begin(void *user, uint64_t size, struct onnxptq_error *error) {
    struct output *output = user;
    OQ_TRY(oq_write_check_size(size, error));
    output->size = (size_t)size;
    output->bytes = malloc(size > 0 ? (size_t)size : 1);
    return output->bytes == NULL ? oq_fail_memory(error, "a session's model") : ONNXPTQ_OK;
}

static void put(void *user, const void *data, size_t size) {
    struct output *output = user;
    if (size <= output->size - output->filled) {
        memcpy(output->bytes + output->filled, data, size);
        output->filled += size;
    }
}

static enum onnxptq_status fill(struct output *output, struct onnxptq_error *error) {
    const struct oq_wire_expansion expansion = {
        .user = output, .replace = replace, .begin = begin, .put = put, .drop_training = true};
    const char *path = oq_model_path(output->model);
    const enum onnxptq_status status = oq_write_expand(output->model, &expansion, error);
    if (status != ONNXPTQ_OK) {
        return oq_prefix(error, status, "cannot prepare model '%s' for a session: ", path);
    }
    OQ_TRY(oq_writer_flush(oq_tensor_file_writer(output->file->tensors), error));
    if (output->filled == output->size) {
        return ONNXPTQ_OK;
    }
    return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                   "cannot prepare model '%s' for a session: its size changed", path);
}

enum onnxptq_status oq_session_bytes(const struct oq_model *model, struct oq_weight_file *file,
                                     uint8_t **bytes, size_t *size, struct onnxptq_error *error) {
    struct output output = {.model = model, .file = file};
    const enum onnxptq_status status = fill(&output, error);
    if (status != ONNXPTQ_OK) {
        free(output.bytes);
        return status;
    }
    *bytes = output.bytes;
    *size = output.size;
    return ONNXPTQ_OK;
}
