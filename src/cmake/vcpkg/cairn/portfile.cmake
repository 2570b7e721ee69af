# SPDX-License-Identifier: Apache-2.0
# Builds the folder that this port lies in: an overlay, `vcpkg install cairn --overlay-ports=src/cmake/vcpkg`.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

# A feature that was not asked for is off, even where its library happens to be there.
set(options)
foreach(feature_and_option IN ITEMS "deflate=CAIRN_DEFLATE" "mpi=CAIRN_MPI" "proto=CAIRN_PROTOBUF" "tool=CAIRN_BUILD_CLI" "uring=CAIRN_URING" "zstd=CAIRN_ZSTD")
  string(REPLACE "=" ";" pair "${feature_and_option}")
  list(GET pair 0 feature)
  list(GET pair 1 option)
  if(feature IN_LIST FEATURES)
    list(APPEND options "-D${option}=ON")
  else()
    list(APPEND options "-D${option}=OFF")
  endif()
endforeach()

vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${options}
    -DCAIRN_RECORDS=OFF  # vcpkg has no HighwayHash.
    -DCAIRN_BUILD_TESTS=OFF
    -DCAIRN_BUILD_EXAMPLES=OFF
    -DCAIRN_BUILD_BENCH=OFF
    "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}"
    "-DCAIRN_FLATC=${CURRENT_HOST_INSTALLED_DIR}/tools/flatbuffers/flatc${VCPKG_HOST_EXECUTABLE_SUFFIX}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/cairn)
vcpkg_fixup_pkgconfig()
if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES cairn AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
