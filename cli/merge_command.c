/*
 * onnxptq merge.
 */
#include "args.h"
#include "summary.h"
#include "worker.h"

enum exit_code merge_command(struct console *console, struct args *args) {
    struct onnxptq_error error = {0};
    enum exit_code code = EXIT_DONE;
    if (onnxptq_merge_ranges(args->files, args->n_files, args->output, args->force, &error) !=
        ONNXPTQ_OK) {
        code = console_fail(console, &error, "onnxptq merge --help");
    } else {
        results_show(console);
        if (!args->quiet) {
            printf("%zu files -> ", args->n_files);
            print_text(stdout, args->output);
            fputc('\n', stdout);
        }
        code = console_finish(console, NULL);
    }
    worker_tell_end(console->worker, code);
    return code;
}
