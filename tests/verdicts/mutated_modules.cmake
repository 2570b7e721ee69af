# SPDX-License-Identifier: Apache-2.0
# Modules with mutants in them, for a program that shows that its tests find them.
find_package(Python3 3.8 REQUIRED COMPONENTS Interpreter)
set(cairn_mutate "${CMAKE_CURRENT_LIST_DIR}/mutate.py")

#   cairn_mutated_modules(<prefix> LIST <mutants.txt> OUT <folder> MODULES <modules>)
#
# Compiles modules once more, each as an object library <prefix>_<module>, from copies of those of their sources that
# have mutants; the copies and mutants.inc are in the folder. On the command line of the linker they come before the
# library, which is then asked for nothing of those modules.
function(cairn_mutated_modules prefix)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LIST;OUT" "MODULES")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${arg_LIST}")
  execute_process(COMMAND "${Python3_EXECUTABLE}" -B "${cairn_mutate}" --files "${arg_LIST}" OUTPUT_VARIABLE mutated
    COMMAND_ERROR_IS_FATAL ANY)
  set(originals ${mutated})
  set(copies ${mutated})
  list(TRANSFORM originals PREPEND "${PROJECT_SOURCE_DIR}/")
  list(TRANSFORM copies PREPEND "${arg_OUT}/")
  add_custom_command(OUTPUT ${copies} "${arg_OUT}/mutants.inc"
    COMMAND Python3::Interpreter -B "${cairn_mutate}" "${arg_LIST}" "${PROJECT_SOURCE_DIR}" "${arg_OUT}"
    DEPENDS "${cairn_mutate}" "${arg_LIST}" ${originals} VERBATIM)
  # In the same order as there, so that unity builds put the same sources together.
  foreach(module ${arg_MODULES})
    get_target_property(sources cairn_${module} SOURCES)
    list(TRANSFORM sources PREPEND "${PROJECT_SOURCE_DIR}/src/${module}/")
    foreach(original copy IN ZIP_LISTS originals copies)
      list(TRANSFORM sources REPLACE "^${original}$" "${copy}")
    endforeach()
    set(target ${prefix}_${module})
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
    # MUTANT stands in parentheses, and for some mutants alone in a condition.
    target_compile_options(${target} PRIVATE ${CAIRN_WARNINGS} $<$<CXX_COMPILER_ID:Clang>:-Wno-parentheses-equality>)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${target} PUBLIC cairn::api PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
  endforeach()
endfunction()
