/*
 * The tables: commands and their options. --help prints them, parsing follows them, and a test
 * compares them with the manual page.
 */
#include "args.h"

#include <string.h>

static const struct choice methods[] = {{"auto", ONNXPTQ_METHOD_AUTO},
                                        {"max", ONNXPTQ_METHOD_MAX},
                                        {"percentile", ONNXPTQ_METHOD_PERCENTILE},
                                        {"entropy", ONNXPTQ_METHOD_ENTROPY},
                                        {"mse", ONNXPTQ_METHOD_MSE},
                                        {NULL, 0}};
static const struct choice switches[] = {{"on", 1}, {"off", 0}, {NULL, 0}};
static const struct choice activation_types[] = {{"int8", ONNXPTQ_TYPE_INT8},
                                                 {"uint8", ONNXPTQ_TYPE_UINT8},
                                                 {"int16", ONNXPTQ_TYPE_INT16},
                                                 {"uint16", ONNXPTQ_TYPE_UINT16},
                                                 {NULL, 0}};
static const struct choice precisions[] = {{"fp32", ONNXPTQ_TYPE_FLOAT},
                                           {"fp16", ONNXPTQ_TYPE_FLOAT16},
                                           {"bf16", ONNXPTQ_TYPE_BFLOAT16},
                                           {NULL, 0}};
static const struct choice io_types[] = {{"keep", 0}, {"native", 1}, {NULL, 0}};
static const struct choice foreign_edges[] = {
    {"float", ONNXPTQ_FOREIGN_FLOAT}, {"fuse", ONNXPTQ_FOREIGN_FUSE}, {NULL, 0}};

static const struct choice outside[] = {{"outside", ONNXPTQ_EXTERNAL_DATA_ALWAYS}, {NULL, 0}};
static const struct choice inside[] = {{"inside", ONNXPTQ_EXTERNAL_DATA_NEVER}, {NULL, 0}};

static const struct choice observe[] = {{"auto", ONNXPTQ_OBSERVE_AUTO},
                                        {"host", ONNXPTQ_OBSERVE_HOST},
                                        {"device", ONNXPTQ_OBSERVE_DEVICE},
                                        {NULL, 0}};

static const struct choice progress[] = {
    {"auto", PROGRESS_AUTO}, {"json", PROGRESS_JSON}, {"off", PROGRESS_OFF}, {NULL, 0}};

#define FIELD(name) offsetof(struct args, name)

