/*
 * A team: several workers that share the samples of one calibration. Each leaves a state, from
 * which one more worker then goes on as if it had seen all of them.
 * Under mpirun every rank has a team, and rank 0 goes on from all of theirs.
 */
#ifndef ONNXPTQ_CLI_TEAM_H
#define ONNXPTQ_CLI_TEAM_H

#include "worker.h"

/* Runs the command in as many processes as the user wants. */
enum exit_code team_run(struct console *console, struct args *args);

#endif
