/*
 * Data files; see data_file.h.
 */
#include "model/data_file.h"

#include <stdatomic.h>
#include <stdlib.h>

struct oq_data_file {
    atomic_size_t references;
    struct oq_mapping mapping;
    uint8_t *bytes;           /* what `mapping` shows when it is no file, or NULL */
    char *path;               /* absolute, links followed; or NULL */
    struct oq_file_id id;     /* of the file at `path` when it was mapped */
    struct oq_writer *writer; /* of a temporary file, or NULL */
};

static void destroy(struct oq_data_file *file) {
    if (file->bytes == NULL) {
        oq_mapping_close(&file->mapping);
    }
    free(file->bytes);
    oq_writer_destroy(file->writer);
    free(file->path);
    free(file);
}

/* A path that does not lead to the mapped bytes is as good as none. */
static void find_path(struct oq_data_file *file, const char *path) {
    file->path = path == NULL ? NULL : oq_path_resolve(path);
    if (file->path != NULL &&
        (!oq_file_identify(file->path, &file->id) || file->id.size != file->mapping.size)) {
        free(file->path);
        file->path = NULL;
    }
}

static struct oq_data_file *create(struct oq_data_file content, const char *path) {
    struct oq_data_file *file = malloc(sizeof *file);
    if (file == NULL) {
        if (content.bytes == NULL) {
            oq_mapping_close(&content.mapping);
        }
        free(content.bytes);
        oq_writer_destroy(content.writer);
        return NULL;
    }
    *file = content;
    atomic_init(&file->references, 1);
    find_path(file, path);
    return file;
}

struct oq_data_file *oq_data_file_create(struct oq_mapping mapping, const char *path) {
    return create((struct oq_data_file){.mapping = mapping}, path);
}

struct oq_data_file *oq_data_file_create_written(struct oq_mapping mapping,
                                                 struct oq_writer *writer) {
    return create((struct oq_data_file){.mapping = mapping, .writer = writer},
                  oq_writer_path(writer));
}

struct oq_data_file *oq_data_file_create_bytes(uint8_t *bytes, size_t size) {
    return create((struct oq_data_file){.mapping = {bytes, size}, .bytes = bytes}, NULL);
}

struct oq_data_file *oq_data_file_keep(struct oq_data_file *file) {
    atomic_fetch_add(&file->references, 1);
    return file;
}

void oq_data_file_release(struct oq_data_file *file) {
    if (file != NULL && atomic_fetch_sub(&file->references, 1) == 1) {
        destroy(file);
    }
}

const struct oq_mapping *oq_data_file_mapping(const struct oq_data_file *file) {
    return &file->mapping;
}

const char *oq_data_file_path(const struct oq_data_file *file) {
    struct oq_file_id now;
    const bool same =
        file->path != NULL && oq_file_identify(file->path, &now) && oq_file_id_equal(now, file->id);
    return same ? file->path : NULL;
}

bool oq_data_file_is_at(const struct oq_data_file *file, const char *path) {
    struct oq_file_id now;
    return file->path != NULL && oq_file_identify(path, &now) && now.device == file->id.device &&
           now.inode == file->id.inode;
}

bool oq_data_file_is_temporary(const struct oq_data_file *file) {
    return file->writer != NULL;
}
