/*
 * What the emitter's tests start from.
 */
#include "emit_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka.h stays after what it needs */
#include <cmocka.h>

const struct oq_quant_spec SCENE_INT8 = {.type = ONNXPTQ_TYPE_INT8, .symmetric = true};
const struct oq_quant_spec SCENE_UINT8 = {.type = ONNXPTQ_TYPE_UINT8};
const struct oq_quant_spec SCENE_WEIGHT = {
    .type = ONNXPTQ_TYPE_INT8, .symmetric = true, .narrow = true};

struct scene *scene_create(struct oq_model *model) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->model = model;
    scene->graph = oq_test_graph(model);
    size_t n = oq_graph_n_values(scene->graph);
    scene->ranges = calloc(n, sizeof *scene->ranges);
    scene->trace = calloc(n, sizeof *scene->trace);
    assert_non_null(scene->ranges);
    assert_non_null(scene->trace);
    for (size_t i = 0; i < n; i++) {
        oq_statistics_init(&scene->ranges[i]);
        oq_statistics_init(&scene->trace[i]);
    }
    assert_int_equal(oq_plan_create(scene->graph, &scene->plan, NULL), ONNXPTQ_OK);
    return scene;
}

void scene_destroy(struct scene *scene) {
    oq_emit_result_reset(&scene->result);
    oq_plan_destroy(scene->plan);
    oq_graph_destroy(scene->graph);
    oq_model_destroy(scene->model);
    free(scene->ranges);
    free(scene->trace);
    free(scene);
}

void scene_see(struct scene *scene, const char *tensor, double min, double max) {
    struct oq_statistics *seen = &scene->ranges[oq_test_value(scene->graph, tensor)];
    seen->seen = 2;
    seen->type = ONNXPTQ_TYPE_FLOAT;
    seen->n_finite = 8;
    seen->min = min;
    seen->max = max;
}

uint32_t scene_pair(struct scene *scene, const char *tensor, struct oq_quant_spec spec,
                    const char *node, uint32_t input) {
    struct oq_use use = {node ? oq_test_node(scene->graph, node) : OQ_NONE, input};
    uint32_t value = node ? oq_graph_node(scene->graph, use.node)->inputs[input]
                          : oq_test_value(scene->graph, tensor);
    assert_string_equal(oq_graph_value(scene->graph, value)->name, tensor);
    uint32_t pair = oq_plan_add_pair(scene->plan, value, spec, use, "test", "test");
    assert_int_not_equal(pair, OQ_NONE);
    return pair;
}

uint32_t scene_weight(struct scene *scene, int axis, const char *node, uint32_t input) {
    struct oq_use use = {oq_test_node(scene->graph, node), input};
    uint32_t value = oq_graph_node(scene->graph, use.node)->inputs[input];
    uint32_t weight =
        oq_plan_add_weight(scene->plan, value, SCENE_WEIGHT, axis, use, "test", "test");
    assert_int_not_equal(weight, OQ_NONE);
    return weight;
}

uint32_t scene_bias(struct scene *scene, uint32_t pair, uint32_t weight, const char *node,
                    size_t channels) {
    struct oq_plan_bias bias = {
        .pair = pair, .weight = weight, .factor = 1.0, .channels = channels};
    bias.use = (struct oq_use){oq_test_node(scene->graph, node), 2};
    bias.node = bias.use.node;
    bias.value = oq_graph_node(scene->graph, bias.use.node)->inputs[2];
    uint32_t id = oq_plan_add_bias(scene->plan, bias);
    assert_int_not_equal(id, OQ_NONE);
    return id;
}

enum onnxptq_status scene_try_emit(struct scene *scene, struct onnxptq_error *error) {
    struct oq_emit_spec spec = {.graph = scene->graph,
                                .plan = scene->plan,
                                .ranges = scene->ranges,
                                .trace = scene->trace,
                                .spill_beside = scene->spill_beside};
    oq_emit_result_reset(&scene->result);
    return oq_emit(&spec, &scene->result, error);
}

void scene_emit(struct scene *scene) {
    struct onnxptq_error error = {0};
    if (scene_try_emit(scene, &error) != ONNXPTQ_OK) {
        fail_msg("%s", error.message);
    }
}

Onnx__GraphProto *scene_graph(struct scene *scene) {
    return oq_model_proto(scene->result.model)->graph;
}

/* ---- Text ----------------------------------------------------------------------------------- */

#define TEXT_SIZE 8192

static void put_names(FILE *out, char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%s%s", i ? "," : "", names[i]);
    }
}

static void put_graph(FILE *out, const Onnx__GraphProto *graph, const char *indent);

static void put_node(FILE *out, const Onnx__NodeProto *node, const char *indent) {
    fprintf(out, "%s%s ", indent, node->op_type);
    put_names(out, node->input, node->n_input);
    fputs(" -> ", out);
    put_names(out, node->output, node->n_output);
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->attribute[i];
        if (attribute->has_i) {
            fprintf(out, " {%s %d}", attribute->name, (int)attribute->i);
        }
        if (attribute->has_f) {
            fprintf(out, " {%s %g}", attribute->name, (double)attribute->f);
        }
    }
    fputs("\n", out);
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (node->attribute[i]->g) {
            put_graph(out, node->attribute[i]->g, "  ");
        }
    }
}

static void put_graph(FILE *out, const Onnx__GraphProto *graph, const char *indent) {
    for (size_t i = 0; i < graph->n_node; i++) {
        put_node(out, graph->node[i], indent);
    }
}

void assert_nodes(struct scene *scene, const char *expected) {
    char text[TEXT_SIZE] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    put_graph(out, scene_graph(scene), "");
    fclose(out);
    assert_string_equal(text, expected);
}

void assert_initializers(struct scene *scene, const char *expected) {
    char text[TEXT_SIZE] = "";
    size_t length = 0;
    const Onnx__GraphProto *graph = scene_graph(scene);
    for (size_t i = 0; i < graph->n_initializer; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i ? " " : "",
                                   graph->initializer[i]->name);
        assert_true(length < sizeof text);
    }
    assert_string_equal(text, expected);
}

void assert_note(const struct scene *scene, const char *text) {
    for (size_t i = 0; i < scene->result.n_notes; i++) {
        if (strstr(scene->result.notes[i], text)) {
            return;
        }
    }
    fail_msg("no note says '%s'", text);
}

struct oq_tensor_view scene_tensor(struct scene *scene, const char *name) {
    const Onnx__TensorProto *tensor = oq_test_initializer(scene_graph(scene), name);
    struct oq_tensor_view view = {0};
    if (!tensor) {
        fail_msg("no initializer '%s'", name);
    }
    assert_int_equal(oq_tensor_view(scene->result.model, tensor, &view, NULL), ONNXPTQ_OK);
    return view;
}

float scene_float(struct scene *scene, const char *name, size_t index) {
    struct oq_tensor_view view = scene_tensor(scene, name);
    float value;
    assert_true(index < view.n_elements);
    oq_tensor_view_floats(&view, index, 1, &value);
    return value;
}
