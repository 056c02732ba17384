/*
 * Ranks by MPI: what ranks.h wants, with the calls of MPI 3. MPI's own error handler ends all ranks
 * with a message.
 */
#include "../ranks.h"

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

enum tag { TAG_FAILURE = 1, TAG_PROGRESS, TAG_SIZE, TAG_BYTES };

#define SECONDS_PER_REPORT 0.2

struct progress {
    uint64_t done, total, last;
};

static struct ranks ranks;

/* Of this rank. */
static bool failed, failure_told;
static bool *failure_heard; /* by rank */
static MPI_Request report_request = MPI_REQUEST_NULL;
static struct progress report;
static double reported;

/* Of all, on rank 0. */
static struct progress *progress_of;

static int number_of(size_t rank) {
    return (int)rank;
}

/* ---- Progress and failures ----------------------------------------------------------------- */

static void hear_failures(void) {
    MPI_Status status;
    int there = 1, nothing = 0;
    for (;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_FAILURE, MPI_COMM_WORLD, &there, &status);
        if (!there) {
            return;
        }
        MPI_Recv(&nothing, 1, MPI_INT, status.MPI_SOURCE, TAG_FAILURE, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        failure_heard[status.MPI_SOURCE] = true;
        failed = true;
    }
}

static void hear_progress(void) {
    MPI_Status status;
    int there = 1;
    for (;;) {
        struct progress heard = {0};
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_PROGRESS, MPI_COMM_WORLD, &there, &status);
        if (!there) {
            return;
        }
        MPI_Recv(&heard, sizeof heard, MPI_BYTE, status.MPI_SOURCE, TAG_PROGRESS, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        progress_of[status.MPI_SOURCE] = heard;
    }
}

/* One report is on its way at a time. */
static void report_progress(uint64_t done, uint64_t total) {
    int sent = 0;
    MPI_Test(&report_request, &sent, MPI_STATUS_IGNORE);
    double now = MPI_Wtime();
    bool new = report.done != done || report.total != total;
    if (sent && new && now - reported >= SECONDS_PER_REPORT) {
        report = (struct progress){.done = done, .total = total};
        reported = now;
        MPI_Isend(&report, sizeof report, MPI_BYTE, 0, TAG_PROGRESS, MPI_COMM_WORLD,
                  &report_request);
    }
}

static bool poll_ranks(uint64_t *done, uint64_t *total) {
    hear_failures();
    if (ranks.rank != 0) {
        report_progress(*done, *total);
        return !failed;
    }
    hear_progress();
    bool known = *total > 0;
    for (size_t i = 1; i < ranks.size; i++) {
        known = known && progress_of[i].total > 0;
        *done += progress_of[i].done;
        *total += progress_of[i].total;
    }
    *total = known ? *total : 0; /* how much there is to do is not known yet */
    return !failed;
}

static void tell_failure(void) {
    int nothing = 0;
    for (size_t i = 0; i < ranks.size && !failure_told; i++) {
        if (i != ranks.rank) {
            MPI_Send(&nothing, 1, MPI_INT, number_of(i), TAG_FAILURE, MPI_COMM_WORLD);
        }
    }
    failure_told = true;
}

/* ---- Meeting ------------------------------------------------------------------------------- */

