# SPDX-License-Identifier: Apache-2.0
# Makes one program of many examples, for tests: most of the time that an example takes to compile goes into headers.
#
#   join_examples(<target> EXAMPLES <names> [GLOBAL <names>])
#
# Each example lies in a namespace of its name, so that nothing in it has to be named with the others in mind. A
# GLOBAL one does not: it specialises a template of the library, which may not be done in another namespace. Users
# build each example as the program that it is, and so do all presets that do not set CAIRN_JOIN_EXAMPLES.
function(join_examples target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "EXAMPLES;GLOBAL")
  set(sources "${PROJECT_SOURCE_DIR}/tests/examples/joined/joined.cpp")
  list(LENGTH arg_EXAMPLES count)
  math(EXPR half "(${count} + 1) / 2")
  list(SUBLIST arg_EXAMPLES 0 ${half} first)
  list(SUBLIST arg_EXAMPLES ${half} -1 second)
  foreach(part first second)  # Two cores share the work.
    set(headers)
    set(examples)
    foreach(name IN LISTS ${part})
      # Before the namespaces; a header that was included once is empty the second time.
      file(STRINGS "${name}.cpp" included REGEX "^#include")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${name}.cpp")
      list(APPEND headers ${included})
      if(name IN_LIST arg_GLOBAL)
        string(APPEND examples "#define main ${name}_main\n#include \"${name}.cpp\"\n#undef main\n"
          "const JoinedExample ${name}_program(\"${name}\", ${name}_main);\n\n")
      else()
        string(APPEND examples "namespace ${name} {\n#include \"${name}.cpp\"\n"
          "const JoinedExample program(\"${name}\", main);\n}\n\n")
      endif()
    endforeach()
    list(REMOVE_DUPLICATES headers)
    list(JOIN headers "\n" headers)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}_${part}.cpp")
    file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT
      "// Written by JoinExamples.cmake.\n#include \"examples/joined/joined.hpp\"\n${headers}\n\n${examples}")
    list(APPEND sources "${source}")
  endforeach()
  add_executable(${target} ${sources})
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${CMAKE_CURRENT_SOURCE_DIR}")
endfunction()
