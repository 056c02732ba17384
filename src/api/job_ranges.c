/*
 * Ranges files of a job: using one instead of samples, saving what was seen.
 */
#include "api/job.h"
#include "api/json.h"
#include "api/ranges.h"
#include "model/fingerprint.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names ---------------------------------------------------------------------------------- */

/* A value's name in the file: its own, or where bodies have values of the same name, with the
 * number of the scope. In the report's arena; NULL: out of memory. */
static const char *make_key(struct onnxptq_job *job, struct oq_map *seen, uint32_t value) {
    const struct oq_value *v = oq_graph_value(job->graph, value);
    char *clean = oq_json_clean(v->name);
    const char *key = NULL;
    if (clean != NULL) {
        key = oq_map_get_name(seen, clean, NULL)
                  ? oq_arena_printf(job->report.arena, "%s (scope %u)", clean, v->scope)
                  : oq_arena_strdup(job->report.arena, clean);
    }
    free(clean);
    return key != NULL && oq_map_put_name(seen, key, value) ? key : NULL;
}

enum onnxptq_status oq_job_name_values(struct onnxptq_job *job, const char *const **keys,
                                       struct onnxptq_error *error) {
    if (job->value_names != NULL) {
        *keys = job->value_names;
        return ONNXPTQ_OK;
    }
    uint32_t n = oq_graph_n_values(job->graph);
    const char **names = oq_arena_array(job->report.arena, n, sizeof *names);
    struct oq_map *seen = oq_map_create();
    bool good = names != NULL && seen != NULL;
    for (uint32_t i = 0; good && i < n; i++) {
        names[i] = make_key(job, seen, i);
        good = names[i] != NULL;
    }
    oq_map_destroy(seen);
    if (!good) {
        return oq_fail_memory(error, "the names of tensors");
    }
    job->value_names = names;
    *keys = names;
    return ONNXPTQ_OK;
}

/* ---- Using a file --------------------------------------------------------------------------- */

/* Reads the whole model, so once. */
const char *oq_job_fingerprint(struct onnxptq_job *job) {
    if (job->fingerprint[0] == '\0') {
        (void)snprintf(job->fingerprint, sizeof job->fingerprint, "%016" PRIx64,
                       oq_model_fingerprint(job->original));
    }
    return job->fingerprint;
}

static enum onnxptq_status check_model(struct onnxptq_job *job, struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    const char *own = oq_job_fingerprint(job);
    if (job->saved->fingerprint[0] == '\0' || strcmp(own, job->saved->fingerprint) == 0) {
        return ONNXPTQ_OK;
    }
    return oq_fail(
        error, ONNXPTQ_ERROR_DATA,
        "cannot use ranges '%s': they are of another model ('%s') than '%s', or that has "
        "changed since; calibrate it",
        options->ranges_path, oq_text(job->saved->model), options->model_path);
}

enum onnxptq_status oq_job_load_ranges(struct onnxptq_job *job, struct onnxptq_error *error) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    if (options->ranges_path == NULL) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_ranges_read(options->ranges_path, &job->saved, error));
    if (job->saved->trace.n == 0 && !oq_options_have_data(options)) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot use '%s' without samples: it tells ranges but no shapes; pass --data "
            "or --random-data too",
            options->ranges_path);
    }
    return check_model(job, error);
}

