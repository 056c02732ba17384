/*
 * onnxptq: post-training quantization of ONNX models, custom operators included.
 *
 * This is the only public header. It is a ladder:
 *   1. one call:    onnxptq_quantize() does everything and writes the result;
 *   2. its steps:   onnxptq_job_*() run the same stages one by one, with a report after each;
 *   3. hooks:       data, progress and log callbacks in the options.
 *
 * Conventions
 *   - Functions that can fail return enum onnxptq_status and take a caller-owned, optional
 *     struct onnxptq_error as their last parameter. Outputs are written only on success.
 *   - Options structs start with their size and are filled by an inline init function, so that
 *     fields can be added at their end without breaking callers. Structs that the library returns
 *     grow at their end too.
 *   - Strings and arrays in options are borrowed for the call (for onnxptq_job_create: until
 *     onnxptq_job_destroy).
 *   - A handle belongs to one thread at a time. The library has no mutable globals, never prints,
 *     aborts or exits.
 *   - ONNX Runtime is loaded at run time. Recent builds of it phone home; set the environment
 *     variable ORT_DISABLE_TELEMETRY=1 before the first call (the command line tool does).
 */
#ifndef ONNXPTQ_H
#define ONNXPTQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ONNXPTQ_API __attribute__((visibility("default")))
#define ONNXPTQ_MUST_USE __attribute__((warn_unused_result))
#else
#define ONNXPTQ_API
#define ONNXPTQ_MUST_USE
#endif

/* ---- Version ------------------------------------------------------------------------------- */

#define ONNXPTQ_VERSION_MAJOR 0
#define ONNXPTQ_VERSION_MINOR 1
#define ONNXPTQ_VERSION_PATCH 0
#define ONNXPTQ_VERSION "0.1.0"

/* Version of the library in use, e.g. "0.1.0". */
ONNXPTQ_API const char *onnxptq_version(void);

/* ---- Status and errors --------------------------------------------------------------------- */

/* After any error the handle passed in may only be destroyed, unless said otherwise. */
enum onnxptq_status {
    ONNXPTQ_OK = 0,
    ONNXPTQ_ERROR_USAGE,            /* an option is wrong or contradicts another; nothing was run */
    ONNXPTQ_ERROR_IO,               /* a file cannot be read or written */
    ONNXPTQ_ERROR_MODEL,            /* the model file is broken or not a valid ONNX model */
    ONNXPTQ_ERROR_DATA,             /* the calibration data is broken or does not fit the model */
    ONNXPTQ_ERROR_UNSUPPORTED,      /* valid, but not handled by this version */
    ONNXPTQ_ERROR_RUNTIME,          /* ONNX Runtime cannot be loaded, or refused or failed a run */
    ONNXPTQ_ERROR_MISSING_OPERATOR, /* the model holds operators that nobody provides */
    ONNXPTQ_ERROR_LIBRARY,          /* a custom operator library cannot be loaded or registered */
    ONNXPTQ_ERROR_MEMORY,           /* out of memory */
    ONNXPTQ_ERROR_CANCELLED,        /* a callback asked to stop */
    ONNXPTQ_ERROR_QUALITY,          /* reserved: the result was measured below a quality gate */
    ONNXPTQ_ERROR_INTERNAL          /* a bug in this library */
};

#define ONNXPTQ_ERROR_MESSAGE_SIZE 8192

/* Owned by the caller; needs no initialisation. Holds the first error of a call:
 * "cannot <verb> <what 'name'>: <fact>; <what to do>". */
struct onnxptq_error {
    enum onnxptq_status status;
    char message[ONNXPTQ_ERROR_MESSAGE_SIZE];
};

/* Name of a status, e.g. "missing operator". Never NULL. */
ONNXPTQ_API const char *onnxptq_status_name(enum onnxptq_status status);

/* {"error": {"status": ..., "message": ...}}, to be freed with onnxptq_free(). NULL when out of
 * memory. */
