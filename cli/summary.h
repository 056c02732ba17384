/*
 * The report for people.
 */
#ifndef ONNXPTQ_CLI_SUMMARY_H
#define ONNXPTQ_CLI_SUMMARY_H

#include "args.h"

void summary_print(FILE *file, const struct console *console, const struct onnxptq_report *report);

/* Of calibrate. */
void calibration_print(FILE *file, const struct console *console,
                       const struct onnxptq_report *report);

/* The last part: how to run the result. */
void usage_print(FILE *file, const struct console *console, const struct onnxptq_report *report);

/* A heading, bold where the terminal shows it. */
void print_heading(FILE *file, const struct console *console, const char *text);
/* `text` from column `column` on, broken at spaces before column 100; ends the line. */
void print_wrapped(FILE *file, int column, const char *text);

#endif
