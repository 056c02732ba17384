/*
 * Patterns of names, through PCRE2.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "quant/pattern.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATTERN ((size_t)16 << 10)
/* Far above what a sane pattern needs for a name, and milliseconds at most. */
#define MATCH_LIMIT 200000
#define DEPTH_LIMIT 10000
#define HEAP_LIMIT_KIB 16384

struct oq_pattern {
    char *text;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
};

static enum onnxptq_status fail_compile(const char *text, int code, size_t position,
                                        struct onnxptq_error *error) {
    char reason[160];
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason) < 0) {
        strcpy(reason, "unknown error");
    }
    return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                   "cannot use pattern '%s': it is no regular expression (position %zu: %s); put a "
                   "backslash in front of characters that stand for themselves",
                   text, position, reason);
}

static enum onnxptq_status compile(struct oq_pattern *pattern, struct onnxptq_error *error) {
    const uint32_t options = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF |
                             PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C |
                             PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL;
    size_t length = strlen(pattern->text);
    int code = 0;
    PCRE2_SIZE position = 0;
    if (length > MAX_PATTERN) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use a pattern of %zu characters; at most %zu are taken", length,
                       MAX_PATTERN);
    }
    pattern->code =
        pcre2_compile((PCRE2_SPTR)pattern->text, length, options, &code, &position, NULL);
    if (pattern->code == NULL) {
        return fail_compile(pattern->text, code, position, error);
    }
    pattern->data = pcre2_match_data_create(1, NULL);
    pattern->context = pcre2_match_context_create(NULL);
    if (pattern->data == NULL || pattern->context == NULL) {
        return oq_fail_memory(error, "a pattern");
    }
    pcre2_set_match_limit(pattern->context, MATCH_LIMIT);
    pcre2_set_depth_limit(pattern->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(pattern->context, HEAP_LIMIT_KIB);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_pattern_create(const char *text, struct oq_pattern **out,
                                      struct onnxptq_error *error) {
    struct oq_pattern *pattern = calloc(1, sizeof *pattern);
    if (pattern == NULL) {
        return oq_fail_memory(error, "a pattern");
    }
    pattern->text = strdup(text);
    enum onnxptq_status status =
        pattern->text != NULL ? compile(pattern, error) : oq_fail_memory(error, "a pattern");
    if (status != ONNXPTQ_OK) {
        oq_pattern_destroy(pattern);
        return status;
    }
    *out = pattern;
    return ONNXPTQ_OK;
}

void oq_pattern_destroy(struct oq_pattern *pattern) {
    if (pattern == NULL) {
        return;
    }
    pcre2_match_context_free(pattern->context);
    pcre2_match_data_free(pattern->data);
    pcre2_code_free(pattern->code);
    free(pattern->text);
    free(pattern);
}

enum onnxptq_status oq_pattern_match(const struct oq_pattern *pattern, const char *name,
                                     bool *matches, struct onnxptq_error *error) {
    int found = pcre2_match(pattern->code, (PCRE2_SPTR)name, strlen(name), 0, 0, pattern->data,
                            pattern->context);
    if (found == PCRE2_ERROR_NOMEMORY) {
        return oq_fail_memory(error, "matching a pattern");
    }
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
        return oq_fail(
            error, ONNXPTQ_ERROR_USAGE,
            "cannot match pattern '%s' against node '%s': it takes too many steps; write it "
            "with fewer nested repetitions",
            pattern->text, name);
    }
    *matches = found >= 0;
    return ONNXPTQ_OK;
}
