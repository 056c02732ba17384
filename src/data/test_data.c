/*
 * One set of ONNX test data. Expected outputs (output_<k>.pb) are not read: the float model's own
 * results are what the result is compared with.
 */
#include "data/test_data.h"

#include "data/declared.h"
#include "data/listing.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char set_prefix[] = "test_data_set_";
static const char input_prefix[] = "input_";

bool oq_test_data_is_set(const char *name) {
    return strncmp(name, set_prefix, sizeof set_prefix - 1) == 0;
}

static bool parse_number(const char *name, size_t *out) {
    char *end = NULL;
    const char *digits = name + sizeof input_prefix - 1;
    if (strncmp(name, input_prefix, sizeof input_prefix - 1) != 0 ||
        !isdigit((unsigned char)*digits)) {
        return false;
    }
    unsigned long number = strtoul(digits, &end, 10);
    *out = number;
    return strcmp(end, ".pb") == 0;
}

bool oq_test_data_is_input(const char *name) {
    size_t number = 0;
    return parse_number(name, &number);
}

/* Opened once for the name, and again with the others: a mapping costs next to nothing. */
static enum onnxptq_status choose_name(const char *path, const char *file_name,
                                       const struct onnxptq_tensor *inputs, size_t n_inputs,
                                       const char **out, struct onnxptq_error *error) {
    struct oq_array_file file;
    size_t number = 0;
    OQ_TRY(oq_array_file_open(path, OQ_ARRAY_FILE_TENSOR, NULL, &file, error));
    size_t input = oq_declared_find(inputs, n_inputs, file.name);
    if (input >= n_inputs && parse_number(file_name, &number)) {
        input = number;
    }
    *out = input < n_inputs ? inputs[input].name : file_name;
    oq_array_file_close(&file);
    return ONNXPTQ_OK;
}

static enum onnxptq_status check_distinct(const struct oq_archive_part *parts, size_t n,
                                          struct onnxptq_error *error) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(parts[i].name, parts[n].name) == 0) {
            return oq_fail(error, ONNXPTQ_ERROR_DATA,
                           "cannot use '%s' for input '%s': '%s' is for it already; give one file "
                           "for each input",
                           parts[n].path, parts[n].name, parts[i].path);
        }
    }
    return ONNXPTQ_OK;
}

static enum onnxptq_status make_part(const char *folder, const char *name,
                                     const struct onnxptq_tensor *inputs, size_t n_inputs,
                                     struct oq_archive_part *out, struct onnxptq_error *error) {
    out->kind = OQ_ARRAY_FILE_TENSOR;
    out->path = oq_path_join(folder, name);
    if (out->path == NULL) {
        return oq_fail_memory(error, "a path");
    }
    return choose_name(out->path, name, inputs, n_inputs, &out->name, error);
}

enum onnxptq_status oq_test_data_open(const char *folder, const struct onnxptq_tensor *inputs,
                                      size_t n_inputs, struct oq_archive **out,
                                      struct onnxptq_error *error) {
    struct oq_names names = {0};
    OQ_TRY(oq_names_list(folder, oq_test_data_is_input, &names, error));
    struct oq_archive_part *parts = calloc(names.n + 1, sizeof *parts);
    enum onnxptq_status status =
        parts != NULL ? ONNXPTQ_OK : oq_fail_memory(error, "calibration data");
    for (size_t i = 0; i < names.n && status == ONNXPTQ_OK; i++) {
        status = make_part(folder, names.items[i], inputs, n_inputs, &parts[i], error);
        if (status == ONNXPTQ_OK) {
            status = check_distinct(parts, i, error);
        }
    }
    if (status == ONNXPTQ_OK) {
        status = oq_archive_open_parts(folder, parts, names.n, out, error);
    }
    for (size_t i = 0; i < names.n && parts != NULL; i++) {
        free((char *)(uintptr_t)parts[i].path);
    }
    free(parts);
    oq_names_reset(&names);
    return status;
}
