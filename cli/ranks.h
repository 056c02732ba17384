/*
 * Ranks: processes that mpirun started, each with a team of its own, whose states come together in
 * rank 0. MPI is in a module of its own (mpi/module.c), which is loaded only where mpirun is at
 * work: without it the program needs no MPI.
 */
#ifndef ONNXPTQ_CLI_RANKS_H
#define ONNXPTQ_CLI_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the module gives. Every rank calls the same in the same order; a failure of MPI itself ends
 * all ranks. */
struct ranks {
    size_t rank, size;
    size_t n_here; /* on this machine */

    /* Whether all give the same. */
    bool (*agree)(uint64_t number);
    /* The number that rank 0 gives, on all. */
    int (*share)(int number);
    /* Without waiting: takes this rank's progress, and on rank 0 gives that of all. False when
     * another rank has failed. */
    bool (*poll)(uint64_t *done, uint64_t *total);
    /* Makes the others' poll() false. */
    void (*tell_failure)(void);
    /* Waits, asleep, until all are here: everybody's number. */
    void (*meet)(int number, int *numbers);
    /* Bytes from `from` to rank 0: malloc'ed there, NULL elsewhere and when out of memory. */
    void *(*bring)(size_t from, const void *data, size_t size, size_t *size_there);
    /* The number that `from` gives, on all. */
    int (*share_from)(size_t from, int number);
    /* Nothing of MPI is used after this. */
    void (*close)(void);
};

/* The module's one function; NULL when MPI does not start. */
#define RANKS_OPEN "onnxptq_ranks_open"
typedef const struct ranks *ranks_open_function(void);
__attribute__((visibility("default"))) ranks_open_function onnxptq_ranks_open;

/* ---- The program's side (ranks.c) ---- */

struct console;

/* One of several that mpirun started, but for the first, as far as the environment tells. */
bool ranks_is_follower(void);
/* NULL in `out` where mpirun is not at work. False with a message out where it is, and the module
 * does not load. */
bool ranks_open(struct console *console, const struct ranks **out);
/* Brings the state files of all ranks to rank 0, `n_parts` of each. */
void ranks_bring_states(const struct ranks *ranks, const char *state_path, size_t n_parts);

#endif
