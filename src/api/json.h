/*
 * Making JSON text: a thin layer over yyjson that remembers the first failed allocation, so that
 * callers check once, and that keeps the text valid whatever bytes a model's names are made of.
 */
#ifndef OQ_API_JSON_H
#define OQ_API_JSON_H

#include "base/error.h"

#include <yyjson.h>

struct oq_json {
    yyjson_mut_doc *doc;
    yyjson_mut_val *root; /* an object */
    bool failed;
};

void oq_json_init(struct oq_json *json);
/* The text, malloc'ed, and the end of `json`: also to be called to give it up (`text` NULL). */
enum onnxptq_status oq_json_finish(struct oq_json *json, char **text, struct onnxptq_error *error)
    OQ_MUST_USE;

/* The same on one line. */
enum onnxptq_status oq_json_finish_line(struct oq_json *json, char **text,
                                        struct onnxptq_error *error) OQ_MUST_USE;

/* A copy of `text` in which bytes that are not UTF-8 have become U+FFFD, as all text here does;
 * malloc'ed. NULL: out of memory. */
char *oq_json_clean(const char *text);

/* All of these add to the object `parent` under `key`, or to the array `parent` when `key` is NULL.
 */
yyjson_mut_val *oq_json_object(struct oq_json *json, yyjson_mut_val *parent, const char *key);
yyjson_mut_val *oq_json_array(struct oq_json *json, yyjson_mut_val *parent, const char *key);
void oq_json_text(struct oq_json *json, yyjson_mut_val *parent, const char *key,
                  const char *text); /* NULL becomes null; bytes that are not UTF-8 become U+FFFD */
void oq_json_number(struct oq_json *json, yyjson_mut_val *parent, const char *key,
                    double value); /* null when not finite */
void oq_json_integer(struct oq_json *json, yyjson_mut_val *parent, const char *key, int64_t value);
void oq_json_count(struct oq_json *json, yyjson_mut_val *parent, const char *key, uint64_t value);
void oq_json_bool(struct oq_json *json, yyjson_mut_val *parent, const char *key, bool value);
void oq_json_null(struct oq_json *json, yyjson_mut_val *parent, const char *key);
/* Name, type and shape of a declaration; unknown dimensions are null, an unknown rank a null shape.
 */
void oq_json_declaration(struct oq_json *json, yyjson_mut_val *parent,
                         const struct onnxptq_tensor *tensor);

#endif
