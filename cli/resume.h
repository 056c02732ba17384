/*
 * The state file of --resume, as the command sees it: its name, and what is said of it.
 */
#ifndef ONNXPTQ_CLI_RESUME_H
#define ONNXPTQ_CLI_RESUME_H

#include "args.h"

/* Sets args->state_path where the command calibrates. False with the message out. */
bool resume_name_state(struct console *console, struct args *args, enum exit_code *code);

/* Whether a file is there to go on from. */
bool resume_has_state(const struct args *args);

/* Makes one file of what several processes left, once none of them runs any more. A member of a
 * team leaves that to the others. */
void resume_keep_state(const struct console *console, const struct args *args);

/* Says that the run was interrupted, and whether it can go on. */
enum exit_code resume_tell_interrupt(struct console *console, const struct args *args);

/* After a failure that is no interrupt, unless the user wants to go on from there. */
void resume_drop_state(const struct args *args);

#endif
