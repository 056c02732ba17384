/*
 * Running a job's stages in order, and the entry points that do.
 */
#include "api/blame.h"
#include "api/job_state.h"

#include <stdlib.h>

/* The public functions, in the order in which they must run. */
enum step { STEP_CREATE, STEP_PLAN, STEP_CALIBRATE, STEP_EMIT, STEP_CHECK, STEP_COMMIT };

struct stage {
    enum step step;
    const char *name; /* in the report; NULL: not reported */
    enum onnxptq_status (*run)(struct onnxptq_job *job, struct onnxptq_error *error);
    bool (*applies)(const struct onnxptq_job *job); /* NULL: always */
};

static const struct stage stages[] = {
    {STEP_CREATE, "read", oq_job_read, NULL},
    {STEP_PLAN, "prepare", oq_job_prepare, NULL},
    {STEP_PLAN, "trace", oq_job_trace, NULL},
    {STEP_PLAN, "plan", oq_job_plan, NULL},
    {STEP_CALIBRATE, "calibrate", oq_job_calibrate, NULL},
    {STEP_EMIT, "choose", oq_job_choose, oq_job_must_choose},
    {STEP_EMIT, "repair", oq_job_repair, oq_job_may_repair},
    {STEP_EMIT, "precision", oq_job_precision, oq_job_lowers_precision},
    {STEP_EMIT, "emit", oq_job_emit, NULL},
    {STEP_CHECK, "check", oq_job_check, NULL},
    {STEP_COMMIT, NULL, oq_job_commit, NULL},
};
#define N_STAGES (sizeof stages / sizeof *stages)

static enum onnxptq_status run_stage(struct onnxptq_job *job, const struct stage *stage,
                                     struct onnxptq_error *error) {
    if (stage->applies != NULL && !stage->applies(job)) {
        return ONNXPTQ_OK;
    }
    double start = oq_clock_seconds(), processor_start = oq_processor_seconds();
    OQ_TRY(stage->run(job, error));
    if (stage->name != NULL) {
        double seconds = oq_clock_seconds() - start;
        oq_report_add_stage(&job->report, stage->name, seconds,
                            oq_processor_seconds() - processor_start);
        oq_log_message(&job->log, ONNXPTQ_LOG_INFO, "stage %s: %.3f s", stage->name, seconds);
    }
    return ONNXPTQ_OK;
}

/* Runs what is left of the stages up to and including those of `step`. */
static enum onnxptq_status advance(struct onnxptq_job *job, enum step step,
                                   struct onnxptq_error *error) {
    if (job == NULL || job->failed) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot continue the job: there is none, or an earlier step failed");
    }
    if (step >= STEP_EMIT && job->options.quantize.output_path == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot quantize model '%s': no output given",
                       job->options.quantize.model_path);
    }
    if (step >= STEP_EMIT && job->options.quantize.n_parts > 1) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot quantize model '%s': this job is a part, whose state another one "
                       "resumes from",
                       job->options.quantize.model_path);
    }
    while (job->next_stage < N_STAGES && stages[job->next_stage].step <= step) {
        enum onnxptq_status status = run_stage(job, &stages[job->next_stage], error);
        if (status != ONNXPTQ_OK) {
            job->failed = true;
            if (status != ONNXPTQ_ERROR_CANCELLED && !job->options.quantize.resume) {
                oq_job_state_remove(job);
            }
            return oq_blame_library(job->graph, job->runtime, status, error);
        }
        job->next_stage++;
    }
    return ONNXPTQ_OK;
}

/* ---- Create and destroy -------------------------------------------------------------------- */

static void keep_warning(void *user, enum onnxptq_log_level level, const char *message) {
    struct onnxptq_job *job = user;
    if (level == ONNXPTQ_LOG_WARNING) {
        oq_report_add_note(&job->report, "%s", message);
    }
    if (job->options.quantize.log != NULL) {
        job->options.quantize.log(job->options.quantize.log_user, level, message);
    }
}

static void set_up_log(struct onnxptq_job *job) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    job->runtime_log = (struct oq_log){.log = options->log,
                                       .log_user = options->log_user,
                                       .progress = options->progress,
                                       .progress_user = options->progress_user};
    job->log = job->runtime_log;
    job->log.log = keep_warning;
    job->log.log_user = job;
}

static void set_up_report(struct onnxptq_job *job) {
    const struct onnxptq_quantize_options *options = &job->options.quantize;
    struct onnxptq_report *report = &job->report.public;
    report->model_path = options->model_path;
    report->output_path = oq_options_result_path(options);
    report->target = options->target;
    report->method = oq_method_name(options->method);
    report->requested_method = report->method;
    oq_job_use_method(job, (struct oq_range_method){options->method, options->percentile});
}

static enum onnxptq_status set_up(struct onnxptq_job *job,
                                  const struct onnxptq_quantize_options *options,
                                  struct onnxptq_error *error) {
    OQ_TRY(oq_report_init(&job->report, error));
    OQ_TRY(oq_options_copy(options, &job->options, error));
    OQ_TRY(oq_options_check(&job->options, error));
    OQ_TRY(oq_options_check_files(&job->options, error));
    set_up_log(job);
    set_up_report(job);
    job->target = oq_target_find(job->options.quantize.target);
    job->sampler = oq_memory_sampler_start();
    return advance(job, STEP_CREATE, error);
}