ONNXPTQ_API char *onnxptq_error_json(const struct onnxptq_error *error);

/* Frees text returned by this library. NULL is allowed. */
ONNXPTQ_API void onnxptq_free(void *text);

/* ---- Tensors ------------------------------------------------------------------------------- */

/* Element types, numbered as TensorProto.DataType of ONNX. */
enum onnxptq_type {
    ONNXPTQ_TYPE_UNDEFINED = 0,
    ONNXPTQ_TYPE_FLOAT = 1,
    ONNXPTQ_TYPE_UINT8 = 2,
    ONNXPTQ_TYPE_INT8 = 3,
    ONNXPTQ_TYPE_UINT16 = 4,
    ONNXPTQ_TYPE_INT16 = 5,
    ONNXPTQ_TYPE_INT32 = 6,
    ONNXPTQ_TYPE_INT64 = 7,
    ONNXPTQ_TYPE_STRING = 8,
    ONNXPTQ_TYPE_BOOL = 9,
    ONNXPTQ_TYPE_FLOAT16 = 10,
    ONNXPTQ_TYPE_DOUBLE = 11,
    ONNXPTQ_TYPE_UINT32 = 12,
    ONNXPTQ_TYPE_UINT64 = 13,
    ONNXPTQ_TYPE_BFLOAT16 = 16
};

/* Name of an element type, of any that ONNX defines: "float", "int64", "int4". Never NULL. */
ONNXPTQ_API const char *onnxptq_type_name(enum onnxptq_type type);

#define ONNXPTQ_MAX_RANK 16

/* A dense tensor in C order, little-endian. `data` is borrowed. */
struct onnxptq_tensor {
    const char *name;
    enum onnxptq_type type;
    size_t rank;
    int64_t shape[ONNXPTQ_MAX_RANK]; /* in a declaration: -1 for a dimension that may vary */
    const void *data;
    size_t size; /* bytes of data */
};

/* ---- Hooks --------------------------------------------------------------------------------- */

/* Calibration data from the caller. One sample is one run of the model. */
struct onnxptq_data_source {
    void *user;
    size_t n_samples; /* at least 1 */
    /* Fills inputs[0..n_inputs): `name` is set by the library (the model's inputs in order; type
     * and shape hold the declaration) and type, rank, shape, data and size are to be set. The data
     * must stay valid until the next call. Called with any index below n_samples, in any order,
     * more than once. Return ONNXPTQ_OK or the status to fail with; `error` may be filled. */
    enum onnxptq_status (*read)(void *user, size_t index, struct onnxptq_tensor *inputs,
                                size_t n_inputs, struct onnxptq_error *error);
};

/* `stage` is "trace", "calibrate", "choose" or "check"; called after each run, with the samples
 * done and in all. Return false to stop. */
typedef bool (*onnxptq_progress_fn)(void *user, const char *stage, size_t done, size_t total);

/* What code that is not ours is about to do, told before it does: a program that runs a job in a
 * process of its own can say what that process was doing when it died or hung. Called at each of
 * these steps, not at regular times. Texts are valid for the call. */
struct onnxptq_activity {
    /* "load", "trace", "calibrate", "check", ..., "close"; NULL: none of it, for now */
    const char *stage;
    size_t first_sample; /* of the run that is about to begin or going on */
    size_t n_samples;    /* 0: no run; a model is loaded, or a library */
    const char *node; /* the custom operator that runs, while one does, and its type; told where */
    const char *op;   /* the model runs on CPU alone */
    const char *library; /* that has the operator, or is loaded; NULL: none of the user's */
};
typedef void (*onnxptq_activity_fn)(void *user, const struct onnxptq_activity *activity);

enum onnxptq_log_level { ONNXPTQ_LOG_WARNING = 1, ONNXPTQ_LOG_INFO, ONNXPTQ_LOG_DEBUG };

