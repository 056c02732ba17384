/*
 * Finding mpirun and the module that speaks to it; moving state files.
 */
#include "ranks.h"
#include "console.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The environment ----------------------------------------------------------------------- */

static unsigned long number_in(const char *name) {
    const char *text = getenv(name);
    return text != NULL ? strtoul(text, NULL, 10) : 0;
}

/* Open MPI's mpirun, others' by their process managers, and Slurm's srun --mpi=pmix. */
static unsigned long count_in_environment(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (getenv(sizes[i]) != NULL) {
            return number_in(sizes[i]);
        }
    }
    return getenv("PMIX_RANK") != NULL ? number_in("SLURM_STEP_NUM_TASKS") : 0;
}

bool ranks_is_follower(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                                        "PMIX_RANK"};
    unsigned long rank = 0;
    for (size_t i = 0; rank == 0 && i < sizeof names / sizeof *names; i++) {
        rank = number_in(names[i]);
    }
    return rank > 0 && count_in_environment() > 1;
}

/* ---- The module ---------------------------------------------------------------------------- */

/* Beside the program where it was built, in the library's folder where it is installed. */
static void *load_module(char *reason, size_t size) {
    static const char *const places[] = {"", ONNXPTQ_MODULE_FOLDER "/"};
    char program[PATH_MAX], path[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash == NULL) {
        snprintf(reason, size, "this program's folder is not known");
        return NULL;
    }
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%sonnxptq-mpi.so", program, places[i]);
        if (access(path, F_OK) == 0) {
            /* Global: MPI's own modules look for it. */
            void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
            snprintf(reason, size, "%s", module == NULL ? dlerror() : "");
            return module;
        }
    }
    snprintf(reason, size, "this onnxptq is built without MPI");
    return NULL;
}

bool ranks_open(struct console *console, const struct ranks **out) {
    char reason[512];
    unsigned long n = count_in_environment();
    *out = NULL;
    if (n <= 1) {
        return true;
    }
    void *module = load_module(reason, sizeof reason);
    void *symbol = module != NULL ? dlsym(module, RANKS_OPEN) : NULL;
    if (symbol == NULL) {
        console->member = console->member || ranks_is_follower(); /* one message is enough */
        (void)console_fail_text(console, ONNXPTQ_ERROR_UNSUPPORTED, NULL,
                                "cannot share the samples among %lu processes of mpirun: %s; "
                                "install Open MPI and build again, or use --jobs, or --shard and "
                                "merge",
                                n, reason);
        return false;
    }
    ranks_open_function *open = NULL;
    memcpy(&open, &symbol, sizeof open);
    *out = open();
    return true;
}

/* ---- State files --------------------------------------------------------------------------- */

/* malloc'ed; NULL when it cannot be read. */
static char *read_file(const char *path, size_t *size) {
    struct stat status;
    FILE *file = fopen(path, "rb");
    *size = 0;
    if (file == NULL) {
        return NULL;
    }
    bool known = fstat(fileno(file), &status) == 0 && status.st_size > 0;
    size_t length = known ? (size_t)status.st_size : 0;
    char *data = known ? malloc(length) : NULL;
    if (data != NULL && fread(data, 1, length, file) == length) {
        *size = length;
    } else {
        free(data);
        data = NULL;
    }
    (void)fclose(file);
    return data;
}

static void write_file(const char *path, const char *data, size_t size) {
    FILE *file = fopen(path, "wb");
    bool good = file != NULL && fwrite(data, 1, size, file) == size;
    good = file != NULL && fclose(file) == 0 && good;
    if (!good) {
        unlink(path); /* its samples are run here then */
    }
}

/* True where the folder is one that both see. */
static bool take_file(const char *path, const char *data, size_t size) {
    size_t size_there = 0;
    char *there = read_file(path, &size_there);
    bool same = there != NULL && size_there == size && memcmp(there, data, size) == 0;
    free(there);
    if (!same && size > 0) {
        write_file(path, data, size);
    }
    return same;
}

static void bring_file(const struct ranks *ranks, size_t from, const char *path) {
    size_t size = 0, size_here = 0;
    char *data = ranks->rank == from ? read_file(path, &size) : NULL;
    char *brought = ranks->bring(from, data, size, &size_here);
    bool same = brought != NULL && take_file(path, brought, size_here);
    same = ranks->share(same) != 0;
    if (!same && ranks->rank == from) {
        unlink(path);
    }
    free(brought);
    free(data);
}

void ranks_bring_states(const struct ranks *ranks, const char *state_path, size_t n_parts) {
    char path[PATH_MAX];
    for (size_t part = n_parts; part < ranks->size * n_parts; part++) {
        int length = snprintf(path, sizeof path, "%s.%zu", state_path, part + 1);
        if (length > 0 && (size_t)length < sizeof path) {
            bring_file(ranks, part / n_parts, path);
        }
    }
}
