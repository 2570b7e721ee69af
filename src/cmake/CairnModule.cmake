# SPDX-License-Identifier: Apache-2.0
include(GNUInstallDirs)

set(CAIRN_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ inlines the operator new of Asio's coroutines and not their operator delete, and takes the two for strangers.
  list(APPEND CAIRN_WARNINGS -Wno-mismatched-new-delete)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND CAIRN_WARNINGS -Wno-subobject-linkage)  # Every source is an included file then.
  add_compile_options("SHELL:--param ggc-min-heapsize=524288")  # A tenth of the time: less often does g++ look for what it may forget.
endif()
if(PROJECT_IS_TOP_LEVEL)
  # __FILE__ is relative, so that each clone of the sources shares the objects in the compiler's cache.
  add_compile_options("-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND CAIRN_WARNINGS $<$<CONFIG:Release>:-Wno-restrict>)  # Falsely given for strings that are appended to.
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND CAIRN_WARNINGS
    -Wno-deprecated-declarations  # Given for what std::stable_sort of libstdc++ 12 calls; g++ finds ours.
    -Wno-sign-conversion)         # To g++ it is no part of -Wconversion.
endif()
if(CAIRN_WERROR)
  list(APPEND CAIRN_WARNINGS -Werror)
endif()

# Defines the module cairn::<name>, a static library for our own build, from one module's files. Users get libraries
# that are made of modules; see CairnLibraries.cmake.
#
#   cairn_module(<name>
#     SOURCES  <files relative to the calling folder>
#     HEADERS  <public headers relative to include/>
#     PUBLIC   <targets that the public headers use>
#     PRIVATE  <targets that only the sources use>
#     [GENERATED <folder with public headers that are generated>]
#     [COMPONENT <component>])
#
# Modules with a COMPONENT become a library of its own, which users ask for by name, or with `none` nothing that users
# have; all others become libcairn.
# Headers in the module's folder internal/ are for other modules, too, but for nobody else: they are not installed.
# Public headers form a file set: they are installed, found by dependants, and each is compiled alone when
# CMAKE_VERIFY_INTERFACE_HEADER_SETS is on.
function(cairn_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "COMPONENT;GENERATED" "SOURCES;HEADERS;PUBLIC;PRIVATE")
  set(target cairn_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(cairn::${name} ALIAS ${target})
  list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/include/")
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${arg_HEADERS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_definitions(${target} PUBLIC ${CAIRN_COMPILE_DEFINITIONS})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${CAIRN_WARNINGS}>)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(CAIRN_SOURCES_ALONE)  # As users compile them; in a unity build a source may lean on the one before it.
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(arg_GENERATED)
    target_include_directories(${target} SYSTEM PUBLIC "$<BUILD_INTERFACE:${arg_GENERATED}>")
    set_target_properties(${target} PROPERTIES CAIRN_GENERATED_HEADERS "${arg_GENERATED}")
  endif()
  if(arg_COMPONENT STREQUAL "none")
    return()
  endif()
  if(arg_COMPONENT)
    get_property(components GLOBAL PROPERTY CAIRN_COMPONENTS)
    if(NOT arg_COMPONENT IN_LIST components)
      set_property(GLOBAL APPEND PROPERTY CAIRN_COMPONENTS ${arg_COMPONENT})
    endif()
    set_property(GLOBAL APPEND PROPERTY CAIRN_COMPONENT_${arg_COMPONENT} ${target})
  else()
    set_property(GLOBAL APPEND PROPERTY CAIRN_MODULES ${target})
  endif()
endfunction()

# Defines one test program from the files of one folder and registers it with ctest: each of its tests, or where
# CAIRN_WHOLE_TEST_PROGRAMS is on the program as a whole, divided among as many SHARDS. A program with a label of
# CAIRN_LABELS_LEFT_OUT is not registered, and built on demand only.
#
#   cairn_test(<module> SOURCES <files> LIBRARIES <targets>
#              [LABEL <label>] [TIMEOUT <seconds of a test>] [SHARDS <number>])
function(cairn_test module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;TIMEOUT;SHARDS" "SOURCES;LIBRARIES")
  set(target cairn_${module}_test)
  add_executable(${target} ${arg_SOURCES})
  # The library is optimised, and a trace of its stack has lines; its tests need neither: so they take two thirds of the
  # time to compile.
  target_compile_options(${target} PRIVATE ${CAIRN_WARNINGS} "$<$<CONFIG:RelWithDebInfo>:SHELL:-O0 -g0>")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} cairn_test_support GTest::gmock_main
    $<$<CXX_COMPILER_ID:Clang>:atomic>)  # g++ does without for atomics of a few bytes.
  # Most of what a test's source takes to compile is its headers: twice as many share them as of the library's.
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 16)
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(labels ${arg_LABEL})
  if(module IN_LIST CAIRN_PROMISES)
    list(APPEND labels promise)
    add_dependencies(cairn_promises ${target})
  endif()
  if(arg_LABEL IN_LIST CAIRN_LABELS_LEFT_OUT)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  if(NOT CAIRN_WHOLE_TEST_PROGRAMS)
    gtest_discover_tests(${target} TEST_PREFIX "${module}." NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT} SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
    return()
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  set(roots)
  if(arg_LABEL STREQUAL "unit")  # Others do something else each time.
    set(roots --roots "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(name "${module}.all")
    if(arg_SHARDS GREATER 1)
      set(name "${module}.${shard}_of_${arg_SHARDS}")
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME "${name}" COMMAND "${PROJECT_SOURCE_DIR}/tests/support/whole_program"
      --skips "${PROJECT_BINARY_DIR}/skips/${name}" --seconds ${arg_TIMEOUT} ${roots} -- $<TARGET_FILE:${target}>)
    set_tests_properties("${name}" PROPERTIES LABELS "${labels}" TIMEOUT 1200 COST ${arg_TIMEOUT} PROCESSORS 2
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()
