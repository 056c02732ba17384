/*
 * onnxptq: the command. It sees the public header only.
 */
#include "ranks.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

static enum exit_code print_version(struct console *console) {
    printf("onnxptq %s\n", onnxptq_version());
    return console_finish(console, NULL);
}

/* FNV-1a, ends of words included. */
static uint64_t hash_words(int argc, char **argv) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < argc; i++) {
        const char *p = argv[i];
        do {
            hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
        } while (*p++ != '\0');
    }
    return hash;
}

static enum exit_code run_command(struct console *console, const struct command *command, int argc,
                                  char **argv) {
    struct args args;
    enum exit_code code = EXIT_DONE;
    uint64_t hash = hash_words(argc, argv);
    console->member = ranks_is_follower(); /* all of them make the same mistakes */
    bool good = args_parse(console, command, argc, argv, &args, &code);
    if (!good && console->member) {
        code = EXIT_DONE;
    }
    console->member = false;
    args.hash = hash;
    if (good) {
        if (args.help) {
            help_print_command(stdout, command);
            code = console_finish(console, NULL);
        } else {
            code = args.version ? print_version(console) : team_run(console, &args);
        }
    }
    args_reset(&args);
    return code;
}

/* An option of a command, given before the command or without one. */
static bool is_command_option(const char *word) {
    size_t n = 0;
    const struct option_row *rows = option_rows(&n);
    size_t length = strcspn(word, "=");
    for (size_t i = 0; i < n; i++) {
        bool is_long = strncmp(word, "--", 2) == 0 && strlen(rows[i].name) == length - 2 &&
                       strncmp(word + 2, rows[i].name, length - 2) == 0;
        bool is_short = rows[i].letter != 0 && word[0] == '-' && word[1] == rows[i].letter;
        if (is_long || is_short) {
            return true;
        }
    }
    return false;
}

static enum exit_code refuse_word(struct console *console, const char *word) {
    if (is_command_option(word)) {
        return console_fail_text(console, ONNXPTQ_ERROR_USAGE, "onnxptq --help",
                                 "no command before option '%s'; begin with 'onnxptq quantize' or "
                                 "'onnxptq inspect'",
                                 word);
    }
    const char *names[8] = {"--help", "--version"};
    size_t n = 0;
    const struct command *commands = command_rows(&n);
    for (size_t i = 0; i < n; i++) {
        names[i + 2] = commands[i].name;
    }
    const char *nearest = nearest_name(word, names, n + 2);
    return console_fail_text(console, ONNXPTQ_ERROR_USAGE, "onnxptq --help",
                             "unknown %s '%s'%s%s%s", word[0] == '-' ? "option" : "command", word,
                             nearest ? "; did you mean '" : "", nearest ? nearest : "",
                             nearest ? "'?" : "");
}

int main(int argc, char **argv) {
    /* Before any runtime is loaded: recent ones look a server up otherwise. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    streams_init();
    signals_init();
    struct console console;
    console_init(&console);
    if (argc < 2) {
        return (int)console_fail_text(&console, ONNXPTQ_ERROR_USAGE, "onnxptq --help",
                                      "no command given");
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help_print_program(stdout);
        return (int)console_finish(&console, NULL);
    }
    if (strcmp(word, "--version") == 0) {
        return (int)print_version(&console);
    }
    const struct command *command = command_find(word);
    return (int)(command != NULL ? run_command(&console, command, argc - 1, argv + 1)
                                 : refuse_word(&console, word));
}
