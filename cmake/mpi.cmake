# Support for mpirun: a module of its own, which the command loads under mpirun only, so that neither
# it nor the library needs MPI.

if(NOT ONNXPTQ_MPI STREQUAL "OFF")
    if(ONNXPTQ_MPI STREQUAL "AUTO")
        find_package(MPI 3.0 QUIET COMPONENTS C)
    else()
        find_package(MPI 3.0 REQUIRED COMPONENTS C)
    endif()
endif()
if(NOT ONNXPTQ_MPI STREQUAL "OFF" AND MPI_C_FOUND)
    add_library(onnxptq_mpi MODULE cli/mpi/module.c)
    target_compile_options(onnxptq_mpi PRIVATE ${onnxptq_warnings})
    target_include_directories(onnxptq_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
    target_link_libraries(onnxptq_mpi PRIVATE MPI::MPI_C)
    set_target_properties(onnxptq_mpi PROPERTIES
        PREFIX "" OUTPUT_NAME onnxptq-mpi C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    install(TARGETS onnxptq_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/onnxptq)
endif()
