/*
 * A folder of .npz files: each is one run's inputs, in byte order of the names. All are checked
 * when the folder is opened; afterwards only the file of the current sample is open.
 */
#include "base/arena.h"
#include "base/file.h"
#include "base/number.h"
#include "base/size.h"
#include "data/elements.h"
#include "data/layout.h"
#include "data/reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct folder_reader {
    struct oq_reader base;
    char **names; /* full paths, sorted */
    size_t capacity;
    const struct onnxptq_tensor *declared;
    size_t n_inputs;
    size_t *indices;           /* array of the current file for each input */
    struct oq_buffer *buffers; /* one per input */
    struct oq_buffer scratch;
};

static void close_folder(struct oq_reader *base) {
    struct folder_reader *reader = (struct folder_reader *)base;
    for (size_t i = 0; i < base->n_samples; i++) {
        free(reader->names[i]);
    }
    for (size_t i = 0; i < reader->n_inputs && reader->buffers != NULL; i++) {
        oq_buffer_reset(&reader->buffers[i]);
    }
    oq_buffer_reset(&reader->scratch);
    free((void *)reader->names);
    free(reader->buffers);
    free(reader->indices);
    free(reader);
}

/* ---- Reading ---- */

static enum onnxptq_status open_sample(struct folder_reader *reader, size_t sample,
                                       struct oq_archive **out, struct onnxptq_error *error) {
    struct oq_archive *archive = NULL;
    OQ_TRY(oq_archive_open(reader->names[sample], &archive, error));
    enum onnxptq_status status =
        oq_layout_match(reader->declared, reader->n_inputs, archive, reader->indices, error);
    if (status == ONNXPTQ_OK) {
        status = oq_layout_check_run(reader->declared, reader->n_inputs, archive, reader->indices,
                                     error);
    }
    if (status != ONNXPTQ_OK) {
        oq_archive_close(archive);
        return status;
    }
    *out = archive;
    return ONNXPTQ_OK;
}

static enum onnxptq_status read_input(struct folder_reader *reader, struct oq_archive *archive,
                                      size_t index, size_t sample, struct onnxptq_tensor *out,
                                      struct onnxptq_error *error) {
    const struct onnxptq_tensor *declared = &reader->declared[index];
    const struct oq_npy *npy = &oq_archive_array(archive, reader->indices[index])->npy;
    struct oq_buffer *buffer = &reader->buffers[index];
    out->type = declared->type == ONNXPTQ_TYPE_UNDEFINED ? npy->type : declared->type;
    out->rank = npy->rank;
    memcpy(out->shape, npy->shape, npy->rank * sizeof npy->shape[0]);
    if (!oq_size_mul(npy->n_elements, oq_type_size((int)out->type), &out->size) ||
        !oq_buffer_reserve(buffer, out->size)) {
        return oq_fail_memory(error, "a calibration sample");
    }
    out->data = buffer->data;
    struct oq_element_range all = {reader->indices[index], 0, npy->n_elements};
    return oq_reader_fetch(archive, all, (int)out->type, buffer->data, &reader->scratch,
                           declared->name, sample, error);
}

static enum onnxptq_status read_folder(struct oq_reader *base, const size_t *samples, size_t n,
                                       struct onnxptq_tensor *inputs, struct onnxptq_error *error) {
    struct folder_reader *reader = (struct folder_reader *)base;
    struct oq_archive *archive = NULL;
    (void)n; /* the batch is 1 */
    OQ_TRY(open_sample(reader, samples[0], &archive, error));
    enum onnxptq_status status = ONNXPTQ_OK;
    for (size_t i = 0; i < reader->n_inputs && status == ONNXPTQ_OK; i++) {
        status = read_input(reader, archive, i, samples[0], &inputs[i], error);
    }
    oq_archive_close(archive);
    return status;
}

/* ---- Opening ---- */

/* Hidden files are no data: some systems leave ._name.npz beside name.npz. */
static bool is_npz_name(const char *name) {
    size_t length = strlen(name);
    return length > 4 && name[0] != '.' && strcmp(name + length - 4, ".npz") == 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum onnxptq_status add_name(struct folder_reader *reader, const char *folder,
                                    const char *name, struct onnxptq_error *error) {
    size_t n = reader->base.n_samples;
    char *path = oq_path_join(folder, name);
    if (path == NULL ||
        !oq_grow((void **)&reader->names, &reader->capacity, n + 1, sizeof *reader->names)) {
        free(path);
        return oq_fail_memory(error, "the names of a data folder");
    }
    reader->names[n] = path;
    reader->base.n_samples++;
    return ONNXPTQ_OK;
}

static enum onnxptq_status list_folder(struct folder_reader *reader, const char *folder,
                                       struct onnxptq_error *error) {
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return oq_fail_system(error, errno, "read data folder", folder);
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    const struct dirent *entry = NULL;
    while (status == ONNXPTQ_OK && (entry = readdir(dir)) != NULL) {
        if (is_npz_name(entry->d_name)) {
            status = add_name(reader, folder, entry->d_name, error);
        }
    }
    closedir(dir);
    if (status == ONNXPTQ_OK && reader->base.n_samples == 0) {
        status =
            oq_fail(error, ONNXPTQ_ERROR_DATA,
                    "cannot read data folder '%s': it holds no .npz file; save each run's inputs "
                    "as one",
                    folder);
    }
    return status;
}

static enum onnxptq_status open_all(struct folder_reader *reader, const struct oq_data_spec *spec,
                                    struct onnxptq_error *error) {
    OQ_TRY(list_folder(reader, spec->options->data_path, error));
    qsort((void *)reader->names, reader->base.n_samples, sizeof *reader->names, compare_names);
    for (size_t i = 0; i < reader->base.n_samples; i++) {
        struct oq_archive *archive = NULL;
        OQ_TRY(open_sample(reader, i, &archive, error));
        oq_archive_close(archive);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_reader_open_folder(const struct oq_data_spec *spec, struct oq_reader **out,
                                          struct onnxptq_error *error) {
    size_t n = spec->n_inputs > 0 ? spec->n_inputs : 1;
    if (spec->options->batch > 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot run %zu samples of '%s' at once: each file of a folder is a run; leave "
            "the batch size out",
            spec->options->batch, spec->options->data_path);
    }
    struct folder_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    reader->base = (struct oq_reader){.batch = 1, .read = read_folder, .close = close_folder};
    reader->declared = spec->inputs;
    reader->n_inputs = spec->n_inputs;
    reader->indices = calloc(n, sizeof *reader->indices);
    reader->buffers = calloc(n, sizeof *reader->buffers);
    enum onnxptq_status status = reader->indices != NULL && reader->buffers != NULL
                                     ? open_all(reader, spec, error)
                                     : oq_fail_memory(error, "calibration data");
    if (status != ONNXPTQ_OK) {
        close_folder(&reader->base);
        return status;
    }
    *out = &reader->base;
    return ONNXPTQ_OK;
}
