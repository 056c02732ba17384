/*
 * --help, made from the tables.
 */
#include "args.h"

#include <string.h>

#define HELP_COLUMN 34

void help_print_program(FILE *file) {
    fputs("Usage: onnxptq COMMAND [ARGUMENT]...\n\n"
          "Post-training quantization of ONNX models, custom operators included.\n\n"
          "Commands:\n",
          file);
    size_t n = 0;
    const struct command *commands = command_rows(&n);
    for (size_t i = 0; i < n; i++) {
        fprintf(file, "  onnxptq %s %s\n", commands[i].name, commands[i].usage);
    }
    fputs("\nOptions:\n"
          "  onnxptq COMMAND --help  print the options of a command\n"
          "  onnxptq --version       print the version and exit\n"
          "  onnxptq --help          print this text and exit\n",
          file);
}

static void print_help_lines(FILE *file, const char *help, int column) {
    for (const char *line = help; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        fprintf(file, "%*s%.*s\n", HELP_COLUMN - column, "", (int)length, line);
        line += length;
        line += *line == '\n';
        column = 0;
    }
}

static void print_option(FILE *file, const struct option_row *row) {
    int column = row->letter != 0 ? fprintf(file, "  -%c, --%s", row->letter, row->name)
                                  : fprintf(file, "      --%s", row->name);
    if (row->argument != NULL) {
        column += fprintf(file, " %s", row->argument);
    }
    if (column + 2 > HELP_COLUMN) {
        fputc('\n', file);
        column = 0;
    }
    print_help_lines(file, row->help, column);
}

/* A group's heading stands at its first row, which may belong to the other command. */
void help_print_command(FILE *file, const struct command *command) {
    fprintf(file, "Usage: onnxptq %s %s\n\n%s\n", command->name, command->usage, command->summary);
    size_t n = 0;
    const struct option_row *rows = option_rows(&n);
    const char *heading = NULL;
    for (size_t i = 0; i < n; i++) {
        heading = rows[i].group != NULL ? rows[i].group : heading;
        if ((rows[i].commands & command->bit) != 0) {
            if (heading != NULL) {
                fprintf(file, "\n%s:\n", heading);
                heading = NULL;
            }
            print_option(file, &rows[i]);
        }
    }
    fputs("\nExit codes: 0 done, 1 failed, 2 wrong usage.\n", file);
}
