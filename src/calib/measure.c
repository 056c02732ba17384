/*
 * Splitting a tensor into parts, and joining what they give. The loops are in minmax.c and
 * binner.c.
 */
#include "calib/measure.h"

#include "base/number.h"
#include "calib/binner.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Large tensors are split into at most MAX_PARTS parts; below, waking the threads costs more than
 * it saves. The result does not depend on the split. */
#define MAX_PARTS 64
#define EXTREMES_PARALLEL_BYTES ((size_t)1 << 20)
#define EXTREMES_PART_BYTES ((size_t)1 << 18)
/* Counting takes ten times as long. Both passes over a block of elements find it in a near cache.
 */
#define BLOCK 61440
#define COUNT_PARALLEL_ELEMENTS ((size_t)2 * BLOCK)

/* What one thread at a time may use. A thread takes the first that is free, so that no more are
 * ever made than threads work at once. */
struct worker {
    atomic_flag taken;
    struct oq_binner *binner;
    struct oq_histogram *histogram; /* joined with the tensor's when all parts are done */
};

struct oq_measure_scratch {
    struct worker workers[MAX_PARTS];
};

struct oq_measure_scratch *oq_measure_scratch_create(void) {
    struct oq_measure_scratch *scratch = calloc(1, sizeof *scratch);
    for (size_t i = 0; scratch != NULL && i < MAX_PARTS; i++) {
        atomic_flag_clear(&scratch->workers[i].taken);
    }
    return scratch;
}

void oq_measure_scratch_destroy(struct oq_measure_scratch *scratch) {
    for (size_t i = 0; scratch != NULL && i < MAX_PARTS; i++) {
        oq_binner_destroy(scratch->workers[i].binner);
        oq_histogram_destroy(scratch->workers[i].histogram);
    }
    free(scratch);
}

static struct worker *take_worker(struct oq_measure_scratch *scratch) {
    for (size_t i = 0;; i = (i + 1) % MAX_PARTS) {
        if (!atomic_flag_test_and_set(&scratch->workers[i].taken)) {
            return &scratch->workers[i];
        }
    }
}

/* ---- One part ---- */

struct part {
    enum oq_vector_level level;
    int type;
    const unsigned char *data;
    size_t n;
};

static struct oq_extremes find_extremes(const struct part *part) {
    return oq_minmax_run(part->level, part->type, part->data, part->n);
}

static bool measure_blocks(const struct part *part, struct oq_binner *binner,
                           struct oq_histogram *histogram, struct oq_extremes *extremes) {
    size_t item = oq_type_size(part->type);
    *extremes = oq_extremes_none();
    for (size_t done = 0; done < part->n; done += BLOCK) {
        struct part block = *part;
        block.data += done * item;
        block.n = part->n - done < BLOCK ? part->n - done : BLOCK;
        struct oq_extremes more = find_extremes(&block);
        oq_extremes_merge(extremes, &more);
        if (!oq_binner_add(binner, block.level, block.type, block.data, block.n, histogram)) {
            return false;
        }
    }
    return true;
}

static bool measure_part(const struct part *part, struct oq_measure_scratch *scratch,
                         struct oq_histogram *histogram, struct oq_extremes *extremes) {
    struct worker *worker = take_worker(scratch);
    if (worker->binner == NULL) {
        worker->binner = oq_binner_create();
    }
    if (histogram == NULL && worker->histogram == NULL) {
        worker->histogram = oq_histogram_create();
    }
    struct oq_histogram *into = histogram != NULL ? histogram : worker->histogram;
    bool good = worker->binner != NULL && into != NULL &&
                measure_blocks(part, worker->binner, into, extremes);
    atomic_flag_clear(&worker->taken);
    return good;
}

/* ---- Several parts ---- */

struct parts {
    struct part whole;
    size_t part_elements;
    struct oq_measure_scratch *scratch; /* NULL: extremes only */
    struct oq_extremes results[MAX_PARTS];
    atomic_bool failed;
};

static void run_part(void *arg, size_t index) {
    struct parts *parts = arg;
    struct part part = parts->whole;
    size_t first = index * parts->part_elements;
    part.data += first * oq_type_size(part.type);
    part.n = part.n - first < parts->part_elements ? part.n - first : parts->part_elements;
    if (parts->scratch == NULL) {
        parts->results[index] = find_extremes(&part);
    } else if (!measure_part(&part, parts->scratch, NULL, &parts->results[index])) {
        atomic_store(&parts->failed, true);
    }
}

static bool join_histograms(struct oq_measure_scratch *scratch, struct oq_histogram *histogram) {
    bool good = true;
    for (size_t i = 0; i < MAX_PARTS; i++) {
        struct worker *worker = &scratch->workers[i];
        if (worker->histogram == NULL) {
            continue;
        }
        good = good && oq_histogram_merge(histogram, worker->histogram);
        oq_histogram_destroy(worker->histogram);
        worker->histogram = NULL;
    }
    return good;
}

static bool measure_parallel(const struct oq_observed *tensor, const struct part *whole,
                             struct oq_measure_scratch *scratch, struct oq_histogram *histogram,
                             struct oq_extremes *extremes) {
    struct parts parts = {.whole = *whole, .scratch = histogram != NULL ? scratch : NULL};
    parts.part_elements =
        histogram != NULL ? BLOCK : EXTREMES_PART_BYTES / oq_type_size(whole->type);
    size_t least = (whole->n + MAX_PARTS - 1) / MAX_PARTS;
    if (parts.part_elements < least) {
        parts.part_elements = least;
    }
    size_t n = (whole->n + parts.part_elements - 1) / parts.part_elements;
    for (size_t i = 0; i < n; i++) {
        parts.results[i] = oq_extremes_none();
    }
    atomic_init(&parts.failed, false);
    tensor->parallel_for(tensor, n, run_part, &parts);
    *extremes = oq_extremes_none();
    for (size_t i = 0; i < n; i++) {
        oq_extremes_merge(extremes, &parts.results[i]);
    }
    bool joined = parts.scratch == NULL || join_histograms(parts.scratch, histogram);
    return joined && !atomic_load(&parts.failed);
}

bool oq_measure(const struct oq_observed *tensor, struct oq_measure_scratch *scratch,
                struct oq_histogram *histogram, struct oq_extremes *extremes) {
    const struct part whole = {.level = oq_vector_best(),
                               .type = tensor->type,
                               .data = tensor->data,
                               .n = tensor->n_elements};
    size_t parallel = histogram != NULL ? COUNT_PARALLEL_ELEMENTS
                                        : EXTREMES_PARALLEL_BYTES / oq_type_size(tensor->type);
    if (tensor->parallel_for != NULL && tensor->n_elements >= parallel) {
        return measure_parallel(tensor, &whole, scratch, histogram, extremes);
    }
    if (histogram != NULL) {
        return measure_part(&whole, scratch, histogram, extremes);
    }
    *extremes = find_extremes(&whole);
    return true;
}
