/*
 * Ranges in memory: adding, finding, merging.
 */
#include "api/ranges.h"

#include <stdlib.h>
#include <string.h>

enum onnxptq_status oq_ranges_create(struct oq_ranges **out, struct onnxptq_error *error) {
    struct oq_ranges *ranges = calloc(1, sizeof *ranges);
    if (ranges != NULL) {
        ranges->arena = oq_arena_create();
        ranges->trace.by_name = oq_map_create();
        ranges->tensors.by_name = oq_map_create();
        if (ranges->arena != NULL && ranges->trace.by_name != NULL &&
            ranges->tensors.by_name != NULL) {
            *out = ranges;
            return ONNXPTQ_OK;
        }
    }
    oq_ranges_destroy(ranges);
    return oq_fail_memory(error, "the ranges");
}

static void reset_list(struct oq_ranges_list *list, bool is_view) {
    for (size_t i = 0; i < list->n && !is_view; i++) {
        oq_statistics_reset(&list->tensors[i].statistics);
    }
    free(list->tensors);
    oq_map_destroy(list->by_name);
}

void oq_ranges_destroy(struct oq_ranges *ranges) {
    if (ranges == NULL) {
        return;
    }
    reset_list(&ranges->trace, ranges->is_view);
    reset_list(&ranges->tensors, ranges->is_view);
    oq_arena_destroy(ranges->arena);
    free(ranges);
}

struct oq_ranges_tensor *oq_ranges_add(struct oq_ranges *ranges, struct oq_ranges_list *list,
                                       const char *name) {
    void *tensors = list->tensors;
    const char *copy = oq_arena_strdup(ranges->arena, name);
    if (copy == NULL || !oq_grow(&tensors, &list->capacity, list->n + 1, sizeof *list->tensors)) {
        return NULL;
    }
    list->tensors = tensors;
    if (!oq_map_put_name(list->by_name, copy, list->n)) {
        return NULL;
    }
    struct oq_ranges_tensor *tensor = &list->tensors[list->n++];
    *tensor = (struct oq_ranges_tensor){.name = copy};
    oq_statistics_init(&tensor->statistics);
    return tensor;
}

struct oq_ranges_tensor *oq_ranges_find(const struct oq_ranges_list *list, const char *name) {
    size_t index = 0;
    return oq_map_get_name(list->by_name, name, &index) ? &list->tensors[index] : NULL;
}

/* ---- Merging ---- */

static enum onnxptq_status merge_tensor(struct oq_ranges_tensor *tensor,
                                        const struct oq_ranges_tensor *other,
                                        struct onnxptq_error *error) {
    if (tensor->fixed && other->fixed) {
        tensor->fixed_min =
            other->fixed_min < tensor->fixed_min ? other->fixed_min : tensor->fixed_min;
        tensor->fixed_max =
            other->fixed_max > tensor->fixed_max ? other->fixed_max : tensor->fixed_max;
    }
    return oq_statistics_merge(&tensor->statistics, &other->statistics)
               ? ONNXPTQ_OK
               : oq_fail_memory(error, "the merged ranges");
}

/* The first tensor of `list` that `twins` has not, or has in another way. */
static const struct oq_ranges_tensor *find_unpaired(const struct oq_ranges_list *list,
                                                    const struct oq_ranges_list *twins) {
    for (size_t i = 0; i < list->n; i++) {
        const struct oq_ranges_tensor *tensor = &list->tensors[i];
        const struct oq_ranges_tensor *twin = oq_ranges_find(twins, tensor->name);
        if (twin == NULL || twin->fixed != tensor->fixed) {
            return tensor;
        }
    }
    return NULL;
}

static enum onnxptq_status check_merge(const struct oq_ranges *ranges,
                                       const struct oq_ranges *other, const char *path,
                                       struct onnxptq_error *error) {
    if (strcmp(ranges->fingerprint, other->fingerprint) != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot merge ranges '%s': they are of another model than the ones before",
                       path);
    }
    const struct oq_ranges_list *own = &ranges->tensors, *added = &other->tensors;
    const struct oq_ranges_tensor *unpaired = find_unpaired(added, own);
    if (unpaired == NULL) {
        unpaired = find_unpaired(own, added);
    }
    if (unpaired != NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot merge ranges '%s': not every file has tensor '%s'; calibrate all of "
                       "them with the same target and selection",
                       path, unpaired->name);
    }
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_ranges_merge(struct oq_ranges *ranges, const struct oq_ranges *other,
                                    const char *path, struct onnxptq_error *error) {
    OQ_TRY(check_merge(ranges, other, path, error));
    for (size_t i = 0; i < other->tensors.n; i++) {
        const struct oq_ranges_tensor *tensor = &other->tensors.tensors[i];
        OQ_TRY(merge_tensor(oq_ranges_find(&ranges->tensors, tensor->name), tensor, error));
    }
    ranges->n_samples += other->n_samples;
    return ONNXPTQ_OK;
}
