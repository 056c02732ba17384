/*
 * The text of --preprocess: "resize=256,crop=224,mean=0.485:0.456:0.406,...". A later part replaces
 * an earlier one, so that what a preset says can be changed.
 */
#include "data/preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#define MAX_SIDE ((size_t)1 << 20)
#define MAX_PART 128

/* Of the models of torchvision and their kin. */
#define IMAGENET                                                                                   \
    "resize=256,crop=224,range=0:1,mean=0.485:0.456:0.406,std=0.229:0.224:0.225,channels=rgb"

#define EXAMPLE "for example --preprocess resize=256,crop=224,mean=0.485:0.456:0.406"

static enum onnxptq_status fail_part(const char *part, const char *fact,
                                     struct onnxptq_error *error) {
    return oq_fail(error, ONNXPTQ_ERROR_USAGE, "cannot use '%s' of --preprocess: %s", part, fact);
}

/* ---- Values ---- */

static bool parse_side(const char *text, const char *end, size_t *out) {
    size_t value = 0;
    if (text == end) {
        return false;
    }
    for (const char *p = text; p < end; p++) {
        if (*p < '0' || *p > '9') {
            return false;
        }
        value = 10 * value + (size_t)(*p - '0');
        if (value > MAX_SIDE) {
            return false;
        }
    }
    *out = value;
    return value > 0;
}

/* "224" or "224x320", height first. */
static bool parse_sides(const char *text, size_t *height, size_t *width, bool *one) {
    const char *cross = strchr(text, 'x'), *end = text + strlen(text);
    *one = cross == NULL;
    if (*one) {
        bool good = parse_side(text, end, height);
        *width = *height;
        return good;
    }
    return parse_side(text, cross, height) && parse_side(cross + 1, end, width);
}

/* Numbers between colons, read as JSON has them: strtod would follow the caller's locale. */
static bool parse_numbers(const char *text, double *out, size_t room, size_t *n) {
    *n = 0;
    for (const char *p = text;; p++) {
        char number[MAX_PART];
        size_t length = strcspn(p, ":");
        yyjson_val value;
        if (*n == room || length == 0 || length >= sizeof number) {
            return false;
        }
        memcpy(number, p, length);
        number[length] = '\0';
        const char *end = yyjson_read_number(number, &value, YYJSON_READ_NOFLAG, NULL, NULL);
        if (end != number + length) {
            return false;
        }
        out[(*n)++] = yyjson_get_num(&value);
        p += length;
        if (*p == '\0') {
            return true;
        }
    }
}

struct choice {
    const char *name;
    int value;
};

static bool parse_choice(const char *text, const struct choice *choices, int *out) {
    for (; choices->name != NULL; choices++) {
        if (strcmp(choices->name, text) == 0) {
            *out = choices->value;
            return true;
        }
    }
    return false;
}

/* ---- Parts ---- */

typedef const char *set_function(struct oq_preprocess *p, const char *value);

static const char *set_resize(struct oq_preprocess *p, const char *value) {
    bool one = false;
    if (strcmp(value, "none") == 0) {
        p->resize = OQ_RESIZE_NONE;
        return NULL;
    }
    if (!parse_sides(value, &p->resize_height, &p->resize_width, &one)) {
        return "it takes the length of the shorter side, HEIGHTxWIDTH or none";
    }
    p->resize = one ? OQ_RESIZE_SHORTER : OQ_RESIZE_EXACT;
    return NULL;
}

static const char *set_crop(struct oq_preprocess *p, const char *value) {
    bool one = false;
    if (strcmp(value, "none") == 0) {
        p->crop_height = p->crop_width = 0;
        return NULL;
    }
    return parse_sides(value, &p->crop_height, &p->crop_width, &one)
               ? NULL
               : "it takes the side of a square, HEIGHTxWIDTH or none";
}

static const char *set_antialias(struct oq_preprocess *p, const char *value) {
    static const struct choice choices[] = {{"on", 1}, {"off", 0}, {NULL, 0}};
    int found = 0;
    if (!parse_choice(value, choices, &found)) {
        return "it takes on or off";
    }
    p->antialias = found != 0;
    return NULL;
}