static const struct option_row options[] = {
    {FOR_OUTPUTS, "Output", 'o', "output", "OUT", VALUE_TEXT, FIELD(output), NULL,
     "write the result to OUT, whole or not at all"},
    {FOR_OUTPUTS, NULL, 0, "force", NULL, VALUE_FLAG, FIELD(force), NULL,
     "replace OUT when it exists"},
    {FOR_RESULTS, NULL, 0, "external-data", NULL, VALUE_FIXED, FIELD(external_data), outside,
     "keep the weights in OUT.data (default: where MODEL keeps its own,\n"
     "and outside OUT when it would be too large)"},
    {FOR_RESULTS, NULL, 0, "no-external-data", NULL, VALUE_FIXED, FIELD(external_data), inside,
     "keep the weights inside OUT"},
    {FOR_RESULTS, NULL, 0, "external-data-threshold", "BYTES", VALUE_NUMBER,
     FIELD(external_threshold), NULL, "tensors below BYTES stay inside OUT (default 1024)"},
    {FOR_RESULTS, NULL, 0, "external-data-above", "BYTES", VALUE_COUNT, FIELD(external_above), NULL,
     "an OUT of more than BYTES is too large (default 2147483647)"},

    {FOR_RUNS, NULL, 0, "opset", "N", VALUE_COUNT, FIELD(opset), NULL,
     "raise the opset to N, 7 to 26 (default: only as far as\n"
     "quantization needs)"},

    {FOR_RUNS, "Calibration data", 0, "data", "SOURCE", VALUE_TEXT, FIELD(data), NULL,
     "a .npz file (one array per model input); for models with one input\n"
     "a .npy, .pb (ONNX tensor) or raw file (.bin, .raw, .dat); a folder\n"
     "of .npz, .npy or raw files (each one run's inputs, in name order),\n"
     "of .npy or raw files named like the inputs, or of ONNX test data\n"
     "(test_data_set_*/input_*.pb)"},
    {FOR_RUNS, NULL, 0, "images", "DIR", VALUE_TEXT, FIELD(images), NULL,
     "a folder of PNG and JPEG images instead, for models with one input"},
    {FOR_RUNS, NULL, 0, "preprocess", "SPEC", VALUE_TEXT, FIELD(preprocess), NULL,
     "how images become elements, as resize=256,crop=224,range=0:1,\n"
     "mean=0.485:0.456:0.406,std=0.229:0.224:0.225 or imagenet; also\n"
     "channels=rgb|bgr|gray, layout=nchw|nhwc, antialias=on|off"},
    {FOR_RUNS, NULL, 0, "random-data", "N", VALUE_COUNT, FIELD(random_samples), NULL,
     "N random samples instead: floats from N(0,1), integers 0 or 1"},
    {FOR_RUNS, NULL, 0, "seed", "S", VALUE_NUMBER, FIELD(seed), NULL,
     "seed of the random samples (default 0)"},
    {FOR_RUNS, NULL, 0, "input-shape", "NAME:1x3x8x8", VALUE_SHAPE, FIELD(shapes), NULL,
     "shape of an input for random samples and raw files; repeatable"},
    {FOR_RUNS, NULL, 0, "input-range", "NAME:LO:HI", VALUE_RANGE, 0, NULL,
     "range of an input for random samples; repeatable"},
    {FOR_RUNS, NULL, 0, "samples", "N", VALUE_COUNT, FIELD(samples), NULL,
     "use at most N samples (default all)"},
    {FOR_RUNS, NULL, 0, "batch", "N", VALUE_COUNT, FIELD(batch), NULL,
     "samples in one run (default: the model's batch size, else 1)"},
    {FOR_QUANTIZE, NULL, 0, "ranges", "FILE", VALUE_TEXT, FIELD(ranges_file), NULL,
     "use what an earlier calibration saved, or a calibration cache of\n"
     "TensorRT; samples then serve to measure the result only"},
    {FOR_QUANTIZE, NULL, 0, "save-ranges", "FILE", VALUE_TEXT, FIELD(save_ranges), NULL,
     "save what calibration saw to FILE; a FILE.cache becomes a\n"
     "calibration cache of TensorRT"},

    {FOR_RANGES, "Long calibrations", 0, "jobs", "N", VALUE_COUNT, FIELD(jobs), NULL,
     "share the samples among N processes on this machine"},
    {FOR_RANGES, NULL, 0, "resume", NULL, VALUE_FLAG, FIELD(resume), NULL,
     "go on where an earlier run of the same command was killed or\n"
     "interrupted, and keep its state after failures too"},
    {FOR_RANGES, NULL, 0, "state", "FILE", VALUE_TEXT, FIELD(state), NULL,
     "keep the state for --resume in FILE (default OUT.state)"},
    {FOR_RANGES, NULL, 0, "shard", "I/N", VALUE_SHARD, 0, NULL,
     "calibrate with every N-th run of the samples, from the I-th on,\n"
     "into ranges to be merged; the same command for I = 1 to N"},

    {FOR_MODELS, "Runtime", 0, "custom-op-lib", "LIB", VALUE_LIST, FIELD(libraries), NULL,
     "shared library with the model's custom operators; it exports\n"
     "RegisterCustomOps, or FUNCTION when given as LIB@FUNCTION;\n"
     "repeatable"},
    {FOR_MODELS, NULL, 0, "providers", "LIST", VALUE_COMMAS, FIELD(providers), NULL,
     "execution providers in order of preference, separated by commas:\n"
     "cpu, cuda:N, trt:N or a provider's name (default cpu)"},
    {FOR_MODELS, NULL, 0, "provider-option", "NAME:KEY=VALUE", VALUE_LIST, FIELD(provider_options),
     NULL, "option of a provider in that list; repeatable"},
    {FOR_MODELS, NULL, 0, "trt-plugin", "LIB", VALUE_LIST, FIELD(trt_plugins), NULL,
     "library with TensorRT plugins for custom operators, loaded by\n"
     "provider trt; repeatable"},
    {FOR_MODELS, NULL, 0, "trt-profile-min", "NAME:1x3x8x8", VALUE_SHAPE, FIELD(trt_profile_min),
     NULL, "least shape of an input that TensorRT's engines take; repeatable"},
    {FOR_MODELS, NULL, 0, "trt-profile-opt", "NAME:1x3x8x8", VALUE_SHAPE, FIELD(trt_profile_opt),
     NULL, "the shape they are made fastest for; repeatable"},
    {FOR_MODELS, NULL, 0, "trt-profile-max", "NAME:1x3x8x8", VALUE_SHAPE, FIELD(trt_profile_max),
     NULL, "the largest; repeatable"},
    {FOR_RANGES, NULL, 0, "observe", "auto|host|device", VALUE_CHOICE, FIELD(observe), observe,
     "where tensors are summarised for method max: on the device where\n"
     "they lie, or copied to the host (default: auto, the device where\n"
     "one has memory of its own)"},
    {FOR_RUNS, NULL, 0, "threads", "N", VALUE_COUNT, FIELD(threads), NULL,
     "threads of one run (default: the runtime's choice)"},
    {FOR_MODELS, NULL, 0, "ort-lib", "PATH", VALUE_TEXT, FIELD(ort_library), NULL,
     "the ONNX Runtime library (default: $ONNXPTQ_ORT_LIB, then the one\n"
     "configured at build time, then the loader's)"},

    {FOR_MODELS, NULL, 0, "timeout", "SECONDS", VALUE_COUNT, FIELD(timeout), NULL,
     "end the command when one custom operator, or one run, takes longer\n"
     "(default: no limit)"},
    {FOR_MODELS, NULL, 0, "in-process", NULL, VALUE_FLAG, FIELD(in_process), NULL,
     "run in this process, for debuggers: a library that crashes takes\n"
     "the command with it"},

    {FOR_MODELS, "Quantization", 0, "target", "NAME", VALUE_TEXT, FIELD(target), NULL,
     "where the result will run: tensorrt (default) or onnxruntime"},
    {FOR_RANGES, NULL, 0, "method", "NAME", VALUE_CHOICE, FIELD(method), methods,
     "how ranges follow from the values seen: max takes all of them,\n"
     "percentile a share, entropy and mse what loses least; auto, the\n"
     "default, measures each of these and keeps the best"},
    {FOR_RANGES, NULL, 0, "percentile", "P", VALUE_REAL, FIELD(percentile), NULL,
     "the share that the method percentile takes, in auto too, 50 to 100\n"
     "(default 99.99); given alone, it chooses that method"},
    {FOR_RANGES, NULL, 0, "op-types", "LIST", VALUE_LIST, FIELD(op_types), NULL,
     "quantize only operators of these types, separated by commas, as\n"
     "Conv or custom_domain::DummyOp; repeatable"},
    {FOR_RANGES, NULL, 0, "exclude-op-types", "LIST", VALUE_LIST, FIELD(exclude_op_types), NULL,
     "leave operators of these types float; repeatable"},
    {FOR_RANGES, NULL, 0, "nodes", "PATTERN", VALUE_LIST, FIELD(nodes), NULL,
     "quantize only nodes whose whole name matches the regular\n"
     "expression (a node without a name is @ and its first output);\n"
     "repeatable"},
    {FOR_RANGES, NULL, 0, "exclude-nodes", "PATTERN", VALUE_LIST, FIELD(exclude_nodes), NULL,
     "leave these nodes float; repeatable"},
    {FOR_RANGES, NULL, 0, "size-rules", "on|off", VALUE_CHOICE, FIELD(size_rules), switches,
     "leave operators float that are too small to gain (default: on for\n"
     "tensorrt, off for onnxruntime)"},
    {FOR_RANGES, NULL, 0, "activation-type", "TYPE", VALUE_CHOICE, FIELD(activation_type),
     activation_types,
     "int8, uint8, int16 or uint16 (default: what the target runs\n"
     "fastest; tensorrt has int8 alone; 16 bits need opset 21)"},
    {FOR_RANGES, NULL, 0, "quantize-outputs", "on|off", VALUE_CHOICE, FIELD(quantize_outputs),
     switches,
     "Q/DQ behind all outputs of the model, or behind none (default: the\n"
     "target's rules)"},
    {FOR_RANGES, NULL, 0, "foreign-edges", "float|fuse", VALUE_CHOICE, FIELD(foreign_edges),
     foreign_edges,
     "what custom operators read: float values (default), or rounded\n"
     "ones where that lets the neighbour fuse"},

    {FOR_RESULTS, "Quality", 0, "min-sqnr", "DB", VALUE_REAL, FIELD(min_sqnr), NULL,
     "fail with exit 3 when a float output keeps less signal to noise on\n"
     "held-back samples (default 10)"},
    {FOR_RESULTS, NULL, 0, "allow-low-quality", NULL, VALUE_FLAG, FIELD(allow_low_quality), NULL,
     "write such a result all the same"},
    {FOR_QUANTIZE, NULL, 0, "repair", "DB", VALUE_REAL, FIELD(repair), NULL,
     "move nodes back to float until every float output keeps DB\n"
     "(default: to 25, when the result is below --min-sqnr)"},
    {FOR_QUANTIZE, NULL, 0, "no-repair", NULL, VALUE_FLAG, FIELD(no_repair), NULL, "move none"},
    {FOR_QUANTIZE, NULL, 0, "min-int8-macs", "SHARE", VALUE_REAL, FIELD(min_int8_macs), NULL,
     "repair leaves this share of the multiply-accumulates int8, 0 to 1\n"
     "(default 0.95)"},
    {FOR_QUANTIZE, NULL, 0, "repair-budget", "SECONDS", VALUE_REAL, FIELD(repair_budget), NULL,
     "repair looks no longer than this (default: no limit)"},

    {FOR_RESULTS, "Precision of the rest", 0, "high-precision", "TYPE", VALUE_CHOICE,
     FIELD(high_precision), precisions,
     "fp32, fp16 or bf16: what is left float computes in it where its\n"
     "values allow (quantize: default fp32)"},
    {FOR_RESULTS, NULL, 0, "io-types", "keep|native", VALUE_CHOICE, FIELD(native_io), io_types,
     "keep float inputs and outputs float32 (default), or give them that\n"
     "type too"},
    {FOR_RESULTS, NULL, 0, "keep-float-op-types", "LIST", VALUE_LIST, FIELD(keep_float_op_types),
     NULL, "leave operators of these types float32; repeatable"},
    {FOR_RESULTS, NULL, 0, "keep-float-nodes", "PATTERN", VALUE_LIST, FIELD(keep_float_nodes), NULL,
     "leave these nodes float32; repeatable"},
    {FOR_RESULTS, NULL, 0, "half-op-types", "TYPE", VALUE_LIST, FIELD(half_op_types), NULL,
     "custom operators whose kernels take that type, as\n"
     "custom_domain::DummyOp (default: their types stay); repeatable"},

    {FOR_MODELS, "Messages", 0, "json", NULL, VALUE_FLAG, FIELD(json), NULL,
     "print the report as one JSON object"},
    {FOR_RUNS, NULL, 0, "progress", "auto|json|off", VALUE_CHOICE, FIELD(progress), progress,
     "on stderr: a bar on a terminal (default), or a JSON object a line"},
    {FOR_ALL, NULL, 0, "quiet", NULL, VALUE_FLAG, FIELD(quiet), NULL,
     "print nothing unless something fails"},
    {FOR_MODELS, NULL, 0, "verbose", NULL, VALUE_FLAG, FIELD(verbose), NULL,
     "print the reason of every decision, and the runtime's messages"},
    {FOR_ALL, NULL, 0, "version", NULL, VALUE_FLAG, FIELD(version), NULL,
     "print the version and exit"},
    {FOR_ALL, NULL, 'h', "help", NULL, VALUE_FLAG, FIELD(help), NULL, "print this text and exit"},
};

