/*
 * The header is the text of a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (3,
 * 4), }. It is read by the small scanner below; nothing in it is ever evaluated.
 */
#include "data/npy.h"

#include "base/size.h"

#include <string.h>

/* A header holds a type, a flag and a shape. One larger than this is broken or hostile. */
#define MAX_HEADER ((size_t)1 << 20)
#define MAX_DESCR 32

/* ---- Size of the header ---- */

enum onnxptq_status oq_npy_header_size(const uint8_t *data, size_t size, size_t *header_size,
                                       struct onnxptq_error *error) {
    static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    size_t have = size < sizeof magic ? size : sizeof magic;
    if (have == 0 || memcmp(data, magic, have) != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "it is no .npy array; save it with numpy.save or numpy.savez");
    }
    if (size < 10) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "it ends inside its header");
    }
    uint8_t major = data[6], minor = data[7];
    if (major < 1 || major > 3 || minor != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "its .npy format is version %u.%u; versions 1.0, 2.0 and 3.0 are read",
                       major, minor);
    }
    size_t length = (size_t)data[8] | (size_t)data[9] << 8, prefix = 10;
    if (major > 1) {
        if (size < 12) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA, "it ends inside its header");
        }
        length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
        prefix = 12;
    }
    if (length > MAX_HEADER) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header claims %zu bytes; the file is broken",
                       length);
    }
    *header_size = prefix + length;
    return ONNXPTQ_OK;
}

/* ---- Scanner ---- */

struct scanner {
    const char *at, *end;
};

static void skip_space(struct scanner *s) {
    while (s->at < s->end && strchr(" \t\r\n", *s->at) != NULL && *s->at != '\0') {
        s->at++;
    }
}

static bool take(struct scanner *s, char c) {
    skip_space(s);
    if (s->at == s->end || *s->at != c) {
        return false;
    }
    s->at++;
    return true;
}

static bool take_word(struct scanner *s, const char *word) {
    skip_space(s);
    size_t length = strlen(word);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0) {
        return false;
    }
    s->at += length;
    return true;
}

/* A quoted string without escapes, which is all that numpy writes here. */
static bool take_string(struct scanner *s, char *out, size_t out_size) {
    skip_space(s);
    if (s->at == s->end || (*s->at != '\'' && *s->at != '"')) {
        return false;
    }
    char quote = *s->at++;
    size_t n = 0;
    while (s->at < s->end && *s->at != quote) {
        char c = *s->at++;
        if (c == '\\' || (unsigned char)c < ' ' || n + 1 == out_size) {
            return false;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return take(s, quote);
}

/* Python 2 wrote long integers as 5L. */
static bool take_dimension(struct scanner *s, int64_t *out) {
    skip_space(s);
    int64_t value = 0;
    const char *start = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *s->at - '0', &value)) {
            return false;
        }
        s->at++;
    }
    if (s->at == start) {
        return false;
    }
    if (s->at < s->end && *s->at == 'L') {
        s->at++;
    }
    *out = value;
    return true;
}

/* ---- Fields ---- */

struct kind {
    char letter;
    uint8_t size;
    uint8_t type;
};

static const struct kind kinds[] = {
    {'b', 1, ONNXPTQ_TYPE_BOOL},     {'i', 1, ONNXPTQ_TYPE_INT8},   {'i', 2, ONNXPTQ_TYPE_INT16},
    {'i', 4, ONNXPTQ_TYPE_INT32},    {'i', 8, ONNXPTQ_TYPE_INT64},  {'u', 1, ONNXPTQ_TYPE_UINT8},
    {'u', 2, ONNXPTQ_TYPE_UINT16},   {'u', 4, ONNXPTQ_TYPE_UINT32}, {'u', 8, ONNXPTQ_TYPE_UINT64},
    {'f', 2, ONNXPTQ_TYPE_FLOAT16},  {'f', 4, ONNXPTQ_TYPE_FLOAT},  {'f', 8, ONNXPTQ_TYPE_DOUBLE},
    {'V', 2, ONNXPTQ_TYPE_BFLOAT16}, /* numpy has no bfloat16: packages that add it save two raw
                                        bytes */
};

