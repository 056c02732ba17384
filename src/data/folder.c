/*
 * A folder of calibration data. Either each file, or each test_data_set_<n> of ONNX, is one run's
 * inputs: all are checked when the folder is opened, afterwards only the files of the current
 * sample are open. Or each file is named like an input and holds all samples of it.
 */
#include "base/file.h"
#include "base/number.h"
#include "base/size.h"
#include "data/declared.h"
#include "data/elements.h"
#include "data/layout.h"
#include "data/listing.h"
#include "data/raw.h"
#include "data/reader.h"
#include "data/test_data.h"

#include <stdlib.h>
#include <string.h>

enum folder_kind { FOLDER_NPZ, FOLDER_NPY, FOLDER_RAW, FOLDER_SETS, N_FOLDER_KINDS };

struct folder_reader {
    struct oq_reader base;
    char *path;
    enum folder_kind kind;
    struct oq_names names; /* of the runs */
    const struct onnxptq_tensor *declared;
    struct onnxptq_tensor *shapes; /* of raw files */
    size_t n_inputs;
    size_t *indices;           /* array of the current file for each input */
    struct oq_buffer *buffers; /* one per input */
    struct oq_buffer scratch;
};

static void close_folder(struct oq_reader *base) {
    struct folder_reader *reader = (struct folder_reader *)base;
    for (size_t i = 0; i < reader->n_inputs && reader->buffers != NULL; i++) {
        oq_buffer_reset(&reader->buffers[i]);
    }
    oq_buffer_reset(&reader->scratch);
    oq_names_reset(&reader->names);
    free(reader->shapes);
    free(reader->path);
    free(reader->buffers);
    free(reader->indices);
    free(reader);
}

/* ---- Reading ---- */

static enum onnxptq_status open_array(const struct folder_reader *reader, const char *path,
                                      struct oq_archive **out, struct onnxptq_error *error) {
    struct oq_npy npy;
    struct oq_archive_part part = {.name = "", .path = path, .kind = OQ_ARRAY_FILE_NPY};
    if (reader->kind == FOLDER_RAW) {
        OQ_TRY(oq_raw_describe_run(&reader->shapes[0], path, &npy, error));
        part.kind = OQ_ARRAY_FILE_RAW;
        part.raw = &npy;
    }
    return oq_archive_open_parts(path, &part, 1, out, error);
}

static enum onnxptq_status open_run(const struct folder_reader *reader, const char *path,
                                    struct oq_archive **out, struct onnxptq_error *error) {
    switch (reader->kind) {
    case FOLDER_NPZ: return oq_archive_open(path, out, error);
    case FOLDER_NPY:
    case FOLDER_RAW: return open_array(reader, path, out, error);
    case FOLDER_SETS:
        return oq_test_data_open(path, reader->declared, reader->n_inputs, out, error);
    case N_FOLDER_KINDS: break;
    }
    return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "cannot read '%s': unknown kind", path);
}

static enum onnxptq_status open_sample(struct folder_reader *reader, size_t sample,
                                       struct oq_archive **out, struct onnxptq_error *error) {
    struct oq_archive *archive = NULL;
    char *path = oq_path_join(reader->path, reader->names.items[sample]);
    if (path == NULL) {
        return oq_fail_memory(error, "a path");
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(open_run(reader, path, &archive, error));
    OQ_TRY_DONE(
        oq_layout_match(reader->declared, reader->n_inputs, archive, reader->indices, error));
    OQ_TRY_DONE(
        oq_layout_check_run(reader->declared, reader->n_inputs, archive, reader->indices, error));
    *out = archive;
    archive = NULL;
done:
    oq_archive_close(archive);
    free(path);
    return status;
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

/* ---- What the folder holds ---- */

static bool is_npz(const char *name) {
    return oq_name_ends(name, ".npz");
}

static bool is_npy(const char *name) {
    return oq_name_ends(name, ".npy");
}

static bool is_raw(const char *name) {
    enum oq_array_file_kind kind;
    return oq_array_file_kind_of_name(name, &kind) && kind == OQ_ARRAY_FILE_RAW;
}

static bool is_set_or_input(const char *name) {
    return oq_test_data_is_set(name) || oq_test_data_is_input(name);
}

static const struct {
    const char *what;
    bool (*wanted)(const char *name);
} kinds[N_FOLDER_KINDS] = {[FOLDER_NPZ] = {".npz", is_npz},
                           [FOLDER_NPY] = {".npy", is_npy},
                           [FOLDER_RAW] = {"raw (.bin, .raw, .dat)", is_raw},
                           [FOLDER_SETS] = {"ONNX test data (input_0.pb)", is_set_or_input}};

static size_t count_kind(const struct oq_names *all, enum folder_kind kind) {
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        n += kinds[kind].wanted(all->items[i]);
    }
    return n;
}

/* More than one kind would leave some of the data out without a word. */
static enum onnxptq_status choose_kind(struct folder_reader *reader, struct onnxptq_error *error) {
    struct oq_names all;
    enum folder_kind found[N_FOLDER_KINDS];
    size_t n = 0;
    OQ_TRY(oq_names_list(reader->path, NULL, &all, error));
    for (enum folder_kind kind = FOLDER_NPZ; kind < N_FOLDER_KINDS; kind++) {
        if (count_kind(&all, kind) > 0) {
            found[n++] = kind;
        }
    }
    oq_names_reset(&all);
    if (n == 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot read data folder '%s': it holds no .npz file, nor .npy, raw (.bin, "
                       ".raw, .dat) or test_data_set_*; save each run's inputs as one .npz (images "
                       "are read with --images)",
                       reader->path);
    }
    if (n > 1) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot read data folder '%s': it holds files of two kinds, %s and %s; keep "
                       "one of them",
                       reader->path, kinds[found[0]].what, kinds[found[1]].what);
    }
    reader->kind = found[0];
    return ONNXPTQ_OK;
}