static const struct command commands[] = {
    {FOR_QUANTIZE, "quantize",
     "MODEL -o OUT (--data SOURCE | --random-data N | --ranges FILE) [OPTION]...",
     "Quantize an ONNX model to int8, measure the result beside the original, and say\n"
     "what was done and why.",
     quantize_command},
    {FOR_CONVERT, "convert",
     "MODEL -o OUT --high-precision TYPE (--data SOURCE | --random-data N) [OPTION]...",
     "Compute a float32 model in half precision as far as the values of the samples allow,\n"
     "without quantizing it, and measure the result beside the original.",
     quantize_command},
    {FOR_CALIBRATE, "calibrate", "MODEL -o RANGES (--data SOURCE | --random-data N) [OPTION]...",
     "Run the samples and save the ranges of what the target quantizes, for quantize\n"
     "--ranges. RANGES.cache becomes a calibration cache of TensorRT.",
     calibrate_command},
    {FOR_MERGE, "merge", "RANGES... -o OUT [OPTION]...",
     "Join the ranges of calibrations of one model into what one run over all of their\n"
     "samples would have saved.",
     merge_command},
    {FOR_INSPECT, "inspect", "MODEL [OPTION]...",
     "Say what a model holds, which of its operators the runtime and the given libraries\n"
     "can run, and which of them the target can quantize.",
     inspect_command},
};

const struct option_row *option_rows(size_t *n) {
    *n = sizeof options / sizeof *options;
    return options;
}

const struct command *command_rows(size_t *n) {
    *n = sizeof commands / sizeof *commands;
    return commands;
}

const struct command *command_find(const char *name) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}