static const char *set_range(struct oq_preprocess *p, const char *value) {
    double ends[2];
    size_t n = 0;
    if (!parse_numbers(value, ends, 2, &n) || n != 2 || !(ends[0] < ends[1])) {
        return "it takes two numbers, the lower first: what black and white become, as 0:1";
    }
    p->low = ends[0];
    p->high = ends[1];
    return NULL;
}

static const char *set_mean(struct oq_preprocess *p, const char *value) {
    return parse_numbers(value, p->mean, 3, &p->n_mean) && p->n_mean != 2
               ? NULL
               : "it takes one number, or three with colons between";
}

static const char *set_deviation(struct oq_preprocess *p, const char *value) {
    bool good = parse_numbers(value, p->deviation, 3, &p->n_deviation) && p->n_deviation != 2;
    for (size_t i = 0; i < p->n_deviation && good; i++) {
        good = p->deviation[i] > 0;
    }
    return good ? NULL : "it takes one number above 0, or three with colons between";
}

static const char *set_layout(struct oq_preprocess *p, const char *value) {
    static const struct choice choices[] = {
        {"nchw", OQ_LAYOUT_NCHW}, {"nhwc", OQ_LAYOUT_NHWC}, {NULL, 0}};
    int found = 0;
    if (!parse_choice(value, choices, &found)) {
        return "it takes nchw or nhwc";
    }
    p->layout = (enum oq_pixel_layout)found;
    return NULL;
}

static const char *set_channels(struct oq_preprocess *p, const char *value) {
    static const struct choice choices[] = {
        {"rgb", OQ_CHANNELS_RGB}, {"bgr", OQ_CHANNELS_BGR}, {"gray", OQ_CHANNELS_GRAY}, {NULL, 0}};
    int found = 0;
    if (!parse_choice(value, choices, &found)) {
        return "it takes rgb, bgr or gray";
    }
    p->channels = (enum oq_channels)found;
    return NULL;
}

static enum onnxptq_status parse_parts(const char *text, bool presets, struct oq_preprocess *p,
                                       struct onnxptq_error *error);

static enum onnxptq_status parse_part(const char *part, bool presets, struct oq_preprocess *p,
                                      struct onnxptq_error *error) {
    static const struct {
        const char *key;
        set_function *set;
    } parts[] = {{"resize=", set_resize}, {"crop=", set_crop},        {"antialias=", set_antialias},
                 {"range=", set_range},   {"mean=", set_mean},        {"std=", set_deviation},
                 {"layout=", set_layout}, {"channels=", set_channels}};
    if (presets && strcmp(part, "imagenet") == 0) {
        return parse_parts(IMAGENET, false, p, error);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i].key);
        if (strncmp(part, parts[i].key, length) == 0) {
            const char *fact = parts[i].set(p, part + length);
            return fact == NULL ? ONNXPTQ_OK : fail_part(part, fact, error);
        }
    }
    return fail_part(
        part,
        "there are resize=, crop=, antialias=, range=, mean=, std=, layout=, channels= "
        "and imagenet, with commas between",
        error);
}

static enum onnxptq_status parse_parts(const char *text, bool presets, struct oq_preprocess *p,
                                       struct onnxptq_error *error) {
    for (const char *at = text;; at++) {
        char part[MAX_PART];
        size_t length = strcspn(at, ",");
        if (length >= sizeof part) {
            return fail_part(text, "one of its parts is too long", error);
        }
        memcpy(part, at, length);
        part[length] = '\0';
        OQ_TRY(parse_part(part, presets, p, error));
        at += length;
        if (*at == '\0') {
            return ONNXPTQ_OK;
        }
    }
}

enum onnxptq_status oq_preprocess_parse(const char *text, struct oq_preprocess *out,
                                        struct onnxptq_error *error) {
    struct oq_preprocess p = {.antialias = true, .low = 0, .high = 1};
    if (text == NULL) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot read images: how the model takes them is not said; give it with "
                       "--preprocess, " EXAMPLE ", or --preprocess imagenet");
    }
    OQ_TRY(parse_parts(text, true, &p, error));
    if (p.channels == OQ_CHANNELS_GRAY && (p.n_mean == 3 || p.n_deviation == 3)) {
        return oq_fail(error, ONNXPTQ_ERROR_USAGE,
                       "cannot use '%s' of --preprocess: gray images have one channel, so mean and "
                       "std are one number",
                       text);
    }
    *out = p;
    return ONNXPTQ_OK;
}