typedef void (*onnxptq_log_fn)(void *user, enum onnxptq_log_level level, const char *message);

/* ---- Options ------------------------------------------------------------------------------- */

/* How the range of a tensor follows from its values (docs/formulas.md). Values outside saturate. */
enum onnxptq_method {
    ONNXPTQ_METHOD_MAX = 0,    /* all of them */
    ONNXPTQ_METHOD_PERCENTILE, /* the given share of magnitudes */
    ONNXPTQ_METHOD_ENTROPY, /* least divergence of the quantized distribution from the original */
    ONNXPTQ_METHOD_MSE,     /* least mean square error */
    ONNXPTQ_METHOD_AUTO     /* the one of these that measures best on a few samples (default) */
};

enum onnxptq_foreign_edges {
    ONNXPTQ_FOREIGN_FLOAT = 0, /* a foreign operator reads and writes float, whatever that costs */
    ONNXPTQ_FOREIGN_FUSE       /* its neighbours keep their fusion: it reads int8-rounded values */
};

/* Moving the nodes that cost most back to float. */
enum onnxptq_repair {
    ONNXPTQ_REPAIR_AUTO = 0, /* when the result is below the quality gate */
    ONNXPTQ_REPAIR_ON,       /* when it is below repair_db */
    ONNXPTQ_REPAIR_OFF
};

/* Where the output keeps its weights. */
enum onnxptq_external_data {
    ONNXPTQ_EXTERNAL_DATA_AUTO = 0, /* where the input does; outside when they make it too large */
    ONNXPTQ_EXTERNAL_DATA_ALWAYS,   /* in one file beside it, named like it with ".data" behind */
    ONNXPTQ_EXTERNAL_DATA_NEVER     /* inside it */
};

/* Where tensors are summarised for the method max. On a device, reductions are added to the graph
 * and only numbers come to the host; the result is the same. */
enum onnxptq_observe {
    ONNXPTQ_OBSERVE_AUTO = 0, /* where they lie, for providers with memory of their own */
    ONNXPTQ_OBSERVE_HOST,
    ONNXPTQ_OBSERVE_DEVICE
};

/* Shape of one model input for random data and raw files. */
struct onnxptq_input_shape {
    const char *name;
    size_t rank;
    int64_t shape[ONNXPTQ_MAX_RANK];
};

/* Range of one model input for random data: uniform in [low, high] (integers: both included). */
struct onnxptq_input_range {
    const char *name;
    double low, high;
};

/* What runs the model: shared by quantize and inspect. */
struct onnxptq_runtime_options {
    size_t struct_size;
    /* NULL: $ONNXPTQ_ORT_LIB, then the path set when this library was built, then the loader's. */
    const char *ort_library;
    /* "PATH" or "PATH@FUNCTION", registered in this order. */
    const char *const *custom_op_libraries;
    size_t n_custom_op_libraries;
    /* "cpu", "cuda:N", "trt:N" or a provider's name, in order of preference; none: cpu. */
    const char *const *providers;
    size_t n_providers;
    int threads;                         /* of one run; 0: the runtime's default */
    const char *const *provider_options; /* "NAME:KEY=VALUE", for a provider of the list above */
    size_t n_provider_options;
    /* Of TensorRT, which must be among the providers: plugin libraries, and for inputs of varying
     * shape the least, the usual and the largest shape that engines are built for (an entry in all
     * three for each such input). */
    const char *const *trt_plugins;
    size_t n_trt_plugins;
    const struct onnxptq_input_shape *trt_profile_min, *trt_profile_opt, *trt_profile_max;
    size_t n_trt_profile_min, n_trt_profile_opt, n_trt_profile_max;
    onnxptq_activity_fn activity;
    void *activity_user;
};
ONNXPTQ_API void onnxptq_runtime_options_fill(struct onnxptq_runtime_options *options, size_t size);
static inline void onnxptq_runtime_options_init(struct onnxptq_runtime_options *options) {
    onnxptq_runtime_options_fill(options, sizeof *options);
}

