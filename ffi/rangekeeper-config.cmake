# The CMake package of the installed library. find_package(rangekeeper) defines
#   rangekeeper::rangekeeper         the shared library
#   rangekeeper::rangekeeper-static  the static library, with the system's libraries that it needs
# The paths start at this file, so an installed tree can be moved.
get_filename_component(_rangekeeper_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET rangekeeper::rangekeeper)
  add_library(rangekeeper::rangekeeper SHARED IMPORTED)
  set_target_properties(rangekeeper::rangekeeper PROPERTIES
    IMPORTED_LOCATION "${_rangekeeper_prefix}/lib/librangekeeper.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_rangekeeper_prefix}/include")
  add_library(rangekeeper::rangekeeper-static STATIC IMPORTED)
  set_target_properties(rangekeeper::rangekeeper-static PROPERTIES
    IMPORTED_LOCATION "${_rangekeeper_prefix}/lib/librangekeeper.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_rangekeeper_prefix}/include"
    INTERFACE_LINK_LIBRARIES "util;rt;pthread;m;dl")
endif()
unset(_rangekeeper_prefix)
