/*
 * From argv to struct args, by getopt_long over the table.
 */
#include "args.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROWS 64
#define FIRST_VAL 256 /* beyond every short option */

/* What getopt_long reads, and the row of each of its entries. */
struct parser {
    struct option longs[MAX_ROWS + 1];
    const struct option_row *rows[MAX_ROWS];
    const char *names[MAX_ROWS];
    size_t n;
    char shorts[2 * MAX_ROWS + 2];
};

static void make_parser(struct parser *parser, const struct command *command) {
    size_t n_rows = 0;
    const struct option_row *rows = option_rows(&n_rows);
    *parser = (struct parser){.shorts = ":"};
    char *letter = parser->shorts + 1;
    for (size_t i = 0; i < n_rows && parser->n < MAX_ROWS; i++) {
        if ((rows[i].commands & command->bit) == 0) {
            continue;
        }
        parser->longs[parser->n] =
            (struct option){.name = rows[i].name,
                            .has_arg = takes_value(&rows[i]) ? required_argument : no_argument,
                            .val = FIRST_VAL + (int)parser->n};
        parser->names[parser->n] = rows[i].name;
        parser->rows[parser->n++] = &rows[i];
        if (rows[i].letter != 0) {
            *letter++ = rows[i].letter;
            if (takes_value(&rows[i])) {
                *letter++ = ':';
            }
        }
    }
}

static const struct option_row *find_row(const struct parser *parser, int value) {
    for (size_t i = 0; i < parser->n; i++) {
        char letter = parser->rows[i]->letter;
        if (value == FIRST_VAL + (int)i || (letter != 0 && value == letter)) {
            return parser->rows[i];
        }
    }
    return NULL;
}

/* ---- Mistakes ------------------------------------------------------------------------------ */

/* Whether more than one option begins with `name`; the first two are told. */
static bool is_ambiguous(const struct parser *parser, const char *name, const char *found[2]) {
    size_t n = 0;
    for (size_t i = 0; i < parser->n && n < 2; i++) {
        if (strncmp(parser->names[i], name, strlen(name)) == 0) {
            found[n++] = parser->names[i];
        }
    }
    return n == 2 && name[0] != '\0';
}

static void explain_unknown(const struct parser *parser, const char *word,
                            struct onnxptq_error *error) {
    char name[64] = "";
    size_t dashes = strspn(word, "-"), length = strcspn(word, "=");
    size_t size = length - dashes < sizeof name ? length - dashes : sizeof name - 1;
    memcpy(name, word + dashes, size);
    error->status = ONNXPTQ_ERROR_USAGE;
    const char *found[2];
    if (dashes == 2 && is_ambiguous(parser, name, found)) {
        snprintf(error->message, sizeof error->message,
                 "option '%.*s' is ambiguous: it may be '--%s' or '--%s'", (int)length, word,
                 found[0], found[1]);
        return;
    }
    const char *nearest = nearest_name(name, parser->names, parser->n);
    snprintf(error->message, sizeof error->message, "unknown option '%.*s'%s%s%s", (int)length,
             word, nearest ? "; did you mean '--" : "", nearest ? nearest : "",
             nearest ? "'?" : "");
}

/* `found` is what getopt_long said is wrong with argv[optind - 1]: ':' no value, '?' anything else.
 */
static void explain(const struct parser *parser, int found, const char *word,
                    struct onnxptq_error *error) {
    const struct option_row *row = find_row(parser, optopt);
    if (row == NULL) {
        bool is_short = word[0] == '-' && word[1] != '-' && optopt != 0;
        char letter[] = {'-', (char)optopt, '\0'};
        explain_unknown(parser, is_short ? letter : word, error);
        return;
    }
    error->status = ONNXPTQ_ERROR_USAGE;
    snprintf(error->message, sizeof error->message, "option '--%s' %s", row->name,
             found == ':' ? "needs a value" : "takes no value");
}

/* ---- Parsing ------------------------------------------------------------------------------- */

static bool parse_options(struct args *args, const struct parser *parser, int argc, char **argv,
                          struct onnxptq_error *error) {
    opterr = 0;
    optind = 0; /* also resets getopt */
    for (;;) {
        int found = getopt_long(argc, argv, parser->shorts, parser->longs, NULL);
        if (found == -1) {
            return true;
        }
        if (found == ':' || found == '?') {
            explain(parser, found, argv[optind - 1], error);
            return false;
        }
        if (!value_store(args, find_row(parser, found), optarg, error)) {
            return false;
        }
    }
}

