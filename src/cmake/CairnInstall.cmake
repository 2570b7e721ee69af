# SPDX-License-Identifier: Apache-2.0
# Defines cairn::cairn, which links every module, and installs the package that find_package(cairn) finds.
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY CAIRN_MODULES)
get_property(components GLOBAL PROPERTY CAIRN_COMPONENTS)
add_library(cairn_cairn INTERFACE)
add_library(cairn::cairn ALIAS cairn_cairn)
set_target_properties(cairn_cairn PROPERTIES EXPORT_NAME cairn)
target_link_libraries(cairn_cairn INTERFACE ${modules})

# Splits "<left>=<right>" at the first equals sign.
function(cairn_split_rule left right rule)
  string(FIND "${rule}" "=" at)
  string(SUBSTRING "${rule}" 0 ${at} before)
  math(EXPR at "${at} + 1")
  string(SUBSTRING "${rule}" ${at} -1 after)
  set(${left} "${before}" PARENT_SCOPE)
  set(${right} "${after}" PARENT_SCOPE)
endfunction()

# Sets <packages> and <pkgconfig> to what must be found again before the installed targets can be used: a static
# library's private dependencies are linked by its users, so they count too.
function(cairn_collect_dependencies packages pkgconfig)
  set(libraries)
  foreach(module IN LISTS ARGN)
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(linked ${module} ${property})
      list(APPEND libraries ${linked})
    endforeach()
  endforeach()
  set(found_packages)
  set(found_pkgconfig)
  foreach(rule "Boost::=Boost 1.81" "fmt::=fmt" "nlohmann_json::=nlohmann_json" "flatbuffers=FlatBuffers"
               "Threads::=Threads" "protobuf::=Protobuf" "GTest::=GTest"
               "CUDA::=CUDAToolkit")
    cairn_split_rule(target package "${rule}")
    if(libraries MATCHES "${target}")
      string(APPEND found_packages "find_dependency(${package})\n")
    endif()
  endforeach()
  foreach(rule "xxhash=libxxhash" "liburing=liburing>=2.2")
    cairn_split_rule(target specification "${rule}")
    if(libraries MATCHES "PkgConfig::${target}")
      string(APPEND found_pkgconfig "cairn_find_pkgconfig(${target} \"${specification}\")\n")
    endif()
  endforeach()
  set(${packages} "${found_packages}" PARENT_SCOPE)
  set(${pkgconfig} "${found_pkgconfig}" PARENT_SCOPE)
endfunction()

cairn_collect_dependencies(CAIRN_PACKAGE_DEPENDENCIES CAIRN_PKGCONFIG_DEPENDENCIES ${modules})

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/cairn")
install(TARGETS cairn_cairn ${modules} ${components} EXPORT cairnTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT cairnTargets NAMESPACE cairn:: DESTINATION "${package_folder}")
if(TARGET cairn_cli)
  install(TARGETS cairn_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/cairnConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/cairnConfig.cmake" INSTALL_DESTINATION "${package_folder}")
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cairnConfig.cmake" "${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake"
  DESTINATION "${package_folder}")