/* ---- Each entry a run ---- */

/* A folder with input_0.pb and the like is itself the only set. */
static enum onnxptq_status list_sets(struct folder_reader *reader, struct onnxptq_error *error) {
    struct oq_names inputs;
    OQ_TRY(oq_names_list(reader->path, oq_test_data_is_input, &inputs, error));
    size_t n_inputs = inputs.n;
    oq_names_reset(&inputs);
    OQ_TRY(oq_names_list(reader->path, oq_test_data_is_set, &reader->names, error));
    oq_names_sort_by_length(&reader->names);
    if (n_inputs == 0) {
        return ONNXPTQ_OK;
    }
    oq_names_reset(&reader->names);
    reader->names.items = calloc(1, sizeof *reader->names.items);
    if (reader->names.items == NULL || (reader->names.items[0] = strdup(".")) == NULL) {
        return oq_fail_memory(error, "the names of a data folder");
    }
    reader->names.n = 1;
    return ONNXPTQ_OK;
}

static enum onnxptq_status refuse_arrays(const struct folder_reader *reader,
                                         struct onnxptq_error *error) {
    char names[OQ_DESCRIPTION_SIZE];
    return oq_fail(error, ONNXPTQ_ERROR_DATA,
                   "cannot use '%s': a model without inputs needs no %s files; its inputs are %s",
                   reader->path, kinds[reader->kind].what,
                   oq_describe_inputs(names, reader->declared, reader->n_inputs));
}

static enum onnxptq_status open_runs(struct folder_reader *reader, const struct oq_data_spec *spec,
                                     struct onnxptq_error *error) {
    if (spec->options->batch > 1) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot run %zu samples of '%s' at once: each file of a folder is a run; leave "
            "the batch size out",
            spec->options->batch, reader->path);
    }
    if (reader->n_inputs == 0 && (reader->kind == FOLDER_NPY || reader->kind == FOLDER_RAW)) {
        return refuse_arrays(reader, error);
    }
    if (reader->kind == FOLDER_SETS) {
        OQ_TRY(list_sets(reader, error));
    } else {
        OQ_TRY(oq_names_list(reader->path, kinds[reader->kind].wanted, &reader->names, error));
    }
    reader->base.n_samples = reader->names.n;
    reader->base.names = &reader->names;
    for (size_t i = 0; i < reader->base.n_samples; i++) {
        struct oq_archive *archive = NULL;
        OQ_TRY(open_sample(reader, i, &archive, error));
        oq_archive_close(archive);
    }
    return ONNXPTQ_OK;
}

/* ---- A file for each input ---- */

static size_t find_by_stem(const struct folder_reader *reader, const char *name) {
    size_t stem = (size_t)(strrchr(name, '.') - name), i = 0;
    while (i < reader->n_inputs && (strlen(reader->declared[i].name) != stem ||
                                    strncmp(reader->declared[i].name, name, stem) != 0)) {
        i++;
    }
    return i;
}

/* Of a model with one input, files are runs unless the only one is named like the input. */
static enum onnxptq_status is_by_input(const struct folder_reader *reader, bool *out,
                                       struct onnxptq_error *error) {
    struct oq_names names;
    *out = false;
    if (reader->kind != FOLDER_NPY && reader->kind != FOLDER_RAW) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_names_list(reader->path, kinds[reader->kind].wanted, &names, error));
    *out = reader->n_inputs > 1 ||
           (reader->n_inputs == 1 && names.n == 1 && find_by_stem(reader, names.items[0]) == 0);
    oq_names_reset(&names);
    return ONNXPTQ_OK;
}