struct onnxptq_quantize_options {
    size_t struct_size;
    const struct onnxptq_runtime_options *runtime; /* NULL: defaults */

    const char *model_path;
    const char *output_path; /* may equal model_path; NULL: the job ends with saving ranges */
    bool overwrite;          /* replace an existing output */

    /* Exactly one of data_path, data, images_path and random_samples; at most one with ranges_path.
     */
    const char *data_path;                  /* file or folder: docs/calibration-data.md */
    const struct onnxptq_data_source *data; /* callback */
    size_t random_samples;
    uint64_t seed;
    const struct onnxptq_input_shape *input_shapes;
    size_t n_input_shapes;
    const struct onnxptq_input_range *input_ranges;
    size_t n_input_ranges;
    size_t max_samples; /* 0: all */
    size_t batch;       /* rows a run; 0: the model's fixed batch size, else 1 */

    const char *target; /* "tensorrt" (default) or "onnxruntime" */
    enum onnxptq_method method;
    double percentile; /* of the method of that name, in AUTO too: 50 to 100; default 99.99 */
    const char *const *op_types; /* "Conv", "custom_domain::DummyOp", commas allowed; empty: all */
    size_t n_op_types;
    const char *const *exclude_op_types;
    size_t n_exclude_op_types;
    const char *const *nodes; /* PCRE2 patterns matched against whole node names; empty: all */
    size_t n_nodes;
    const char *const *exclude_nodes;
    size_t n_exclude_nodes;
    int size_rules; /* 1 on, 0 off, -1 the target's default */
    enum onnxptq_foreign_edges foreign_edges;

    onnxptq_progress_fn progress;
    void *progress_user;
    onnxptq_log_fn log;
    void *log_user;

    enum onnxptq_external_data external_data;
    uint64_t external_data_threshold; /* smaller tensors stay inside the model; default 1024 */
    /* AUTO puts weights outside when the model would be larger than this; default and largest is
     * what protobuf can hold, 2147483647. */
    uint64_t external_data_above;
    enum onnxptq_observe observe;

    /* Version of the default operator set that the output has at least, 7 to 26; 0: it is raised
     * only as far as quantization needs. A model is never lowered. */
    int64_t opset;
    /* INT8, UINT8, INT16 or UINT16, as far as the target has it; UNDEFINED: the target's choice. */
    enum onnxptq_type activation_type;
    /* Q/DQ behind outputs of the model: 1 on every float one that the plan may quantize, 0 on
     * none, -1 where the target's rules put it. */
    int quantize_outputs;

    /* FLOAT16 or BFLOAT16: what is left float32 computes in it as far as its values allow. FLOAT
     * (default): it stays. */
    enum onnxptq_type high_precision;
    bool native_io; /* then float inputs and outputs of the model are of that type too */
    /* Operators that stay float32; lists and patterns as above. */
    const char *const *keep_float_op_types;
    size_t n_keep_float_op_types;
    const char *const *keep_float_nodes;
    size_t n_keep_float_nodes;
    /* Custom operators whose kernels take that type: "custom_domain::DummyOp". The types of all
     * others stay as they are. */
    const char *const *half_op_types;
    size_t n_half_op_types;
    bool convert_only; /* nothing is quantized */

    /* Quality gate: the worst float output's signal-to-noise ratio on held-back samples, in dB.
     * Below it (default 10: the noise is a tenth of the signal, and nothing that we know of works
     * with more) the job fails with ONNXPTQ_ERROR_QUALITY before anything is written. */
    double min_sqnr;
    bool allow_low_quality; /* a note instead of the failure */
    enum onnxptq_repair repair;
    double repair_db;     /* what repair wants of every float output; 0: 25 dB */
    double min_int8_macs; /* of all multiply-accumulates repair leaves this share int8; 0.95 */
    double repair_budget; /* seconds that repair may look for more; 0: no limit */

