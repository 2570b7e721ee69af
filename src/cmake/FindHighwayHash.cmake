# SPDX-License-Identifier: Apache-2.0
# Finds Google's HighwayHash, which comes without a package file: HighwayHash::HighwayHash, HighwayHash_FOUND.
find_path(HighwayHash_INCLUDE_DIR highwayhash/highwayhash_target.h)
find_library(HighwayHash_LIBRARY highwayhash)
mark_as_advanced(HighwayHash_INCLUDE_DIR HighwayHash_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HighwayHash REQUIRED_VARS HighwayHash_LIBRARY HighwayHash_INCLUDE_DIR)
if(HighwayHash_FOUND AND NOT TARGET HighwayHash::HighwayHash)
  add_library(HighwayHash::HighwayHash UNKNOWN IMPORTED)
  set_target_properties(HighwayHash::HighwayHash PROPERTIES
    IMPORTED_LOCATION "${HighwayHash_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${HighwayHash_INCLUDE_DIR}")
endif()
