# SPDX-License-Identifier: Apache-2.0 The libraries that users link: libcairn, and one for each component. They are
# static, or shared with BUILD_SHARED_LIBS, and consist of the objects of modules.

# Sets <result> to the targets of other projects that <modules> link as <property> says: not the modules themselves.
function(cairn_foreign_libraries result property)
  set(libraries)
  foreach(module IN LISTS ARGN)
    get_target_property(linked ${module} ${property})
    list(APPEND libraries ${linked})
  endforeach()
  list(FILTER libraries EXCLUDE REGEX "^cairn::|NOTFOUND$|LINK_ONLY")
  list(REMOVE_DUPLICATES libraries)
  set(${result} ${libraries} PARENT_SCOPE)
endfunction()

# Defines cairn::<name> from modules; its file is lib<file>.
#
#   cairn_library(<name> <file> <type> MODULES <targets> [LINKS <libraries>])
#
# A shared library exports what lies in namespace cairn, and keeps to itself what it has from other libraries' headers.
function(cairn_library name file type)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "MODULES;LINKS")
  set(target cairn_${name})
  list(TRANSFORM arg_MODULES REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} ${type} ${objects})
  add_library(cairn::${name} ALIAS ${target})
  set(headers)
  foreach(module IN LISTS arg_MODULES)
    get_target_property(of_module ${module} HEADER_SET)
    list(APPEND headers ${of_module})
    get_target_property(generated ${module} CAIRN_GENERATED_HEADERS)
    if(generated)
      target_include_directories(${target} SYSTEM PUBLIC "$<BUILD_INTERFACE:${generated}>")
      set_property(TARGET ${target} APPEND PROPERTY CAIRN_GENERATED_HEADERS "${generated}")
    endif()
  endforeach()
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  cairn_foreign_libraries(public INTERFACE_LINK_LIBRARIES ${arg_MODULES})
  cairn_foreign_libraries(all LINK_LIBRARIES ${arg_MODULES})
  list(REMOVE_ITEM all ${public})
  target_link_libraries(${target} PUBLIC ${arg_LINKS} ${public} PRIVATE ${all})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_definitions(${target} PUBLIC ${CAIRN_COMPILE_DEFINITIONS})
  # g++ (12.2 and 14.2 do so) often inlines only one of operator new and operator delete of Asio's coroutine frames,
  # and takes the two for a mismatch. It warns at the end of the user's own coroutines, which a pragma in our headers
  # does not reach.
  target_compile_options(${target} INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-mismatched-new-delete>)
  # Before 1.0 a new minor version may change the interface, so it is part of the name that the loader looks for.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME ${file} LINKER_LANGUAGE CXX
    VERIFY_INTERFACE_HEADER_SETS OFF  # Those of the modules are verified already.
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(type STREQUAL "SHARED")
    set(script "${PROJECT_BINARY_DIR}/${target}.map")
    configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map.in" "${script}" @ONLY)
    target_link_options(${target} PRIVATE "LINKER:--version-script=${script}" LINKER:--no-undefined LINKER:--gc-sections)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS "${script}")
  endif()
endfunction()

set(library_type STATIC)
if(BUILD_SHARED_LIBS)
  set(library_type SHARED)
endif()
get_property(CAIRN_MODULES GLOBAL PROPERTY CAIRN_MODULES)
get_property(CAIRN_COMPONENTS GLOBAL PROPERTY CAIRN_COMPONENTS)
cairn_library(cairn cairn ${library_type} MODULES ${CAIRN_MODULES})
foreach(component IN LISTS CAIRN_COMPONENTS)
  get_property(modules GLOBAL PROPERTY CAIRN_COMPONENT_${component})
  set(links cairn::cairn)
  if(component STREQUAL "proto" AND CAIRN_HAS_RECORDS)
    list(APPEND links cairn::records)
  endif()
  cairn_library(${component} cairn_${component} ${library_type} MODULES ${modules} LINKS ${links})
  # A program that calls a component alone does not name libcairn: the component finds it beside itself.
  set_target_properties(cairn_${component} PROPERTIES INSTALL_RPATH "$ORIGIN")
endforeach()