    /* A ranges file (docs/ranges.md), or a calibration cache of TensorRT, to be used instead of
     * calibrating; samples are then needed to measure the result only. */
    const char *ranges_path;
    /* Where to save what calibration saw, NULL: nowhere. A path that ends in ".cache" gets a
     * calibration cache of TensorRT with the ranges that the method chooses. */
    const char *save_ranges_path;

    /* A folder of PNG and JPEG images for a model with one input, and how they become its elements:
     * "resize=256,crop=224,mean=0.485:0.456:0.406,...", or "imagenet" (docs/calibration-data.md).
     */
    const char *images_path;
    const char *preprocess;

    /* Calibrate with every n_shards-th run, beginning with number `shard` from 0 on, for ranges to
     * be merged: one shard for each machine. 0: all. */
    size_t shard, n_shards;
    /* A file for the state of calibration, saved every few seconds (docs/distributed.md); NULL:
     * none. It is removed when the result is written, and stays when the job is cancelled or the
     * process killed. With `resume` what it says is done already is not done again, and it stays
     * after failures too; a file of another model, other samples or other options is refused. */
    const char *state_path;
    bool resume;
    /* This process is number `part`, from 0 on, of n_parts that share the work; 0 or 1: alone. Its
     * job ends with onnxptq_job_calibrate() and leaves a state "<state_path>.<part + 1>". A job
     * with `resume` and without parts then finds all of them, and all done. */
    size_t part, n_parts;
};
ONNXPTQ_API void onnxptq_quantize_options_fill(struct onnxptq_quantize_options *options,
                                               size_t size);
static inline void onnxptq_quantize_options_init(struct onnxptq_quantize_options *options) {
    onnxptq_quantize_options_fill(options, sizeof *options);
}

/* ---- Report -------------------------------------------------------------------------------- */

enum onnxptq_decision {
    ONNXPTQ_DECISION_FLOAT = 0, /* left float by a rule */
    ONNXPTQ_DECISION_QUANTIZED, /* its matrix or element-wise work is done on quantized inputs */
    ONNXPTQ_DECISION_FOREIGN,   /* an operator of another domain, never touched */
    ONNXPTQ_DECISION_EXCLUDED   /* left float because the user said so */
};
ONNXPTQ_API const char *onnxptq_decision_name(enum onnxptq_decision decision);

/* Before the plan is made a node's decision is only float or foreign, its rule "undecided". */
struct onnxptq_node_report {
    const char *name; /* the node's name, or "@" + its first output for an unnamed one */
    const char *op;   /* "Conv" or "custom_domain::DummyOp" */
    enum onnxptq_decision decision;
    const char *rule;   /* short stable id, e.g. "weighted-input" */
    const char *reason; /* one sentence */
    /* With high_precision, of nodes with float32 tensors: the type that it computes in, "float16"
     * or "float", and why; else NULL. */
    const char *precision, *precision_rule, *precision_reason;
};

/* One Q/DQ pair on an activation. */
struct onnxptq_tensor_report {
    const char *name;
    enum onnxptq_type type; /* quantized type */
    double scale;
    int64_t zero_point;
    double min, max; /* observed */
    const char *rule, *reason;
};

struct onnxptq_weight_report {
    const char *name; /* of the float tensor in the input model */
    enum onnxptq_type type;
    int axis; /* -1: one scale for the whole tensor */
    size_t channels;
    double scale_min, scale_max;
};

struct onnxptq_output_report {
    const char *name;
    enum onnxptq_type type;
    bool exact;    /* equal to the bit on every check sample */
    bool has_sqnr; /* false: the reference is zero or not a float tensor */
    /* 10 log10(sum ref^2 / sum (ref - got)^2) over all check samples; may be infinite. */
    double sqnr_db;
    double max_abs_error;
};

