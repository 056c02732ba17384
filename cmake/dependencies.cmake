# Kept libraries. Those that tools/setup had to place under .deps/root are found there.

include(GNUInstallDirs)
set(deps_root ${CMAKE_SOURCE_DIR}/.deps/root)
list(APPEND CMAKE_PREFIX_PATH ${deps_root}/usr)

# A path found earlier may be gone: .deps was removed, or the system now has the package.
foreach(path YYJSON_INCLUDE_DIR YYJSON_LIBRARY ORT_INCLUDE_DIR)
    if(DEFINED ${path} AND NOT EXISTS "${${path}}")
        unset(${path} CACHE)
    endif()
endforeach()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
find_program(PROTOC_C protoc-c REQUIRED)
find_path(YYJSON_INCLUDE_DIR yyjson.h REQUIRED)
find_library(YYJSON_LIBRARY yyjson REQUIRED)
find_path(UTHASH_INCLUDE_DIR uthash.h REQUIRED)
# The runtime's header alone; the library is loaded at run time and never linked.
find_path(ORT_INCLUDE_DIR onnxruntime_c_api.h
    PATH_SUFFIXES onnxruntime onnxruntime/core/session REQUIRED)

# On a system without yyjson the copy under .deps is installed beside the library.
get_filename_component(yyjson_real ${YYJSON_LIBRARY} REALPATH)
string(FIND "${yyjson_real}" "${deps_root}/" position)
if(position EQUAL 0)
    set(bundle_yyjson ON)
else()
    set(bundle_yyjson OFF)
endif()
