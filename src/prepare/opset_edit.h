/*
 * New forms of the bodies of a model, made beside it: nodes and constants gather here and take
 * their place in the model all at once, so that a conversion that fails half-way changes nothing.
 *
 * Running out of memory is remembered in the edit and asked for once, at the end of each
 * conversion: the functions here take a NULL node, return "" for a name, and go on.
 */
#ifndef OQ_PREPARE_OPSET_EDIT_H
#define OQ_PREPARE_OPSET_EDIT_H

#include "base/map.h"
#include "model/edit.h"
#include "model/graph.h"

struct oq_opset_edit;

/* A graph or the nodes of a local function. */
struct oq_opset_body {
    struct oq_opset_edit *edit;
    const struct oq_opset_body *parent; /* whose names this one may read; NULL: none */
    Onnx__GraphProto *graph;            /* NULL: the body is that of `function` */
    Onnx__FunctionProto *function;      /* the function that it is or lies in, or NULL */
    int64_t version;                    /* of the default domain; 0: not imported */
    Onnx__NodeProto **nodes;
    size_t n_nodes, capacity_nodes;
    Onnx__NodeProto *
        *replaced; /* the list before, while `nodes` is being made from it; else NULL */
    size_t n_replaced;
    bool changed;
    Onnx__TensorProto **constants; /* new initializers */
    size_t n_constants, capacity_constants;
    struct oq_map *producers; /* name -> the node that makes it, as an address */
    struct oq_map *tensors;   /* name -> initializer, as an address */
};

struct oq_opset_edit {
    struct oq_model *model;
    struct oq_names *names;
    int64_t target;
    struct oq_opset_body **bodies; /* a body comes after the one it lies in */
    size_t n_bodies, capacity_bodies;
    struct oq_map *ranks; /* node -> rank of its first output, where it was found */
    bool out_of_memory;
};

/* Gathers all bodies of the model. Destroy it after an error too. */
enum onnxptq_status oq_opset_edit_init(struct oq_opset_edit *edit, struct oq_model *model,
                                       int64_t target, struct onnxptq_error *error) OQ_MUST_USE;
void oq_opset_edit_release(struct oq_opset_edit *edit);
/* Puts nodes and constants of all bodies into the model; all of them or, on an error, none. */
enum onnxptq_status oq_opset_edit_commit(struct oq_opset_edit *edit, struct onnxptq_error *error)
    OQ_MUST_USE;

/* "cannot convert node 'n' (Type) from opset a to b: <fact>", ONNXPTQ_ERROR_UNSUPPORTED. */
enum onnxptq_status oq_opset_refuse(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                                    struct onnxptq_error *error, const char *fact);

/* ---- Nodes ---- */

/* A copy whose lists and fields may be changed; what they refer to is shared. */
Onnx__NodeProto *oq_opset_copy_node(struct oq_opset_body *body, const Onnx__NodeProto *node);
/* Appends a node to the body. */
void oq_opset_emit(struct oq_opset_body *body, Onnx__NodeProto *node);
/* Appends a new node of the default domain with one output. Named after `near`. */
Onnx__NodeProto *oq_opset_add_node(struct oq_opset_body *body, const Onnx__NodeProto *near,
                                   const char *type, const char *const *inputs, size_t n_inputs);
/* The same for a node with one or two inputs (NULL: one); returns the name of its output. */
const char *oq_opset_apply(struct oq_opset_body *body, const Onnx__NodeProto *near,
                           const char *type, const char *input, const char *second);
/* The name of an output; "" when there is none. */
const char *oq_opset_output(const Onnx__NodeProto *node, size_t index);
const char *oq_opset_input(const Onnx__NodeProto *node, size_t index);
/* Lists grow by empty names as needed. */
void oq_opset_set_input(struct oq_opset_body *body, Onnx__NodeProto *node, size_t index,
                        const char *name);
void oq_opset_set_type(struct oq_opset_body *body, Onnx__NodeProto *node, const char *type);
/* A name that nothing in the model has, made from that of `near`. */
const char *oq_opset_unique(struct oq_opset_body *body, const Onnx__NodeProto *near,
                            const char *suffix);
/* True when a node or a list of outputs anywhere in the model reads the name. */
bool oq_opset_is_read(const struct oq_opset_edit *edit, const char *name);

/* ---- Attributes ---- */

void oq_opset_set_int(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                      int64_t value);
void oq_opset_set_ints(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                       const int64_t *values, size_t n);
void oq_opset_set_string(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                         const char *value);
void oq_opset_set_tensor(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                         Onnx__TensorProto *value);
void oq_opset_set_graph(struct oq_opset_body *body, Onnx__NodeProto *node, const char *name,
                        Onnx__GraphProto *value);
void oq_opset_remove_attribute(Onnx__NodeProto *node, const char *name);
/* Whether a string attribute, or else the default, equals `value`. */
bool oq_opset_is_string(const Onnx__NodeProto *node, const char *name, const char *missing,
                        const char *value);
/* Attributes whose value decides must not be left to the caller of a function. `names` ends with
 * NULL. */
enum onnxptq_status oq_opset_require_values(const struct oq_opset_body *body,
                                            const Onnx__NodeProto *node, const char *const *names,
                                            struct onnxptq_error *error) OQ_MUST_USE;

/* ---- Constants ---- */

/* An initializer or, in functions, which have none, a Constant node; returns its name. */
const char *oq_opset_constant(struct oq_opset_body *body, const Onnx__NodeProto *near,
                              const char *suffix, int type, const int64_t *shape, size_t rank,
                              const void *data, size_t size);
const char *oq_opset_constant_ints(struct oq_opset_body *body, const Onnx__NodeProto *near,
                                   const char *suffix, const int64_t *values, size_t n);
/* A scalar of a float type. */
const char *oq_opset_constant_float(struct oq_opset_body *body, const Onnx__NodeProto *near,
                                    const char *suffix, int type, float value);

/* What was an attribute becomes an input: nothing when the attribute is absent. A reference to an
 * attribute of the function becomes a Constant that refers to it. */
enum onnxptq_status oq_opset_move_ints(struct oq_opset_body *body, Onnx__NodeProto *node,
                                       const char *attribute, size_t input,
                                       struct onnxptq_error *error) OQ_MUST_USE;
/* To a scalar of `type`, int64 or a float type. */
enum onnxptq_status oq_opset_move_scalar(struct oq_opset_body *body, Onnx__NodeProto *node,
                                         const char *attribute, int type, size_t input,
                                         struct onnxptq_error *error) OQ_MUST_USE;

#endif
