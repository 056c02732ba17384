/*
 * The search for nodes that cost most; see search.h.
 */
#include "api/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A unit is worth its loss over its size plus this: among small ones the loss alone counts. */
#define LEAST_SIZE 0.01
/* Groups are split until the others together lose no more than this part of what may be lost. */
#define REST 0.5
#define ROUNDING 1e-9

struct state {
    const struct oq_search_spec *spec;
    struct oq_search_result *result;
    const bool *given; /* held from the start */
    bool *held, *alone;
    size_t capacity;
};

static enum onnxptq_status measure(struct state *state, const bool *held, double *loss,
                                   struct onnxptq_error *error) {
    state->result->n_measured++;
    return state->spec->measure(state->spec->user, held, loss, error);
}

static double size_of(const struct oq_search_spec *spec, size_t first, size_t n) {
    double size = 0.0;
    for (size_t i = first; i < first + n; i++) {
        size += spec->sizes != NULL ? spec->sizes[i] : 1.0 / (double)spec->n;
    }
    return size;
}

/* Everything held but the nodes [first, first + n). */
static enum onnxptq_status measure_alone(struct state *state, struct oq_search_unit *unit,
                                         struct onnxptq_error *error) {
    const struct oq_search_spec *spec = state->spec;
    memcpy(state->alone, state->given, spec->n_nodes * sizeof(bool));
    for (size_t i = 0; i < spec->n; i++) {
        const bool own = i >= unit->first && i < unit->first + unit->n;
        state->alone[spec->nodes[i]] |= !own;
    }
    return measure(state, state->alone, &unit->loss, error);
}

static enum onnxptq_status add_unit(struct state *state, size_t first, size_t n,
                                    struct onnxptq_error *error) {
    struct oq_search_result *result = state->result;
    struct oq_search_unit unit = {.first = first, .n = n, .size = size_of(state->spec, first, n)};
    if (result->n_units == state->capacity) {
        size_t capacity = 2 * state->capacity + 64;
        void *units = realloc(result->units, capacity * sizeof unit);
        if (units == NULL) {
            return oq_fail_memory(error, "the search");
        }
        result->units = units;
        state->capacity = capacity;
    }
    OQ_TRY(measure_alone(state, &unit, error));
    result->units[result->n_units++] = unit;
    return ONNXPTQ_OK;
}

static int by_loss(const void *a, const void *b) {
    const struct oq_search_unit *left = a, *right = b;
    if (left->loss > right->loss || left->loss < right->loss) {
        return left->loss > right->loss ? -1 : 1;
    }
    return left->first < right->first ? -1 : left->first > right->first;
}

static void sort_units(struct oq_search_result *result) {
    if (result->n_units > 0) {
        qsort(result->units, result->n_units, sizeof *result->units, by_loss);
    }
}

static enum onnxptq_status measure_groups(struct state *state, struct onnxptq_error *error) {
    const struct oq_search_spec *spec = state->spec;
    const size_t groups = spec->max_groups < spec->n ? spec->max_groups : spec->n;
    for (size_t g = 0; g < groups; g++) {
        const size_t first = g * spec->n / groups, end = (g + 1) * spec->n / groups;
        OQ_TRY(add_unit(state, first, end - first, error));
    }
    sort_units(state->result);
    return ONNXPTQ_OK;
}

/* Of the units behind the first `n`. */
static double loss_behind(const struct oq_search_result *result, size_t n) {
    double loss = 0.0;
    for (size_t i = n; i < result->n_units; i++) {
        loss += result->units[i].held ? 0.0 : result->units[i].loss;
    }
    return loss;
}