static bool take_model(struct args *args, int argc, char **argv, struct onnxptq_error *error) {
    error->status = ONNXPTQ_ERROR_USAGE;
    if (optind == argc) {
        snprintf(error->message, sizeof error->message, "no %s given: usage is onnxptq %s %s",
                 args->command->bit == FOR_MERGE ? "file" : "model", args->command->name,
                 args->command->usage);
        return false;
    }
    args->files = (const char *const *)argv + optind;
    args->n_files = (size_t)(argc - optind);
    if (optind + 1 < argc && args->command->bit != FOR_MERGE) {
        snprintf(error->message, sizeof error->message,
                 "one model at a time: '%.200s' is one argument too many", argv[optind + 1]);
        return false;
    }
    args->model = argv[optind];
    return true;
}

enum { N_LISTS = 10 };

/* Of the options that may be repeated. */
static void list_texts(struct args *args, struct text_list *lists[N_LISTS]) {
    struct text_list *all[N_LISTS] = {&args->libraries,        &args->op_types,
                                      &args->exclude_op_types, &args->nodes,
                                      &args->exclude_nodes,    &args->provider_options,
                                      &args->trt_plugins,      &args->keep_float_op_types,
                                      &args->keep_float_nodes, &args->half_op_types};
    memcpy(lists, all, sizeof all);
}

/* Every list has room for all arguments. */
static bool make_room(struct args *args, int argc) {
    size_t n = (size_t)argc + 1;
    struct text_list *lists[N_LISTS];
    list_texts(args, lists);
    struct shape_list *shapes[] = {&args->shapes, &args->trt_profile_min, &args->trt_profile_opt,
                                   &args->trt_profile_max};
    bool good = true;
    for (size_t i = 0; i < N_LISTS; i++) {
        lists[i]->items = calloc(n, sizeof *lists[i]->items);
        good = good && lists[i]->items != NULL;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        shapes[i]->items = calloc(n, sizeof *shapes[i]->items);
        good = good && shapes[i]->items != NULL;
    }
    args->ranges = calloc(n, sizeof *args->ranges);
    return good && args->ranges != NULL;
}

/* Known before the first mistake is found, because errors are JSON too. */
static bool asks_for_json(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            return true;
        }
    }
    return false;
}

bool args_parse(struct console *console, const struct command *command, int argc, char **argv,
                struct args *args, enum exit_code *code) {
    *args = (struct args){.command = command,
                          .method = -1,
                          .percentile = (double)NAN,
                          .min_sqnr = (double)NAN,
                          .repair = (double)NAN,
                          .min_int8_macs = (double)NAN,
                          .repair_budget = (double)NAN,
                          .size_rules = -1,
                          .quantize_outputs = -1,
                          .external_threshold = 1024,
                          .external_above = INT32_MAX};
    char help[HELP_COMMAND_SIZE];
    snprintf(help, sizeof help, "onnxptq %s --help", command->name);
    struct onnxptq_error error = {.status = ONNXPTQ_ERROR_MEMORY, .message = "out of memory"};
    struct parser parser;
    make_parser(&parser, command);
    console->json = asks_for_json(argc, argv);
    bool good = make_room(args, argc) && parse_options(args, &parser, argc, argv, &error) &&
                (args->help || args->version || take_model(args, argc, argv, &error));
    console->json = console->json || args->json;
    console->quiet = args->quiet;
    console->progress = (enum progress)args->progress;
    console->verbose = args->verbose && !args->quiet;
    if (!good) {
        *code = console_fail(console, &error, help);
    }
    return good;
}

void args_reset(struct args *args) {
    struct text_list *lists[N_LISTS];
    list_texts(args, lists);
    free(args->providers.items);
    free(args->state_path);
    for (size_t i = 0; i < N_LISTS; i++) {
        free(lists[i]->items);
    }
    for (size_t i = 0; i < args->pieces.n; i++) {
        free((char *)(uintptr_t)args->pieces.items[i]);
    }
    free(args->pieces.items);
    free(args->shapes.items);
    free(args->trt_profile_min.items);
    free(args->trt_profile_opt.items);
    free(args->trt_profile_max.items);
    free(args->ranges);
}