/* MPI itself waits with all of a processor. */
static void wait_asleep(MPI_Request *request) {
    int done = 0;
    for (;;) {
        hear_failures();
        if (ranks.rank == 0) {
            hear_progress();
        }
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done) {
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* Every rank ends its reports with one that says so, for none to be left when MPI ends. */
static void end_reports(void) {
    if (ranks.rank != 0) {
        /* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): sent by report_progress() */
        MPI_Wait(&report_request, MPI_STATUS_IGNORE);
        report.last = 1;
        MPI_Send(&report, sizeof report, MPI_BYTE, 0, TAG_PROGRESS, MPI_COMM_WORLD);
    }
}

static void hear_last_reports(void) {
    for (size_t i = 1; i < ranks.size && ranks.rank == 0; i++) {
        while (progress_of[i].last == 0) {
            hear_progress();
        }
    }
}

static void meet(int number, int *numbers) {
    int told = failure_told;
    int *who_told = calloc(ranks.size, sizeof *who_told);
    MPI_Request request;
    if (who_told == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        return;
    }
    end_reports();
    MPI_Iallgather(&number, 1, MPI_INT, numbers, 1, MPI_INT, MPI_COMM_WORLD, &request);
    wait_asleep(&request);
    /* NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): it was tested until it was done */
    MPI_Allgather(&told, 1, MPI_INT, who_told, 1, MPI_INT, MPI_COMM_WORLD);
    hear_last_reports();
    for (size_t i = 0; i < ranks.size; i++) {
        while (i != ranks.rank && who_told[i] && !failure_heard[i]) {
            hear_failures();
        }
    }
    free(who_told);
}

static bool agree(uint64_t number) {
    uint64_t own[2] = {number, ~number}, least[2] = {0, 0};
    MPI_Allreduce(own, least, 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return least[0] == ~least[1];
}

/* ---- Handing over -------------------------------------------------------------------------- */

static int share_from(size_t from, int number) {
    MPI_Bcast(&number, 1, MPI_INT, number_of(from), MPI_COMM_WORLD);
    return number;
}

static int share(int number) {
    return share_from(0, number);
}

#define PIECE ((size_t)1 << 28) /* counts are of type int */

static void *receive(size_t from, size_t *size) {
    uint64_t total = 0;
    MPI_Recv(&total, 1, MPI_UINT64_T, number_of(from), TAG_SIZE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    char *bytes = malloc((size_t)total + 1);
    if (bytes == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        return NULL;
    }
    for (size_t done = 0; done < total; done += PIECE) {
        size_t piece = total - done < PIECE ? (size_t)total - done : PIECE;
        MPI_Recv(bytes + done, (int)piece, MPI_BYTE, number_of(from), TAG_BYTES, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    *size = (size_t)total;
    return bytes;
}

static void send(const void *data, size_t size) {
    const char *bytes = data;
    uint64_t total = size;
    MPI_Send(&total, 1, MPI_UINT64_T, 0, TAG_SIZE, MPI_COMM_WORLD);
    for (size_t done = 0; done < size; done += PIECE) {
        size_t piece = size - done < PIECE ? size - done : PIECE;
        MPI_Send(bytes + done, (int)piece, MPI_BYTE, 0, TAG_BYTES, MPI_COMM_WORLD);
    }
}

static void *bring(size_t from, const void *data, size_t size, size_t *size_there) {
    if (ranks.rank == 0) {
        return receive(from, size_there);
    }
    if (ranks.rank == from) {
        send(data, size);
    }
    return NULL;
}

/* ---- Begin and end ------------------------------------------------------------------------- */

static void close_ranks(void) {
    free(failure_heard);
    free(progress_of);
    MPI_Finalize();
}

static size_t count_here(void) {
    MPI_Comm here;
    int n = 1;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &n);
    MPI_Comm_free(&here);
    return (size_t)n;
}

const struct ranks *onnxptq_ranks_open(void) {
    int rank = 0, size = 1;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        return NULL;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ranks = (struct ranks){.rank = (size_t)rank,
                           .size = (size_t)size,
                           .n_here = count_here(),
                           .agree = agree,
                           .share = share,
                           .poll = poll_ranks,
                           .tell_failure = tell_failure,
                           .meet = meet,
                           .bring = bring,
                           .share_from = share_from,
                           .close = close_ranks};
    failure_heard = calloc(ranks.size, sizeof *failure_heard);
    progress_of = calloc(ranks.size, sizeof *progress_of);
    if (failure_heard == NULL || progress_of == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return &ranks;
}
