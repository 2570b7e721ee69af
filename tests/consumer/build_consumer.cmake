# SPDX-License-Identifier: Apache-2.0
# Installs Cairn, moves the installation, and builds and runs PROJECT against it. Everything happens in FOLDER, whose
# name has a blank; the definitions that it takes are in CMakeLists.txt beside this file.

function(run_step)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
run_step("${CMAKE_COMMAND}" --install "${CAIRN_BUILD}" --prefix "${FOLDER}/first place")
# A package that only works where it was installed would break for everybody who unpacks it elsewhere.
file(RENAME "${FOLDER}/first place" "${FOLDER}/prefix")
file(COPY "${PROJECT}/" DESTINATION "${FOLDER}/source")

run_step("${CMAKE_COMMAND}" -S "${FOLDER}/source" -B "${FOLDER}/build" -G "${GENERATOR}"
  "-DCMAKE_PREFIX_PATH=${FOLDER}/prefix" "-DWANTED_VERSION=${CAIRN_VERSION}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}")
run_step("${CMAKE_COMMAND}" --build "${FOLDER}/build")
run_step("${FOLDER}/build/consumer")
if(EXISTS "${FOLDER}/build/consumer_rank")
  run_step("${FOLDER}/build/consumer_rank")
endif()
