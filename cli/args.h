/*
 * The command line: one table of options, from which parsing and --help are made.
 */
#ifndef ONNXPTQ_CLI_ARGS_H
#define ONNXPTQ_CLI_ARGS_H

#include "console.h"

struct text_list {
    const char **items; /* room for every argument of the command line */
    size_t n;
};

struct shape_list {
    struct onnxptq_input_shape *items; /* room as above */
    size_t n;
};

/* What was given. Strings are those of argv, but for the pieces that had to be cut out (`pieces`).
 */
struct args {
    const struct command *command;
    const char *model;
    bool json, quiet, verbose, force, help, version, in_process, resume;
    uint64_t hash; /* of the whole command line */
    bool go_on;    /* a state of this very command is there */

    const char *const *files; /* of merge: what stands where a model stands elsewhere */
    size_t n_files;

    const char *output, *data, *images, *preprocess, *target, *ort_library, *ranges_file,
        *save_ranges, *state;
    uint64_t random_samples, seed, samples, batch, threads, timeout, jobs;
    size_t part, n_parts;     /* of a member of a team (team.h) */
    uint64_t shard, n_shards; /* the first is 1; 0: not given */
    uint64_t external_threshold, external_above, opset;
    int method; /* -1: not given */
    int progress;
    int size_rules, foreign_edges, external_data, observe, activation_type, quantize_outputs,
        high_precision, native_io;
    bool allow_low_quality, no_repair;
    double min_sqnr, repair, min_int8_macs, repair_budget; /* NaN: not given */
    double percentile;                                     /* NaN: not given */
    struct text_list libraries, providers, op_types, exclude_op_types, nodes, exclude_nodes;
    struct text_list provider_options, trt_plugins, keep_float_op_types, keep_float_nodes,
        half_op_types;
    struct shape_list shapes, trt_profile_min, trt_profile_opt, trt_profile_max;
    struct onnxptq_input_range *ranges;
    size_t n_ranges;
    struct text_list pieces; /* malloc'ed */
    char *state_path;        /* malloc'ed; of a calibration that is kept, NULL: none is */
};

enum value_kind {
    VALUE_FLAG,   /* bool */
    VALUE_TEXT,   /* const char * */
    VALUE_LIST,   /* struct text_list, the option may be repeated */
    VALUE_COMMAS, /* the same, and commas separate entries */
    VALUE_COUNT,  /* uint64_t, at least 1 */
    VALUE_NUMBER, /* uint64_t */
    VALUE_REAL,   /* double */
    VALUE_CHOICE, /* int, one of `choices` */
    VALUE_FIXED,  /* int, the first of `choices`; takes no argument */
    VALUE_SHAPE,  /* struct shape_list, may be repeated */
    VALUE_RANGE,  /* args.ranges */
    VALUE_SHARD   /* args.shard, args.n_shards */
};

struct choice {
    const char *name; /* NULL ends the list */
    int value;
};

enum {
    FOR_QUANTIZE = 1,
    FOR_INSPECT = 2,
    FOR_CALIBRATE = 4,
    FOR_MERGE = 8,
    FOR_CONVERT = 16,
    FOR_RANGES = FOR_QUANTIZE | FOR_CALIBRATE,
    FOR_RESULTS = FOR_QUANTIZE | FOR_CONVERT,
    FOR_RUNS = FOR_RANGES | FOR_CONVERT,
    FOR_MODELS = FOR_RUNS | FOR_INSPECT,
    FOR_OUTPUTS = FOR_RUNS | FOR_MERGE,
    FOR_ALL = FOR_MODELS | FOR_MERGE
};

struct option_row {
    unsigned commands; /* FOR_ bits */
    const char *group; /* heading in --help; of the first row of a group only */
    char letter;       /* short option, or 0 */
    const char *name;
    const char *argument; /* in --help; NULL for a flag */
    enum value_kind kind;
    size_t offset; /* of the field in struct args */
    const struct choice *choices;
    const char *help; /* lines */
};

struct command {
    unsigned bit;
    const char *name;
    const char *usage; /* after "onnxptq NAME " */
    const char *summary;
    enum exit_code (*run)(struct console *console, struct args *args);
};

const struct option_row *option_rows(size_t *n);
const struct command *command_rows(size_t *n);
const struct command *command_find(const char *name);

void help_print_program(FILE *file);
void help_print_command(FILE *file, const struct command *command);

/* Parses what follows the command's name. On failure the message is out and `*code` is set. */
bool args_parse(struct console *console, const struct command *command, int argc, char **argv,
                struct args *args, enum exit_code *code);
void args_reset(struct args *args);

/* What all commands take that run or inspect a model. */
void args_fill_runtime(const struct args *args, const struct console *console,
                       struct onnxptq_runtime_options *runtime);

/* False for options that say all by their name. */
bool takes_value(const struct option_row *row);

/* Stores `text` as the option's value; false with the fact in `error`. */
bool value_store(struct args *args, const struct option_row *row, const char *text,
                 struct onnxptq_error *error);

/* The name of `n` that is most like `word`, or NULL when none is like it. */
const char *nearest_name(const char *word, const char *const *names, size_t n);

enum exit_code quantize_command(struct console *console, struct args *args);
enum exit_code calibrate_command(struct console *console, struct args *args);
enum exit_code merge_command(struct console *console, struct args *args);
enum exit_code inspect_command(struct console *console, struct args *args);

#endif
