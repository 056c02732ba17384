/*
 * The three kinds of files that are one array; tensor_file.c of the model is another thing: weights
 * of ours.
 */
#include "data/array_file.h"

#include "data/listing.h"
#include "data/tensor_message.h"

#include <stdlib.h>
#include <string.h>

/* ---- Kinds ---- */

bool oq_array_file_kind_of_name(const char *name, enum oq_array_file_kind *out) {
    static const struct {
        const char *suffix;
        enum oq_array_file_kind kind;
    } suffixes[] = {{".npy", OQ_ARRAY_FILE_NPY},
                    {".pb", OQ_ARRAY_FILE_TENSOR},
                    {".bin", OQ_ARRAY_FILE_RAW},
                    {".raw", OQ_ARRAY_FILE_RAW},
                    {".dat", OQ_ARRAY_FILE_RAW}};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (oq_name_ends(name, suffixes[i].suffix)) {
            *out = suffixes[i].kind;
            return true;
        }
    }
    return false;
}

bool oq_array_file_kind_of(const char *path, const uint8_t *data, size_t size,
                           enum oq_array_file_kind *out) {
    if (size >= 6 && memcmp(data, "\x93NUMPY", 6) == 0) {
        *out = OQ_ARRAY_FILE_NPY;
        return true;
    }
    return oq_array_file_kind_of_name(path, out) && *out != OQ_ARRAY_FILE_NPY;
}

bool oq_array_file_is_raw(const char *path) {
    struct oq_mapping mapping;
    enum oq_array_file_kind kind;
    if (!oq_array_file_kind_of_name(path, &kind) || kind != OQ_ARRAY_FILE_RAW ||
        oq_mapping_open(path, &mapping, NULL) != ONNXPTQ_OK) {
        return false;
    }
    bool raw =
        oq_array_file_kind_of(path, mapping.data, mapping.size, &kind) && kind == OQ_ARRAY_FILE_RAW;
    oq_mapping_close(&mapping);
    return raw;
}

/* ---- Opening ---- */

static enum onnxptq_status parse_npy(const uint8_t *data, size_t size, struct oq_array_file *out,
                                     struct onnxptq_error *error) {
    OQ_TRY(oq_npy_parse(data, size, &out->npy, error));
    size_t expected = out->npy.data_offset + out->npy.n_bytes;
    if (size != expected) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header asks for %zu bytes, it has %zu; %s",
                       expected, size,
                       size < expected ? "it was cut short" : "save one array a file");
    }
    out->elements = data + out->npy.data_offset;
    return ONNXPTQ_OK;
}

static enum onnxptq_status take_raw(const uint8_t *data, size_t size, const struct oq_npy *raw,
                                    struct oq_array_file *out, struct onnxptq_error *error) {
    if (size != raw->n_bytes) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "expected %zu bytes, it has %zu", raw->n_bytes,
                       size);
    }
    out->npy = *raw;
    out->elements = data;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_array_file_parse(const uint8_t *data, size_t size,
                                        enum oq_array_file_kind kind, const struct oq_npy *raw,
                                        struct oq_array_file *out, struct onnxptq_error *error) {
    struct oq_array_file file = {0};
    switch (kind) {
    case OQ_ARRAY_FILE_NPY: OQ_TRY(parse_npy(data, size, &file, error)); break;
    case OQ_ARRAY_FILE_TENSOR: OQ_TRY(oq_tensor_message_parse(data, size, &file, error)); break;
    case OQ_ARRAY_FILE_RAW: OQ_TRY(take_raw(data, size, raw, &file, error)); break;
    }
    *out = file;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_array_file_open(const char *path, enum oq_array_file_kind kind,
                                       const struct oq_npy *raw, struct oq_array_file *out,
                                       struct onnxptq_error *error) {
    struct oq_mapping mapping;
    struct oq_array_file file = {0};
    OQ_TRY(oq_mapping_open(path, &mapping, error));
    enum onnxptq_status status =
        oq_array_file_parse(mapping.data, mapping.size, kind, raw, &file, error);
    if (status != ONNXPTQ_OK) {
        oq_mapping_close(&mapping);
        return oq_prefix(error, status, "cannot read calibration data '%s': ", path);
    }
    file.mapping = mapping;
    *out = file;
    return ONNXPTQ_OK;
}

void oq_array_file_close(struct oq_array_file *file) {
    oq_mapping_close(&file->mapping);
    free(file->owned);
    file->owned = NULL;
}