/* An execution provider, in the order of preference. */
struct onnxptq_provider_report {
    const char *name; /* as the runtime calls it, e.g. "CUDAExecutionProvider" */
    const char *const *keys, *const *values;
    size_t n_options;
};

/* A method that AUTO tried. */
struct onnxptq_candidate_report {
    const char *method;
    double percentile;  /* 0 but for the method of that name */
    bool has_sqnr;      /* false: none of the outputs can be measured */
    double sqnr_db;     /* of the worst output */
    const char *output; /* which that is; NULL: none */
    bool chosen;
};

struct onnxptq_stage_report {
    const char *name; /* read, prepare, trace, plan, calibrate, choose, emit, check */
    double seconds;
    double processor_seconds; /* of all threads */
};

/* Everything a run found out. Owned by its job; valid until the next call on the job. */
struct onnxptq_report {
    size_t struct_size;
    const char *model_path, *output_path, *target, *method, *runtime_version;
    const char *const *custom_op_libraries; /* as given, duplicates dropped */
    size_t n_custom_op_libraries;
    const struct onnxptq_tensor *inputs; /* declarations of what the model is fed; data is NULL */
    size_t n_inputs;
    const struct onnxptq_node_report *nodes;
    size_t n_nodes;
    const struct onnxptq_tensor_report *tensors;
    size_t n_tensors;
    const struct onnxptq_weight_report *weights;
    size_t n_weights;
    const struct onnxptq_output_report *outputs;
    size_t n_outputs;
    const struct onnxptq_stage_report *stages;
    size_t n_stages;
    const char *const *notes;
    size_t n_notes;
    size_t n_calibration_samples, n_check_samples;
    bool held_back;                     /* the check samples were not calibrated with */
    uint64_t model_bytes, output_bytes; /* file sizes, external data included */
    uint64_t peak_anonymous_bytes;      /* largest anonymous resident memory of the process */
    uint64_t peak_resident_bytes;       /* largest resident set of the process */
    const struct onnxptq_provider_report *providers;
    size_t n_providers;
    const char *output_data_path; /* file beside the output with its weights; NULL: inside it */
    uint64_t temporary_bytes;     /* disk space that files beside it took during the run */
    bool measured_unoptimized; /* ONNX Runtime's optimizations refuse the result or change what it
                                  computes; it was measured with them off */
    /* `method` is the one in use: what AUTO chose, once it has. */
    const char *requested_method;
    double percentile;                                 /* of the method in use; 0: it has none */
    const struct onnxptq_candidate_report *candidates; /* of AUTO, in the order of preference */
    size_t n_candidates;
    size_t n_choice_samples;   /* that they were measured on */
    size_t n_choice_held_back; /* of those: calibration did not see them */
};

/* ---- Quantize ------------------------------------------------------------------------------ */

/* Reads options->model_path, quantizes it and writes options->output_path, whole or not at all,
 * then runs both and measures. `report` (may be NULL) receives the JSON text of the report, to be
 * freed with onnxptq_free(). */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status
onnxptq_quantize(const struct onnxptq_quantize_options *options, char **report,
                 struct onnxptq_error *error);

/* Calibrates only: writes options->save_ranges_path, whole or not at all. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status
onnxptq_calibrate(const struct onnxptq_quantize_options *options, char **report,
                  struct onnxptq_error *error);

/* Joins ranges files of one model, calibrated with the same target and selection, into one: the
 * same as if one run had seen all of their samples. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status
onnxptq_merge_ranges(const char *const *paths, size_t n, const char *output_path, bool overwrite,
                     struct onnxptq_error *error);

/* Before jobs with parts share a state: joins the files of earlier ones into "<path>", and fails
 * when they are of different runs; or removes them. That there is none is no error. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status onnxptq_state_join(const char *path,
                                                                    struct onnxptq_error *error);
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status onnxptq_state_discard(const char *path,
                                                                       struct onnxptq_error *error);

/* The same in steps, to be called in this order; each runs those before it that were skipped. */
struct onnxptq_job;

