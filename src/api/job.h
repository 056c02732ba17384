/*
 * A job: everything between the options and the written model. Its stages are functions of this
 * header, one file each or a few; job.c runs them in order.
 */
#ifndef OQ_API_JOB_H
#define OQ_API_JOB_H

#include "api/options.h"
#include "api/output.h"
#include "api/ranges.h"
#include "api/report.h"
#include "calib/traced_shapes.h"
#include "data/source.h"
#include "precision/precision.h"
#include "quant/target.h"

struct onnxptq_job {
    struct oq_options options;
    struct oq_log log;         /* of our own modules: a warning becomes a note of the report too */
    struct oq_log runtime_log; /* of ONNX Runtime: passed on, else left alone */
    struct oq_report report;
    struct oq_memory_sampler *sampler;
    size_t next_stage;
    bool failed;
    bool original_on_cpu; /* is measured there, since the providers refuse it */
    bool results_on_cpu;  /* too, since they refuse these as well */
    bool owns_state;      /* the state file is of this job, not of an earlier one */

    struct oq_runtime *runtime;
    const struct oq_target *target;
    struct oq_model *original, *prepared;    /* prepared: NULL when the original is used as it is */
    struct oq_graph *graph;                  /* of the model that is quantized */
    struct oq_selection *selection;          /* of the original's nodes */
    struct oq_selection *prepared_selection; /* the same for the nodes of `graph` */
    struct oq_weight_file *weights;          /* serves the sessions of all models */
    struct oq_data_source *source;
    size_t first_prepare_note, n_prepare_notes; /* of the report: what preparing told */
    const char *const *value_names;             /* in ranges files; NULL: not made yet */
    char fingerprint[17];                       /* of the original; empty: not computed yet */
    struct oq_ranges *saved;                    /* of the options' ranges file, or NULL */
    struct oq_statistics *trace, *ranges;       /* one per value of the graph; malloc'ed */
    struct oq_traced_shapes *shapes;            /* for the copies of the model that sessions get */
    struct oq_plan *plan;
    struct oq_range_method method; /* in use: AUTO until one is chosen */
    struct oq_emit_result emitted; /* by the stage that chooses the method already, or by emit */

    struct oq_selection *float_selection; /* excludes what stays float32; of the original */
    struct oq_statistics *seen;           /* of all float values, without histograms; malloc'ed */
    bool *held;                           /* per node: stays float32, measured; malloc'ed */
    struct oq_precision_plan *precision;  /* of the model before Q/DQ */
    struct oq_model *measured; /* stands for the emitted model in the check; NULL: it does itself */
    struct oq_output *output;
};

/* True when weights are so large that packed copies of them must not be made. */
bool oq_job_is_large(const struct onnxptq_job *job);
/* One statistics per value of the graph: seen[i] for values[i], nothing seen for all others. Moves
 * them. malloc'ed; NULL when out of memory. */
struct oq_statistics *oq_job_scatter(const struct oq_graph *graph, const uint32_t *values, size_t n,
                                     struct oq_statistics *seen);

/* Takes what trace and ranges (once there) tell of shapes. */
enum onnxptq_status oq_job_take_shapes(struct onnxptq_job *job, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Reads the ranges file of the options, if there is one, and checks that it is of this model. */
enum onnxptq_status oq_job_load_ranges(struct onnxptq_job *job, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Its trace, and its ranges for what the plan quantizes, in place of running the model. */
enum onnxptq_status oq_job_take_trace(struct onnxptq_job *job, struct onnxptq_error *error)
    OQ_MUST_USE;
enum onnxptq_status oq_job_take_ranges(struct onnxptq_job *job, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Names of all values in ranges files, by value; in the report's arena. */
enum onnxptq_status oq_job_name_values(struct onnxptq_job *job, const char *const **keys,
                                       struct onnxptq_error *error) OQ_MUST_USE;
/* Tells the model from others, in hexadecimal. */
const char *oq_job_fingerprint(struct onnxptq_job *job);
/* What a ranges file says, of seen[i] for values[i]: a view of these. */
enum onnxptq_status oq_job_view_ranges(struct onnxptq_job *job, const uint32_t *values, size_t n,
                                       const struct oq_statistics *seen, struct oq_ranges **out,
                                       struct onnxptq_error *error) OQ_MUST_USE;
/* Writes the options' save_ranges_path. */
enum onnxptq_status oq_job_write_ranges(struct onnxptq_job *job, struct onnxptq_error *error)
    OQ_MUST_USE;

/* Loads runtime and libraries, reads the model, proves that every operator has a provider, reads
 * the user's selection. */
enum onnxptq_status oq_job_read(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_job_prepare(struct onnxptq_job *job, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Opens the data and runs one sample with observers on every value. */
enum onnxptq_status oq_job_trace(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_job_plan(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_job_calibrate(struct onnxptq_job *job, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Takes a method into use and says so in the report. */
void oq_job_use_method(struct onnxptq_job *job, struct oq_range_method method);
/* What AUTO falls back on while it has not chosen. */
struct oq_range_method oq_job_method_in_use(const struct onnxptq_job *job);
/* Settles the method, where that is left to measuring. */
bool oq_job_must_choose(const struct onnxptq_job *job);
enum onnxptq_status oq_job_choose(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;
/* The quantized model that a method gives. */
enum onnxptq_status oq_job_emit_with(struct onnxptq_job *job, struct oq_range_method method,
                                     struct oq_emit_result *out, struct onnxptq_error *error)
    OQ_MUST_USE;
enum onnxptq_status oq_job_emit(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_job_check(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_job_commit(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;

/* True when what stays float32 is to be computed in half precision. */
bool oq_job_lowers_precision(const struct onnxptq_job *job);
/* Finds out how much of it. */
enum onnxptq_status oq_job_precision(struct onnxptq_job *job, struct onnxptq_error *error)
    OQ_MUST_USE;
/* Does it to the emitted model. */
enum onnxptq_status oq_job_lower(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;
/* The emitted model, with the original's types of inputs and outputs. */
const struct oq_model *oq_job_measured_model(const struct onnxptq_job *job);

/* A plan with the nodes of `held` (one per node of the graph, NULL: none) in float. */
enum onnxptq_status oq_job_make_plan(struct onnxptq_job *job, const bool *held,
                                     struct oq_plan **out, struct onnxptq_error *error) OQ_MUST_USE;
/* Runs to measure on: half of them of samples that calibration did not see, as far as there are so
 * many, the others of those it saw. To be reset by the caller. */
enum onnxptq_status oq_job_pick_runs(struct onnxptq_job *job, size_t wanted,
                                     struct oq_data_runs *out, size_t *n_unseen_runs,
                                     struct onnxptq_error *error) OQ_MUST_USE;
/* True unless repair is off, or there is nothing to repair or to measure with. */
bool oq_job_may_repair(const struct onnxptq_job *job);
enum onnxptq_status oq_job_repair(struct onnxptq_job *job, struct onnxptq_error *error) OQ_MUST_USE;

#endif
