/*
 * Stored members are read in place, deflated ones as a stream, so memory does not depend on their
 * size. A member in Fortran order is loaded whole at its first use: its samples lie scattered over
 * all of it.
 */
#include "data/npz.h"

#include "base/arena.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>
#include <zip.h>

#define STREAM_BLOCK ((size_t)64 << 10)
/* Deflate cannot shrink more than 1032 times; a member that claims more is a trap. */
#define DEFLATE_LIMIT 1032
/* Every array is an input of the model. */
#define MAX_MEMBERS 4096

struct member {
    const char *name;
    struct oq_npy npy;
    zip_uint64_t index; /* in the archive */
    bool stored;
    zip_file_t *file; /* opened at the first read */
    size_t at;        /* position of `file` in the member */
    uint8_t *loaded;  /* all elements as stored, of a member in Fortran order */
};

struct oq_npz {
    zip_t *zip;
    struct oq_arena *arena;
    struct member *members;
    size_t n_members, capacity;
};

static enum onnxptq_status zip_status(const zip_error_t *reason) {
    switch (zip_error_code_zip(reason)) {
    case ZIP_ER_MEMORY: return ONNXPTQ_ERROR_MEMORY;
    case ZIP_ER_NOENT:
    case ZIP_ER_OPEN:
    case ZIP_ER_SEEK:
    case ZIP_ER_READ: return ONNXPTQ_ERROR_IO;
    default: return ONNXPTQ_ERROR_DATA;
    }
}

/* ---- Reading a member ---- */

static enum onnxptq_status read_exactly(zip_file_t *file, uint8_t *out, size_t size,
                                        struct onnxptq_error *error) {
    while (size > 0) {
        zip_int64_t got = zip_fread(file, out, size);
        if (got < 0) {
            zip_error_t *reason = zip_file_get_error(file);
            return oq_fail(error, zip_status(reason), "its data is broken (%s)",
                           zip_error_strerror(reason));
        }
        if (got == 0) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA, "it ends too early");
        }
        out += got;
        size -= (size_t)got;
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status skip_bytes(struct member *member, size_t size,
                                      struct onnxptq_error *error) {
    uint8_t *block = malloc(STREAM_BLOCK);
    if (block == NULL) {
        return oq_fail_memory(error, "calibration data");
    }
    enum onnxptq_status status = ONNXPTQ_OK;
    while (size > 0 && status == ONNXPTQ_OK) {
        size_t n = size < STREAM_BLOCK ? size : STREAM_BLOCK;
        status = read_exactly(member->file, block, n, error);
        member->at += n;
        size -= n;
    }
    free(block);
    return status;
}

static void close_member(struct member *member) {
    if (member->file != NULL) {
        zip_fclose(member->file);
    }
    member->file = NULL;
    member->at = 0;
}

static enum onnxptq_status seek_member(struct oq_npz *npz, struct member *member, size_t offset,
                                       struct onnxptq_error *error) {
    if (!member->stored && offset < member->at) {
        close_member(member);
    }
    if (member->file == NULL) {
        member->file = zip_fopen_index(npz->zip, member->index, 0);
        if (member->file == NULL) {
            return oq_fail(error, zip_status(zip_get_error(npz->zip)), "it cannot be opened (%s)",
                           zip_strerror(npz->zip));
        }
    }
    if (offset == member->at) {
        return ONNXPTQ_OK;
    }
    /* Short gaps are read over, so that the checksum of what is read in order covers them. */
    bool short_gap = offset > member->at && offset - member->at <= STREAM_BLOCK;
    if (!member->stored || short_gap) {
        return skip_bytes(member, offset - member->at, error);
    }
    if (zip_fseek(member->file, (zip_int64_t)offset, SEEK_SET) != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "it ends too early");
    }
    member->at = offset;
    return ONNXPTQ_OK;
}

/* The library compares the checksum when it meets the end, if all before was read in order. */
static enum onnxptq_status check_end(struct member *member, struct onnxptq_error *error) {
    uint8_t beyond = 0;
    zip_int64_t got = zip_fread(member->file, &beyond, 1);
    if (got == 0) {
        return ONNXPTQ_OK;
    }
    return oq_fail(error, ONNXPTQ_ERROR_DATA, "its data is broken (%s)",
                   got < 0 ? zip_error_strerror(zip_file_get_error(member->file))
                           : "it is longer than its entry says");
}

/* On failure the position is unknown, so the next read starts anew. */
static enum onnxptq_status read_member(struct oq_npz *npz, struct member *member, size_t offset,
                                       size_t size, uint8_t *out, struct onnxptq_error *error) {
    enum onnxptq_status status = seek_member(npz, member, offset, error);
    if (status == ONNXPTQ_OK) {
        status = read_exactly(member->file, out, size, error);
    }
    if (status == ONNXPTQ_OK && offset + size == member->npy.data_offset + member->npy.n_bytes) {
        status = check_end(member, error);
    }
    if (status == ONNXPTQ_OK) {
        member->at = offset + size;
    } else {
        close_member(member);
    }
    return status;
}

