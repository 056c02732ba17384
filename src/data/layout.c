/*
 * Matching arrays to inputs: by name, by type and shape, then by what counts the samples.
 */
#include "data/layout.h"

#include "data/elements.h"

#include <string.h>

/* What all checks of one file look at. */
struct fit {
    const struct onnxptq_tensor *inputs;
    size_t n_inputs;
    const struct oq_archive *archive;
    const size_t *indices;
    struct onnxptq_error *error;
};

static const struct oq_npy *npy_of(const struct fit *fit, size_t input) {
    return &oq_archive_array(fit->archive, fit->indices[input])->npy;
}

static const char *path_of(const struct fit *fit, size_t input) {
    return oq_archive_array(fit->archive, fit->indices[input])->path;
}

/* A model may leave the rank of an input open; such inputs come without a type too. */
static bool is_open(const struct onnxptq_tensor *input) {
    return input->type == ONNXPTQ_TYPE_UNDEFINED;
}

/* ---- Names ---- */

static size_t find_array(const struct oq_archive *archive, const char *name) {
    size_t n = oq_archive_n_arrays(archive), i = 0;
    while (i < n && strcmp(oq_archive_array(archive, i)->name, name) != 0) {
        i++;
    }
    return i;
}

#define MAX_LISTED 8

static const char *list_arrays(char text[OQ_DESCRIPTION_SIZE], const struct oq_archive *archive) {
    struct onnxptq_tensor names[MAX_LISTED] = {{0}};
    size_t n = oq_archive_n_arrays(archive), listed = n < MAX_LISTED ? n : MAX_LISTED;
    if (n == 0) {
        return "no array";
    }
    for (size_t i = 0; i < listed; i++) {
        names[i].name = oq_archive_array(archive, i)->name;
    }
    return oq_describe_inputs(text, names, listed);
}

static enum onnxptq_status fail_missing(const struct fit *fit, size_t input) {
    char expected[OQ_DESCRIPTION_SIZE], found[OQ_DESCRIPTION_SIZE];
    const struct onnxptq_tensor *t = &fit->inputs[input];
    return oq_fail(
        fit->error, ONNXPTQ_ERROR_DATA,
        "cannot use '%s': it has no array for input '%s', which is %s; it holds %s%s; save each "
        "array under its input's name",
        oq_archive_path(fit->archive), t->name,
        oq_describe_tensor(expected, (int)t->type, t->shape, t->rank),
        list_arrays(found, fit->archive),
        oq_archive_n_arrays(fit->archive) > MAX_LISTED ? " and more" : "");
}