/* Moves what the list has of each of the `n` values; what it has not is left as it is. */
static enum onnxptq_status take_statistics(struct onnxptq_job *job,
                                           const struct oq_ranges_list *list,
                                           struct oq_statistics **out,
                                           struct onnxptq_error *error) {
    const char *const *keys = NULL;
    uint32_t n = oq_graph_n_values(job->graph);
    OQ_TRY(oq_job_name_values(job, &keys, error));
    struct oq_statistics *all = oq_job_scatter(job->graph, NULL, 0, NULL);
    if (all == NULL) {
        return oq_fail_memory(error, "the ranges");
    }
    for (uint32_t i = 0; i < n; i++) {
        struct oq_ranges_tensor *tensor = oq_ranges_find(list, keys[i]);
        if (tensor != NULL) {
            all[i] = tensor->statistics;
            oq_statistics_init(&tensor->statistics);
        }
    }
    *out = all;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_job_take_trace(struct onnxptq_job *job, struct onnxptq_error *error) {
    return take_statistics(job, &job->saved->trace, &job->trace, error);
}

/* Pairs whose range the file gives need no statistics; one that neither knows ends the job. */
static enum onnxptq_status fix_ranges(struct onnxptq_job *job, const char *const *keys,
                                      struct onnxptq_error *error) {
    size_t n_missing = 0;
    const char *first = NULL;
    for (size_t i = 0; i < job->plan->n_pairs; i++) {
        struct oq_plan_pair *pair = &job->plan->pairs[i];
        struct oq_ranges_tensor *tensor = oq_ranges_find(&job->saved->tensors, keys[pair->value]);
        if (pair->has_fixed_range || job->plan->is_constant[pair->value]) {
            continue;
        }
        if (tensor != NULL && tensor->fixed) {
            pair->has_fixed_range = true;
            pair->fixed_min = tensor->fixed_min;
            pair->fixed_max = tensor->fixed_max;
        } else if (tensor == NULL) {
            first = n_missing++ == 0 ? keys[pair->value] : first;
        }
    }
    if (n_missing == 0) {
        return ONNXPTQ_OK;
    }
    return oq_fail(
        error, ONNXPTQ_ERROR_DATA,
        "cannot use ranges '%s': %zu tensors that target %s quantizes are not in it, '%s' "
        "for one; calibrate with the same target and selection",
        job->options.quantize.ranges_path, n_missing, job->target->name, first);
}

enum onnxptq_status oq_job_take_ranges(struct onnxptq_job *job, struct onnxptq_error *error) {
    const char *const *keys = NULL;
    OQ_TRY(oq_job_name_values(job, &keys, error));
    OQ_TRY(fix_ranges(job, keys, error));
    OQ_TRY(take_statistics(job, &job->saved->tensors, &job->ranges, error));
    job->report.public.n_calibration_samples = (size_t)job->saved->n_samples;
    return oq_job_take_shapes(job, error);
}

/* ---- Saving --------------------------------------------------------------------------------- */

static bool add_view(struct oq_ranges *view, struct oq_ranges_list *list, const char *key,
                     const struct oq_statistics *seen) {
    struct oq_ranges_tensor *tensor = oq_ranges_add(view, list, key);
    if (tensor == NULL) {
        return false;
    }
    tensor->statistics = *seen;
    return true;
}

/* What a loaded file fixed stays fixed. */
static bool keep_fixed(const struct onnxptq_job *job, struct oq_ranges *view, const char *key) {
    const struct oq_ranges_tensor *given =
        job->saved != NULL ? oq_ranges_find(&job->saved->tensors, key) : NULL;
    struct oq_ranges_tensor *tensor = oq_ranges_find(&view->tensors, key);
    if (given != NULL && given->fixed && tensor != NULL) {
        tensor->fixed = true;
        tensor->fixed_min = given->fixed_min;
        tensor->fixed_max = given->fixed_max;
    }
    return true;
}

static enum onnxptq_status fill_view(struct onnxptq_job *job, const uint32_t *values, size_t n,
                                     const struct oq_statistics *seen, struct oq_ranges *view,
                                     struct onnxptq_error *error) {
    const char *const *keys = NULL;
    OQ_TRY(oq_job_name_values(job, &keys, error));
    bool good = true;
    for (uint32_t i = 0; good && i < oq_graph_n_values(job->graph); i++) {
        good = job->trace[i].seen == 0 || add_view(view, &view->trace, keys[i], &job->trace[i]);
    }
    for (size_t i = 0; good && i < n; i++) {
        const char *key = keys[values[i]];
        good = add_view(view, &view->tensors, key, &seen[i]) && keep_fixed(job, view, key);
    }
    view->model = oq_path_base(job->options.quantize.model_path);
    view->target = job->target->name;
    view->n_samples = job->report.public.n_calibration_samples;
    memcpy(view->fingerprint, oq_job_fingerprint(job), sizeof view->fingerprint);
    return good ? ONNXPTQ_OK : oq_fail_memory(error, "the ranges");
}

enum onnxptq_status oq_job_view_ranges(struct onnxptq_job *job, const uint32_t *values, size_t n,
                                       const struct oq_statistics *seen, struct oq_ranges **out,
                                       struct onnxptq_error *error) {
    struct oq_ranges *view = NULL;
    OQ_TRY(oq_ranges_create(&view, error));
    view->is_view = true;
    enum onnxptq_status status = fill_view(job, values, n, seen, view, error);
    if (status != ONNXPTQ_OK) {
        oq_ranges_destroy(view);
        return status;
    }
    *out = view;
    return ONNXPTQ_OK;
}

static enum onnxptq_status write_ranges(struct onnxptq_job *job, struct oq_writer *writer,
                                        struct onnxptq_error *error) {
    uint32_t *watched = NULL;
    size_t n = 0;
    struct oq_statistics *seen = NULL; /* borrowed ones */
    struct oq_ranges *view = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY(oq_plan_watched(job->plan, &watched, &n, error));
    seen = calloc(n + 1, sizeof *seen);
    if (seen == NULL) {
        status = oq_fail_memory(error, "the ranges");
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        seen[i] = job->ranges[watched[i]];
    }
    OQ_TRY_DONE(oq_job_view_ranges(job, watched, n, seen, &view, error));
    OQ_TRY_DONE(oq_ranges_write(view, writer, error));
done:
    oq_ranges_destroy(view);
    free(seen);
    free(watched);
    return status;
}

/* ---- Saving for TensorRT -------------------------------------------------------------------- */

/* The range that the method chooses for symmetric int8, which is all that TensorRT knows. */
static enum onnxptq_status choose_extent(const struct onnxptq_job *job,
                                         const struct oq_plan_pair *pair, double *extent,
                                         struct onnxptq_error *error) {
    static const struct oq_range_codes codes = {INT8_MIN, INT8_MAX, true};
    const struct oq_range_method method = oq_job_method_in_use(job);
    struct oq_range range = {pair->fixed_min, pair->fixed_max, 0};
    if (!pair->has_fixed_range) {
        OQ_TRY(oq_range_choose(&method, &codes, &job->ranges[pair->value], &range, error));
    }
    *extent = range.min <= range.max ? fmax(fabs(range.min), fabs(range.max)) : -1.0;
    return ONNXPTQ_OK;
}

static enum onnxptq_status write_cache(struct onnxptq_job *job, struct oq_writer *writer,
                                       struct onnxptq_error *error) {
    const struct oq_plan *plan = job->plan;
    oq_ranges_write_cache_head(writer);
    for (size_t i = 0; i < plan->n_pairs; i++) {
        const struct oq_plan_pair *pair = &plan->pairs[i];
        double extent = -1.0;
        if (plan->is_constant[pair->value] || oq_plan_find_pair(plan, pair->value) != i) {
            continue; /* TensorRT reads constants itself */
        }
        OQ_TRY(choose_extent(job, pair, &extent, error));
        if (extent >= 0.0) {
            oq_ranges_write_cache_line(writer, oq_graph_value(job->graph, pair->value)->name,
                                       extent);
        }
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_job_write_ranges(struct onnxptq_job *job, struct onnxptq_error *error) {
    const char *path = job->options.quantize.save_ranges_path;
    struct oq_writer *writer = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY(oq_writer_create(path, &writer, error));
    OQ_TRY_DONE(oq_ranges_is_cache_path(path) ? write_cache(job, writer, error)
                                              : write_ranges(job, writer, error));
    OQ_TRY_DONE(oq_writer_finish(writer, error));
    OQ_TRY_DONE(oq_writer_commit(writer, error));
done:
    oq_writer_destroy(writer);
    return status;
}
