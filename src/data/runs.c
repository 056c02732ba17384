/*
 * Which samples calibrate, which check, and how they are joined to runs.
 */
#include "base/size.h"
#include "data/source.h"

#include <stdlib.h>

/* Below this many samples there are none to spare for the check. */
#define HOLD_BACK_FROM 16
#define HOLD_BACK_EVERY 8

bool oq_data_held_back(const struct oq_data_source *source) {
    return oq_data_n_samples(source) >= HOLD_BACK_FROM;
}

static bool serves(const struct oq_data_source *source, enum oq_data_part part, size_t sample) {
    if (part == OQ_DATA_ALL || !oq_data_held_back(source)) {
        return true;
    }
    bool held_back = sample % HOLD_BACK_EVERY == HOLD_BACK_EVERY - 1;
    return held_back == (part == OQ_DATA_CHECK);
}

static size_t list_samples(const struct oq_data_source *source, enum oq_data_part part,
                           size_t *samples) {
    size_t n = 0;
    for (size_t i = 0; i < oq_data_n_samples(source); i++) {
        if (serves(source, part, i)) {
            samples[n++] = i;
        }
    }
    return n;
}

/* A part too small for one fixed batch fills it by starting over: measuring a sample twice is
 * better than measuring nothing. Else what does not fill a fixed batch is skipped. */
static void fit_fixed_batch(size_t batch, size_t *samples, size_t listed,
                            struct oq_data_runs *runs) {
    if (listed == 0) {
        return;
    }
    if (listed < batch) {
        for (size_t i = listed; i < batch; i++) {
            samples[i] = samples[i - listed];
        }
        runs->n_runs = 1;
    } else {
        runs->n_runs = listed / batch;
        runs->n_skipped = listed % batch;
    }
    runs->n_samples = listed - runs->n_skipped;
}

enum onnxptq_status oq_data_runs(struct oq_data_source *source, enum oq_data_part part,
                                 struct oq_data_runs *out, struct onnxptq_error *error) {
    size_t n = oq_data_n_samples(source), batch = oq_data_batch(source), n_first = 0, bytes = 0;
    struct oq_data_runs runs = {0};
    size_t capacity = n > batch ? n : batch;
    if (!oq_size_mul(capacity, sizeof(size_t), &bytes)) {
        return oq_fail_memory(error, "the list of samples");
    }
    size_t *samples = malloc(bytes);
    if (samples == NULL) {
        return oq_fail_memory(error, "the list of samples");
    }
    size_t listed = list_samples(source, part, samples);
    if (oq_data_batch_fixed(source)) {
        fit_fixed_batch(batch, samples, listed, &runs);
    } else {
        runs.n_runs = listed / batch + (listed % batch != 0);
        runs.n_samples = listed;
    }
    size_t *first = oq_size_add(runs.n_runs, 1, &n_first) ? calloc(n_first, sizeof *first) : NULL;
    if (first == NULL) {
        free(samples);
        return oq_fail_memory(error, "the list of samples");
    }
    size_t end = oq_data_batch_fixed(source) ? runs.n_runs * batch : listed;
    for (size_t i = 0; i <= runs.n_runs; i++) {
        first[i] = i * batch < end ? i * batch : end;
    }
    runs.first = first;
    runs.samples = samples;
    *out = runs;
    return ONNXPTQ_OK;
}

/* Appends n runs of `all`, evenly spread. */
static void append_runs(const struct oq_data_runs *all, size_t n, struct oq_data_runs *out,
                        size_t *first, size_t *samples) {
    for (size_t i = 0; i < n; i++) {
        size_t run = i * all->n_runs / n;
        for (size_t k = all->first[run]; k < all->first[run + 1]; k++) {
            samples[out->n_samples++] = all->samples[k];
        }
        first[++out->n_runs] = out->n_samples;
    }
}

enum onnxptq_status oq_data_runs_pick(const struct oq_data_runs *one, size_t n_one,
                                      const struct oq_data_runs *other, size_t n_other,
                                      struct oq_data_runs *out, struct onnxptq_error *error) {
    size_t *first = calloc(one->n_runs + other->n_runs + 1, sizeof *first);
    size_t *samples =
        calloc(one->first[one->n_runs] + other->first[other->n_runs] + 1, sizeof *samples);
    if (first == NULL || samples == NULL) {
        free(first);
        free(samples);
        return oq_fail_memory(error, "the list of samples");
    }
    struct oq_data_runs runs = {.first = first, .samples = samples};
    append_runs(one, n_one < one->n_runs ? n_one : one->n_runs, &runs, first, samples);
    append_runs(other, n_other < other->n_runs ? n_other : other->n_runs, &runs, first, samples);
    *out = runs;
    return ONNXPTQ_OK;
}

void oq_data_runs_reset(struct oq_data_runs *runs) {
    free((void *)(uintptr_t)runs->first);
    free((void *)(uintptr_t)runs->samples);
    *runs = (struct oq_data_runs){0};
}