/* Nodes of the costliest groups, each alone. */
static enum onnxptq_status split_costliest(struct state *state, struct onnxptq_error *error) {
    struct oq_search_result *result = state->result;
    size_t n_split = 0, singles = 0;
    while (n_split < result->n_units &&
           loss_behind(result, n_split) > REST * state->spec->most_loss &&
           singles + result->units[n_split].n <= state->spec->max_singles) {
        singles += result->units[n_split].n > 1 ? result->units[n_split].n : 0;
        n_split++;
    }
    struct oq_search_unit *groups = calloc(n_split + 1, sizeof *groups);
    if (groups == NULL) {
        return oq_fail_memory(error, "the search");
    }
    if (n_split > 0) {
        memcpy(groups, result->units, n_split * sizeof *groups);
        result->n_units -= n_split;
        memmove(result->units, result->units + n_split, result->n_units * sizeof *groups);
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    for (size_t g = 0; g < n_split && status == ONNXPTQ_OK; g++) {
        if (groups[g].n == 1) {
            result->units[result->n_units++] = groups[g]; /* measured already; there is room */
            continue;
        }
        for (size_t i = 0; i < groups[g].n && status == ONNXPTQ_OK; i++) {
            status = add_unit(state, groups[g].first + i, 1, error);
        }
    }
    free(groups);
    sort_units(result);
    return status;
}

static void set_held(struct state *state, struct oq_search_unit *unit, bool held) {
    unit->held = held;
    for (size_t i = unit->first; i < unit->first + unit->n; i++) {
        state->held[state->spec->nodes[i]] = held;
    }
}

/* The unit that loses most for its size among those that may still be held, or NULL. */
static struct oq_search_unit *find_worth(const struct oq_search_result *result, const bool *tried,
                                         double room) {
    struct oq_search_unit *best = NULL;
    double best_worth = 0.0;
    for (size_t i = 0; i < result->n_units; i++) {
        struct oq_search_unit *unit = &result->units[i];
        const double worth = unit->loss / (unit->size + LEAST_SIZE);
        if (!unit->held && !tried[i] && unit->size <= room && worth > best_worth) {
            best = unit;
            best_worth = worth;
        }
    }
    return best;
}

static void release_all(struct state *state) {
    for (size_t i = 0; i < state->result->n_units; i++) {
        set_held(state, &state->result->units[i], false);
    }
}

/* As many at once as the sum of losses asks for. Where losses do not add up, nothing is held. */
static enum onnxptq_status hold_by_estimate(struct state *state, const bool *tried,
                                            struct onnxptq_error *error) {
    struct oq_search_result *result = state->result;
    double room = state->spec->most_held + ROUNDING, loss = 0.0;
    struct oq_search_unit *unit = NULL;
    while (loss_behind(result, 0) > state->spec->most_loss &&
           (unit = find_worth(result, tried, room)) != NULL) {
        set_held(state, unit, true);
        room -= unit->size;
    }
    OQ_TRY(measure(state, state->held, &loss, error));
    if (loss <= state->spec->most_loss) {
        result->loss = loss;
    } else {
        release_all(state);
    }
    return ONNXPTQ_OK;
}

/* One after the other, each kept only when it helps. */
static enum onnxptq_status hold_by_trial(struct state *state, bool *tried,
                                         struct onnxptq_error *error) {
    struct oq_search_result *result = state->result;
    double room = state->spec->most_held + ROUNDING;
    for (size_t trials = 0;
         trials < state->spec->max_trials && result->loss > state->spec->most_loss; trials++) {
        struct oq_search_unit *unit = find_worth(result, tried, room);
        double loss = 0.0;
        if (unit == NULL) {
            break;
        }
        tried[unit - result->units] = true;
        set_held(state, unit, true);
        OQ_TRY(measure(state, state->held, &loss, error));
        if (loss < result->loss) {
            result->loss = loss;
            room -= unit->size;
        } else {
            set_held(state, unit, false);
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status hold_worst(struct state *state, struct onnxptq_error *error) {
    bool *tried = calloc(state->result->n_units + 1, sizeof *tried);
    if (tried == NULL) {
        return oq_fail_memory(error, "the search");
    }
    enum onnxptq_status status = hold_by_estimate(state, tried, error);
    if (status == ONNXPTQ_OK && state->result->loss > state->spec->most_loss) {
        status = hold_by_trial(state, tried, error);
    }
    free(tried);
    return status;
}

static enum onnxptq_status search(struct state *state, struct onnxptq_error *error) {
    struct oq_search_result *result = state->result;
    OQ_TRY(measure(state, state->held, &result->loss_before, error));
    result->loss = result->loss_before;
    if (result->loss <= state->spec->most_loss || state->spec->n == 0) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(measure_groups(state, error));
    OQ_TRY(split_costliest(state, error));
    return hold_worst(state, error);
}

enum onnxptq_status oq_search_held(const struct oq_search_spec *spec, bool *held,
                                   struct oq_search_result *out, struct onnxptq_error *error) {
    const size_t size = ((size_t)spec->n_nodes + 1) * sizeof(bool);
    bool *given = malloc(size);
    struct state state = {
        .spec = spec, .result = out, .given = given, .held = held, .alone = malloc(size)};
    *out = (struct oq_search_result){0};
    enum onnxptq_status status = ONNXPTQ_OK;
    if (given == NULL || state.alone == NULL) {
        status = oq_fail_memory(error, "the search");
    } else {
        memcpy(given, held, spec->n_nodes * sizeof(bool));
        status = search(&state, error);
    }
    free(state.alone);
    free(given);
    if (status != ONNXPTQ_OK) {
        oq_search_result_reset(out);
    }
    return status;
}

void oq_search_result_reset(struct oq_search_result *result) {
    free(result->units);
    *result = (struct oq_search_result){0};
}
