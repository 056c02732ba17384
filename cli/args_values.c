/*
 * Values of options: numbers, choices, lists, shapes, ranges.
 */
#include "args.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* "option '--samples' cannot be 'x': <fact>" */
__attribute__((format(printf, 4, 5))) static bool refuse(struct onnxptq_error *error,
                                                         const struct option_row *row,
                                                         const char *text, const char *format,
                                                         ...) {
    char fact[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fact, sizeof fact, format, arguments);
    va_end(arguments);
    error->status = ONNXPTQ_ERROR_USAGE;
    snprintf(error->message, sizeof error->message, "cannot use option '--%s %.200s': %s",
             row->name, text, fact);
    return false;
}

/* ---- Plain values -------------------------------------------------------------------------- */

/* Decimal digits only: strtoull would take signs and blanks. */
static bool parse_number(const char *text, uint64_t *value) {
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text)) {
        return false;
    }
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    *value = number;
    return errno == 0;
}

static bool store_number(uint64_t *field, const struct option_row *row, const char *text,
                         uint64_t minimum, struct onnxptq_error *error) {
    uint64_t value = 0;
    if (!parse_number(text, &value) || value < minimum || value > INT64_MAX) {
        return refuse(error, row, text, "it takes a whole number, at least %u", (unsigned)minimum);
    }
    *field = value;
    return true;
}

static bool store_choice(int *field, const struct option_row *row, const char *text,
                         struct onnxptq_error *error) {
    char names[128] = "";
    for (const struct choice *choice = row->choices; choice->name != NULL; choice++) {
        if (strcmp(choice->name, text) == 0) {
            *field = choice->value;
            return true;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", choice->name);
    }
    return refuse(error, row, text, "it takes one of: %s", names);
}

/* ---- Pieces of a value --------------------------------------------------------------------- */

/* A copy of the first `length` bytes, kept until the end. NULL when out of memory. */
static const char *keep_piece(struct args *args, const char *text, size_t length) {
    char *piece = strndup(text, length);
    if (piece == NULL) {
        return NULL;
    }
    const char **grown = realloc(args->pieces.items, (args->pieces.n + 1) * sizeof *grown);
    if (grown == NULL) {
        free(piece);
        return NULL;
    }
    args->pieces.items = grown;
    args->pieces.items[args->pieces.n++] = piece;
    return piece;
}

static bool out_of_memory(struct onnxptq_error *error) {
    *error = (struct onnxptq_error){.status = ONNXPTQ_ERROR_MEMORY, .message = "out of memory"};
    return false;
}

static bool store_commas(struct args *args, struct text_list *list, const struct option_row *row,
                         const char *text, struct onnxptq_error *error) {
    list->n = 0; /* given twice, the last counts */
    free(list->items);
    list->items = calloc(strlen(text) + 1, sizeof *list->items);
    if (list->items == NULL) {
        return out_of_memory(error);
    }
    for (const char *p = text;; p++) {
        size_t length = strcspn(p, ",");
        if (length == 0) {
            return refuse(error, row, text, "an entry between commas is empty");
        }
        const char *piece = keep_piece(args, p, length);
        if (piece == NULL) {
            return out_of_memory(error);
        }
        list->items[list->n++] = piece;
        p += length;
        if (*p == '\0') {
            return true;
        }
    }
}

/* ---- Shapes and ranges --------------------------------------------------------------------- */

/* "1x3x8x8"; the whole text must be one. */
static bool parse_shape(const char *text, struct onnxptq_input_shape *shape) {
    char number[24];
    for (const char *p = text;; p++) {
        size_t length = strcspn(p, "x");
        uint64_t dim = 0;
        if (length >= sizeof number || shape->rank == ONNXPTQ_MAX_RANK) {
            return false;
        }
        memcpy(number, p, length);
        number[length] = '\0';
        if (!parse_number(number, &dim) || dim > INT64_MAX) {
            return false;
        }
        shape->shape[shape->rank++] = (int64_t)dim;
        p += length;
        if (*p == '\0') {
            return true;
        }
    }
}

/* Names may hold colons themselves: the value follows the last one. */
static bool store_shape(struct args *args, struct shape_list *list, const struct option_row *row,
                        const char *text, struct onnxptq_error *error) {
    struct onnxptq_input_shape shape = {0};
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || !parse_shape(colon + 1, &shape)) {
        return refuse(error, row, text,
                      "it takes an input's name, a colon and numbers, as in x:1x3x224x224");
    }
    shape.name = keep_piece(args, text, (size_t)(colon - text));
    if (shape.name == NULL) {
        return out_of_memory(error);
    }
    list->items[list->n++] = shape;
    return true;
}