static enum onnxptq_status load_member(struct oq_npz *npz, struct member *member,
                                       struct onnxptq_error *error) {
    if (member->loaded != NULL) {
        return ONNXPTQ_OK;
    }
    uint8_t *loaded = malloc(member->npy.n_bytes);
    if (loaded == NULL) {
        return oq_fail_memory(error, "an array in Fortran order");
    }
    enum onnxptq_status status =
        read_member(npz, member, member->npy.data_offset, member->npy.n_bytes, loaded, error);
    close_member(member);
    if (status != ONNXPTQ_OK) {
        free(loaded);
        return status;
    }
    member->loaded = loaded;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_npz_read(struct oq_npz *npz, size_t index, size_t first, size_t n, void *out,
                                struct onnxptq_error *error) {
    struct member *member = &npz->members[index];
    const struct oq_npy *npy = &member->npy;
    if (first > npy->n_elements || n > npy->n_elements - first) {
        return oq_fail(error, ONNXPTQ_ERROR_INTERNAL, "elements beyond its end were asked for");
    }
    if (n == 0) {
        return ONNXPTQ_OK;
    }
    if (npy->fortran) {
        OQ_TRY(load_member(npz, member, error));
        oq_npy_copy(npy, member->loaded, first, n, out);
        return ONNXPTQ_OK;
    }
    OQ_TRY(read_member(npz, member, npy->data_offset + first * npy->item_size, n * npy->item_size,
                       out, error));
    oq_npy_swap(npy, out, n);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_npz_verify(struct oq_npz *npz, size_t index, struct onnxptq_error *error) {
    struct member *member = &npz->members[index];
    size_t size = member->npy.data_offset + member->npy.n_bytes;
    close_member(member);
    enum onnxptq_status status = seek_member(npz, member, 0, error);
    if (status == ONNXPTQ_OK) {
        status = skip_bytes(member, size, error);
    }
    if (status == ONNXPTQ_OK) {
        status = check_end(member, error);
    }
    close_member(member);
    return status;
}

/* ---- Opening ---- */

static enum onnxptq_status check_stat(const zip_stat_t *stat, struct onnxptq_error *error) {
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((stat->valid & needed) != needed || stat->size > INT64_MAX || stat->comp_size > INT64_MAX) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its zip entry is broken");
    }
    if ((stat->valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat->encryption_method != ZIP_EM_NONE) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "it is encrypted; save it without a password");
    }
    if (stat->comp_method != ZIP_CM_STORE && stat->comp_method != ZIP_CM_DEFLATE) {
        return oq_fail(error, ONNXPTQ_ERROR_UNSUPPORTED,
                       "it is compressed by method %u; save it with numpy.savez or "
                       "numpy.savez_compressed",
                       stat->comp_method);
    }
    bool stored = stat->comp_method == ZIP_CM_STORE;
    if (stored ? stat->size != stat->comp_size
               : stat->size / DEFLATE_LIMIT > stat->comp_size + 64) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its size in the zip directory is wrong");
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status read_header(struct oq_npz *npz, struct member *member, size_t size,
                                       struct onnxptq_error *error) {
    uint8_t preamble[OQ_NPY_PREAMBLE];
    size_t n = size < sizeof preamble ? size : sizeof preamble, header_size = 0;
    OQ_TRY(read_member(npz, member, 0, n, preamble, error));
    OQ_TRY(oq_npy_header_size(preamble, n, &header_size, error));
    if (header_size > size) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "it ends inside its header");
    }
    uint8_t *header = malloc(header_size);
    if (header == NULL) {
        return oq_fail_memory(error, "a .npy header");
    }
    enum onnxptq_status status = read_member(npz, member, 0, header_size, header, error);
    if (status == ONNXPTQ_OK) {
        status = oq_npy_parse(header, header_size, &member->npy, error);
    }
    free(header);
    return status;
}

/* A stored member can be proved complete by its last byte; a deflated one only by inflating all of
 * it. */
static enum onnxptq_status check_size(struct oq_npz *npz, struct member *member, size_t size,
                                      struct onnxptq_error *error) {
    size_t expected = member->npy.data_offset + member->npy.n_bytes;
    uint8_t last = 0;
    if (size != expected) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its header asks for %zu bytes, it has %zu; %s",
                       expected, size,
                       size < expected ? "it was cut short" : "save one array a member");
    }
    return member->stored ? read_member(npz, member, size - 1, 1, &last, error) : ONNXPTQ_OK;
}

static enum onnxptq_status open_member(struct oq_npz *npz, struct member *member,
                                       struct onnxptq_error *error) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(npz->zip, member->index, 0, &stat) != 0) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA, "its zip entry is broken");
    }
    OQ_TRY(check_stat(&stat, error));
    member->stored = stat.comp_method == ZIP_CM_STORE;
    OQ_TRY(read_header(npz, member, (size_t)stat.size, error));
    OQ_TRY(check_size(npz, member, (size_t)stat.size, error));
    close_member(member);
    return ONNXPTQ_OK;
}

