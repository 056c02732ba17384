/*
 * Opset conversion when memory runs out: the model stays as it was. What conversions mean is tested
 * by running them, in tests/test_opset.py.
 */
#include "model/model_make.h"
#include "model_builder.h"
#include "prepare/opset.h"
#include "prepare/opset_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

/* Bytes of the arena from one attempt to the next. */
#define STEP 48

/* One of each kind of edit, in the graph and in a body: constants, nodes before and after, renamed
 * outputs, a new type. */
static void add_nodes(struct oq_model *model, Onnx__GraphProto *graph, const char *suffix) {
    static const struct {
        const char *type, *inputs, *outputs;
    } rows[] = {{"Clip", "x", "c"},         {"Softmax", "c", "s"}, {"Upsample", "s,scales", "u"},
                {"Dropout", "u", "d,mask"}, {"Not", "mask", "n"},  {"TopK", "d", "t,i"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Onnx__NodeProto *node =
            oq_test_add_node(model, graph, rows[i].type, NULL, rows[i].inputs, rows[i].outputs);
        for (size_t j = 0; j < node->n_output; j++) {
            node->output[j] =
                oq_arena_printf(oq_model_arena(model), "%s%s", node->output[j], suffix);
        }
        if (i > 0) {
            node->input[0] = oq_arena_printf(oq_model_arena(model), "%s%s", node->input[0], suffix);
        }
        if (strcmp(rows[i].type, "Clip") == 0) {
            oq_test_set_float(model, node, "min", -1.0F);
        } else if (strcmp(rows[i].type, "TopK") == 0) {
            assert_true(oq_node_set_int(model, node, "k", 2));
        }
    }
}

static struct oq_model *make_model(void) {
    struct oq_model *model = oq_test_model_create(9);
    Onnx__GraphProto *graph = oq_test_main_graph(model);
    oq_test_add_input(model, graph, "x", ONNXPTQ_TYPE_FLOAT, NULL);
    oq_test_add_input(model, graph, "scales", ONNXPTQ_TYPE_FLOAT, "4");
    oq_test_add_input(model, graph, "yes", ONNXPTQ_TYPE_BOOL, "");
    add_nodes(model, graph, "_main");
    Onnx__NodeProto *node = oq_test_add_node(model, graph, "If", "if", "yes", "y");
    Onnx__GraphProto *body = oq_test_add_body(model, node, "then_branch", "then");
    add_nodes(model, body, "_body");
    oq_test_add_output(model, graph, "y", ONNXPTQ_TYPE_FLOAT, NULL);
    return model;
}

static void test_out_of_memory_changes_nothing(void **state) {
    (void)state;
    struct oq_model *model = make_model();
    struct oq_arena *arena = oq_model_arena(model);
    uint8_t *before, *after;
    size_t n_before, n_after, attempts = 0;
    assert_int_equal(oq_model_pack(model, &before, &n_before, NULL), ONNXPTQ_OK);
    enum onnxptq_status status = ONNXPTQ_ERROR_MEMORY;
    for (size_t room = 0; status == ONNXPTQ_ERROR_MEMORY; room += STEP, attempts++) {
        oq_arena_set_limit(arena, oq_arena_used(arena) + room);
        status = oq_opset_raise(model, 13, NULL);
        oq_arena_set_limit(arena, SIZE_MAX);
        if (status == ONNXPTQ_ERROR_MEMORY) {
            assert_int_equal(oq_model_pack(model, &after, &n_after, NULL), ONNXPTQ_OK);
            assert_int_equal(n_before, n_after);
            assert_memory_equal(before, after, n_before);
            free(after);
        }
    }
    assert_int_equal(status, ONNXPTQ_OK);
    assert_true(attempts > 50);
    assert_int_equal(oq_model_opset(model), 13);
    free(before);
    oq_model_destroy(model);
}

static void test_every_change_is_found(void **state) {
    (void)state;
    size_t n;
    const struct oq_opset_change *changes = oq_opset_changes(&n);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(oq_opset_find_change(changes[i].type, changes[i].version), &changes[i]);
        assert_in_range(changes[i].version, OQ_OPSET_OLDEST + 1, OQ_OPSET_NEWEST);
    }
    assert_null(oq_opset_find_change("Relu", 12));
    assert_null(oq_opset_find_change("Relu2", 13));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory_changes_nothing),
        cmocka_unit_test(test_every_change_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