static enum onnxptq_status check_no_extra(const struct fit *fit) {
    char names[OQ_DESCRIPTION_SIZE];
    for (size_t a = 0; a < oq_archive_n_arrays(fit->archive); a++) {
        const char *name = oq_archive_array(fit->archive, a)->name;
        size_t i = 0;
        while (i < fit->n_inputs && strcmp(fit->inputs[i].name, name) != 0) {
            i++;
        }
        if (i == fit->n_inputs) {
            return oq_fail(
                fit->error, ONNXPTQ_ERROR_DATA,
                "cannot use '%s': array '%s' is no input of the model; its inputs are %s",
                oq_archive_path(fit->archive), name,
                oq_describe_inputs(names, fit->inputs, fit->n_inputs));
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_layout_match(const struct onnxptq_tensor *inputs, size_t n_inputs,
                                    const struct oq_archive *archive, size_t *indices,
                                    struct onnxptq_error *error) {
    struct fit fit = {inputs, n_inputs, archive, indices, error};
    char names[OQ_DESCRIPTION_SIZE];
    if (oq_archive_is_single(archive)) {
        if (n_inputs != 1) {
            return oq_fail(
                error, ONNXPTQ_ERROR_DATA,
                "cannot use '%s': a file of one array feeds one input, the model has %zu (%s); "
                "save a .npz with an array for each",
                oq_archive_path(archive), n_inputs, oq_describe_inputs(names, inputs, n_inputs));
        }
        indices[0] = 0;
        return ONNXPTQ_OK;
    }
    for (size_t i = 0; i < n_inputs; i++) {
        indices[i] = find_array(archive, inputs[i].name);
        if (indices[i] == oq_archive_n_arrays(archive)) {
            return fail_missing(&fit, i);
        }
    }
    return check_no_extra(&fit);
}

/* ---- One input ---- */

static enum onnxptq_status fail_fit(const struct fit *fit, size_t input, const char *how) {
    char expected[OQ_DESCRIPTION_SIZE], found[OQ_DESCRIPTION_SIZE];
    const struct onnxptq_tensor *t = &fit->inputs[input];
    const struct oq_npy *npy = npy_of(fit, input);
    return oq_fail(fit->error, ONNXPTQ_ERROR_DATA,
                   "cannot use '%s' for input '%s': expected %s%s, found %s", path_of(fit, input),
                   t->name, oq_describe_tensor(expected, (int)t->type, t->shape, t->rank), how,
                   oq_describe_tensor(found, (int)npy->type, npy->shape, npy->rank));
}

static enum onnxptq_status check_type(const struct fit *fit, size_t input) {
    const struct onnxptq_tensor *t = &fit->inputs[input];
    if (is_open(t) || oq_elements_convertible((int)npy_of(fit, input)->type, (int)t->type)) {
        return ONNXPTQ_OK;
    }
    return fail_fit(fit, input, " (only float types, and int32 and int64, are converted)");
}

/* Dimensions [first, rank) of the input against those of the array, `shift` further on. */
static bool dimensions_fit(const struct fit *fit, size_t input, size_t first, size_t shift) {
    const struct onnxptq_tensor *t = &fit->inputs[input];
    const struct oq_npy *npy = npy_of(fit, input);
    for (size_t i = first; i < t->rank; i++) {
        if (!oq_dimension_fits(t->shape[i], npy->shape[i + shift])) {
            return false;
        }
    }
    return true;
}

enum onnxptq_status oq_layout_check_run(const struct onnxptq_tensor *inputs, size_t n_inputs,
                                        const struct oq_archive *archive, const size_t *indices,
                                        struct onnxptq_error *error) {
    struct fit fit = {inputs, n_inputs, archive, indices, error};
    for (size_t i = 0; i < n_inputs; i++) {
        OQ_TRY(check_type(&fit, i));
        if (is_open(&inputs[i])) {
            continue;
        }
        if (npy_of(&fit, i)->rank != inputs[i].rank || !dimensions_fit(&fit, i, 0, 0)) {
            return fail_fit(&fit, i, " (each file of a folder is one run's inputs)");
        }
    }
    return ONNXPTQ_OK;
}

/* ---- Counting samples ---- */

static bool is_entries(const struct fit *fit, size_t input) {
    return !is_open(&fit->inputs[input]) && npy_of(fit, input)->rank == fit->inputs[input].rank + 1;
}

static enum onnxptq_status check_ranks(const struct fit *fit) {
    for (size_t i = 0; i < fit->n_inputs; i++) {
        OQ_TRY(check_type(fit, i));
        if (is_open(&fit->inputs[i]) || is_entries(fit, i)) {
            continue;
        }
        if (npy_of(fit, i)->rank != fit->inputs[i].rank) {
            return fail_fit(
                fit, i,
                " with samples along the first dimension, or along one dimension more in front");
        }
    }
    return ONNXPTQ_OK;
}

/* How an array of the declared rank relates to the first dimension of its input. */
enum first_dimension {
    FIRST_NONE, /* a scalar */
    FIRST_FREE, /* the input takes any */
    FIRST_SAME, /* the input's is fixed and the array's is equal */
    FIRST_OTHER /* the input's is fixed and the array's is not: the array must count samples */
};

static enum first_dimension first_of(const struct fit *fit, size_t input) {
    const struct onnxptq_tensor *t = &fit->inputs[input];
    const struct oq_npy *npy = npy_of(fit, input);
    if (npy->rank == 0) {
        return FIRST_NONE;
    }
    if (is_open(t) || t->shape[0] < 0) {
        return FIRST_FREE;
    }
    return t->shape[0] == npy->shape[0] ? FIRST_SAME : FIRST_OTHER;
}

/* The first input of that kind (n_inputs: none). An empty array of a free input counts no samples.
 */
static size_t first_input(const struct fit *fit, enum first_dimension kind) {
    for (size_t i = 0; i < fit->n_inputs; i++) {
        if (first_of(fit, i) == kind && (kind != FIRST_FREE || npy_of(fit, i)->shape[0] > 0)) {
            return i;
        }
    }
    return fit->n_inputs;
}

/* The input whose array says how many samples there are: n_inputs when none does. Strongest
 * evidence first. */
static size_t counting_input(const struct fit *fit) {
    static const enum first_dimension order[] = {FIRST_OTHER, FIRST_FREE, FIRST_SAME};
    size_t counting = fit->n_inputs;
    for (size_t i = 0; i < fit->n_inputs; i++) {
        if (is_entries(fit, i)) {
            return i;
        }
    }
    for (size_t k = 0; k < 3 && counting == fit->n_inputs; k++) {
        counting = first_input(fit, order[k]);
    }
    for (size_t i = 0; i < fit->n_inputs && counting == fit->n_inputs; i++) {
        if (npy_of(fit, i)->rank > 0) {
            counting = i; /* empty: an error later on */
        }
    }
    return counting;
}

/* Rows a run when no array is made of entries. */
static size_t fixed_rows(const struct fit *fit, size_t counting, size_t n_samples) {
    size_t other = first_input(fit, FIRST_OTHER);
    if (other < fit->n_inputs) {
        return (size_t)fit->inputs[other].shape[0];
    }
    if (first_of(fit, counting) == FIRST_SAME) {
        return n_samples;
    }
    for (size_t i = 0; i < fit->n_inputs; i++) {
        if (n_samples > 1 && first_of(fit, i) == FIRST_SAME &&
            (size_t)fit->inputs[i].shape[0] == n_samples) {
            return n_samples;
        }
    }
    return 0;
}

/* ---- Deciding ---- */

/* What has been found so far, for deciding about each input. */
struct count {
    size_t counting; /* the input whose array counts the samples */
    size_t n_samples;
    bool entries; /* one entry a run */
    size_t rows;  /* a run; 0: any */
};

static enum onnxptq_status fail_samples(const struct fit *fit, size_t input,
                                        const struct count *count) {
    char found[OQ_DESCRIPTION_SIZE];
    const struct oq_npy *npy = npy_of(fit, input);
    return oq_fail(fit->error, ONNXPTQ_ERROR_DATA,
                   "cannot use '%s' for input '%s': expected %zu samples as '%s' has, found %s",
                   path_of(fit, input), fit->inputs[input].name, count->n_samples,
                   fit->inputs[count->counting].name,
                   oq_describe_tensor(found, (int)npy->type, npy->shape, npy->rank));
}

static enum onnxptq_status fail_rows(const struct fit *fit, size_t input,
                                     const struct count *count) {
    char expected[OQ_DESCRIPTION_SIZE], found[OQ_DESCRIPTION_SIZE];
    const struct oq_npy *npy = npy_of(fit, input);
    const struct onnxptq_tensor *t = &fit->inputs[input];
    return oq_fail(
        fit->error, ONNXPTQ_ERROR_DATA,
        "cannot use '%s' for input '%s': expected %s, found %s, and a run of the other inputs "
        "takes %zu rows; save each run's inputs as one .npz of a folder",
        path_of(fit, input), t->name, oq_describe_tensor(expected, (int)t->type, t->shape, t->rank),
        oq_describe_tensor(found, (int)npy->type, npy->shape, npy->rank), count->rows);
}

/* Rows when the first dimension counts the samples and the input takes as many rows as a run has.
 */
static enum onnxptq_status decide_declared_rank(const struct fit *fit, size_t input,
                                                const struct count *count, enum oq_array_use *use) {
    const struct oq_npy *npy = npy_of(fit, input);
    bool counts = npy->rank > 0 && (size_t)npy->shape[0] == count->n_samples;
    enum first_dimension first = first_of(fit, input);
    bool rows_fit = first == FIRST_FREE ||
                    (first != FIRST_NONE && (size_t)fit->inputs[input].shape[0] == count->rows);
    if (first == FIRST_OTHER && !counts) {
        return fail_samples(fit, input, count);
    }
    if (first == FIRST_OTHER && !rows_fit) {
        return fail_rows(fit, input, count);
    }
    *use = counts && rows_fit ? OQ_ARRAY_ROWS : OQ_ARRAY_WHOLE;
    bool rest_fits = is_open(&fit->inputs[input]) || dimensions_fit(fit, input, 1, 0);
    return rest_fits ? ONNXPTQ_OK : fail_fit(fit, input, " with samples along the first dimension");
}

static enum onnxptq_status decide(const struct fit *fit, size_t input, const struct count *count,
                                  enum oq_array_use *use) {
    if (!is_entries(fit, input)) {
        return decide_declared_rank(fit, input, count, use);
    }
    *use = OQ_ARRAY_ENTRIES;
    if ((size_t)npy_of(fit, input)->shape[0] != count->n_samples) {
        return fail_samples(fit, input, count);
    }
    return dimensions_fit(fit, input, 0, 1)
               ? ONNXPTQ_OK
               : fail_fit(fit, input, " behind one dimension that counts the samples");
}

static enum onnxptq_status count_samples(const struct fit *fit, struct count *out) {
    size_t counting = counting_input(fit);
    *out = (struct count){.counting = counting, .n_samples = 1, .rows = 1};
    if (counting == fit->n_inputs) {
        return ONNXPTQ_OK;
    }
    out->n_samples = (size_t)npy_of(fit, counting)->shape[0];
    out->entries = is_entries(fit, counting);
    if (!out->entries) {
        out->rows = fixed_rows(fit, counting, out->n_samples);
    }
    if (out->n_samples == 0) {
        return fail_fit(fit, counting, " with at least one sample");
    }
    if (out->n_samples < out->rows) {
        return oq_fail(
            fit->error, ONNXPTQ_ERROR_DATA,
            "cannot use '%s': input '%s' takes %zu rows a run, found %zu; give at least as "
            "many samples",
            path_of(fit, counting), fit->inputs[counting].name, out->rows, out->n_samples);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_layout_find(const struct onnxptq_tensor *inputs, size_t n_inputs,
                                   const struct oq_archive *archive, const size_t *indices,
                                   const struct oq_log *log, enum oq_array_use *uses,
                                   struct oq_layout *out, struct onnxptq_error *error) {
    struct fit fit = {inputs, n_inputs, archive, indices, error};
    struct count count;
    char shape[OQ_DESCRIPTION_SIZE];
    bool any_rows = false;
    OQ_TRY(check_ranks(&fit));
    OQ_TRY(count_samples(&fit, &count));
    for (size_t i = 0; i < n_inputs; i++) {
        OQ_TRY(decide(&fit, i, &count, &uses[i]));
        any_rows = any_rows || uses[i] == OQ_ARRAY_ROWS;
        if (uses[i] == OQ_ARRAY_WHOLE && first_of(&fit, i) == FIRST_FREE) {
            const struct oq_npy *npy = npy_of(&fit, i);
            oq_log_message(
                log, ONNXPTQ_LOG_WARNING,
                "'%s': input '%s' is given the whole array %s in every run, as its first "
                "dimension is not the number of samples, %zu",
                path_of(&fit, i), inputs[i].name, oq_describe_shape(shape, npy->shape, npy->rank),
                count.n_samples);
        }
    }
    *out = (struct oq_layout){.n_samples = count.n_samples,
                              .fixed_rows = count.entries ? 0 : count.rows,
                              .joinable = any_rows && !count.entries};
    return ONNXPTQ_OK;
}