static bool name_taken(const struct oq_npz *npz, const char *name) {
    for (size_t i = 0; i < npz->n_members; i++) {
        if (strcmp(npz->members[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static enum onnxptq_status add_member(struct oq_npz *npz, zip_uint64_t index, const char *path,
                                      struct onnxptq_error *error) {
    const char *raw = zip_get_name(npz->zip, index, ZIP_FL_ENC_RAW);
    size_t length = raw != NULL ? strlen(raw) : 0;
    if (length > 0 && raw[length - 1] == '/') {
        return ONNXPTQ_OK;
    }
    if (length < 4 || strcmp(raw + length - 4, ".npy") != 0) {
        return oq_fail(
            error, ONNXPTQ_ERROR_DATA,
            "cannot read calibration data '%s': its member '%s' is no .npy array; save it "
            "with numpy.savez",
            path, raw != NULL ? raw : "");
    }
    struct member member = {.index = index, .name = oq_arena_strndup(npz->arena, raw, length - 4)};
    if (member.name == NULL ||
        !oq_grow((void **)&npz->members, &npz->capacity, npz->n_members + 1, sizeof member)) {
        return oq_fail_memory(error, "the members of a .npz file");
    }
    if (name_taken(npz, member.name)) {
        return oq_fail(error, ONNXPTQ_ERROR_DATA,
                       "cannot read calibration data '%s': it holds array '%s' twice", path,
                       member.name);
    }
    npz->members[npz->n_members++] = member;
    enum onnxptq_status status = open_member(npz, &npz->members[npz->n_members - 1], error);
    return oq_prefix(error, status, "cannot read calibration data '%s', array '%s': ", path,
                     member.name);
}

/* Takes `zip`. */
static enum onnxptq_status read_directory(zip_t *zip, const char *path, struct oq_npz **out,
                                          struct onnxptq_error *error) {
    struct oq_npz *npz = calloc(1, sizeof *npz);
    if (npz == NULL) {
        zip_discard(zip);
        return oq_fail_memory(error, "a .npz file");
    }
    npz->zip = zip;
    npz->arena = oq_arena_create();
    enum onnxptq_status status =
        npz->arena != NULL ? ONNXPTQ_OK : oq_fail_memory(error, "a .npz file");
    zip_int64_t n = zip_get_num_entries(zip, 0);
    if (status == ONNXPTQ_OK && n > MAX_MEMBERS) {
        status = oq_fail(error, ONNXPTQ_ERROR_DATA,
                         "cannot read calibration data '%s': it holds %lld members, more than any "
                         "model has inputs",
                         path, (long long)n);
    }
    for (zip_int64_t i = 0; i < n && status == ONNXPTQ_OK; i++) {
        status = add_member(npz, (zip_uint64_t)i, path, error);
    }
    if (status != ONNXPTQ_OK) {
        oq_npz_close(npz);
        return status;
    }
    *out = npz;
    return ONNXPTQ_OK;
}

static enum onnxptq_status fail_open(const char *path, zip_error_t *reason,
                                     struct onnxptq_error *error) {
    return oq_fail(error, zip_status(reason),
                   "cannot read calibration data '%s': it is no readable .npz file (%s)", path,
                   zip_error_strerror(reason));
}

enum onnxptq_status oq_npz_open(const char *path, struct oq_npz **out,
                                struct onnxptq_error *error) {
    int code = 0;
    zip_t *zip = zip_open(path, ZIP_RDONLY, &code);
    if (zip == NULL) {
        zip_error_t reason;
        zip_error_init_with_code(&reason, code);
        enum onnxptq_status status = fail_open(path, &reason, error);
        zip_error_fini(&reason);
        return status;
    }
    return read_directory(zip, path, out, error);
}

enum onnxptq_status oq_npz_open_memory(const void *data, size_t size, const char *name,
                                       struct oq_npz **out, struct onnxptq_error *error) {
    zip_error_t reason;
    zip_error_init(&reason);
    zip_source_t *source = zip_source_buffer_create(data, size, 0, &reason);
    zip_t *zip = source != NULL ? zip_open_from_source(source, ZIP_RDONLY, &reason) : NULL;
    enum onnxptq_status status = ONNXPTQ_OK;
    if (zip == NULL) {
        status = fail_open(name, &reason, error);
        if (source != NULL) {
            zip_source_free(source);
        }
    }
    zip_error_fini(&reason);
    return zip != NULL ? read_directory(zip, name, out, error) : status;
}

void oq_npz_close(struct oq_npz *npz) {
    if (npz == NULL) {
        return;
    }
    for (size_t i = 0; i < npz->n_members; i++) {
        close_member(&npz->members[i]);
        free(npz->members[i].loaded);
    }
    zip_discard(npz->zip);
    free(npz->members);
    oq_arena_destroy(npz->arena);
    free(npz);
}

size_t oq_npz_n_members(const struct oq_npz *npz) {
    return npz->n_members;
}

const char *oq_npz_member_name(const struct oq_npz *npz, size_t index) {
    return npz->members[index].name;
}

const struct oq_npy *oq_npz_member_header(const struct oq_npz *npz, size_t index) {
    return &npz->members[index].npy;
}
