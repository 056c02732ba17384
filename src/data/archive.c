/*
 * One face for all kinds of file; npz.c does the zip part, array_file.c files of one array.
 */
#include "data/archive.h"

#include "data/npz.h"

#include <stdlib.h>
#include <string.h>

struct oq_archive {
    char *path;
    struct oq_npz *npz; /* or: */
    struct oq_array_file *files;
    char **names; /* of the files' arrays and paths, ours */
    size_t n_names;
    struct oq_array *arrays;
    size_t n_arrays;
};

static struct oq_archive *new_archive(const char *path) {
    struct oq_archive *archive = calloc(1, sizeof *archive);
    char *copy = archive != NULL ? strdup(path) : NULL;
    if (copy == NULL) {
        free(archive);
        return NULL;
    }
    archive->path = copy;
    return archive;
}

/* ---- Zip archives ---- */

static enum onnxptq_status list_members(struct oq_archive *archive, struct onnxptq_error *error) {
    size_t n = oq_npz_n_members(archive->npz);
    archive->arrays = calloc(n > 0 ? n : 1, sizeof *archive->arrays);
    if (archive->arrays == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    archive->n_arrays = n;
    for (size_t i = 0; i < n; i++) {
        archive->arrays[i] = (struct oq_array){.name = oq_npz_member_name(archive->npz, i),
                                               .path = archive->path,
                                               .npy = *oq_npz_member_header(archive->npz, i)};
    }
    return ONNXPTQ_OK;
}

static bool is_zip(const uint8_t *data, size_t size) {
    return size >= 4 && data[0] == 'P' && data[1] == 'K';
}

/* ---- Files of one array ---- */

static enum onnxptq_status make_room(struct oq_archive *archive, size_t n,
                                     struct onnxptq_error *error) {
    size_t room = n > 0 ? n : 1;
    archive->arrays = calloc(room, sizeof *archive->arrays);
    archive->files = calloc(room, sizeof *archive->files);
    archive->names = calloc(room, 2 * sizeof *archive->names);
    bool good = archive->arrays != NULL && archive->files != NULL && archive->names != NULL;
    return good ? ONNXPTQ_OK : oq_fail_memory(error, "calibration data");
}

/* Takes what `file` holds, also on failure. */
static enum onnxptq_status add_file(struct oq_archive *archive, const char *name, const char *path,
                                    struct oq_array_file file, struct onnxptq_error *error) {
    size_t i = archive->n_arrays++;
    archive->files[i] = file;
    char *own_name = archive->names[archive->n_names++] = strdup(name);
    char *own_path = archive->names[archive->n_names++] = strdup(path);
    archive->arrays[i] = (struct oq_array){.name = own_name, .path = own_path, .npy = file.npy};
    return own_name != NULL && own_path != NULL ? ONNXPTQ_OK
                                                : oq_fail_memory(error, "calibration data");
}

static enum onnxptq_status refuse_file(const char *path, size_t size, struct onnxptq_error *error) {
    return oq_fail(error, ONNXPTQ_ERROR_DATA,
                   "cannot read calibration data '%s': %s; give a .npz or .npy file of numpy, an "
                   "ONNX tensor (.pb), raw elements (.bin, .raw, .dat), or a folder of these",
                   path, size == 0 ? "the file is empty" : "it is neither .npz nor .npy");
}

enum onnxptq_status oq_archive_open_memory(const void *data, size_t size, const char *name,
                                           struct oq_archive **out, struct onnxptq_error *error) {
    struct oq_archive *archive = new_archive(name);
    struct oq_array_file file;
    enum oq_array_file_kind kind;
    if (archive == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    if (is_zip(data, size)) {
        OQ_TRY_DONE(oq_npz_open_memory(data, size, name, &archive->npz, error));
        OQ_TRY_DONE(list_members(archive, error));
    } else if (!oq_array_file_kind_of(name, data, size, &kind) || kind == OQ_ARRAY_FILE_RAW) {
        status = refuse_file(name, size, error);
        goto done;
    } else {
        OQ_TRY_DONE(make_room(archive, 1, error));
        OQ_TRY_DONE(oq_prefix(error, oq_array_file_parse(data, size, kind, NULL, &file, error),
                              "cannot read calibration data '%s': ", name));
        OQ_TRY_DONE(add_file(archive, "", name, file, error));
    }
    *out = archive;
    archive = NULL;
done:
    oq_archive_close(archive);
    return status;
}

enum onnxptq_status oq_archive_open_parts(const char *path, const struct oq_archive_part *parts,
                                          size_t n, struct oq_archive **out,
                                          struct onnxptq_error *error) {
    struct oq_archive *archive = new_archive(path);
    enum onnxptq_status status = ONNXPTQ_OK;
    if (archive == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    OQ_TRY_DONE(make_room(archive, n, error));
    for (size_t i = 0; i < n; i++) {
        struct oq_array_file file;
        OQ_TRY_DONE(oq_array_file_open(parts[i].path, parts[i].kind, parts[i].raw, &file, error));
        OQ_TRY_DONE(add_file(archive, parts[i].name, parts[i].path, file, error));
    }
    *out = archive;
    archive = NULL;
done:
    oq_archive_close(archive);
    return status;
}

/* The first bytes tell the kind; a zip is then read through its library, which opens the file
 * itself. */
enum onnxptq_status oq_archive_open(const char *path, struct oq_archive **out,
                                    struct onnxptq_error *error) {
    struct oq_mapping mapping;
    struct oq_archive *archive = NULL;
    enum oq_array_file_kind kind = OQ_ARRAY_FILE_NPY;
    OQ_TRY(oq_mapping_open(path, &mapping, error));
    bool zip = is_zip(mapping.data, mapping.size);
    bool known = oq_array_file_kind_of(path, mapping.data, mapping.size, &kind);
    size_t size = mapping.size;
    oq_mapping_close(&mapping);
    if (!zip && known && kind != OQ_ARRAY_FILE_RAW) {
        const struct oq_archive_part part = {.name = "", .path = path, .kind = kind};
        return oq_archive_open_parts(path, &part, 1, out, error);
    }
    if (!zip) {
        return refuse_file(path, size, error);
    }
    archive = new_archive(path);
    if (archive == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(oq_npz_open(path, &archive->npz, error));
    OQ_TRY_DONE(list_members(archive, error));
    *out = archive;
    archive = NULL;
done:
    oq_archive_close(archive);
    return status;
}

void oq_archive_close(struct oq_archive *archive) {
    if (archive == NULL) {
        return;
    }
    oq_npz_close(archive->npz);
    for (size_t i = 0; i < archive->n_arrays && archive->files != NULL; i++) {
        oq_array_file_close(&archive->files[i]);
    }
    for (size_t i = 0; i < archive->n_names; i++) {
        free(archive->names[i]);
    }
    free((void *)archive->names);
    free(archive->files);
    free(archive->arrays);
    free(archive->path);
    free(archive);
}

const char *oq_archive_path(const struct oq_archive *archive) {
    return archive->path;
}

bool oq_archive_is_single(const struct oq_archive *archive) {
    return archive->n_arrays == 1 && archive->arrays[0].name[0] == '\0';
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
                       array->path);
    }
    oq_npy_copy(&array->npy, archive->files[index].elements, first, n, out);
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
