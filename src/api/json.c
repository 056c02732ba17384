/*
 * Making JSON text.
 */
#include "api/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void oq_json_init(struct oq_json *json) {
    json->doc = yyjson_mut_doc_new(NULL);
    json->root = yyjson_mut_obj(json->doc);
    json->failed = json->root == NULL;
    yyjson_mut_doc_set_root(json->doc, json->root);
}

static enum onnxptq_status finish(struct oq_json *json, yyjson_write_flag flags, char **text,
                                  struct onnxptq_error *error) {
    char *written = NULL;
    if (text != NULL && !json->failed) {
        written = yyjson_mut_write(json->doc, flags, NULL);
    }
    yyjson_mut_doc_free(json->doc);
    json->doc = NULL;
    if (text == NULL) {
        return ONNXPTQ_OK;
    }
    if (written == NULL) {
        return oq_fail_memory(error, "the report");
    }
    *text = written;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_json_finish(struct oq_json *json, char **text, struct onnxptq_error *error) {
    return finish(json, YYJSON_WRITE_PRETTY_TWO_SPACES, text, error);
}

enum onnxptq_status oq_json_finish_line(struct oq_json *json, char **text,
                                        struct onnxptq_error *error) {
    return finish(json, YYJSON_WRITE_NOFLAG, text, error);
}

/* ---- Text that is always UTF-8 ------------------------------------------------------------- */

/* Bytes of the sequence that `first` begins; 0 when none begins so. */
static size_t claimed_length(unsigned char first) {
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xC2 || first > 0xF4) {
        return 0; /* a continuation, an overlong form, beyond U+10FFFF */
    }
    return first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
}

/* Bytes of the UTF-8 sequence at `p`, which has `left` bytes; 0 when there is none. */
static size_t sequence_length(const unsigned char *p, size_t left) {
    size_t length = claimed_length(p[0]);
    if (length > left) {
        return 0;
    }
    /* The second byte alone tells overlong forms, surrogates and what lies beyond U+10FFFF. */
    unsigned char low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < length; i++) {
        if (p[i] < low || p[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

/* Copies `size` bytes to `to`, which has room for three times as many; returns the bytes written.
 */
static size_t replace_invalid(const char *text, size_t size, char *to) {
    static const unsigned char replacement[] = {0xEF, 0xBF, 0xBD}; /* U+FFFD */
    size_t written = 0;
    for (size_t at = 0; at < size;) {
        size_t length = sequence_length((const unsigned char *)text + at, size - at);
        if (length > 0) {
            memcpy(to + written, text + at, length);
            written += length;
            at += length;
        } else {
            memcpy(to + written, replacement, sizeof replacement);
            written += sizeof replacement;
            at++;
        }
    }
    return written;
}

char *oq_json_clean(const char *text) {
    size_t size = strlen(text);
    char *clean = malloc(3 * size + 1);
    if (clean != NULL) {
        clean[replace_invalid(text, size, clean)] = '\0';
    }
    return clean;
}

static yyjson_mut_val *make_text(struct oq_json *json, const char *text) {
    if (text == NULL) {
        return yyjson_mut_null(json->doc);
    }
    char *clean = oq_json_clean(text);
    yyjson_mut_val *value = clean != NULL ? yyjson_mut_strcpy(json->doc, clean) : NULL;
    free(clean);
    return value;
}

/* ---- Values -------------------------------------------------------------------------------- */

static yyjson_mut_val *add(struct oq_json *json, yyjson_mut_val *parent, const char *key,
                           yyjson_mut_val *value) {
    bool good = key ? yyjson_mut_obj_add(parent, make_text(json, key), value)
                    : yyjson_mut_arr_append(parent, value);
    json->failed = json->failed || !good;
    return good ? value : NULL;
}

yyjson_mut_val *oq_json_object(struct oq_json *json, yyjson_mut_val *parent, const char *key) {
    return add(json, parent, key, yyjson_mut_obj(json->doc));
}

yyjson_mut_val *oq_json_array(struct oq_json *json, yyjson_mut_val *parent, const char *key) {
    return add(json, parent, key, yyjson_mut_arr(json->doc));
}

void oq_json_text(struct oq_json *json, yyjson_mut_val *parent, const char *key, const char *text) {
    add(json, parent, key, make_text(json, text));
}

void oq_json_number(struct oq_json *json, yyjson_mut_val *parent, const char *key, double value) {
    add(json, parent, key,
        isfinite(value) ? yyjson_mut_real(json->doc, value) : yyjson_mut_null(json->doc));
}

void oq_json_integer(struct oq_json *json, yyjson_mut_val *parent, const char *key, int64_t value) {
    add(json, parent, key, yyjson_mut_sint(json->doc, value));
}

void oq_json_count(struct oq_json *json, yyjson_mut_val *parent, const char *key, uint64_t value) {
    add(json, parent, key, yyjson_mut_uint(json->doc, value));
}

void oq_json_bool(struct oq_json *json, yyjson_mut_val *parent, const char *key, bool value) {
    add(json, parent, key, yyjson_mut_bool(json->doc, value));
}

void oq_json_null(struct oq_json *json, yyjson_mut_val *parent, const char *key) {
    add(json, parent, key, yyjson_mut_null(json->doc));
}

void oq_json_declaration(struct oq_json *json, yyjson_mut_val *parent,
                         const struct onnxptq_tensor *tensor) {
    yyjson_mut_val *object = oq_json_object(json, parent, NULL);
    oq_json_text(json, object, "name", tensor->name);
    oq_json_text(json, object, "type", onnxptq_type_name(tensor->type));
    if (tensor->type == ONNXPTQ_TYPE_UNDEFINED) {
        oq_json_null(json, object, "shape");
        return;
    }
    yyjson_mut_val *shape = oq_json_array(json, object, "shape");
    for (size_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0) {
            oq_json_null(json, shape, NULL);
        } else {
            oq_json_integer(json, shape, NULL, tensor->shape[i]);
        }
    }
}
