# Examples, the custom operators that tests load, unit tests and fuzzers: one file, one target.

if(ONNXPTQ_EXAMPLES)
    file(GLOB example_sources CONFIGURE_DEPENDS examples/*.c)
    foreach(source ${example_sources})
        get_filename_component(name ${source} NAME_WE)
        add_executable(example_${name} ${source})
        target_compile_options(example_${name} PRIVATE ${onnxptq_warnings})
        target_link_libraries(example_${name} PRIVATE onnxptq m)
        set_target_properties(example_${name} PROPERTIES
            OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
    endforeach()
endif()

# A user's operator library needs the runtime's header and nothing of ours.
file(GLOB op_sources CONFIGURE_DEPENDS tests/ops/*.c)
foreach(source ${op_sources})
    get_filename_component(name ${source} NAME_WE)
    add_library(op_${name} MODULE ${source})
    target_compile_options(op_${name} PRIVATE ${onnxptq_warnings})
    target_include_directories(op_${name} SYSTEM PRIVATE ${ORT_INCLUDE_DIR})
    target_link_libraries(op_${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
    set_target_properties(op_${name} PROPERTIES
        C_VISIBILITY_PRESET default
        OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test-ops)
endforeach()

# Programs that run one internal step, for tests that judge it from outside. Not with the fuzzers,
# whose objects need the fuzzing engine at link time.
if(ONNXPTQ_EXAMPLES AND NOT ONNXPTQ_FUZZ)
    file(GLOB tool_sources CONFIGURE_DEPENDS tests/tools/*.c)
    foreach(source ${tool_sources})
        get_filename_component(name ${source} NAME_WE)
        add_executable(tool_${name} ${source})
        target_compile_options(tool_${name} PRIVATE ${onnxptq_warnings})
        target_link_libraries(tool_${name} PRIVATE onnxptq_static)
        set_target_properties(tool_${name} PROPERTIES
            OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test-tools)
    endforeach()
endif()

if(ONNXPTQ_TESTS)
    enable_testing()
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
    file(GLOB test_sources CONFIGURE_DEPENDS tests/unit/test_*.c)
    # Other sources in the folder are helpers that every unit test may call.
    file(GLOB helper_sources CONFIGURE_DEPENDS tests/unit/*.c)
    list(REMOVE_ITEM helper_sources ${test_sources} "")
    foreach(source ${test_sources})
        get_filename_component(name ${source} NAME_WE)
        add_executable(${name} ${source} ${helper_sources})
        target_compile_options(${name} PRIVATE ${onnxptq_warnings})
        target_include_directories(${name} PRIVATE tests/unit)
        target_compile_definitions(${name} PRIVATE
            ONNXPTQ_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
            ONNXPTQ_TEST_OPS_DIR="${CMAKE_BINARY_DIR}/test-ops"
            ONNXPTQ_DEFAULT_ORT_LIB="${ONNXPTQ_DEFAULT_ORT_LIB}")
        target_link_libraries(${name} PRIVATE onnxptq_static PkgConfig::CMOCKA)
        set_target_properties(${name} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unit)
        add_test(NAME ${name} COMMAND ${name})
        set_tests_properties(${name} PROPERTIES
            TIMEOUT 120
            ENVIRONMENT "ORT_DISABLE_TELEMETRY=1;LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0")
        if(op_sources)
            add_dependencies(${name} op_all)
        endif()
    endforeach()
endif()

if(op_sources)
    add_custom_target(op_all)
    foreach(source ${op_sources})
        get_filename_component(name ${source} NAME_WE)
        add_dependencies(op_all op_${name})
    endforeach()
endif()

if(ONNXPTQ_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "ONNXPTQ_FUZZ needs clang: configure with CC=clang")
    endif()
    file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/*.c)
    target_compile_options(onnxptq_objects PRIVATE -fsanitize=fuzzer-no-link)
    foreach(source ${fuzz_sources})
        get_filename_component(name ${source} NAME_WE)
        add_executable(${name} ${source})
        target_compile_options(${name} PRIVATE ${onnxptq_warnings} -Wno-missing-prototypes
                               -fsanitize=fuzzer)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        target_link_libraries(${name} PRIVATE onnxptq_static)
        set_target_properties(${name} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
    endforeach()
endif()
