# SPDX-License-Identifier: Apache-2.0 Builds Cairn shared, installs that, and builds and runs PROJECT and PLUGIN
# against it. Everything but that build happens in FOLDER; the definitions that it takes are in CMakeLists.txt beside
# this file.
include("${CMAKE_CURRENT_LIST_DIR}/Touched.cmake")

function(run_step)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

cairn_touches_the_build(touched)
if(NOT touched)
  message(STATUS "skipped: no CMake file changed; tests/run --long consumer has it")
  return()
endif()
find_program(CCACHE ccache)
if(NOT CCACHE OR NOT LAUNCHER MATCHES "ccache")
  message(STATUS "skipped: without ccache the library would be compiled a second time")
  return()
endif()

file(REMOVE_RECURSE "${FOLDER}")
set(options -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}")

# As deep in the tree as the build that it follows, and with the same options: ccache has every object.
set(ENV{CCACHE_BASEDIR} "${SOURCE}")
set(ENV{CCACHE_NOHASHDIR} 1)
run_step("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${CAIRN_BUILD}-shared" ${options} -DBUILD_SHARED_LIBS=ON
  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=${FLAGS_RELWITHDEBINFO}" "-DCMAKE_UNITY_BUILD=${UNITY}"
  "-DCMAKE_UNITY_BUILD_BATCH_SIZE=${UNITY_BATCH}" -DCAIRN_BUILD_TESTS=OFF -DCAIRN_BUILD_EXAMPLES=OFF
  -DCAIRN_BUILD_CLI=OFF -DCAIRN_BUILD_BENCH=OFF)
run_step("${CMAKE_COMMAND}" --build "${CAIRN_BUILD}-shared")
run_step("${CMAKE_COMMAND}" --install "${CAIRN_BUILD}-shared" --prefix "${FOLDER}/prefix" --strip)
file(GLOB_RECURSE library "${FOLDER}/prefix/libcairn.so.${CAIRN_VERSION}" "${FOLDER}/prefix/*/libcairn.so.${CAIRN_VERSION}")
if(NOT library)
  message(FATAL_ERROR "libcairn.so.${CAIRN_VERSION} was not installed")
endif()

# Other libraries' symbols stay inside, or they would replace those of programs that have another version of them.
execute_process(COMMAND nm --dynamic --defined-only --demangle "${library}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
if(NOT symbols MATCHES "cairn::global_registry" OR symbols MATCHES "\n[0-9a-f]+ [A-Za-z] (fmt|nlohmann|boost|std|flatbuffers)::")
  message(FATAL_ERROR "exported otherwise than meant: ${symbols}")
endif()

list(APPEND options "-DCMAKE_PREFIX_PATH=${FOLDER}/prefix")
run_step("${CMAKE_COMMAND}" -S "${PROJECT}" -B "${FOLDER}/project" "-DWANTED_VERSION=${CAIRN_VERSION}" ${options})
run_step("${CMAKE_COMMAND}" --build "${FOLDER}/project")
foreach(program consumer consumer_rank consumer_message consumer_records own_chunks/consumer_own_chunks)
  if(EXISTS "${FOLDER}/project/${program}")
    run_step("${FOLDER}/project/${program}" WORKING_DIRECTORY "${FOLDER}")
  endif()
endforeach()
run_step(strip "${FOLDER}/project/consumer")
file(SIZE "${FOLDER}/project/consumer" bytes)
message(STATUS "a program that saves and loads: ${bytes} bytes")
if(bytes GREATER 150000)
  message(FATAL_ERROR "a small program is larger than 150 kB")
endif()

run_step("${CMAKE_COMMAND}" -S "${PLUGIN}" -B "${FOLDER}/plugin" ${options})
run_step("${CMAKE_COMMAND}" --build "${FOLDER}/plugin")
run_step("${FOLDER}/plugin/host" "${FOLDER}/plugin/plugin.so" WORKING_DIRECTORY "${FOLDER}")

# A plugin that was built against another version names a library that is not there. The two names are equally long.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor_version "${CAIRN_VERSION}")
string(REGEX REPLACE "." "9" other_version "${minor_version}")
run_step(sh -c "sed 's/libcairn\\.so\\.${minor_version}/libcairn.so.${other_version}/g' plugin/plugin.so >plugin/other.so"
  WORKING_DIRECTORY "${FOLDER}")
execute_process(COMMAND "${FOLDER}/plugin/host" "${FOLDER}/plugin/other.so" WORKING_DIRECTORY "${FOLDER}"
  RESULT_VARIABLE result ERROR_VARIABLE said)
if(NOT result EQUAL 1 OR NOT said MATCHES "libcairn.so.${other_version}")
  message(FATAL_ERROR "a plugin of another version was not refused by name: ${result} ${said}")
endif()