enum onnxptq_status onnxptq_job_create(const struct onnxptq_quantize_options *options,
                                       struct onnxptq_job **out, struct onnxptq_error *error) {
    struct onnxptq_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return oq_fail_memory(error, "the job");
    }
    enum onnxptq_status status = set_up(job, options, error);
    if (status != ONNXPTQ_OK) {
        onnxptq_job_destroy(job);
        return status;
    }
    *out = job;
    return ONNXPTQ_OK;
}

void onnxptq_job_destroy(struct onnxptq_job *job) {
    if (job == NULL) {
        return;
    }
    oq_output_destroy(job->output);
    oq_emit_result_reset(&job->emitted);
    oq_model_destroy(job->measured);
    oq_precision_plan_destroy(job->precision);
    oq_selection_destroy(job->float_selection);
    free(job->seen);
    free(job->held);
    oq_plan_destroy(job->plan);
    oq_traced_shapes_destroy(job->shapes);
    size_t n_values = job->graph != NULL ? oq_graph_n_values(job->graph) : 0;
    oq_statistics_free(job->ranges, n_values);
    oq_statistics_free(job->trace, n_values);
    oq_ranges_destroy(job->saved);
    oq_data_close(job->source);
    oq_weight_file_destroy(job->weights);
    oq_selection_destroy(job->prepared_selection);
    oq_selection_destroy(job->selection);
    oq_graph_destroy(job->graph);
    oq_model_destroy(job->prepared);
    oq_model_destroy(job->original);
    oq_runtime_close(job->runtime);
    if (job->sampler != NULL) {
        oq_memory_sampler_stop(job->sampler);
    }
    oq_report_reset(&job->report);
    free(job);
}

/* ---- Steps --------------------------------------------------------------------------------- */

enum onnxptq_status onnxptq_job_plan(struct onnxptq_job *job, struct onnxptq_error *error) {
    return advance(job, STEP_PLAN, error);
}

enum onnxptq_status onnxptq_job_calibrate(struct onnxptq_job *job, struct onnxptq_error *error) {
    return advance(job, STEP_CALIBRATE, error);
}

enum onnxptq_status onnxptq_job_save_ranges(struct onnxptq_job *job, struct onnxptq_error *error) {
    OQ_TRY(advance(job, STEP_CALIBRATE, error));
    if (job->options.quantize.save_ranges_path == NULL || job->options.quantize.n_parts > 1) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot save the ranges of model '%s': no file given, or the job is a "
                       "part",
                       job->options.quantize.model_path);
    }
    OQ_TRY(oq_job_write_ranges(job, error));
    if (job->options.quantize.output_path == NULL) {
        oq_job_state_remove(job);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status onnxptq_job_emit(struct onnxptq_job *job, struct onnxptq_error *error) {
    return advance(job, STEP_EMIT, error);
}

enum onnxptq_status onnxptq_job_check(struct onnxptq_job *job, struct onnxptq_error *error) {
    return advance(job, STEP_CHECK, error);
}

enum onnxptq_status onnxptq_job_commit(struct onnxptq_job *job, struct onnxptq_error *error) {
    return advance(job, STEP_COMMIT, error);
}

const struct onnxptq_report *onnxptq_job_report(struct onnxptq_job *job) {
    struct onnxptq_report *report = &job->report.public;
    if (job->sampler != NULL) {
        report->peak_anonymous_bytes = oq_memory_sampler_peak(job->sampler);
    }
    report->peak_resident_bytes = oq_memory_peak_resident();
    return report;
}

enum onnxptq_status onnxptq_job_report_json(struct onnxptq_job *job, char **text,
                                            struct onnxptq_error *error) {
    return oq_report_write_json(onnxptq_job_report(job), text, error);
}

/* ---- All in one ---------------------------------------------------------------------------- */

enum onnxptq_status onnxptq_quantize(const struct onnxptq_quantize_options *options, char **report,
                                     struct onnxptq_error *error) {
    struct onnxptq_job *job = NULL;
    char *text = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(onnxptq_job_create(options, &job, error));
    OQ_TRY_DONE(onnxptq_job_check(job, error));
    /* Before the output is in place: a failure must leave nothing behind. */
    if (report != NULL) {
        OQ_TRY_DONE(onnxptq_job_report_json(job, &text, error));
    }
    OQ_TRY_DONE(onnxptq_job_commit(job, error));
    if (report != NULL) {
        *report = text;
        text = NULL;
    }
done:
    onnxptq_job_destroy(job);
    free(text);
    return status;
}

enum onnxptq_status onnxptq_calibrate(const struct onnxptq_quantize_options *options, char **report,
                                      struct onnxptq_error *error) {
    struct onnxptq_job *job = NULL;
    char *text = NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    OQ_TRY_DONE(onnxptq_job_create(options, &job, error));
    OQ_TRY_DONE(onnxptq_job_calibrate(job, error));
    if (report != NULL) {
        OQ_TRY_DONE(onnxptq_job_report_json(job, &text, error));
    }
    OQ_TRY_DONE(onnxptq_job_save_ranges(job, error));
    if (report != NULL) {
        *report = text;
        text = NULL;
    }
done:
    onnxptq_job_destroy(job);
    free(text);
    return status;
}