static enum onnxptq_status refuse_type(const char *descr, struct onnxptq_error *error) {
    if (strchr(descr, 'O') != NULL) {
        return oq_fail(
            error, ONNXPTQ_ERROR_UNSUPPORTED,
            "it holds pickled Python objects, which are never loaded; save a plain numeric array");
    }
    return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                   "its element type '%s' is none that is read; save bool, (u)int8 to (u)int64 or "
                   "float16, float32, float64",
                   descr);
}

static enum onnxptq_status parse_descr(const char *descr, struct oq_npy *out,
                                       struct onnxptq_error *error) {
    const char *rest = descr;
    char order = '|';
    if (*rest != '\0' && strchr("<>|=", *rest) != NULL) {
        order = *rest++;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char size[2] = {(char)('0' + kinds[i].size), '\0'};
        if (*rest == kinds[i].letter && strcmp(rest + 1, size) == 0) {
            out->type = (enum onnxptq_type)kinds[i].type;
            out->item_size = kinds[i].size;
            out->swapped = order == '>' && kinds[i].size > 1;
            return ONNXPTQ_OK;
        }
    }
    return refuse_type(descr, error);
}

static enum onnxptq_status take_descr(struct scanner *s, struct oq_npy *out,
                                      struct onnxptq_error *error) {
    char descr[MAX_DESCR];
    skip_space(s);
    if (s->at < s->end && (*s->at == '[' || *s->at == '(')) {
        return oq_fail(
            error, ONNXPTQ_ERROR_UNSUPPORTED,
            "it holds records (a structured dtype); save every field as an array of its own");
    }
    if (!take_string(s, descr, sizeof descr)) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header has no readable 'descr'");
    }
    return parse_descr(descr, out, error);
}

static enum onnxptq_status take_order(struct scanner *s, struct oq_npy *out,
                                      struct onnxptq_error *error) {
    if (take_word(s, "True")) {
        out->fortran = true;
    } else if (take_word(s, "False")) {
        out->fortran = false;
    } else {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header has no readable 'fortran_order'");
    }
    return ONNXPTQ_OK;
}

/* Keeps the first ONNXPTQ_MAX_RANK dimensions and counts them all. */
static bool take_tuple(struct scanner *s, int64_t *shape, size_t *rank) {
    int64_t dimension = 0;
    *rank = 0;
    if (!take(s, '(')) {
        return false;
    }
    while (!take(s, ')')) {
        if (!take_dimension(s, &dimension)) {
            return false;
        }
        if (*rank < ONNXPTQ_MAX_RANK) {
            shape[*rank] = dimension;
        }
        (*rank)++;
        if (!take(s, ',')) {
            return take(s, ')');
        }
    }
    return true;
}

static enum onnxptq_status take_shape(struct scanner *s, struct oq_npy *out,
                                      struct onnxptq_error *error) {
    if (!take_tuple(s, out->shape, &out->rank)) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header has no readable 'shape'");
    }
    if (out->rank > ONNXPTQ_MAX_RANK) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "it has %zu dimensions; at most %d are read", out->rank, ONNXPTQ_MAX_RANK);
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status parse_dict(struct scanner *s, struct oq_npy *out,
                                      struct onnxptq_error *error) {
    static const struct {
        const char *key;
        enum onnxptq_status (*parse)(struct scanner *, struct oq_npy *, struct onnxptq_error *);
    } fields[] = {{"descr", take_descr}, {"fortran_order", take_order}, {"shape", take_shape}};
    unsigned seen = 0;
    char key[MAX_DESCR];
    if (!take(s, '{')) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header is broken");
    }
    while (!take(s, '}')) {
        size_t i = 0;
        if (!take_string(s, key, sizeof key) || !take(s, ':')) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header is broken");
        }
        while (i < 3 && strcmp(fields[i].key, key) != 0) {
            i++;
        }
        if (i == 3 || (seen & 1u << i) != 0) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header has an unexpected key '%s'", key);
        }
        seen |= 1u << i;
        OQ_TRY(fields[i].parse(s, out, error));
        if (!take(s, ',') && (s->at == s->end || *s->at != '}')) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header is broken");
        }
    }
    skip_space(s);
    if (seen != 7 || s->at != s->end) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "its header is not exactly 'descr', 'fortran_order' and 'shape'");
    }
    return ONNXPTQ_OK;
}

