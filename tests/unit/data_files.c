#include "data_files.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <cmocka.h>

/* The static analyzer does not know that a failed assertion does not return. */
static void *must(void *pointer) {
    assert_non_null(pointer);
    if (pointer == NULL) {
        abort();
    }
    return pointer;
}

struct file_bytes make_npy_text(int version, const char *header, const void *data, size_t size) {
    size_t prefix = version == 1 ? 10 : 12, length = strlen(header);
    struct file_bytes bytes = {NULL, prefix + length + size};
    bytes.data = must(calloc(1, bytes.size + 1));
    memcpy(bytes.data, "\x93NUMPY", 6);
    bytes.data[6] = (uint8_t)version;
    for (size_t i = 8; i < prefix; i++) {
        bytes.data[i] = (uint8_t)(length >> 8 * (i - 8));
    }
    memcpy(bytes.data + prefix, header, length);
    if (size > 0) {
        memcpy(bytes.data + prefix + length, data, size);
    }
    return bytes;
}

struct file_bytes make_npy(const char *descr, bool fortran, const char *shape, const void *data,
                           size_t size) {
    char header[256];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr,
             fortran ? "True" : "False", shape);
    return make_npy_text(1, header, data, size);
}

struct file_bytes make_float_npy(const char *shape, size_t n, float first) {
    float *values = must(malloc((n + 1) * sizeof *values));
    for (size_t i = 0; i < n; i++) {
        values[i] = first + (float)i;
    }
    struct file_bytes bytes = make_npy("<f4", false, shape, values, n * sizeof *values);
    free(values);
    return bytes;
}

struct file_bytes make_int64_npy(const char *shape, size_t n, int64_t first) {
    int64_t *values = must(malloc((n + 1) * sizeof *values));
    for (size_t i = 0; i < n; i++) {
        values[i] = first + (int64_t)i;
    }
    struct file_bytes bytes = make_npy("<i8", false, shape, values, n * sizeof *values);
    free(values);
    return bytes;
}

void free_bytes(struct file_bytes *bytes) {
    free(bytes->data);
    *bytes = (struct file_bytes){0};
}

char *make_folder(void) {
    const char *parent = getenv("TMPDIR");
    char *folder = path_in(parent != NULL ? parent : "/tmp", "onnxptq-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

/* A symbolic link is removed, not followed. */
static void remove_tree(const char *folder) {
    DIR *dir = must(opendir(folder));
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.' && strspn(entry->d_name, ".") == strlen(entry->d_name)) {
            continue;
        }
        char *path = path_in(folder, entry->d_name);
        struct stat info;
        if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
            remove_tree(path);
        } else {
            remove(path);
        }
        free(path);
    }
    closedir(dir);
    rmdir(folder);
}

void remove_folder(char *folder) {
    remove_tree(folder);
    free(folder);
}

int setup_folder(void **state) {
    *state = make_folder();
    return 0;
}

int teardown_folder(void **state) {
    remove_folder(*state);
    return 0;
}

char *path_in(const char *folder, const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = must(malloc(size));
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

char *write_bytes(const char *folder, const char *name, struct file_bytes bytes) {
    char *path = path_in(folder, name);
    FILE *file = must(fopen(path, "wb"));
    assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
    assert_int_equal(fclose(file), 0);
    free_bytes(&bytes);
    return path;
}

char *write_npz(const char *folder, const char *name, struct npz_member *members, size_t n,
                bool compress) {
    char *path = path_in(folder, name);
    int code = 0;
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    assert_non_null(zip);
    for (size_t i = 0; i < n; i++) {
        zip_source_t *source =
            zip_source_buffer(zip, members[i].bytes.data, members[i].bytes.size, 0);
        assert_non_null(source);
        zip_int64_t index = zip_file_add(zip, members[i].name, source, ZIP_FL_ENC_UTF_8);
        assert_true(index >= 0);
        assert_int_equal(zip_set_file_compression(zip, (zip_uint64_t)index,
                                                  compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0),
                         0);
    }
    assert_int_equal(zip_close(zip), 0);
    for (size_t i = 0; i < n; i++) {
        free_bytes(&members[i].bytes);
    }
    return path;
}

struct file_bytes read_bytes(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    struct file_bytes bytes = {must(malloc((size_t)info.st_size + 1)), (size_t)info.st_size};
    FILE *file = must(fopen(path, "rb"));
    assert_int_equal(fread(bytes.data, 1, bytes.size, file), bytes.size);
    fclose(file);
    return bytes;
}
