# `cmake --install`: header, library, command, manual, and what pkg-config and find_package read.

include(CMakePackageConfigHelpers)

if(EXISTS ${header})
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
# The component `runtime` is what the Python package holds.
install(TARGETS onnxptq EXPORT onnxptqTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
                NAMELINK_COMPONENT development)
if(TARGET onnxptq_cli)
    install(TARGETS onnxptq_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()
if(bundle_yyjson)
    install(FILES ${yyjson_real} DESTINATION ${CMAKE_INSTALL_LIBDIR}/onnxptq RENAME libyyjson.so.0
            COMPONENT runtime)
endif()
install(FILES docs/onnxptq.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/onnxptq)
file(WRITE ${CMAKE_BINARY_DIR}/package/onnxptqConfig.cmake
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/onnxptqTargets.cmake\")\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/onnxptqConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/onnxptqConfig.cmake
              ${CMAKE_BINARY_DIR}/package/onnxptqConfigVersion.cmake
        DESTINATION ${package_dir})
install(EXPORT onnxptqTargets NAMESPACE onnxptq:: DESTINATION ${package_dir})

# Relative to the file itself, so that the installed tree may be moved.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(cmake/onnxptq.pc.in ${CMAKE_BINARY_DIR}/package/onnxptq.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/onnxptq.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