/* Checks the options, loads runtime and libraries, reads the model, and makes sure that every
 * operator of the model has a provider. Nothing is run yet. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status
onnxptq_job_create(const struct onnxptq_quantize_options *options, struct onnxptq_job **job,
                   struct onnxptq_error *error);
/* Runs one sample to learn types, shapes and ranges, then decides what is quantized and why. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status onnxptq_job_plan(struct onnxptq_job *job,
                                                                  struct onnxptq_error *error);
/* Runs the calibration samples with observers on the tensors that the plan quantizes. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status onnxptq_job_calibrate(struct onnxptq_job *job,
                                                                       struct onnxptq_error *error);
/* Writes options->save_ranges_path, which onnxptq_job_commit() does too. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status
onnxptq_job_save_ranges(struct onnxptq_job *job, struct onnxptq_error *error);
/* Builds the quantized model in a temporary file beside the output; with the method AUTO one for
 * each method before, each of which is measured. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status onnxptq_job_emit(struct onnxptq_job *job,
                                                                  struct onnxptq_error *error);
/* Runs both models on the check samples and measures each output. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status onnxptq_job_check(struct onnxptq_job *job,
                                                                   struct onnxptq_error *error);
/* Puts the temporary file in the place of the output. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status onnxptq_job_commit(struct onnxptq_job *job,
                                                                    struct onnxptq_error *error);
/* What is known so far. */
ONNXPTQ_API const struct onnxptq_report *onnxptq_job_report(struct onnxptq_job *job);
/* The report as JSON text, to be freed with onnxptq_free(). */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status
onnxptq_job_report_json(struct onnxptq_job *job, char **text, struct onnxptq_error *error);
/* Removes all temporary files. NULL is allowed. */
ONNXPTQ_API void onnxptq_job_destroy(struct onnxptq_job *job);

/* ---- Inspect ------------------------------------------------------------------------------- */

struct onnxptq_opset_info {
    const char *domain; /* "" for the default domain */
    int64_t version;
};

struct onnxptq_operator_info {
    const char *op; /* "Conv" or "custom_domain::DummyOp" */
    size_t count;
    bool runnable; /* by this runtime with these libraries */
    bool foreign;
    /* Nodes that the target would quantize if nothing is excluded and every size fits. */
    size_t n_quantizable;
};

struct onnxptq_inspection {
    size_t struct_size;
    const char *model_path, *runtime_version;
    int64_t ir_version;
    const struct onnxptq_opset_info *opsets;
    size_t n_opsets;
    const struct onnxptq_tensor *inputs; /* declarations; data is NULL */
    size_t n_inputs;
    const struct onnxptq_tensor *outputs;
    size_t n_outputs;
    const struct onnxptq_operator_info *operators;
    size_t n_operators;
    size_t n_weights;
    uint64_t weight_bytes;
    size_t n_functions;
};

struct onnxptq_inspector;
/* Reads a model and asks the runtime which of its operators it can run. Nothing is run.
 * `target` NULL means "tensorrt", `runtime` NULL means defaults. */
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status
onnxptq_inspect(const char *model_path, const char *target,
                const struct onnxptq_runtime_options *runtime, struct onnxptq_inspector **inspector,
                struct onnxptq_error *error);
/* Owned by the inspector. */
ONNXPTQ_API const struct onnxptq_inspection *
onnxptq_inspector_result(const struct onnxptq_inspector *inspector);
ONNXPTQ_API ONNXPTQ_MUST_USE enum onnxptq_status
onnxptq_inspector_json(const struct onnxptq_inspector *inspector, char **text,
                       struct onnxptq_error *error);
ONNXPTQ_API void onnxptq_inspector_destroy(struct onnxptq_inspector *inspector);

#ifdef __cplusplus
}
#endif

#endif /* ONNXPTQ_H */
