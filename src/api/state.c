/*
 * State files: reading, joining, removing.
 */
#include "api/state.h"

#include "base/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names --------------------------------------------------------------------------------- */

char *oq_state_part_path(const char *path, size_t part) {
    size_t size = strlen(path) + 24;
    char *text = malloc(size);
    if (text != NULL) {
        (void)snprintf(text, size, "%s.%zu", path, part + 1);
    }
    return text;
}

/* Calls `act` for every state file of `path` that there is. */
static enum onnxptq_status for_each(const char *path,
                                    enum onnxptq_status (*act)(void *user, const char *file,
                                                               struct onnxptq_error *error),
                                    void *user, struct onnxptq_error *error) {
    if (oq_path_is_taken(path)) {
        OQ_TRY(act(user, path, error));
    }
    for (size_t i = 0; i < OQ_STATE_MAX_PARTS; i++) {
        char *file = oq_state_part_path(path, i);
        if (file == NULL) {
            return oq_fail_memory(error, "a path");
        }
        enum onnxptq_status status = oq_path_is_taken(file) ? act(user, file, error) : ONNXPTQ_OK;
        free(file);
        OQ_TRY(status);
    }
    return ONNXPTQ_OK;
}

/* ---- What is done -------------------------------------------------------------------------- */

static const char digits[] = "0123456789abcdef";

static unsigned value_of(char digit) {
    const char *place = digit != '\0' ? strchr(digits, digit) : NULL;
    return place != NULL ? (unsigned)(place - digits) : 0;
}

char *oq_state_done_create(size_t n_runs) {
    size_t n = (n_runs + 3) / 4;
    char *done = malloc(n + 1);
    if (done != NULL) {
        memset(done, '0', n);
        done[n] = '\0';
    }
    return done;
}

bool oq_state_is_done(const char *done, size_t run) {
    return (value_of(done[run / 4]) >> (run % 4) & 1U) != 0;
}

void oq_state_mark_done(char *done, size_t run) {
    done[run / 4] = digits[value_of(done[run / 4]) | 1U << (run % 4)];
}

enum overlap { APART, INSIDE, MIXED };

/* How `added` lies to `done`, both of the same length. */
static enum overlap compare_done(const char *done, const char *added) {
    bool new = false, old = false;
    for (size_t i = 0; done[i] != '\0'; i++) {
        unsigned own = value_of(done[i]), other = value_of(added[i]);
        new = new || (other & ~own) != 0;
        old = old || (other & own) != 0;
    }
    return !old ? APART : !new ? INSIDE : MIXED;
}

static bool add_done(struct oq_ranges *ranges, const char *added) {
    char *done = oq_arena_strdup(ranges->arena, ranges->state_done);
    for (size_t i = 0; done != NULL && done[i] != '\0'; i++) {
        done[i] = digits[value_of(done[i]) | value_of(added[i])];
    }
    ranges->state_done = done;
    return done != NULL;
}

/* ---- Reading ------------------------------------------------------------------------------- */

static enum onnxptq_status fail_no_state(const char *path, struct onnxptq_error *error) {
    return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                   "cannot keep the state of calibration in '%s': that is another file; move it, "
                   "or name the state with --state",
                   path);
}

enum onnxptq_status oq_state_read(const char *path, struct oq_ranges **out,
                                  struct onnxptq_error *error) {
    *out = NULL;
    if (!oq_path_is_taken(path)) {
        return ONNXPTQ_OK;
    }
    struct oq_ranges *ranges = NULL;
    OQ_TRY(oq_ranges_read(path, &ranges, error));
    if (ranges->state_key == NULL || ranges->state_done == NULL) {
        oq_ranges_destroy(ranges);
        return fail_no_state(path, error);
    }
    *out = ranges;
    return ONNXPTQ_OK;
}

/* What a crash in the middle of joining left is in the joined file already. */
static enum onnxptq_status join(struct oq_ranges *ranges, const struct oq_ranges *added,
                                const char *path, struct onnxptq_error *error) {
    bool same = strcmp(ranges->state_key, added->state_key) == 0 &&
                strlen(ranges->state_done) == strlen(added->state_done);
    enum overlap overlap = same ? compare_done(ranges->state_done, added->state_done) : MIXED;
    if (overlap == MIXED) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot resume from '%s': it is of another run than the state files beside "
                       "it; remove the older ones, or leave --resume out to begin anew",
                       path);
    }
    if (overlap == INSIDE) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_ranges_merge(ranges, added, path, error));
    return add_done(ranges, added->state_done) ? ONNXPTQ_OK : oq_fail_memory(error, "the state");
}

static enum onnxptq_status read_and_join(void *user, const char *file,
                                         struct onnxptq_error *error) {
    struct oq_ranges **all = user, *next = NULL;
    OQ_TRY(oq_state_read(file, &next, error));
    if (next == NULL) {
        return ONNXPTQ_OK; /* it has gone meanwhile */
    }
    if (*all == NULL) {
        *all = next;
        return ONNXPTQ_OK;
    }
    enum onnxptq_status status = join(*all, next, file, error);
    oq_ranges_destroy(next);
    return status;
}

enum onnxptq_status oq_state_read_all(const char *path, struct oq_ranges **out,
                                      struct onnxptq_error *error) {
    struct oq_ranges *all = NULL;
    enum onnxptq_status status = for_each(path, read_and_join, &all, error);
    if (status != ONNXPTQ_OK) {
        oq_ranges_destroy(all);
        return status;
    }
    *out = all;
    return ONNXPTQ_OK;
}

/* ---- Joining and removing ------------------------------------------------------------------ */

/* Told by its beginning, since a broken state is one to be removed. */
static bool is_state(const char *path, struct onnxptq_error *error) {
    struct oq_mapping mapping;
    if (oq_mapping_open(path, &mapping, error) != ONNXPTQ_OK) {
        return false;
    }
    static const char begin[] = "{\"format\":\"" OQ_RANGES_FORMAT "\"";
    bool good =
        mapping.size >= sizeof begin - 1 && memcmp(mapping.data, begin, sizeof begin - 1) == 0;
    const char *end = good ? memchr(mapping.data, '\n', mapping.size) : NULL;
    bool found = false;
    for (const char *p = (const char *)mapping.data; end != NULL && p + 6 < end && !found; p++) {
        found = memcmp(p, "\"run\":", 6) == 0;
    }
    oq_mapping_close(&mapping);
    return good && found;
}

static enum onnxptq_status check_state(void *user, const char *file, struct onnxptq_error *error) {
    (void)user;
    return is_state(file, NULL) ? ONNXPTQ_OK : fail_no_state(file, error);
}

static enum onnxptq_status remove_state(void *user, const char *file, struct onnxptq_error *error) {
    (void)error;
    oq_temporary_remove_stale(file);
    if (user == NULL || strcmp(file, user) != 0) {
        oq_file_remove(file);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status onnxptq_state_discard(const char *path, struct onnxptq_error *error) {
    OQ_TRY(for_each(path, check_state, NULL, error));
    return for_each(path, remove_state, NULL, error);
}

enum onnxptq_status onnxptq_state_join(const char *path, struct onnxptq_error *error) {
    struct oq_ranges *all = NULL;
    OQ_TRY(oq_state_read_all(path, &all, error));
    if (all == NULL) {
        return ONNXPTQ_OK;
    }
    enum onnxptq_status status = oq_ranges_save(all, path, error);
    oq_ranges_destroy(all);
    OQ_TRY(status);
    return for_each(path, remove_state, (void *)(uintptr_t)path, error);
}