/* `npy` is what a raw file holds. A file for no input is found when arrays are matched with inputs;
 * a raw one has no shape before that. */
static enum onnxptq_status make_part(const struct folder_reader *reader, char *name,
                                     struct oq_archive_part *part, struct oq_npy *npy,
                                     struct onnxptq_error *error) {
    char names[OQ_DESCRIPTION_SIZE];
    size_t input = find_by_stem(reader, name);
    char *path = oq_path_join(reader->path, name);
    part->path = path;
    part->kind = OQ_ARRAY_FILE_NPY;
    if (path == NULL) {
        return oq_fail_memory(error, "a path");
    }
    if (input >= reader->n_inputs) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot use '%s': its name is that of no input of the model; its inputs are "
                       "%s; name each file like its input, or save each run as one .npz",
                       path, oq_describe_inputs(names, reader->declared, reader->n_inputs));
    }
    part->name = reader->declared[input].name;
    if (reader->kind == FOLDER_RAW) {
        part->kind = OQ_ARRAY_FILE_RAW;
        part->raw = npy;
        return oq_raw_describe_all(&reader->shapes[input], path, npy, error);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status open_parts(const struct folder_reader *reader,
                                      const struct oq_names *names, struct oq_archive **out,
                                      struct onnxptq_error *error) {
    struct oq_archive_part *parts = calloc(names->n + 1, sizeof *parts);
    struct oq_npy *raws = calloc(names->n + 1, sizeof *raws);
    enum onnxptq_status status =
        parts != NULL && raws != NULL ? ONNXPTQ_OK : oq_fail_memory(error, "calibration data");
    for (size_t i = 0; i < names->n && status == ONNXPTQ_OK; i++) {
        status = make_part(reader, names->items[i], &parts[i], &raws[i], error);
    }
    if (status == ONNXPTQ_OK) {
        status = oq_archive_open_parts(reader->path, parts, names->n, out, error);
    }
    for (size_t i = 0; i < names->n && parts != NULL; i++) {
        free((char *)(uintptr_t)parts[i].path);
    }
    free(parts);
    free(raws);
    return status;
}

static enum onnxptq_status open_by_input(const struct folder_reader *reader,
                                         const struct oq_data_spec *spec, struct oq_reader **out,
                                         struct onnxptq_error *error) {
    struct oq_names names;
    struct oq_archive *archive = NULL;
    OQ_TRY(oq_names_list(reader->path, kinds[reader->kind].wanted, &names, error));
    enum onnxptq_status status = open_parts(reader, &names, &archive, error);
    oq_names_reset(&names);
    return status == ONNXPTQ_OK ? oq_reader_open_archive(spec, archive, out, error) : status;
}

/* ---- Opening ---- */

/* On success `*out` is `reader` itself, or the reader of an archive. */
static enum onnxptq_status open_folder(struct folder_reader *reader,
                                       const struct oq_data_spec *spec, struct oq_reader **out,
                                       struct onnxptq_error *error) {
    size_t n = spec->n_inputs > 0 ? spec->n_inputs : 1;
    bool by_input = false;
    reader->path = strdup(spec->options->data_path);
    reader->indices = calloc(n, sizeof *reader->indices);
    reader->buffers = calloc(n, sizeof *reader->buffers);
    if (reader->path == NULL || reader->indices == NULL || reader->buffers == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    OQ_TRY(choose_kind(reader, error));
    if (reader->kind == FOLDER_RAW) {
        OQ_TRY(oq_raw_shapes(spec, &reader->shapes, error));
    }
    OQ_TRY(is_by_input(reader, &by_input, error));
    if (by_input) {
        return open_by_input(reader, spec, out, error);
    }
    OQ_TRY(open_runs(reader, spec, error));
    *out = &reader->base;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_reader_open_folder(const struct oq_data_spec *spec, struct oq_reader **out,
                                          struct onnxptq_error *error) {
    struct oq_reader *opened = NULL;
    struct folder_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    reader->base = (struct oq_reader){.batch = 1, .read = read_folder, .close = close_folder};
    reader->declared = spec->inputs;
    reader->n_inputs = spec->n_inputs;
    enum onnxptq_status status = open_folder(reader, spec, &opened, error);
    bool raw = reader->kind == FOLDER_RAW;
    if (opened != &reader->base) {
        close_folder(&reader->base);
    }
    if (status != ONNXPTQ_OK) {
        return status;
    }
    opened->shapes_used = raw;
    *out = opened;
    return ONNXPTQ_OK;
}
