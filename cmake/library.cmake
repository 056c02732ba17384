# The sources are compiled once, and linked twice: into libonnxptq.so, which exports onnxptq_* only,
# and into a static library of everything for unit tests and fuzzers.

file(GLOB library_sources CONFIGURE_DEPENDS src/*/*.c)
file(GLOB calib_sources CONFIGURE_DEPENDS src/calib/*.c)
file(GLOB runtime_sources CONFIGURE_DEPENDS src/runtime/*.c)
file(GLOB proto CONFIGURE_DEPENDS src/model/onnx.proto)

set(generated_dir ${CMAKE_BINARY_DIR}/generated)
set(generated_sources)
if(proto)
    set(generated_sources ${generated_dir}/onnx.pb-c.c)
    file(MAKE_DIRECTORY ${generated_dir})
    # Newer versions of protoc-c say that they are deprecated; errors are shown, that is not.
    set(log ${generated_dir}/protoc-c.log)
    add_custom_command(
        OUTPUT ${generated_dir}/onnx.pb-c.c ${generated_dir}/onnx.pb-c.h
        COMMAND sh -c "\"$@\" 2>${log} || { cat ${log} >&2 && false; }" sh
                ${PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR}/src/model --c_out=${generated_dir}
                ${proto}
        DEPENDS ${proto}
        VERBATIM)
endif()
if(NOT library_sources)
    file(WRITE ${CMAKE_BINARY_DIR}/empty.c "typedef int onnxptq_empty;\n")
    set(library_sources ${CMAKE_BINARY_DIR}/empty.c)
endif()

set(onnxptq_version_definition)
if(EXISTS ${header})
    file(STRINGS ${header} own_version REGEX "^#[ \t]*define[ \t]+ONNXPTQ_VERSION[ \t]")
endif()
if(NOT own_version)
    set(onnxptq_version_definition ONNXPTQ_VERSION="${PROJECT_VERSION}")
endif()

# Generated code, which our warnings do not concern, in a library of its own.
add_library(onnxptq_objects OBJECT ${library_sources})
if(generated_sources)
    add_library(onnxptq_generated OBJECT ${generated_sources} ${generated_dir}/onnx.pb-c.h)
    target_compile_options(onnxptq_generated PRIVATE -w)
    target_link_libraries(onnxptq_generated PRIVATE PkgConfig::PROTOBUF_C)
    add_dependencies(onnxptq_objects onnxptq_generated)
    set(generated_objects $<TARGET_OBJECTS:onnxptq_generated>)
endif()
target_compile_options(onnxptq_objects PRIVATE ${onnxptq_warnings})
target_compile_definitions(onnxptq_objects PRIVATE ${onnxptq_version_definition})
target_include_directories(onnxptq_objects PRIVATE include src)
target_include_directories(onnxptq_objects SYSTEM PRIVATE
    ${generated_dir} ${YYJSON_INCLUDE_DIR} ${UTHASH_INCLUDE_DIR} ${ORT_INCLUDE_DIR})
target_link_libraries(onnxptq_objects PRIVATE
    PkgConfig::PROTOBUF_C PkgConfig::PCRE2 PkgConfig::LIBZIP PkgConfig::PNG
    PkgConfig::TURBOJPEG Threads::Threads)
set_property(SOURCE ${runtime_sources} APPEND PROPERTY COMPILE_DEFINITIONS
    ONNXPTQ_DEFAULT_ORT_LIB="${ONNXPTQ_DEFAULT_ORT_LIB}")
if(NOT ONNXPTQ_SANITIZE)
    # Observers pass over every activation; no rounding mode or trap of the processor is used.
    set_property(SOURCE ${calib_sources} APPEND PROPERTY COMPILE_OPTIONS -O3 -fno-trapping-math)
endif()

set(private_libraries
    PkgConfig::PROTOBUF_C PkgConfig::PCRE2 PkgConfig::LIBZIP PkgConfig::PNG
    PkgConfig::TURBOJPEG ${YYJSON_LIBRARY}
    Threads::Threads ${CMAKE_DL_LIBS} m)

add_library(onnxptq_static STATIC $<TARGET_OBJECTS:onnxptq_objects> ${generated_objects})
set_target_properties(onnxptq_static PROPERTIES OUTPUT_NAME onnxptq-internal)
target_include_directories(onnxptq_static INTERFACE include src)
target_include_directories(onnxptq_static SYSTEM INTERFACE
    ${generated_dir} ${YYJSON_INCLUDE_DIR} ${UTHASH_INCLUDE_DIR})
target_link_libraries(onnxptq_static PUBLIC ${private_libraries})

set(export_map ${CMAKE_SOURCE_DIR}/src/api/libonnxptq.map)
add_library(onnxptq SHARED $<TARGET_OBJECTS:onnxptq_objects> ${generated_objects})
target_include_directories(onnxptq INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(onnxptq PRIVATE ${private_libraries})
target_link_options(onnxptq PRIVATE -Wl,--version-script=${export_map})
if(NOT ONNXPTQ_SANITIZE)
    target_link_options(onnxptq PRIVATE -Wl,-z,defs)
endif()
set_target_properties(onnxptq PROPERTIES
    LINKER_LANGUAGE C
    LINK_DEPENDS ${export_map}
    VERSION ${PROJECT_VERSION}
    SOVERSION 0
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
if(SKBUILD)
    # A wheel holds no links, so the file has the name that programs look for.
    set_target_properties(onnxptq PROPERTIES VERSION 0)
endif()
if(bundle_yyjson)
    set_target_properties(onnxptq PROPERTIES INSTALL_RPATH "$ORIGIN/onnxptq")
endif()
set_target_properties(onnxptq_static PROPERTIES LINKER_LANGUAGE C)