static bool parse_real(const char *text, double *value) {
    char *end = NULL;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*value);
}

static bool store_real(double *field, const struct option_row *row, const char *text,
                       struct onnxptq_error *error) {
    return parse_real(text, field) || refuse(error, row, text, "it takes a number");
}

static bool store_range(struct args *args, const struct option_row *row, const char *text,
                        struct onnxptq_error *error) {
    struct onnxptq_input_range range = {0};
    const char *second = strrchr(text, ':');
    const char *low = second;
    while (low != NULL && low > text && low[-1] != ':') {
        low--;
    }
    bool good = low != NULL && low > text + 1;
    const char *low_text = good ? keep_piece(args, low, (size_t)(second - low)) : NULL;
    range.name = good ? keep_piece(args, text, (size_t)(low - 1 - text)) : NULL;
    if (good && (low_text == NULL || range.name == NULL)) {
        return out_of_memory(error);
    }
    if (!good || !parse_real(low_text, &range.low) || !parse_real(second + 1, &range.high) ||
        range.low > range.high) {
        return refuse(error, row, text,
                      "it takes an input's name and two numbers, the lower first, as in x:-1:1");
    }
    args->ranges[args->n_ranges++] = range;
    return true;
}

/* "2/8" */
static bool store_shard(struct args *args, const struct option_row *row, const char *text,
                        struct onnxptq_error *error) {
    char number[24];
    size_t length = strcspn(text, "/");
    bool good = text[length] == '/' && length < sizeof number;
    if (good) {
        memcpy(number, text, length);
        number[length] = '\0';
        good = parse_number(number, &args->shard) &&
               parse_number(text + length + 1, &args->n_shards) && args->shard > 0 &&
               args->shard <= args->n_shards;
    }
    return good || refuse(error, row, text,
                          "it takes the number of the shard, from 1 on, and how many there are, as "
                          "in 2/8");
}

/* ---- Dispatch ------------------------------------------------------------------------------ */

bool takes_value(const struct option_row *row) {
    return row->kind != VALUE_FLAG && row->kind != VALUE_FIXED;
}

bool value_store(struct args *args, const struct option_row *row, const char *text,
                 struct onnxptq_error *error) {
    void *field = (char *)args + row->offset;
    struct text_list *list = field;
    if (takes_value(row) && text[0] == '\0') {
        return refuse(error, row, text, "its value is empty");
    }
    switch (row->kind) {
    case VALUE_FLAG: *(bool *)field = true; return true;
    case VALUE_TEXT: *(const char **)field = text; return true;
    case VALUE_LIST: list->items[list->n++] = text; return true;
    case VALUE_COMMAS: return store_commas(args, list, row, text, error);
    case VALUE_COUNT: return store_number(field, row, text, 1, error);
    case VALUE_NUMBER: return store_number(field, row, text, 0, error);
    case VALUE_REAL: return store_real(field, row, text, error);
    case VALUE_CHOICE: return store_choice(field, row, text, error);
    case VALUE_FIXED: *(int *)field = row->choices[0].value; return true;
    case VALUE_SHAPE: return store_shape(args, field, row, text, error);
    case VALUE_RANGE: return store_range(args, row, text, error);
    case VALUE_SHARD: return store_shard(args, row, text, error);
    }
    return false;
}
