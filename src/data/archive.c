/*
 * One face for the two kinds of file; npz.c does the zip part.
 */
#include "data/archive.h"

#include "base/arena.h"
#include "base/file.h"
#include "data/npz.h"

#include <stdlib.h>
#include <string.h>

struct oq_archive {
    char *path;
    struct oq_npz *npz;        /* or, for a .npy: */
    struct oq_mapping mapping; /* data NULL when opened from memory */
    const uint8_t *elements;
    struct oq_array *arrays;
    size_t n_arrays;
};

static enum onnxptq_status open_npy(struct oq_archive *archive, const uint8_t *data, size_t size,
                                    struct onnxptq_error *error) {
    struct oq_array *array = &archive->arrays[0];
    array->name = "";
    archive->n_arrays = 1;
    OQ_TRY(oq_npy_parse(data, size, &array->npy, error));
    size_t expected = array->npy.data_offset + array->npy.n_bytes;
    if (size != expected) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header asks for %zu bytes, it has %zu; %s",
                       expected, size,
                       size < expected ? "it was cut short" : "save one array a file");
    }
    archive->elements = data + array->npy.data_offset;
    return ONNXPTQ_OK;
}

static enum onnxptq_status list_members(struct oq_archive *archive, struct onnxptq_error *error) {
    size_t n = oq_npz_n_members(archive->npz);
    archive->arrays = calloc(n > 0 ? n : 1, sizeof *archive->arrays);
    if (archive->arrays == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    archive->n_arrays = n;
    for (size_t i = 0; i < n; i++) {
        archive->arrays[i].name = oq_npz_member_name(archive->npz, i);
        archive->arrays[i].npy = *oq_npz_member_header(archive->npz, i);
    }
    return ONNXPTQ_OK;
}

static struct oq_archive *new_archive(const char *path) {
    struct oq_archive *archive = calloc(1, sizeof *archive);
    char *copy = archive != NULL ? strdup(path) : NULL;
    struct oq_array *arrays = copy != NULL ? calloc(1, sizeof *arrays) : NULL;
    if (arrays == NULL) {
        free(copy);
        free(archive);
        return NULL;
    }
    archive->path = copy;
    archive->arrays = arrays;
    return archive;
}

static bool is_npy(const uint8_t *data, size_t size) {
    return size >= 6 && memcmp(data, "\x93NUMPY", 6) == 0;
}

static bool is_zip(const uint8_t *data, size_t size) {
    return size >= 4 && data[0] == 'P' && data[1] == 'K';
}

static enum onnxptq_status refuse_file(const char *path, size_t size, struct onnxptq_error *error) {
    return oq_fail(error, ONNXPTQ_ERROR_DATA,
                   "cannot read calibration data '%s': %s; give a .npz or .npy file of numpy or a "
                   "folder of .npz files",
                   path, size == 0 ? "the file is empty" : "it is neither .npz nor .npy");
}

static enum onnxptq_status open_npz(struct oq_archive *archive, struct onnxptq_error *error) {
    free(archive->arrays);
    archive->arrays = NULL;
    return list_members(archive, error);
}

enum onnxptq_status oq_archive_open_memory(const void *data, size_t size, const char *name,
                                           struct oq_archive **out, struct onnxptq_error *error) {
    struct oq_archive *archive = new_archive(name);
    if (archive == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    if (is_npy(data, size)) {
        status = oq_prefix(error, open_npy(archive, data, size, error),
                           "cannot read calibration data '%s': ", name);
    } else if (is_zip(data, size)) {
        status = oq_npz_open_memory(data, size, name, &archive->npz, error);
        if (status == ONNXPTQ_OK) {
            status = open_npz(archive, error);
        }
    } else {
        status = refuse_file(name, size, error);
    }
    if (status != ONNXPTQ_OK) {
        oq_archive_close(archive);
        return status;
    }
    *out = archive;
    return ONNXPTQ_OK;
}

/* The mapping tells the kind; a zip is then read through its library, which opens the file itself.
 */
static enum onnxptq_status open_file(struct oq_archive *archive, struct onnxptq_error *error) {
    OQ_TRY(oq_mapping_open(archive->path, &archive->mapping, error));
    const uint8_t *data = archive->mapping.data;
    size_t size = archive->mapping.size;
    if (is_npy(data, size)) {
        return oq_prefix(error, open_npy(archive, data, size, error),
                         "cannot read calibration data '%s': ", archive->path);
    }
    if (!is_zip(data, size)) {
        return refuse_file(archive->path, size, error);
    }
    oq_mapping_close(&archive->mapping);
    OQ_TRY(oq_npz_open(archive->path, &archive->npz, error));
    return open_npz(archive, error);
}

enum onnxptq_status oq_archive_open(const char *path, struct oq_archive **out,
                                    struct onnxptq_error *error) {
    struct oq_archive *archive = new_archive(path);
    if (archive == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    enum onnxptq_status status = open_file(archive, error);
    if (status != ONNXPTQ_OK) {
        oq_archive_close(archive);
        return status;
    }
    *out = archive;
    return ONNXPTQ_OK;
}

void oq_archive_close(struct oq_archive *archive) {
    if (archive == NULL) {
        return;
    }
    oq_npz_close(archive->npz);
    oq_mapping_close(&archive->mapping);
    free(archive->arrays);
    free(archive->path);
    free(archive);
}

const char *oq_archive_path(const struct oq_archive *archive) {
    return archive->path;
}

bool oq_archive_is_single(const struct oq_archive *archive) {
    return archive->npz == NULL;
}

size_t oq_archive_n_arrays(const struct oq_archive *archive) {
    return archive->n_arrays;
}

const struct oq_array *oq_archive_array(const struct oq_archive *archive, size_t index) {
    return &archive->arrays[index];
}

enum onnxptq_status oq_archive_read(struct oq_archive *archive, size_t index, size_t first,
                                    size_t n, void *out, struct onnxptq_error *error) {
    const struct oq_array *array = &archive->arrays[index];
    if (archive->npz != NULL) {
        return oq_prefix(error, oq_npz_read(archive->npz, index, first, n, out, error),
                         "cannot read calibration data '%s', array '%s': ", archive->path,
                         array->name);
    }
    if (first > array->npy.n_elements || n > array->npy.n_elements - first) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL,
                       "cannot read calibration data '%s': elements beyond its end were asked for",
                       archive->path);
    }
    oq_npy_copy(&array->npy, archive->elements, first, n, out);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_archive_verify(struct oq_archive *archive, struct onnxptq_error *error) {
    for (size_t i = 0; archive->npz != NULL && i < archive->n_arrays; i++) {
        OQ_TRY(oq_prefix(error, oq_npz_verify(archive->npz, i, error),
                         "cannot read calibration data '%s', array '%s': ", archive->path,
                         archive->arrays[i].name));
    }
    return ONNXPTQ_OK;
}