/* With one extent at most, both orders are the same. */
static bool order_matters(const struct oq_npy *npy) {
    size_t extents = 0;
    for (size_t i = 0; i < npy->rank; i++) {
        extents += npy->shape[i] != 1;
    }
    return extents > 1;
}

enum onnxptq_status oq_npy_parse(const uint8_t *data, size_t size, struct oq_npy *out,
                                 struct onnxptq_error *error) {
    size_t header_size = 0;
    struct oq_npy npy = {0};
    OQ_TRY(oq_npy_header_size(data, size, &header_size, error));
    if (header_size > size) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "it ends inside its header");
    }
    size_t prefix = data[6] == 1 ? 10 : 12;
    struct scanner s = {.at = (const char *)data + prefix, .end = (const char *)data + header_size};
    OQ_TRY(parse_dict(&s, &npy, error));
    npy.fortran = npy.fortran && order_matters(&npy);
    npy.data_offset = header_size;
    size_t end = 0;
    if (!oq_shape_elements(npy.shape, npy.rank, &npy.n_elements) ||
        !oq_size_mul(npy.n_elements, npy.item_size, &npy.n_bytes) ||
        !oq_size_add(npy.n_bytes, npy.data_offset, &end) || end > (size_t)INT64_MAX) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "its shape has more elements than a machine can address");
    }
    *out = npy;
    return ONNXPTQ_OK;
}

/* ---- Elements ---- */

void oq_npy_swap(const struct oq_npy *npy, uint8_t *elements, size_t n) {
    if (!npy->swapped) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t *item = elements + i * npy->item_size;
        for (size_t a = 0, b = npy->item_size - 1; a < b; a++, b--) {
            uint8_t keep = item[a];
            item[a] = item[b];
            item[b] = keep;
        }
    }
}

/* Steps through the elements in C order, keeping the index of each in the stored (first index
 * fastest) order. */
static void copy_fortran(const struct oq_npy *npy, const uint8_t *elements, size_t first, size_t n,
                         uint8_t *out) {
    size_t stride[ONNXPTQ_MAX_RANK], index[ONNXPTQ_MAX_RANK], at = 0, step = 1;
    for (size_t d = 0; d < npy->rank; d++) {
        stride[d] = step;
        step *= (size_t)npy->shape[d];
    }
    for (size_t d = npy->rank; d-- > 0;) {
        index[d] = first % (size_t)npy->shape[d];
        first /= (size_t)npy->shape[d];
        at += index[d] * stride[d];
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(out + i * npy->item_size, elements + at * npy->item_size, npy->item_size);
        for (size_t d = npy->rank; d-- > 0;) {
            at += stride[d];
            if (++index[d] < (size_t)npy->shape[d]) {
                break;
            }
            at -= stride[d] * index[d];
            index[d] = 0;
        }
    }
}

void oq_npy_copy(const struct oq_npy *npy, const uint8_t *elements, size_t first, size_t n,
                 uint8_t *out) {
    if (n == 0) {
        return;
    }
    if (npy->fortran && npy->rank > 1) {
        copy_fortran(npy, elements, first, n, out);
    } else {
        memcpy(out, elements + first * npy->item_size, n * npy->item_size);
    }
    oq_npy_swap(npy, out, n);
}
