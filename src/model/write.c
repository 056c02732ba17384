/*
 * Writing models to files; see write.h. Sessions are in write_session.c.
 */
#include "model/write.h"

#include "model/model_make.h"
#include "model/tensor_data.h"
#include "model/tensor_file.h"
#include "model/wire_field.h"
#include "model/write_inline.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- Shared with sessions ---- */

enum onnxptq_status oq_write_inline(const struct oq_model *model,
                                    const struct oq_wire_tensor *tensor,
                                    struct oq_wire_fields *fields, struct onnxptq_error *error) {
    fields->body = oq_wire_tensor_bytes(model, tensor);
    fields->body_size = (size_t)tensor->length;
    if (fields->body == NULL && tensor->length > 0) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "a tensor's data lies outside its file");
    }
    oq_wire_add_length(fields, tensor->field == 0 ? OQ_TENSOR_RAW_DATA : tensor->field,
                       fields->body_size);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_write_check_size(uint64_t size, struct onnxptq_error *error) {
    if (size <= OQ_WIRE_MAX_SIZE) {
        return ONNXPTQ_OK;
    }
    return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                   "it takes %" PRIu64 " bytes, and a model in one file cannot exceed 2 GiB", size);
}

enum onnxptq_status oq_write_expand(const struct oq_model *model,
                                    const struct oq_wire_expansion *expansion,
                                    struct onnxptq_error *error) {
    uint8_t *skeleton = NULL;
    size_t size = 0;
    OQ_TRY(oq_model_pack(model, &skeleton, &size, error));
    const enum onnxptq_status status = oq_wire_expand(skeleton, size, expansion, error);
    free(skeleton);
    return status;
}

/* ---- To a file ---- */

struct oq_external_data {
    struct oq_tensor_file *tensors;
    uint64_t threshold;
};

struct output {
    const struct oq_model *model;
    struct oq_writer *writer;      /* NULL: only the size is asked for */
    struct oq_external_data *data; /* NULL: all inside */
    const char *location;
    uint64_t size;
};

static enum onnxptq_status replace(void *user, const struct oq_wire_tensor *tensor,
                                   struct oq_wire_fields *fields, struct onnxptq_error *error) {
    const struct output *output = user;
    struct oq_external_data *data = output->data;
    if (data == NULL || oq_tensor_stays_inside(tensor, data->threshold)) {
        return oq_write_inline(output->model, tensor, fields, error);
    }
    uint64_t offset = 0, size = 0;
    OQ_TRY(oq_tensor_file_store(data->tensors, output->model, tensor, &offset, error));
    (void)oq_wire_tensor_size(tensor, &size); /* what has no size stays inside */
    oq_wire_add_location(fields, output->location, offset, size);
    return ONNXPTQ_OK;
}

static enum onnxptq_status begin(void *user, uint64_t size, struct onnxptq_error *error) {
    struct output *output = user;
    output->size = size;
    if (output->data != NULL) {
        oq_tensor_file_rewind(output->data->tensors);
    }
    return output->writer == NULL ? ONNXPTQ_OK : oq_write_check_size(size, error);
}

static void put(void *user, const void *bytes, size_t size) {
    const struct output *output = user;
    if (output->writer != NULL) {
        oq_writer_put(output->writer, bytes, size);
    }
}

static enum onnxptq_status write_to(struct output *output, struct onnxptq_error *error) {
    const struct oq_wire_expansion expansion = {.user = output,
                                                .replace = replace,
                                                .begin = begin,
                                                .put = put,
                                                .all_raw = output->data != NULL};
    return oq_write_expand(output->model, &expansion, error);
}

enum onnxptq_status oq_model_whole_size(const struct oq_model *model, uint64_t *size,
                                        struct onnxptq_error *error) {
    struct output output = {.model = model};
    OQ_TRY(write_to(&output, error));
    *size = output.size;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_model_write(const struct oq_model *model, struct oq_writer *writer,
                                   struct onnxptq_error *error) {
    struct output output = {.model = model, .writer = writer};
    const enum onnxptq_status status = write_to(&output, error);
    return oq_prefix(error, status, "cannot write model '%s': ", oq_writer_path(writer));
}

/* ---- With external data ---- */

enum onnxptq_status oq_external_data_create(const char *path, uint64_t threshold,
                                            struct oq_external_data **out,
                                            struct onnxptq_error *error) {
    struct oq_external_data *data = calloc(1, sizeof *data);
    if (data == NULL) {
        return oq_fail_memory(error, "the external data");
    }
    data->threshold = threshold;
    const enum onnxptq_status status = oq_tensor_file_create(path, &data->tensors, error);
    if (status != ONNXPTQ_OK) {
        free(data);
        return status;
    }
    *out = data;
    return ONNXPTQ_OK;
}

void oq_external_data_destroy(struct oq_external_data *data) {
    if (data != NULL) {
        oq_tensor_file_destroy(data->tensors);
        free(data);
    }
}

struct oq_writer *oq_external_data_writer(const struct oq_external_data *data) {
    return oq_tensor_file_writer(data->tensors);
}

enum onnxptq_status oq_model_write_external(const struct oq_model *model, struct oq_writer *writer,
                                            struct oq_external_data *data, const char *location,
                                            struct onnxptq_error *error) {
    struct output output = {model, writer, data, location, 0};
    oq_tensor_file_rewind(data->tensors);
    const enum onnxptq_status status = write_to(&output, error);
    return oq_prefix(error, status, "cannot write model '%s': ", oq_writer_path(writer));
}
